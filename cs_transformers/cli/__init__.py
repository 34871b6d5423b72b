"""The command line: ``cst``, also ``python -m cs_transformers``.

Exit codes: 0 done, 1 some answers are not right yet, 2 wrong usage, 3 the machine or the data failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from .common import TROUBLE, USAGE, app, data_app, train_app

PACKAGE, RESTARTED = "cs_transformers", "CST_RESTARTED"
# Each module adds its commands to the groups of common.py, in the order in which --help lists them. The student edition
# has no modules of instructors.
MODULES = ("study", "handing_in", "data", "train", "translation", "detection", "restoration", "efficient")
INSTRUCTORS = ("editions", "grading", "results", "author")

__all__ = ["PACKAGE", "RESTARTED", "app", "data_app", "main", "train_app"]

for _module in (*MODULES, *INSTRUCTORS):
    if _module in MODULES or Path(__file__).with_name(f"{_module}.py").is_file():
        import_module(f"{__name__}.{_module}")


def main() -> None:
    """Run the command line; errors that a caller can mend are one line, not a traceback."""
    _prefer_the_copy_here()
    try:
        app()
    except (ValueError, TypeError) as error:
        _leave(error, USAGE)
    except (OSError, FloatingPointError, ModuleNotFoundError) as error:
        _leave(error, TROUBLE)


def _prefer_the_copy_here() -> None:
    """Start again with the package of the folder one stands in, where that is another copy than the installed one.

    A student edition lies beside the environment of the instructor edition; checking the wrong one would mislead.
    """
    here = Path.cwd()
    home = next((folder for folder in (here, *here.parents) if (folder / PACKAGE / "__main__.py").is_file()), None)
    if home is None or home == Path(__file__).resolve().parent.parent.parent or os.environ.get(RESTARTED) == str(home):
        return
    paths = [str(home), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths), RESTARTED: str(home)})
    command = [sys.executable, "-m", PACKAGE, *sys.argv[1:]]
    raise SystemExit(subprocess.run(command, check=False).returncode)


def _leave(error: Exception, code: int) -> None:
    print(f"cst: {error}", file=sys.stderr)
    raise SystemExit(code)


@app.callback()
def course() -> None:
    """A course on transformers that runs.

    `cst run` executes the notebooks, `cst check 1.6` checks one exercise, `cst doctor` looks at this machine.
    Every command shows an example in its own --help.
    """
