"""Check that a tag may become a release, and print the release's notes.

    python -m tools.release v1.2.3    (this is `make release-notes TAG=v1.2.3`)

The tag and every file that states the version must agree, and CHANGELOG.md must have a section for it whose heading
gives the day: `## 1.2.3, 2026-01-31`. The notes are that section.
"""

import re
import sys
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path

import yaml

from tools.book import ROOT

TAG = re.compile(r"v(\d+\.\d+\.\d+)")
HEADING = re.compile(r"^## (?P<version>[^,\n]+), (?P<day>.+)\n", re.MULTILINE)


class NotReady(Exception):
    """The tag cannot become a release; the message says why."""


def version_of(tag: str) -> str:
    """Return the version that a tag names."""
    if not (match := TAG.fullmatch(tag)):
        raise NotReady(f"a tag must look like v1.2.3; got {tag!r}")
    return match[1]


def check_files(version: str, root: Path) -> None:
    """Require that the files which state a version state this one."""
    readers: dict[str, Callable[[str], str]] = {
        "pyproject.toml": lambda text: tomllib.loads(text)["project"]["version"],
        "classroom/pyproject.toml": lambda text: tomllib.loads(text)["project"]["version"],
        "CITATION.cff": lambda text: str(yaml.safe_load(text)["version"]),
    }
    for name, read in readers.items():
        if (written := read((root / name).read_text("utf-8"))) != version:
            raise NotReady(f"{name} must state the tag's version; expected {version}, got {written}")


def notes(version: str, changelog: str) -> str:
    """Return what CHANGELOG.md says of a version."""
    headings = list(HEADING.finditer(changelog))
    ends = [heading.start() for heading in headings[1:]] + [len(changelog)]
    for heading, end in zip(headings, ends, strict=True):
        if heading["version"] == version:
            check_day(version, heading["day"])
            return changelog[heading.end() : end].strip()
    raise NotReady(f"CHANGELOG.md has no section '## {version}, YEAR-MONTH-DAY'")


def check_day(version: str, day: str) -> None:
    """Require that a section's heading gives the day of the release."""
    try:
        date.fromisoformat(day)
    except ValueError:
        raise NotReady(f"CHANGELOG.md must give the day that {version} is released; got '{day}'") from None


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Check the tag and print its notes; return 1, with the reason, where it is not ready."""
    try:
        version = version_of(*arguments)
        check_files(version, root)
        text = notes(version, (root / "CHANGELOG.md").read_text("utf-8"))
        if not text:
            raise NotReady(f"CHANGELOG.md says nothing about {version}")
    except NotReady as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
