"""What every stored notebook must be, beyond what nbval compares.

nbval passes in silence where a cell was never executed, where a picture changed, where a cell tagged
`raises-exception` does not raise, and wherever a tag tells it to look away. The rules here close those holes, and hold
the chapters to the form that renders in Jupyter, in Colab and on the site alike. They execute nothing.

A rule is a function `(notebook, path) -> findings`; each finding is a sentence that says where and what.
`RULES` lists the rules for one notebook, `BOOK_RULES` those for all notebooks together. To add one: write the function
under a decorator, and plant the fault it is for in test_notebook_rules.py.
"""

import ast
import copy
import functools
import io
import itertools
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import nbval.plugin
from attention_book.levels import chapter_of, is_deep
from attention_book.notebooks import headings, markdown_parser
from markdown_it.token import Token
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from attention_tutorial.exercises.verdict import Verdict
from attention_tutorial.notebook import Claim
from attention_tutorial.notebook.claims import METADATA_KEY
from tools import execution as tool
from tools import folds
from tools.book import ROOT, chapters, read

CHAPTERS = chapters()
BOOK = {path: read(path) for path in CHAPTERS}

# Cells in which nbval does not compare everything: (file name, cell id) -> why that has to be.
EXEMPT_CELLS: dict[tuple[str, str], str] = {
    ("08a_your_own_kernel.ipynb", "runs-the-kernel"): "runs a Triton kernel, and says so where Triton is not installed",
    ("08a_your_own_kernel.ipynb", "attacks-the-kernel"): "runs a Triton kernel, and says so where Triton is missing",
}
MOST_UNSTABLE = 209  # claims with digits after "≈"; make it smaller with every one that goes
LARGEST_FILE = 1_000_000  # bytes; GitHub and Colab get slow above that
# What a reader works on: with fewer, a section of a chapter (its deep notebooks included) would be without any. The
# primer, chapter 0, is shorter and has turns in place of exercises.
FEWEST_EXERCISES, FEWEST_QUESTIONS = 5, 6
FEWEST_TURNS_OF_A_PRIMER, FEWEST_QUESTIONS_OF_A_PRIMER = 4, 3
SHORTEST_ALT = 20  # characters; less names a figure and does not say what it shows
PHONE, WIDE_FIGURE = 390, 512  # pixels: what a figure has on a screen of 390, and what custom.css gives a wide one
SMALLEST_LETTER = 6.9  # pixels on a phone, where a page is held close

Findings = Iterator[str]
Rule = Callable[[NotebookNode, Path], Findings]
RULES: list[Rule] = []
BOOK_RULES: list[Callable[[dict[Path, NotebookNode]], Findings]] = []


def rule(function: Rule) -> Rule:
    """Register a rule for one notebook."""
    RULES.append(function)
    return function


def book_rule(function):
    """Register a rule for all notebooks together, given as {path: notebook}."""
    BOOK_RULES.append(function)
    return function


# ---- Reading notebooks -------------------------------------------------------------------------------------------


def cells(notebook: NotebookNode, kind: str) -> Iterator[tuple[str, NotebookNode]]:
    """Yield the cells of a kind with a name to find each one by: "code cell 3 (`import torch`)"."""
    chosen = (cell for cell in notebook.cells if cell.cell_type == kind)
    for number, cell in enumerate(chosen, start=1):
        first_line = (folds.split(cell.source)[1].strip().splitlines() or [""])[0]
        yield f"{kind} cell {number} (`{first_line[:60]}`)", cell


def tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", []))


def has_image(output: NotebookNode) -> bool:
    return any(kind.startswith("image/") for kind in output.get("data", {}))


def texts(output: NotebookNode) -> Iterator[str]:
    """Yield every text a reader sees in an output; a picture's own caption of itself is none."""
    if output.output_type == "stream":
        yield output.text
    elif output.output_type == "error":
        yield from [output.ename, output.evalue, *output.traceback]
    else:
        for kind, data in output.data.items():
            if kind.startswith("text/") and not (has_image(output) and re.fullmatch(r"<Figure size .*>", data)):
                yield data


def results(output: NotebookNode) -> Iterator[str]:
    """Yield the texts that were computed: all but source code shown as a listing."""
    if not output.get("data", {}).get("text/markdown", "").startswith("```"):
        yield from texts(output)


def parsed(cell: NotebookNode) -> ast.Module:
    """Return the cell's syntax tree, empty where it is no plain Python (`plain_python` reports that)."""
    try:
        return ast.parse(cell.source)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


@functools.cache
def markdown(source: str) -> list[Token]:
    """Return the markdown tokens of a cell, those inside paragraphs included, in reading order."""
    return [t for block in markdown_parser().parse(source) for t in (block, *(block.children or []))]


def links(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield (where, target) of every link in the text."""
    for where, cell in cells(notebook, "markdown"):
        for token in markdown(cell.source):
            if token.type == "link_open":
                yield where, str(token.attrs["href"])


def claims(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode, dict[str, str]]]:
    """Yield (where, output, metadata) of every claim that was measured."""
    for where, cell in cells(notebook, "code"):
        for output in cell.outputs:
            if METADATA_KEY in output.get("metadata", {}):
                yield where, output, output.metadata[METADATA_KEY]


@functools.cache
def public_names() -> frozenset[str]:
    """Return every name in an `__all__` of the package, read from its source; of the exercises only `check`."""
    modules = [path for path in (ROOT / "attention_tutorial").rglob("*.py") if path.parent.name != "exercises"]
    nodes = [node for path in modules for node in ast.parse(path.read_text(encoding="utf-8")).body]
    lists = [node.value for node in nodes if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    return frozenset({"check"}.union(*map(ast.literal_eval, lists)))


# ---- What was executed -------------------------------------------------------------------------------------------


@rule
def executed_in_order(notebook, path):
    """Every code cell was executed, once, from top to bottom: nbval compares nothing for a cell that was not."""
    for number, (where, cell) in enumerate(cells(notebook, "code"), start=1):
        if cell.execution_count is None:
            yield f"{where} was never executed, or was stripped"
        elif cell.execution_count != number:
            yield f"{where} has execution count {cell.execution_count}; top to bottom it is {number}"


@rule
def errors_where_announced(notebook, path):
    """A cell holds an error exactly if it is tagged raises-exception; nbval lets a tagged cell pass without one."""
    for where, cell in cells(notebook, "code"):
        raised = any(output.output_type == "error" for output in cell.outputs)
        if raised and "raises-exception" not in tags(cell):
            yield f"{where} holds an error but is not tagged raises-exception"
        if "raises-exception" in tags(cell) and not raised:
            yield f"{where} is tagged raises-exception but raised nothing"


LOOKS_AWAY = {"skip-execution", *nbval.plugin.metadata_tags}  # nbval's: nbval-skip, raises-exception and so on
LOOK_AWAY_COMMENT = re.compile(r"^\s*#+\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$", re.MULTILINE)


@rule
def exemptions_are_listed(notebook, path):
    """A cell that is not fully compared stands in EXEMPT_CELLS with its reason."""
    for where, cell in cells(notebook, "code"):
        for tag in sorted(tags(cell) & LOOKS_AWAY):
            if not EXEMPT_CELLS.get((path.name, cell.id)):
                yield f"{where} is tagged {tag}, but EXEMPT_CELLS has no reason for ({path.name!r}, {cell.id!r})"
        for comment in LOOK_AWAY_COMMENT.findall(cell.source):
            yield f"{where} switches nbval off in a comment ({comment}); use a tag, which is listed and counted"


@book_rule
def exemptions_outlive_no_cell(book):
    """No exemption outlives its cell."""
    exempt = {(path.name, c.id) for path, nb in book.items() for _, c in cells(nb, "code") if tags(c) & LOOKS_AWAY}
    for entry in EXEMPT_CELLS.keys() - exempt:
        yield f"EXEMPT_CELLS lists {entry}, but no such cell is tagged"


# ---- What was printed --------------------------------------------------------------------------------------------

OF_THIS_MACHINE = {
    "an absolute path": re.compile(
        r"(?<![\w./:<])/([A-Za-z][\w.-]*/[\w.-]+|home\b|root\b|tmp\b|usr\b)|\b[A-Z]:[\\/]\w|file://|(?<![\w~])~/"
    ),
    "a memory address": re.compile(r"\b0x[0-9a-fA-F]{4,}"),
}
DEVICE = re.compile(r"\b(cpu|cuda|mps)\b|device\(type=|\b(NVIDIA|GeForce|Radeon|RTX|[AHV][12]00)\b")
WIDGET_STATE = re.compile(r'data-state="[^"]*"')
RAW_REPR = re.compile(
    r"\btensor\(|Parameter containing|<(class|function|bound method)\b|<Figure\b|<Axes\b|<matplotlib\b|Text\(|\[<"
    r"|\bnp\.(float|int|bool)\w*\(|<\S+ object\b"
)


@rule
def outputs_name_no_machine(notebook, path):
    """No output depends on where it was made: no absolute path, memory address or device."""
    for where, cell in cells(notebook, "code"):
        for output in cell.outputs:
            for name, pattern in OF_THIS_MACHINE.items():
                for match in {m.group() for text in texts(output) for m in pattern.finditer(text)}:
                    yield f"{where} prints {name}: {match}"
            for match in {m.group() for text in results(output) for m in DEVICE.finditer(text)}:
                yield f"{where} prints a device's name: {match}"


@rule
def no_raw_reprs(notebook, path):
    """Values are printed on purpose: a raw repr of a tensor or a plot shows digits or text that nobody chose.

    What stands in a widget's state is left out: code that the widget shows is written there on purpose.
    """
    for where, cell in cells(notebook, "code"):
        shown = (WIDGET_STATE.sub("", text) for output in cell.outputs for text in results(output))
        for match in {m.group() for text in shown for m in RAW_REPR.finditer(text)}:
            yield f"{where} shows a raw repr: {match}"


@rule
def nothing_on_stderr(notebook, path):
    """No warnings, no progress bars, no rewritten lines: their text and timing differ from run to run."""
    for where, cell in cells(notebook, "code"):
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                yield f"{where} wrote to stderr (a warning or a progress bar?): {output.text.strip()[:80]}"
            if any("\r" in text for text in texts(output)):
                yield f"{where} rewrote a line (a carriage return is in its output)"


@rule
def small_enough(notebook, path):
    """The file stays under a megabyte."""
    size = len(nbformat.v4.writes(notebook).encode())
    if size > LARGEST_FILE:
        yield f"the file has {size:,} bytes; at most {LARGEST_FILE:,} are allowed"


# ---- The code ----------------------------------------------------------------------------------------------------

CALLS_THAT_DIFFER = {"clear_output", "get_ipython", "input", "update_display"}


@rule
def plain_python(notebook, path):
    """Cells are plain Python that does the same under nbval, which has no history and knows no display updates."""
    for where, cell in cells(notebook, "code"):
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:
            yield f"{where} is not plain Python (a % magic, a ! command or a ? ?)"
            continue
        tokens = (t for t in tokenize.generate_tokens(io.StringIO(cell.source).readline) if t.string.strip())
        code = [t.string for t in tokens if t.type != tokenize.COMMENT]
        if code[-1:] == [";"]:
            yield f"{where} ends with `;`, which hides the result in Jupyter but not under nbval; write `_ = ...`"
        for node in ast.walk(tree):
            called = isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1]
            if called in CALLS_THAT_DIFFER:
                yield f"{where} calls {called}, which behaves differently outside Jupyter"
            if isinstance(node, ast.keyword) and node.arg == "display_id":
                yield f"{where} updates a display (display_id), which nbval does not follow"


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield every name that the code defines, assigns or imports; imports from the package itself are left out."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            elsewhere = not (node.module or "").startswith("attention_tutorial")
            yield from (alias.asname or alias.name for alias in node.names if elsewhere)


@rule
def public_names_are_kept(notebook, path):
    """No cell gives a public name of the package another meaning: what is read is what is imported."""
    for where, cell in cells(notebook, "code"):
        for name in sorted(set(bound_names(parsed(cell))) & public_names()):
            yield f"{where} redefines `{name}`, which is a public name of attention_tutorial"


# ---- Figures and claims ------------------------------------------------------------------------------------------


def shows_a_number(cell: NotebookNode) -> bool:
    """Whether a cell prints or claims a number; pictures and listings of source do not count."""
    printed = (text for output in cell.outputs for text in results(output) if not has_image(output))
    return any(re.search(r"\d", text) for text in printed)


@rule
def figures_are_described(notebook, path):
    """Each figure says what it shows (alt text) and has numbers beside it: nbval does not compare pictures."""
    code = list(cells(notebook, "code"))
    for number, (where, cell) in enumerate(code):
        images = sum(map(has_image, cell.outputs))
        if not images:
            continue
        if images > 1:
            yield f"{where} draws {images} figures; one alt text can describe one"
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        if len(alt) < SHORTEST_ALT or " " not in alt.strip() or re.search(r"\.(png|svg|jpe?g|gif)\b", alt):
            yield f"{where} needs metadata mystnb.image.alt that says in words what the figure shows; got {alt!r}"
        if not any(shows_a_number(neighbour) for _, neighbour in code[max(number - 1, 0) : number + 2]):
            yield f"{where} draws a figure, but no number of it is printed or claimed there or in a cell beside it"


@rule
def letters_can_be_read_on_a_phone(notebook, path):
    """No letter of a drawing is smaller there than SMALLEST_LETTER; a cell tagged wide-figure may scroll sideways."""
    for where, cell in cells(notebook, "code"):
        screen = WIDE_FIGURE if "wide-figure" in cell.metadata.get("tags", []) else PHONE
        for output in cell.outputs:
            drawn = output.get("data", {}).get("image/svg+xml", "")
            sizes = [100 * float(scale) for scale in re.findall(r"scale\((0\.\d+) -0\.\d+\)", drawn)]
            width = float(re.search(r'viewBox="0 0 ([\d.]+)', drawn)[1]) if sizes else screen
            smallest = min(sizes, default=100) * screen / width
            if sizes and screen != PHONE and smallest * PHONE / WIDE_FIGURE >= SMALLEST_LETTER:
                yield f"{where} has letters that can be read without the tag wide-figure"
            if smallest < SMALLEST_LETTER:
                yield f"{where} has letters of {smallest:.1f} pixels; tag it wide-figure, or enlarge them"


@rule
def pictures_come_from_code(notebook, path):
    """The text embeds no picture: a figure is drawn by a cell, from data."""
    for where, cell in cells(notebook, "markdown"):
        if cell.get("attachments") or "<img" in cell.source or any(t.type == "image" for t in markdown(cell.source)):
            yield f"{where} embeds a picture; draw it in a code cell"


@rule
def claims_are_what_was_printed(notebook, path):
    """A claim's metadata, which the page of claims is made from, agrees with its text, which nbval compares."""
    for where, output, claim in claims(notebook):
        if not re.fullmatch(r"[A-Z]\d+[a-z]", claim["id"]):
            yield f"{where} has claim id {claim['id']!r}; an id is a letter, a number and a letter, as in B3a"
        if output.data["text/plain"] != repr(Claim.from_output(output)):
            yield f"{where} has a claim whose metadata differ from its text: {output.data['text/plain']}"


@book_rule
def uncompared_claims_are_few(book):
    """Digits after "≈" are not compared: how many claims have such digits is counted, and may only become fewer."""
    count = sum(not Claim.from_output(output).stable for nb in book.values() for _, output, _ in claims(nb))
    if count > MOST_UNSTABLE:
        yield f"{count} claims have digits that are not compared (stable=False); at most {MOST_UNSTABLE} are allowed"


@book_rule
def claim_ids_are_unique(book):
    """No two claims of the book share an id."""
    counts = Counter(claim["id"] for notebook in book.values() for _, _, claim in claims(notebook))
    for claim_id, count in counts.items():
        if count > 1:
            yield f"claim id {claim_id} is used {count} times"


# ---- The file ----------------------------------------------------------------------------------------------------


@rule
def metadata_is_normal(notebook, path):
    """The file holds nothing of an editor, a clock or a machine; `make notebooks` sees to it."""
    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        yield f"the format is {notebook.nbformat}.{notebook.nbformat_minor}, not 4.5"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    if "version" in notebook.metadata.get("language_info", {}):
        yield "the version of Python is stored"
    if extra := notebook.metadata.keys() - {"kernelspec", "language_info"}:
        yield f"the notebook has extra metadata: {', '.join(sorted(extra))}"
    ids = Counter(cell.get("id", "") for cell in notebook.cells)
    for cell_id, count in ids.items():
        if count > 1 or not tool.VALID_CELL_ID.fullmatch(cell_id):
            yield f"cell id {cell_id!r} is missing, invalid or used {count} times"
    for cell in notebook.cells:
        if extra := cell.metadata.keys() - {*tool.KEPT_CELL_METADATA, *folds.METADATA}:
            yield f"cell {cell.get('id')} has extra metadata: {', '.join(sorted(extra))}"


@rule
def folds_are_the_same_live(notebook, path):
    """Live front ends fold what the site folds, under a title; `make notebooks` sees to it."""
    for where, cell in cells(notebook, "code"):
        folded = copy.deepcopy(cell)
        folds.fold(folded)
        if folded != cell:
            yield f"{where} is not folded live as its tags say"


# ---- The text ----------------------------------------------------------------------------------------------------


@rule
def headings_in_order(notebook, path):
    """One title, at the top; no level is skipped on the way down."""
    levels = [level for level, _ in headings(notebook)]
    if levels[:1] != [1] or levels.count(1) != 1:
        yield f"a chapter begins with its only level-1 heading; the levels are {levels}"
    for (above, _), (level, text) in itertools.pairwise(headings(notebook)):
        if level > above + 1:
            yield f"heading {text!r} jumps from level {above} to level {level}"


MYST_ONLY = {
    "a directive": re.compile(r"^\s*(`{3,}|~{3,})\s*\{[\w:-]+\}|^\s*:{3,}", re.MULTILINE),
    "a role": re.compile(r"\{[\w:.-]+\}`[^`\n]+`"),
    "a label": re.compile(r"^\([\w-]+\)=\s*$", re.MULTILINE),
    "a substitution": re.compile(r"\{\{.*?\}\}"),
    "a footnote": re.compile(r"\[\^[\w-]+\]"),
    "a block break or comment": re.compile(r"^(\+\+\+|% )", re.MULTILINE),
    "a link without text": re.compile(r"(?<!!)\[\]\("),
}


@rule
def renders_everywhere(notebook, path):
    """The text is CommonMark with $math$: what only MyST knows shows as raw text in Jupyter and Colab."""
    for where, cell in cells(notebook, "markdown"):
        without_math = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", "MATH", cell.source, flags=re.DOTALL)
        for name, pattern in MYST_ONLY.items():
            if match := pattern.search(without_math):
                yield f"{where} has {name}, which only MyST renders: {match.group().strip()}"


@rule
def folds_are_closed(notebook, path):
    """`<details>` is balanced in its cell and set off by blank lines, or its markdown stays raw."""
    for where, cell in cells(notebook, "markdown"):
        source = cell.source
        if source.count("<details") != source.count("</details>"):
            yield f"{where} opens {source.count('<details')} folds and closes {source.count('</details>')}"
        lines = ["", *(line.strip() for line in source.splitlines()), ""]
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
            if "<details" in line and (before or not re.fullmatch(r"<details>(<summary>.+</summary>)?", line)):
                yield f"{where}: write `<details><summary>...</summary>` on a line of its own, after a blank line"
            if "</summary>" in line and after:
                yield f"{where}: a blank line is needed after the summary ({line})"
            if "</details>" in line and (before or after or line != "</details>"):
                yield f"{where}: `</details>` needs a line of its own, with a blank line before and after it"


@rule
def links_resolve(notebook, path):
    """Links to other pages are relative and lead to files that exist."""
    for where, target in links(notebook):
        file = target.split("#")[0]
        if re.match(r"[a-z]+:", target) or not file:
            continue  # the web, or a heading of this page
        if file.startswith("/") or not (path.parent / file).is_file():
            yield f"{where} links to {target}, which is no file relative to the notebook"


@rule
def papers_are_in_the_bibliography(notebook, path):
    """Every paper that is linked stands in references.bib, so that the page of references is complete."""
    file = path.parent.parent / "book" / "references.bib"
    bibliography = file.read_text(encoding="utf-8").lower() if file.is_file() else ""
    for where, target in links(notebook):
        paper = re.search(r"arxiv\.org/(?:abs|pdf|html)/([\w./-]+?)(?:v\d+)?(?:\.pdf)?(?:#.*)?$", target)
        paper = paper or re.search(r"doi\.org/(10\.[^#?]+)", target)
        if paper and not re.search(rf"(?<![\w.]){re.escape(paper.group(1).lower())}(?![\w/]|\.\d)", bibliography):
            yield f"{where} links to {target}, which is not in book/references.bib"


OPENING = {r"you will learn|\?": "you will learn, or a question", "you need": "you need", r"\d+ minutes": "NN minutes"}
SECTIONS = ["exercises", "questions", "common mistakes", "summary", "further reading"]


def is_primer(page: str) -> bool:
    """Tell whether a notebook is the primer, chapter 0, which those who know what it teaches skip."""
    return chapter_of(page) == 0 and not is_deep(page)


def opening_of(notebook: NotebookNode) -> str:
    """Return the text before the first code cell."""
    text = itertools.takewhile(lambda cell: cell.cell_type == "markdown", notebook.cells)
    return "\n".join(cell.source for cell in text)


@rule
def has_every_section(notebook, path):
    """A chapter says first what it asks or teaches, needs and takes, and ends with the sections a reader looks for."""
    opening = opening_of(notebook).lower()
    for phrase, words in OPENING.items():
        if not re.search(phrase, opening):
            yield f"the text before the first code cell does not say {words!r}"
    sections = " / ".join(text.lower() for level, text in headings(notebook) if level == 2)
    wanted = SECTIONS[is_primer(path.stem) :] if not is_deep(path.stem) else ["summary"]  # a primer has no exercises
    for section in wanted:
        if section not in sections:
            yield f"there is no level-2 heading with {section!r}"


EXERCISE = re.compile(r"Exercise (\d+\.\d+) ★{1,3} \S.* \(\d+ min\)")
MOST_FINDINGS = 3


@rule
def findings_are_few(notebook, path):
    """At most three claims stay in sight on the page; the others fold."""
    findings = [claim.id for claim in Claim.stored_in(notebook) if claim.finding]
    if len(findings) > MOST_FINDINGS:
        yield f"there are {len(findings)} findings, {', '.join(findings)}; at most {MOST_FINDINGS} are wanted"


@rule
def summary_says_what_one_can_do(notebook, path):
    """A chapter's summary ends with what a reader can do now."""
    source = "\n".join(cell.source for _, cell in cells(notebook, "markdown"))
    summary = re.search(r"^## Summary$(.*?)(?=^## |\Z)", source, re.MULTILINE | re.DOTALL)
    if summary and not is_deep(path.stem) and "**You can now**" not in summary[1].strip().rpartition("\n\n")[2]:
        yield "the summary does not end with a paragraph that begins with **You can now**"


@rule
def exercises_can_be_solved(notebook, path):
    """Each exercise has its number, its difficulty, a hint, a solution, and after it a cell that calls its check."""
    for cell, after in itertools.pairwise([*notebook.cells, new_code_cell()]):
        for heading in re.findall(r"^### (Exercise\b.*)$", cell.source, re.MULTILINE):
            if cell.cell_type != "markdown":
                continue
            named = EXERCISE.fullmatch(heading)
            if not named:
                yield f"heading {heading!r} should read 'Exercise N.M ★ Title (10 min)', with one to three stars"
                continue
            number = named[1]
            for fold in ("Hint", "Solution"):
                if f"<summary>{fold}</summary>" not in cell.source:
                    yield f"exercise {number} has no folded {fold.lower()}"
            if "exercise" not in tags(after) or not re.search(r'^check\("\w+", ', after.source, re.MULTILINE):
                yield f'the cell after exercise {number} is not tagged exercise, or lacks check("its_name", ...)'


TURN = re.compile(r"^(?:> )?\*\*Your turn", re.MULTILINE)


@rule
def turns_can_be_taken(notebook, path):
    """After each *Your turn* come a cell to fill in, which calls its check, and a folded answer of ours that passes."""
    after = [*notebook.cells, new_code_cell(), new_code_cell()]
    for cell, blank, answer in zip(after, after[1:], after[2:], strict=False):
        if "turn" in tags(blank) and not (cell.cell_type == "markdown" and TURN.search(cell.source)):
            yield f"the text before cell {blank.id} does not begin a paragraph with **Your turn"
        if cell.cell_type != "markdown" or not TURN.search(cell.source):
            continue
        name = re.search(r'^check\("(\w+)", ', blank.source, re.MULTILINE)
        if "turn" not in tags(blank) or not name or "..." not in blank.source:
            yield f'the cell after {cell.id} is not tagged turn, or lacks the dots or check("its_name", ...)'
        elif not {"answer", "hide-cell"} <= tags(answer):
            yield f"the answer of {name[1]} is not tagged answer and hide-cell"
        elif [output.get("data", {}).get("text/plain") for output in answer.outputs] != [
            repr(Verdict(name[1], None, ours=True))
        ]:
            yield f"the answer of {name[1]} does not say with `ours=True` that it is right, and that alone"


@book_rule
def exercises_are_numbered(book):
    """An exercise keeps its number wherever it stands; over the book each chapter's numbers run from 1, each once.

    A chapter has a number of exercises, its deep notebooks included; a primer has turns.
    """
    sources = [cell.source for notebook in book.values() for _, cell in cells(notebook, "markdown")]
    written = re.findall(r"^### Exercise (\d+)\.(\d+)\b", "\n\n".join(sources), re.MULTILINE)
    for chapter in {chapter_of(path.stem) for path in book}:
        numbers = sorted(int(number) for of, number in written if int(of) == chapter)
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"the exercises of chapter {chapter} are numbered {numbers}"
        primer = next((notebook for path, notebook in book.items() if chapter == 0 and is_primer(path.stem)), None)
        if primer is not None:
            turns = sum("turn" in tags(cell) for cell in primer.cells)
            if turns < FEWEST_TURNS_OF_A_PRIMER:
                yield f"the primer has {turns} turns; at least {FEWEST_TURNS_OF_A_PRIMER} are wanted"
        elif len(numbers) < FEWEST_EXERCISES:
            yield f"chapter {chapter} has {len(numbers)} exercises; at least {FEWEST_EXERCISES} are wanted"


@book_rule
def depths_lead_to_each_other(book):
    """The opening of a chapter names its deep notebooks, and that of a deep one leads back, by links."""
    for path, notebook in book.items():
        if not is_deep(path.stem):
            continue
        (main,) = [
            candidate
            for candidate in book
            if chapter_of(candidate.stem) == chapter_of(path.stem) and not is_deep(candidate.stem)
        ]
        for opening, of, other in ((main, book[main], path), (path, notebook, main)):
            if f"]({other.name})" not in opening_of(of):
                yield f"{opening.name}: the text before its first code cell has no link to {other.name}"


@rule
def questions_are_answered(notebook, path):
    """Each question is numbered, offers at least two options, and has an answer folded away."""
    source = "\n".join(cell.source for _, cell in cells(notebook, "markdown"))
    section = re.search(r"^## Questions$(.*?)(?=^## |\Z)", source, re.MULTILINE | re.DOTALL)
    questions = re.split(r"^(?=\*\*\d+\. )", section.group(1) if section else "", flags=re.MULTILINE)[1:]
    for number, question in enumerate(questions, start=1):
        if not question.startswith(f"**{number}. "):
            yield f"question {number} is numbered otherwise: {question[:40]!r}"
        asked, _, answer = question.partition("<details><summary>Answer</summary>")
        if not ("(a)" in asked and "(b)" in asked):
            yield f"question {number} offers no options (a), (b)"
        if not answer.strip().removesuffix("</details>").strip():
            yield f"question {number} has no folded answer"
    fewest = FEWEST_QUESTIONS_OF_A_PRIMER if is_primer(path.stem) else FEWEST_QUESTIONS
    if len(questions) < fewest and not is_deep(path.stem):
        yield f"there are {len(questions)} questions; at least {fewest} are wanted"


# ---- The rules for nbval's sanitising file -----------------------------------------------------------------------


def sanitising_faults(config: str, loaded: list[tuple[str, str]], stored: list[str]) -> Findings:
    """Find rules that nbval drops or that match nothing.

    Args:
        config: the text of the file.
        loaded: the (regex, replacement) pairs that nbval makes of it.
        stored: every text that is stored in the book.
    """
    regexes, replacements = (len(re.findall(rf"^{key}:", config, re.MULTILINE)) for key in ("regex", "replace"))
    if not regexes == replacements == len(loaded):
        yield f"{regexes} regex lines and {replacements} replace lines, of which nbval loads {len(loaded)} rules"
    if len(dict(loaded)) != len(loaded):
        yield "two rules have the same regex; nbval keeps the last"
    for regex, replacement in loaded:
        if not replacement:
            yield f"the rule {regex!r} has no replacement; an editor that strips blanks would disable it"
        if not any(re.search(regex, text) for text in stored):
            yield f"the rule {regex!r} matches nothing that is stored in the book; remove it"
