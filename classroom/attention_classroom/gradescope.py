"""What runs inside Gradescope: one submission is graded, and ``results/results.json`` says what came of it.

`exports.gradescope` packs this module with the assignment. The variants travel as values, not as the course's secret.
"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import nbformat

from .assignment import PLAIN, Variant, load
from .grading import grade, is_ungraded
from .rebuild import Unreadable
from .release import overlay
from .sandbox import NoSandbox, choose

__all__ = ["main"]


def main(root: Path) -> int:
    """Grade what is in ``submission/``; return 0 even where that fails, since Gradescope then shows what is written."""
    results = root / "results" / "results.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    try:
        result = _graded(root)
    except NoSandbox as error:
        result = {"output": f"No sandbox starts here, so nothing was run and nothing is graded. {error}"}
    except Exception:
        traceback.print_exc()  # for the teacher: what a program prints, students do not see
        words = "The autograder failed. This is not your fault; your teacher can read why and run it again."
        result = {"output": words}
    part = results.with_suffix(".part")
    part.write_text(json.dumps({"output_format": "text", "stdout_visibility": "hidden", **result}), encoding="utf-8")
    part.replace(results)
    return 0


def _graded(root: Path) -> dict[str, Any]:
    source = root / "source"
    settings = json.loads((source / "settings.json").read_text(encoding="utf-8"))
    name = settings["assignment"]
    assignment = load(source / "hidden" / f"{name}.py")
    student = _student(root, settings["students"])
    own, common = (Variant(name, student, settings["variants"][whose]) for whose in (student, PLAIN))
    master = nbformat.read(source / "source" / name / f"{name}.ipynb", as_version=4)
    files = sorted(path for path in (root / "submission").rglob("*") if path.is_file() and not path.is_symlink())
    notebooks = [path for path in files if ".ipynb" in path.name.lower() and ".ipynb_checkpoints" not in path.parts]
    if not notebooks:
        return {"score": 0, "output": f"There is no notebook in what you handed in: hand in {name}.ipynb."}
    chosen = max(notebooks, key=lambda path: (path.stem.startswith(name), path.stat().st_size))
    try:
        variant, notebook, flags = overlay(chosen, master, assignment, own, common)
    except Unreadable as error:
        return {"score": 0, "output": f"{chosen.name} cannot be read: {error}. Save it again and hand it in once more."}
    sandbox = choose(unsafe=settings["unsafe"])
    result = grade(notebook, assignment, variant, sandbox=sandbox, flags=flags, private=[source, root / "results"])
    if is_ungraded(result):
        raise RuntimeError(str(result["flags"]))
    tests = []
    tasks = {task.id: task for task in assignment.tasks(variant)}
    for task, score in result["tasks"].items():
        for check in score["checks"]:
            words = {"name": f"{tasks[task].title}: {check['says']}", "output": check["words"] or "right"}
            tests.append({**words, "score": check["points"], "max_score": check["max"], "visibility": "visible"})
    notes = [f"{flag['kind']}: {flag['words']}" for flag in result["flags"]]
    by_hand = sum(task.by_hand for task in tasks.values())
    rest = [f"{by_hand:g} more points are given by hand."] if by_hand else []
    rest += ["Your address is not in the class list, so the notebook for everybody was expected."] * (student == PLAIN)
    return {
        "score": sum(score["points"] for score in result["tasks"].values()),
        "tests": tests,
        "output": "\n".join([f"Read: {chosen.name}", *rest, *notes]),
        "execution_time": round(result["seconds"]),
        "extra_data": {"sandbox": result["sandbox"], "student": student, "variant": variant.mark},
    }


def _student(root: Path, students: dict[str, str]) -> str:
    """Return the id of who handed it in, by Gradescope's own record; the common variant for whoever is not listed."""
    try:
        users = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))["users"]
    except (OSError, ValueError, KeyError):
        return PLAIN
    keys = [str(user.get(key, "")).casefold() for user in users for key in ("sid", "email")]
    return next((students[key] for key in keys if key in students), PLAIN)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
