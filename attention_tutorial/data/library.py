"""Python code that the code model of chapter 9 has never seen: six files of the standard library of Python 3.11."""

from importlib import resources

__all__ = ["held_out_files"]

NAMES = ("chunk", "copyreg", "html_parser", "sched", "secrets", "trace")


def held_out_files() -> dict[str, str]:
    """Read the files.

    Returns:
        The text of each file, by name: the same on every machine, whatever Python runs there.

    Example:
        >>> files = held_out_files()
        >>> list(files), len(files["sched"])
        (['chunk', 'copyreg', 'html_parser', 'sched', 'secrets', 'trace'], 6351)
    """
    folder = resources.files(__package__).joinpath("python_library")
    return {name: folder.joinpath(f"{name}.txt").read_text("utf-8") for name in NAMES}
