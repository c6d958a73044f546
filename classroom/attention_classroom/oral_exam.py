"""A sheet of questions to be printed, for an oral or a written check: hidden tests do not tell whose work an answer is.

The questions come from a student's own variant: compute a row of a result from small numbers, find the fault of the
function that was to be repaired, say what lines of one's own answer do. They take ten minutes, without a computer. The
teacher's answers stand in a file apart, one row for each student.
"""

import difflib
import functools
import hashlib
import itertools
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import torch
from markupsafe import Markup, escape
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Outline
from matplotlib.textpath import text_to_path
from nbformat import NotebookNode
from torch import Tensor

from attention_tutorial.exercises import Case, float64_by_default

from .assignment import PLAIN, Assignment, Task, Variant, load, variant_for
from .course import Course, write
from .pages import TEMPLATES
from .release import BEGIN, END, METADATA, make_release, solve

__all__ = ["Question", "questions", "sheets"]

TRIES = 400  # small inputs that are tried for one question,
ENOUGH = 60  # until so many have worked
MOST = 40  # numbers to be printed for one question
SMALL = (1, 2, 3, 4)  # what sizes may become
FEW = range(1, 10)  # what whole numbers and lengths of rows of ids may become
APART = 0.03  # two answers differ if two decimals tell them apart
LINES = 2  # of one's own answers that are asked about
ANSWER = Markup("<p><strong>The answer:</strong></p>")  # between what was asked and what is right
MOST_WRONG = 4  # wrong answers that the teacher is told


@dataclass(frozen=True)
class Question:
    """One question of a sheet."""

    title: str  # plain text
    asks: Markup
    answer: Markup  # for the teacher alone
    room: float = 2.5  # for what is written by hand, in centimetres


def sheets(course: Course, name: str, students: Iterable[str]) -> Path:
    """Write the sheets of students, and the teacher's answers.

    Returns:
        The folder: ``sheets.html``, one sheet after another, each on a new page, and ``answers.html``.
    """
    assignment = load(course.hidden(course.named(name)))
    master = nbformat.read(course.master(name), as_version=4)
    drawn: list[tuple[str, list[Question]]] = []
    of: list[tuple[str, list[Question]]] = []
    for student in students:
        submitted = course.rebuilt(name, student)
        handed_in = nbformat.read(submitted, as_version=4) if submitted.is_file() else None
        who = f"{course.student(student).name} ({student})"
        drawn.append((who, questions(master, assignment, student, course.secret, handed_in)))
        of.append((student, drawn[-1][1]))
    folder = course.root / "sheets" / name
    write(folder / "sheets.html", page(assignment.title, drawn))
    write(folder / "answers.html", page(f"{assignment.title}: answers", drawn, answers=True))
    kept = folder / "asked.json"  # what is marked, of sheets printed before too
    asked = json.loads(kept.read_bytes()) if kept.is_file() else {}
    for student, asks in of:
        asked[student] = {f"sheet-{i}": q.asks + ANSWER + q.answer for i, q in enumerate(asks, 1)}
    write(kept, json.dumps(asked, indent=1))
    return folder


def page(title: str, drawn: Sequence[tuple[str, Sequence[Question]]], *, answers: bool = False) -> str:
    """Return the page of the sheets, or of their answers."""
    return TEMPLATES.get_template("sheets.html").render(title=title, sheets=drawn, answers=answers)


def questions(
    master: NotebookNode, assignment: Assignment, student: str, secret: bytes, handed_in: NotebookNode | None = None
) -> list[Question]:
    """Draw the questions of a student, the same every time; some are on the answers in the notebook handed in."""
    variant = variant_for(assignment, student, secret)
    common = variant_for(assignment, PLAIN, secret)
    if handed_in is not None and (handed_in.metadata.get(METADATA) or {}).get("variant") == common.mark:
        variant = common  # that is what this student worked on
    handed_out = make_release(master, assignment, variant)
    variant = _other(assignment, variant, secret)
    release = make_release(master, assignment, variant)
    solved = {cell.id: cell.source for cell in solve(release, master, assignment, variant).cells}
    digest = hashlib.sha256(secret + f"\0sheet\0{assignment.name}\0{student}".encode()).digest()
    draw = random.Random(digest)
    own = list(_own_lines(handed_out, handed_in, draw))
    computed: list[Question] = []
    repaired: list[Question] = []
    for task in assignment.tasks(variant):
        before = _statement(release, task)
        if task.kind == "debug":
            code = next((cell.source for cell in release.cells if cell.id == task.id), "")
            asks = Markup("<p>Mark the line at fault, write it as it must be, and say what it did wrong.</p>")
            repaired.append(Question(task.title, before + _code(code) + asks, _repair(code, solved[task.id])))
        elif task.kind == "code":
            inputs = re.search(rf"def {task.name}\(([^)]*)\)", solved[task.id])
            names = [name.split(":")[0].split("=")[0].strip(" *") for name in inputs[1].split(",")] if inputs else []
            computed += _compute(task, before, names, draw)
    if own and computed:  # there is time for one
        computed = [draw.choice(computed)]
    return [*computed, *repaired, *own]


def _other(assignment: Assignment, variant: Variant, secret: bytes) -> Variant:
    """Draw a variant for the sheet alone, with another planted bug than the one that was repaired at home."""
    others = [variant_for(assignment, f"{variant.student}\0sheet{i}", secret) for i in range(20)]
    return next((other for other in others if other.values.get("bug") != variant.values.get("bug")), others[0])


# ---- Compute a row --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    """A row of a result on small inputs, as one computes it by hand."""

    case: Case
    part: int
    place: tuple[int, ...]
    values: Tensor
    wrong: tuple[tuple[str, Tensor | None], ...]  # what those give that differ; None: an error

    @property
    def work(self) -> int:
        """How many numbers are printed, and asked for."""
        asked = self.values.numel() if self.values.is_floating_point() else 0
        return sum(map(_count, self.case.inputs)) + 2 * asked


def _compute(task: Task, before: Markup, inputs: Sequence[str], draw: random.Random) -> Iterator[Question]:
    """Yield the question for a row of a result, on small inputs that tell many wrong answers from the right one."""
    assert task.table is not None
    with float64_by_default():
        tried = (_row(task, draw) for _ in range(TRIES))
        rows = list(itertools.islice((row for row in tried if row is not None), ENOUGH))
        if not rows:
            return
        best = max(rows, key=lambda row: len(row.wrong) - row.work / 6)
    parts = [re.sub(r"\W", "_", part.name.removeprefix("the ")) for part in task.table.parts]
    place = f"[{', '.join(map(str, best.place))}]" if best.place else ""
    call = f"{task.name}({', '.join(inputs)})"
    asked = Markup("<code>{}</code>").format(call + place)
    if len(parts) > 1:
        whole = f"{', '.join(parts)} = {call}"
        asked = Markup("<code>{}</code> of <code>{}</code>").format(parts[best.part] + place, whole)
    named = zip(best.case.inputs, [*inputs, *[""] * len(best.case.inputs)], strict=False)
    shown = Markup().join(_named(x, name) for x, name in named)
    asks = Markup("<p>Compute {} for</p>{}").format(asked, shown)
    wrong: dict[str, str] = {}  # the first words for each answer
    for words, values in best.wrong:
        if values is not None and values.isfinite().all():
            wrong.setdefault(_numbers(values), words)
    mistaken = Markup('<span class="soft">{}: {}</span>')
    told = [_numbers(best.values)]
    told += [mistaken.format(numbers, words.replace("*", "")) for numbers, words in list(wrong.items())[:MOST_WRONG]]
    yield Question(task.title, before + asks, Markup("<br>").join(told))


def _row(task: Task, draw: random.Random) -> _Row | None:
    """Try small inputs, and one of the rows of what comes out."""
    assert task.table is not None
    about = task.table
    case = _smaller(draw.choice(list(about.cases)), draw)
    if sum(map(_count, case.inputs)) > MOST:
        return None
    right = _result(task, about.right, case)
    if not right:
        return None
    part = draw.randrange(len(right))
    whole = right[part]
    if not whole.isfinite().all() or not all(whole.shape):
        return None
    place = tuple(draw.randrange(size) for size in whole.shape[:-1])
    asked = whole[place]
    if asked.numel() > max(FEW):
        return None
    wrong_rows = []
    for wrong_answer in about.wrong_answers:
        result = _result(task, wrong_answer.answer, case)
        values = result[part][place] if result and result[part].shape == whole.shape else None
        if values is None or not _alike(values, asked):
            wrong_rows.append((wrong_answer.message_for(case), values))
    return _Row(case, part, place, asked, tuple(wrong_rows))


def _result(task: Task, answer: Any, case: Case) -> tuple[Tensor, ...]:
    """Return what an answer gives; nothing if these inputs are too small for it."""
    assert task.table is not None
    try:
        result = task.table.result(answer, case)
        return tuple(map(torch.as_tensor, result if isinstance(result, tuple) else (result,)))
    except Exception:
        return ()


def _alike(a: Tensor, b: Tensor) -> bool:
    return bool(((a.double() - b.double()).abs() < APART).all())


def _smaller(case: Case, draw: random.Random) -> Case:
    """Return a case with few and round numbers: each size becomes a smaller one, the same wherever it stands."""
    sizes = sorted({size for x in case.inputs for size in _sizes(x)})
    flat = all(not isinstance(x, Tensor) or (x.dim() < 2 and not x.is_floating_point()) for x in case.inputs)
    smaller = {size: min(size, draw.choice(FEW if flat else SMALL)) for size in sizes}
    starts = {size: draw.randrange(size - new + 1) for size, new in smaller.items()}
    return replace(case, inputs=tuple(_small(x, smaller, starts, draw) for x in case.inputs))


def _sizes(x: Any) -> set[int]:
    if isinstance(x, Tensor):
        return set(x.shape) - {0}
    return {size for item in x for size in _sizes(item)} if isinstance(x, list | tuple) else set()


def _small(x: Any, sizes: dict[int, int], starts: dict[int, int], draw: random.Random) -> Any:
    if isinstance(x, Tensor):
        for axis, size in enumerate(x.shape):
            x = x.narrow(axis, starts.get(size, 0), sizes.get(size, 0))
        return (x.double() * 2).round() / 2 if x.is_floating_point() else x.clone()
    if isinstance(x, list | tuple):
        return type(x)(_small(item, sizes, starts, draw) for item in x)
    if isinstance(x, float):
        return round(x, 1)
    return draw.randrange(max(sizes.values(), default=max(FEW))) if type(x) is int else x


def _count(x: Any) -> int:
    if isinstance(x, list | tuple):
        return sum(map(_count, x))
    return x.numel() if isinstance(x, Tensor) else 1


def _named(x: Any, name: str) -> Markup:
    """Return a value below its name; what has more than two axes, or is a list of tables, as several."""
    tables = isinstance(x, list | tuple) and any(isinstance(y, Tensor) for y in x)
    if tables or (isinstance(x, Tensor) and x.dim() > 2):
        return Markup().join(_named(y, f"{name}[{i}]") for i, y in enumerate(x))
    return Markup('<div class="given"><code>{}</code>{}</div>').format(name, _value(x))


def _value(x: Any) -> Markup:
    if isinstance(x, Tensor) and x.dim() in (1, 2):
        lines = x.tolist() if x.dim() == 2 else [x.tolist()]
        rows = (Markup("<tr>{}</tr>").format(_joined("<td>{}</td>", map(_number, line))) for line in lines)
        return Markup("<table>{}</table>").format(Markup().join(rows))
    return Markup("<p>{}</p>").format(_number(x.tolist() if isinstance(x, Tensor) else x))


def _joined(template: str, parts: Iterable[str]) -> Markup:
    return Markup().join(Markup(template).format(part) for part in parts)


def _code(text: str) -> Markup:
    return Markup('<pre tabindex="0">{}</pre>').format(text)


def _numbers(x: Tensor) -> str:
    return ", ".join(map(_number, x.reshape(-1).tolist()))


def _number(x: Any) -> str:
    return f"{round(x, 2) + 0.0:g}" if isinstance(x, float) else str(x)  # 0 rather than -0


# ---- Find the fault -------------------------------------------------------------------------------------------------


def _repair(broken: str, right: str) -> Markup:
    """Return the lines that differ between what was to be repaired and the master's answer, with those beside them."""
    old, new = (
        [line.rstrip() for line in text.splitlines() if line.strip() and '"""' not in line]
        for text in (broken, re.split(r"(?m)^(?=def )", right)[-1].split(BEGIN)[0])
    )
    changed = list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]
    return _code("\n".join(line for line in changed if not line.startswith("@@")))


# ---- One's own lines ------------------------------------------------------------------------------------------------


def _own_lines(release: NotebookNode, handed_in: NotebookNode | None, draw: random.Random) -> Iterator[Question]:
    """Yield questions on lines that a student has written."""
    if handed_in is None:
        return
    theirs: list[tuple[str, str]] = []
    unfilled = {cell.id: set(map(str.strip, cell.source.splitlines())) for cell in release.cells}
    for cell in handed_in.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution") and "plot" not in cell.id:
            lines = [line.strip() for line in cell.source[:20_000].splitlines()]
            theirs += [(cell.id, x) for x in lines if _is_worth_asking(x) and x not in unfilled.get(cell.id, set())]
    for cell_id, line in sorted(draw.sample(theirs, min(LINES, len(theirs))), key=theirs.index):
        asks = Markup("<p>Your answer <code>{}</code> has this line:</p>{}").format(cell_id, _code(line[:300]))
        asks += Markup("<p>What does it do, which shape has its result, and why is it needed?</p>")
        answer = Markup("<code>{}</code>: <code>{}</code>").format(cell_id, line[:300])
        yield Question("A line of your own", asks, answer, 1.5)


def _is_worth_asking(line: str) -> bool:
    plain = re.match(r"(#|import |from |def |for |return \w+$|plt\.|else|try|\"\"\"|\)|\]|print)", line)
    return len(line) >= 15 and not plain and line not in {BEGIN, END}


# ---- What the task says ---------------------------------------------------------------------------------------------

# What a task orders is done by the time of the sheet.
DONE = {
    r"(^|(?<=[.?!:]\s))Write (?=\0)": "You wrote ",
    r"(^|(?<=[.?!:]\s))Return ": "It returns ",
    r"(^|(?<=[.?!:]\s))Work it out .*?[.?!](?=\s|$)\s*": "",
}


def _statement(release: NotebookNode, task: Task) -> Markup:
    """Return the words of a task: the text cells of the release above its answer, as what is done."""
    parts: list[str] = []
    for cell in release.cells:
        if cell.id == task.id:
            break
        answer = cell.cell_type != "markdown" or cell.metadata.get("nbgrader", {}).get("solution")
        parts = [] if answer else [*parts, cell.source]
    return Markup().join(markdown(re.sub(r"(?m)^#+ .*$", "", part)) for part in parts)


def markdown(text: str) -> Markup:
    """Set the little Markdown that tasks use: paragraphs, bold, code, formulas. What was ordered is told as done.

    Example:
        >>> print(markdown("The factor is *large*. Write `f(x)`. Return **one** number."))
        <p>The factor is <em>large</em>. You wrote <code>f(x)</code>. It returns <strong>one</strong> number.</p>
    """
    blocks = (_inline(block) for block in re.split(r"\n\s*\n|\n(?=- )", text.strip()))
    return Markup("".join(f"<p>{re.sub('^- ', '• ', block)}</p>" for block in blocks if block))


def _inline(text: str) -> str:
    formulas: list[str] = []

    def keep(part: re.Match[str]) -> str:
        inside = part[0].strip("$`")
        formulas.append(f"<code>{escape(inside)}</code>" if part[0][0] == "`" else formula(inside, part[0][:2] == "$$"))
        return f"\0{len(formulas) - 1}\0"

    plain = str(escape(re.sub(r"\$\$.+?\$\$|\$[^$]+\$|`[^`]+`", keep, text.replace("\0", ""), flags=re.DOTALL)))
    for order, told in DONE.items():
        plain = re.sub(order, told, plain, flags=re.DOTALL)
    plain = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", plain, flags=re.DOTALL)
    plain = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", plain)
    return re.sub(r"\0(\d+)\0", lambda place: formulas[int(place[1])], plain).strip()


# What matplotlib, which sets the formulas, calls by another name
NAMES = {
    r"\\[bB]ig+[lr]?(?![a-zA-Z])\s*": "", r"\\lvert|\\rvert": "|", r"\\lVert|\\rVert": r"\\Vert ",
    r"\\le(?![a-zA-Z])": r"\\leq ", r"\\ge(?![a-zA-Z])": r"\\geq ", r"\\ne(?![a-zA-Z])": r"\\neq ",
    r"\\bmod(?![a-zA-Z])": r"\\ \\mathrm{mod}\\ ",
    r"\\[td]frac": r"\\frac", r"\\frac\s*(\d)\s*(\w)": r"\\frac{\1}{\2}", r"\\sqrt\s*(\w)": r"\\sqrt{\1}",
}  # fmt: skip


@functools.cache
def formula(tex: str, display: bool = False) -> str:
    """Set TeX, ``display`` on a line of its own, as an SVG that any browser prints, with the TeX as its label."""
    plain = " ".join(tex.split())
    for name, other in NAMES.items():
        plain = re.sub(name, other, plain)
    font = FontProperties(size=100, math_fontfamily="stix")
    try:
        width, height, depth, *_ = text_to_path.mathtext_parser.parse(f"${plain}$", 72, font)
        vertices, codes = text_to_path.get_text_path(font, f"${plain}$", ismath=True)
    except ValueError as error:
        raise ValueError(f"a formula of a task must be one that matplotlib can set; got {tex!r}") from error
    letters = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C"}
    path = "".join(
        "Z" if code == Outline.CLOSEPOLY else letters[code] + " ".join(f"{x:.0f}" for x in points)
        for points, code in Outline(vertices, codes).iter_segments(simplify=False, curves=True)
    )
    return (
        f'<svg class="formula{" display" * display}" role="img" aria-label="{escape(tex)}" '
        f'style="width: {width / 90:.2f}em; height: {height / 90:.2f}em; vertical-align: -{depth / 90:.2f}em" '
        f'viewBox="0 {depth - height:.0f} {width:.0f} {height:.0f}"><path transform="scale(1 -1)" d="{path}"/></svg>'
    )
