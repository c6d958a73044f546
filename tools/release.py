"""Check that a tag may become a release, and print the release's notes.

    python -m tools.release v1.2.3    (this is `make release-notes TAG=v1.2.3`)

The tag and every file that states the version must agree, and CHANGELOG.md must have a section for it whose heading
gives the day: `## 1.2.3, 2026-01-31`. The notes are that section.
"""

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import yaml

from tools.book import ROOT

# The files that state the version, and how it is read from them.
STATED: dict[str, Callable[[str], str]] = {
    "pyproject.toml": lambda text: tomllib.loads(text)["project"]["version"],
    "classroom/pyproject.toml": lambda text: tomllib.loads(text)["project"]["version"],
    "CITATION.cff": lambda text: str(yaml.safe_load(text)["version"]),
}


def check_files(version: str, root: Path) -> None:
    """Require that the files which state a version state this one."""
    for name, read in STATED.items():
        if (written := read((root / name).read_text("utf-8"))) != version:
            raise ValueError(f"{name} must state the tag's version; expected {version}, got {written}")


def notes(tag: str, root: Path) -> str:
    """Return what CHANGELOG.md says of the version that a tag names; raise, with the reason, where it is not ready."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        raise ValueError(f"a tag must look like v1.2.3; got {tag!r}")
    version = tag[1:]
    check_files(version, root)
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    section = re.search(rf"^## {re.escape(version)}, (.+)\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    if section is None:
        raise ValueError(f"CHANGELOG.md has no section '## {version}, YEAR-MONTH-DAY'")
    day, text = section[1], section[2].strip()
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
        raise ValueError(f"CHANGELOG.md must give the day that {version} is released; got '{day}'")
    if not text:
        raise ValueError(f"CHANGELOG.md says nothing about {version}")
    return text


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Check the tag and print its notes; return 1, with the reason, where it is not ready."""
    try:
        print(notes(*arguments, root))
    except ValueError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
