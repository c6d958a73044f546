"""The two packages that grade, this one and the book's: where they are, and the files of theirs that grading needs."""

from importlib import import_module
from pathlib import Path

from .worker import PACKAGES

__all__ = ["FOLDERS", "MASTERS", "needed_files"]

HERE = Path(__file__).parent
FOLDERS = {name: Path(str(import_module(name).__file__)).parent for name in PACKAGES}
MASTERS = HERE.with_name("masters")  # of the book's assignments: in the repository, and in no wheel
LEFT_OUT = ("widgets", "__pycache__")  # have no part in grading


def needed_files() -> dict[str, Path]:
    """Return the files of both packages that grading needs.

    Returns:
        The paths by their names, such as ``attention_classroom/protocol.py``, in the order of these.
    """
    files = {
        f"{package}/{path.relative_to(folder).as_posix()}": path
        for package, folder in FOLDERS.items()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {name: files[name] for name in sorted(files) if not any(f"/{part}/" in name for part in LEFT_OUT)}
