"""A sheet of questions to be printed, for an oral or a written check: hidden tests do not tell whose work an answer is.

The questions come from a student's own variant: compute a row of a result from small numbers, find the fault of the
function that was to be repaired, say what lines of one's own answer do. The teacher's answers stand in a file apart.
"""

import difflib
import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import torch
from nbformat import NotebookNode
from torch import Tensor

from attention_tutorial.exercises import Case

from .assignment import Assignment, Task, load
from .course import Course
from .pages import escape, page, pre
from .release import BEGIN, END, METADATA, answers, make_release
from .variants import PLAIN, variant_for

__all__ = ["Question", "questions", "sheets"]

MOST = 120  # numbers to be printed
SMALL = (2, 3, 4)  # what sizes become, the smallest first, so that different axes stay different
LINES = 2  # of one's own answers that are asked about
STYLE = """
.sheet { max-width: 46rem; } .room { height: 5rem; border-bottom: 1px solid var(--line); }
.given { display: inline-block; vertical-align: top; margin: 0 1.5rem .5rem 0; width: auto; }
.given table { width: auto; border: 1px solid var(--line); }
.given td { border: 0; padding: .1rem .5rem; text-align: right; }
h3 { break-after: avoid; } .question { break-inside: avoid; }
"""


@dataclass(frozen=True)
class Question:
    """One question of a sheet.

    Attributes:
        title: plain text.
        asks: HTML.
        answer: HTML, for the teacher alone.
    """

    title: str
    asks: str
    answer: str


def sheets(course: Course, name: str, students: Iterable[str]) -> Path:
    """Write the sheets of students, and the teacher's answers.

    Args:
        course: its folder.
        name: the assignment's name.
        students: their ids.

    Returns:
        The folder: ``sheets.html``, one sheet after another, each on a new page, and ``answers.html``.
    """
    assignment = load(course.hidden(course.named(name)))
    master = nbformat.read(course.master(name), as_version=4)
    asked, answered = [], []
    for student in students:
        person = course.student(student)
        given = None
        if course.submitted(name, student).is_file():
            given = nbformat.read(course.submitted(name, student), as_version=4)
        found = questions(master, assignment, student, course.secret, given)
        head = f"<h1>{escape(assignment.title)}</h1><p>{escape(person.name)} ({escape(student)})</p>"
        body = "".join(f'<div class="question"><h3>{i}. {escape(q.title)}</h3>{q.asks}<div class="room"></div></div>'
                       for i, q in enumerate(found, 1))  # fmt: skip
        asked.append(f'<section class="sheet">{head}{body}</section>')
        told = "".join(f"<h3>{i}. {escape(q.title)}</h3>{q.answer}" for i, q in enumerate(found, 1))
        answered.append(f"<section><h2>{escape(person.name)} ({escape(student)})</h2>{told}</section>")
    folder = course.root / "sheets" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sheets.html").write_text(page(assignment.title, "\n".join(asked), style=STYLE), encoding="utf-8")
    note = "<p>For the teacher alone.</p>"
    told_all = page(f"{assignment.title}: answers", note + "\n".join(answered), style=STYLE)
    (folder / "answers.html").write_text(told_all, encoding="utf-8")
    return folder


def questions(
    master: NotebookNode, assignment: Assignment, student: str, secret: bytes, given: NotebookNode | None = None
) -> list[Question]:
    """Draw the questions of a student; the same every time.

    Args:
        master: with solutions.
        assignment: from the hidden module.
        student: the id.
        secret: the course's.
        given: the student's rebuilt notebook, for questions on the answers in it.

    Returns:
        The questions, with the teacher's answers.
    """
    variant = variant_for(assignment, student, secret)
    common = variant_for(assignment, PLAIN, secret)
    if given is not None and (given.metadata.get(METADATA) or {}).get("variant") == common.mark:
        variant = common  # that is what this student worked on
    release = make_release(master, assignment, variant)
    solved = {cell.id: cell.source for cell in answers(master, assignment, variant).cells}
    digest = hashlib.sha256(secret + f"\0sheet\0{assignment.name}\0{student}".encode()).digest()
    draw = random.Random(digest)
    found = []
    for task in assignment.tasks(variant):
        before = _statement(release, task)
        code = next((cell.source for cell in release.cells if cell.id == task.id), "")
        if task.kind == "debug":
            asks = (
                f"{pre(code)}<p>Which line is at fault, what does it do wrong, and with which inputs would one see it? "
                "Write the line as it must be.</p>"
            )
            found.append(Question(task.title, before + asks, _repair(code, solved[task.id])))
        elif task.table is not None:
            inputs = re.search(rf"def {task.name}\(([^)]*)\)", solved[task.id])
            names = [name.split(":")[0].split("=")[0].strip(" *") for name in inputs[1].split(",")] if inputs else []
            found += _compute(task, before, names, draw)
    return found + list(_own_lines(release, given, draw))


# ---- Compute a row --------------------------------------------------------------------------------------------------


def _compute(task: Task, before: str, inputs: Sequence[str], draw: random.Random) -> Iterator[Question]:
    """Yield the question for a part of a result on small inputs, if there are any on which the right answer works."""
    assert task.table is not None
    for case in task.table.cases:
        small = _smaller(case)
        try:
            result = task.table.result(task.table.right, small)
        except Exception:  # this answer does not take smaller inputs
            continue
        parts = result if isinstance(result, tuple) else (result,)
        names = [part.name for part in task.table.parts()]
        values = torch.as_tensor(parts[-1])
        if values.numel() > MOST or not values.isfinite().all() or sum(map(_count, small.inputs)) > MOST:
            continue
        place = [draw.randrange(size) for size in values.shape[:-1]]
        asked = values[tuple(place)]
        what = names[len(parts) - 1] if len(parts) <= len(names) else "the result"
        if len(place) == 1:
            what = f"row {place[0] + 1} of {what}"
        elif place:
            what = f"the row {place} (counted from 0) of {what}"
        asks = (
            f"<p>Compute {escape(what)} that <code>{escape(task.name)}</code> returns for these inputs. Two decimals "
            f"do; a pocket calculator is allowed.</p>{_inputs(small, inputs)}"
        )
        yield Question(task.title, before + asks, f"<p>{escape(what.capitalize())}:</p>{_value(asked)}")
        return


def _smaller(case: Case) -> Case:
    """Return a case with few and round numbers: each size becomes a smaller one, the same wherever it stands."""
    sizes = sorted({size for x in case.inputs for size in _sizes(x)})
    smaller = {size: min(size, SMALL[min(i, len(SMALL) - 1)]) for i, size in enumerate(sizes)}
    return replace(case, inputs=tuple(_small(x, smaller) for x in case.inputs))


def _sizes(x: Any) -> set[int]:
    if isinstance(x, Tensor):
        return set(x.shape)
    return {size for one in x for size in _sizes(one)} if isinstance(x, list | tuple) else set()


def _small(x: Any, sizes: dict[int, int]) -> Any:
    if isinstance(x, Tensor):
        for axis, size in enumerate(x.shape):
            x = x.narrow(axis, 0, sizes[size])
        return (x.double() * 10).round() / 10 if x.is_floating_point() else x.clone()
    if isinstance(x, list | tuple):
        return type(x)(_small(one, sizes) for one in x)
    if isinstance(x, float):
        return round(x, 1)
    return min(x, max(sizes.values(), default=x) - 1) if isinstance(x, int) and not isinstance(x, bool) else x


def _count(x: Any) -> int:
    if isinstance(x, list | tuple):
        return sum(map(_count, x))
    return x.numel() if isinstance(x, Tensor) else 1


def _inputs(case: Case, names: Sequence[str]) -> str:
    named = zip(case.inputs, [*names, *[""] * len(case.inputs)], strict=False)
    return "".join(_named(x, name) for x, name in named)


def _named(x: Any, name: str) -> str:
    """Return a value below its name; what has more than two axes, or is a list of tables, as several."""
    if (isinstance(x, Tensor) and x.dim() > 2) or (
        isinstance(x, list | tuple) and any(isinstance(y, Tensor) for y in x)
    ):
        return "".join(_named(y, f"{name}[{i}]") for i, y in enumerate(x))
    return f'<div class="given"><code>{escape(name)}</code>{_value(x)}</div>'


def _value(x: Any) -> str:
    if isinstance(x, Tensor) and x.dim() == 2:
        rows = "".join(f"<tr>{''.join(f'<td>{_number(y)}</td>' for y in row)}</tr>" for row in x.tolist())
        return f"<table>{rows}</table>"
    if isinstance(x, Tensor) and x.dim() == 1:
        return f"<table><tr>{''.join(f'<td>{_number(y)}</td>' for y in x.tolist())}</tr></table>"
    return f"<p>{escape(_number(x.tolist() if isinstance(x, Tensor) else x))}</p>"


def _number(x: Any) -> str:
    return f"{round(x, 2) + 0.0:g}" if isinstance(x, float) else str(x)  # 0 rather than -0


# ---- Find the fault -------------------------------------------------------------------------------------------------


def _repair(broken: str, right: str) -> str:
    """Return the lines that differ between what was to be repaired and the master's answer."""
    functions = re.split(r"(?m)^(?=def )", right)
    old = [line.rstrip() for line in broken.splitlines() if line.strip()]
    new = [line.rstrip() for line in functions[-1].splitlines() if line.strip()]
    changed = [
        line for line in difflib.ndiff(old, new) if line[:2] in {"- ", "+ "} and '"""' not in line and line[2:].strip()
    ]
    return f"<p>− the fault, + repaired:</p>{pre(chr(10).join(changed))}"


# ---- One's own lines ------------------------------------------------------------------------------------------------


def _own_lines(release: NotebookNode, given: NotebookNode | None, draw: random.Random) -> Iterator[Question]:
    """Yield questions on lines that a student has written."""
    if given is None:
        return
    theirs: list[tuple[str, str]] = []
    unfilled = {cell.id: set(map(str.strip, cell.source.splitlines())) for cell in release.cells}
    for cell in given.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
            lines = [line.strip() for line in cell.source[:20_000].splitlines()]
            theirs += [(cell.id, x) for x in lines if _is_worth_asking(x) and x not in unfilled.get(cell.id, set())]
    for cell_id, line in sorted(draw.sample(theirs, min(LINES, len(theirs))), key=theirs.index):
        asks = f"<p>In your answer <code>{escape(cell_id)}</code> stands this line:</p>{pre(line[:300])}"
        asks += "<p>What does it do, with which shapes, and what would come out without it?</p>"
        yield Question("A line of your own", asks, f"<p>Of <code>{escape(cell_id)}</code>:</p>{pre(line[:300])}")


def _is_worth_asking(line: str) -> bool:
    plain = re.match(r"(#|import |from |def |return \w+$|plt\.|else|try|\"\"\"|\)|\]|print)", line)
    return len(line) >= 15 and not plain and line not in {BEGIN, END}


# ---- What the task says ---------------------------------------------------------------------------------------------


def _statement(release: NotebookNode, task: Task) -> str:
    """Return the words of a task: the text cells of the release above its answer, up to another cell before."""
    parts: list[str] = []
    for cell in release.cells:
        if cell.id == task.id:
            break
        answer = cell.cell_type != "markdown" or cell.metadata.get("nbgrader", {}).get("solution")
        parts = [] if answer else [*parts, cell.source]
    return "".join(markdown(re.sub(r"(?m)^#+ .*$", "", part)) for part in parts)


def markdown(text: str) -> str:
    r"""Set the little Markdown that tasks use: paragraphs, bold, code, formulas in plain letters.

    Args:
        text: Markdown.

    Returns:
        HTML.

    Example:
        >>> markdown(r"The **score** is $s_i = q^\top k_i / \sqrt{d}$.")
        '<p>The <strong>score</strong> is <i>s<sub>i</sub> = q<sup>ᵀ</sup>k<sub>i</sub> / √(d)</i>.</p>'
    """
    blocks = re.split(r"\n\s*\n", text.strip())
    return "".join(f"<p>{_inline(block)}</p>" for block in blocks if block.strip())


def _inline(text: str) -> str:
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        part = found[0]
        inside = (
            f"<i>{_formula(part.strip('$').strip())}</i>" if part[0] == "$" else f"<code>{escape(part[1:-1])}</code>"
        )
        kept.append(inside)
        return f"\0{len(kept) - 1}\0"

    plain = escape(re.sub(r"\$\$.+?\$\$|\$[^$]+\$|`[^`]+`", keep, text.replace("\0", ""), flags=re.DOTALL))
    plain = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", plain, flags=re.DOTALL)
    plain = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", plain)
    return re.sub(r"\0(\d+)\0", lambda found: kept[int(found[1])], plain)


SIGNS = {
    "top": "ᵀ", "cdot": "·", "times": "×", "sum": "∑", "infty": "∞", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥",
    "ne": "≠", "neq": "≠", "in": "∈", "sqrt": "√", "qquad": " ", "quad": " ", "dots": "…", "ldots": "…", "to": "→",
    "alpha": "α", "beta": "β", "gamma": "γ", "lambda": "λ", "mu": "μ", "sigma": "σ", "tau": "τ", "theta": "θ",
    "odot": "⊙", "ell": "ℓ",
}  # fmt: skip


def _formula(tex: str) -> str:
    text = escape(re.sub(r"\\(?:mathbf|mathrm|text|operatorname|mathsf)\s*\{([^{}]*)\}", r"\1", tex), quote=False)
    text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"(\1)/(\2)", text)
    text = re.sub(r"\\sqrt\s*\{([^{}]*)\}", r"√(\1)", text)
    text = re.sub(r"\\([a-zA-Z]+)\s?", lambda found: SIGNS.get(found[1], found[1] + " "), text)
    text = re.sub(r"\\[,;! ]", " ", text)
    for _ in range(2):
        text = re.sub(r"_(?:\{([^{}]*)\}|(\w))", lambda f: f"<sub>{f[1] or f[2]}</sub>", text)
        text = re.sub(r"\^(?:\{([^{}]*)\}|(&\w+;|[^\s<]))", lambda f: f"<sup>{f[1] or f[2]}</sup>", text)
    return text
