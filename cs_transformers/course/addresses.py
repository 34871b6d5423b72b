"""Where a release lies on the web: the address of its zip, and Colab's address of each of its notebooks."""

from __future__ import annotations

import re
from dataclasses import dataclass

COLAB = "https://colab.research.google.com"
_REPOSITORY = re.compile(
    r"https://github\.com/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(\.git)?(/tree/(?P<branch>[^/]+)(/(?P<folder>.+?))?)?/?"
)
_RAW = re.compile(
    r"https://raw\.githubusercontent\.com/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)/(refs/heads/)?(?P<branch>[^/]+)"
    r"(/(?P<folder>.+))?/[^/]+\.zip"
)


@dataclass(frozen=True)
class Address:
    """Where a release lies.

    Args:
        zip: Address of the zip, or empty.
        colab: Colab's address of the folder of notebooks, or empty: Colab opens notebooks of public GitHub repositories
            alone.
    """

    zip: str = ""
    colab: str = ""

    def badge(self, notebook: str) -> str:
        """The badge that opens a notebook in Colab, in Markdown, or empty.

        Args:
            notebook: File name of the notebook.
        """
        if not self.colab:
            return ""
        return f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({self.colab}/{notebook})"


def parse(url: str) -> Address:
    """What an address given to `cst release` means.

    Args:
        url: A GitHub repository (also with ``/tree/BRANCH`` and a folder in it), any address of a zip, or empty.

    Returns:
        The address of the zip and Colab's.

    Raises:
        ValueError: If it is neither.

    Example:
        >>> parse("https://github.com/someone/course").zip
        'https://github.com/someone/course/archive/refs/heads/main.zip'
    """
    url = url.strip()
    found = _REPOSITORY.fullmatch(url)
    if found:
        branch = found["branch"] or "main"
        archive = f"https://github.com/{found['owner']}/{found['name']}/archive/refs/heads/{branch}.zip"
        return Address(archive, _colab(found["owner"], found["name"], branch, found["folder"]))
    if url and not re.fullmatch(r"https?://[^\s\"'\\]+", url):
        raise ValueError(
            f"release: expected an address such as https://github.com/OWNER/REPOSITORY or https://HOST/course.zip, got "
            f"{url!r}; give --url the place where students will find the release"
        )
    raw = _RAW.fullmatch(url)
    return Address(url, _colab(raw["owner"], raw["name"], raw["branch"], raw["folder"]) if raw else "")


def _colab(owner: str, name: str, branch: str, folder: str | None) -> str:
    inside = "/".join(filter(None, [folder, "notebooks"]))
    return f"{COLAB}/github/{owner}/{name}/blob/{branch}/{inside}"
