"""The two packages that grade, this one and the book's: where they are, and the files of theirs that grading needs."""

from pathlib import Path

from .child import PACKAGES

__all__ = ["FOLDER", "MASTERS", "needed_files"]

FOLDER = Path(__file__).parents[1]  # of both: they are installed together, and stand side by side in the repository
MASTERS = Path(__file__).with_name("masters")  # of the book's assignments: in the repository, and in no wheel
# The masters hold solutions and are digested, or exported, one by one; the rest has no part in grading.
LEFT_OUT = ("attention_classroom/masters", "attention_classroom/tests", "attention_tutorial/widgets", "__pycache__")


def needed_files() -> dict[str, Path]:
    """Return the files of both packages that grading needs.

    Returns:
        The paths by their names, such as ``attention_classroom/wire.py``, in the order of these.
    """
    files = (path for package in PACKAGES for path in (FOLDER / package).rglob("*") if path.is_file())
    named = {path.relative_to(FOLDER).as_posix(): path for path in files}
    return {name: named[name] for name in sorted(named) if not any(f"{part}/" in name for part in LEFT_OUT)}
