"""``python -m cs_transformers`` is ``cst``, with the package of the folder you stand in."""

import sys
from pathlib import Path

import cs_transformers

if __name__ == "__main__":
    if cs_transformers.__file__ is None:  # a folder of that name without the package hides the installed one
        inside = next(
            (path for path in map(Path, cs_transformers.__path__) if (path / "cs_transformers").is_dir()), None
        )
        where = f"cd {inside}" if inside else "cd to the folder that holds notebooks and cs_transformers"
        print(f"cst: {Path.cwd()} is not the course's folder; type this first: {where}", file=sys.stderr)
        sys.exit(2)
    from cs_transformers.cli import main

    main()
