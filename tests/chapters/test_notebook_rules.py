"""The rules of notebook_rules.py: every stored notebook keeps them, and each is seen to find the faults it is for."""

import copy
import functools
import re

import nbformat
import nbval.plugin
import notebook_rules as R
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebook_rules import BOOK, BOOK_RULES, CHAPTERS, EXEMPT_CELLS, RULES, cells, tags

from attention_tutorial.notebook.claims import Claim, Kind
from tools import folds
from tools.book import ROOT
from tools.execution import normalise, render
from tools.notebooks import figures

every = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def test_there_are_chapters():
    stored = {path for path in (ROOT / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts}
    assert stored == set(CHAPTERS) != set(), "nbval and `make notebooks` look in one folder"


@every
def test_a_chapter_keeps_every_rule(path):
    findings = [f"{rule.__name__}: {finding}" for rule in RULES for finding in rule(BOOK[path], path)]
    assert not findings, f"{path.name}:\n" + "\n".join(findings)


def test_the_book_keeps_every_rule():
    findings = [f"{rule.__name__}: {finding}" for rule in BOOK_RULES for finding in rule(BOOK)]
    assert not findings, "\n".join(findings)
    assert all(len(reason) > 10 for reason in EXEMPT_CELLS.values())


@every
def test_the_first_code_of_a_chapter_sets_the_session_up(path):
    _, first = next(cells(BOOK[path], "code"))
    assert re.search(r"\bsetup\(\)", first.source) and "setup" in tags(first), "call setup() there, and tag it setup"


def test_named_figures_are_the_stored_ones():
    named = [item for notebook in BOOK.values() for item in figures(notebook).items()]
    assert len(dict(named)) == len(named), "a name is used twice"
    for name, picture in named:
        file = ROOT / "book" / "images" / f"{name}.svg"
        assert file.is_file() and file.read_bytes() == picture, f"{file.name} is not up to date: run `make notebooks`"


@every
def test_stored_notebook_is_as_make_notebooks_writes_it(path):
    assert path.read_text(encoding="utf-8") == render(normalise(copy.deepcopy(BOOK[path]))), "run `make notebooks`"


# ---- A book without fault: a primer, a chapter and a deep notebook -------------------------------------------------


def printed(text):
    return new_output("stream", name="stdout", text=text)


def shown(text, **data):
    return new_output("display_data", data={"text/plain": text, **data})


def measured(claim_id="B3a", stable=True, finding=False):
    claim = Claim(claim_id, "It is small", "at most 0.5", "0.38", Kind.BOUND, stable, finding=finding)
    about = {"attention_tutorial_claim": vars(claim)}
    return new_output("display_data", data={"text/plain": repr(claim)}, metadata=about)


RAISED = new_output("error", ename="ValueError", evalue="no", traceback=["ValueError: no"])
PICTURE = shown("<Figure size 300x200 with 1 Axes>", **{"image/png": "iVBORw0KGgo=\n"})


def drawn(size, width):
    """A figure with one letter, `size` points high, on a drawing `width` points wide."""
    letter = f'<g transform="translate(1 2) scale({size / 100} -{size / 100})"><use xlink:href="#a"/></g>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 200">{letter}</svg>'
    return shown("<Figure size 300x200 with 1 Axes>", **{"image/png": "iVBORw0KGgo=\n", "image/svg+xml": svg})


ALT = {"mystnb": {"image": {"alt": "Accuracy falls as the sequence grows."}}}

OPENING = """# 1. A chapter

You will learn one thing. You need nothing. It takes 20 minutes. Deeper: [1a](01a_deep.ipynb).

$$
\\mathbf{x}_{[i]}(t) = {{a}}
$$

> **Key point.** See the [notation](../book/notation.md#symbols), [part two](#part-two)
> and [the paper](https://arxiv.org/abs/1409.0473v7)."""
DEEP = "# 1a. Below\n\nHow deep? You need [chapter 1](01_chapter.ipynb), and 20 minutes."
EXERCISE = """### Exercise 1.{} ★★ Do it (5 min)

<details><summary>Hint</summary>

Think of $a \\lvert b$.

</details>

<details><summary>Solution</summary>

It is 1.

</details>"""
QUESTION = """**{}. Is it so?** (a) yes; (b) no.

<details><summary>Answer</summary>

(a). Not (b): it is.

</details>
"""
ENDING = """## Common mistakes

**3. Not a question.** It has no options.

## Summary

Done.

**You can now** stop.

## Further reading

[It](https://doi.org/10.1000/182)"""


def questions(count):
    return "\n".join(["## Questions\n", *(QUESTION.format(number) for number in range(1, count + 1))])


def exercise(number):
    blank = new_code_cell(f'mine = ...\n\ncheck("number_{number}", mine)', metadata={"tags": ["exercise"]})
    return [new_markdown_cell(EXERCISE.format(number)), blank]


def turn(number):
    name = f"turn_{number}"
    blank = new_code_cell(f'x = ...\n\ncheck("{name}", x)', metadata={"tags": ["turn"]})
    answer = new_code_cell(f'x = 1\n\ncheck("{name}", x, ours=True)', metadata={"tags": ["answer", "hide-cell"]})
    blank.outputs = [shown(f"{name}: not filled in yet.")]
    answer.outputs = [shown(f"{name}: the book's answer is right.")]
    return [new_markdown_cell(f"**Your turn.** Is it {number}?"), blank, answer]


def code_cells():
    """Return the cells: setup, figure, numbers, claim, listing, widget, and one that raises."""
    made = [
        ("# %time; NBVAL_SKIP and more\nfrom attention_tutorial import causal_mask as mask", []),
        ("ax = heatmap_of(mask(3))", [PICTURE]),
        ("### Exercise 1.7 is a comment\nprint('accuracy', 0.38)", [printed("accuracy 0.38\n")]),
        ("claim('B3a', 'It is small', 0.38, at_most=0.5)", [measured()]),
        ("show_source(mask)", [shown("torch.tensor(1, device='cpu')", **{"text/markdown": "```\ntensor(1, 'cpu')"})]),
        ("MaskBuilder()", [shown("MaskBuilder()", **{"text/html": '<div data-state="torch.tensor(1)"></div>'})]),
        ("fails()", [RAISED]),
    ]
    cells = [new_code_cell(source, outputs=copy.deepcopy(outputs)) for source, outputs in made]
    cells[1].metadata = {**copy.deepcopy(ALT), "tags": ["hide-input"], "attention_tutorial": {"figure": "mask"}}
    cells[6].metadata.tags = ["raises-exception"]
    return cells


def counted(notebook):
    """Number the code cells of a notebook as if it had been executed."""
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
    return notebook


@functools.cache
def made():
    """Make the notebooks of the book, by name."""
    setup, figure, numbers, *others = code_cells()
    exercises = [cell for number in range(1, 6) for cell in exercise(number)]
    turns = [cell for number in range(1, 5) for cell in turn(number)]
    text = new_markdown_cell
    parts = {
        "00_primer": [text(OPENING), *code_cells()[:3], *turns, text(questions(3)), text(ENDING)],
        "01_chapter": [text(OPENING), setup, figure, numbers, text("## Part two\n\nWords."), *others,
                       text("## Exercises"), *exercises, text(questions(6)), text(ENDING)],
        "01a_deep": [text(DEEP), *code_cells()[:3], text("## Summary\n\nSo.")],
    }  # fmt: skip
    return {name: normalise(counted(new_notebook(cells=cells))) for name, cells in parts.items()}


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Return notebooks that keep every rule, as {path: notebook}."""
    notebooks = {tmp_path / "notebooks" / f"{name}.ipynb": copy.deepcopy(nb) for name, nb in made().items()}
    for path in (tmp_path / "book" / "notation.md", *notebooks):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "book" / "references.bib").write_text("@misc{a, eprint = {1409.0473}}\n@misc{b, doi = {10.1000/182}}")
    listed = {("01_chapter.ipynb", cell_of(made()["01_chapter"], "fails()").id): "the lesson is the error"}
    monkeypatch.setattr(R, "EXEMPT_CELLS", listed)
    monkeypatch.setattr(R, "MOST_UNSTABLE", 0)
    return notebooks


def findings_in(book):
    """Return what each rule finds."""
    found = {rule: [finding for path, nb in book.items() for finding in rule(nb, path)] for rule in RULES}
    return found | {rule: list(rule(book)) for rule in BOOK_RULES}


def test_a_book_without_fault_passes(book):
    for notebook in book.values():
        nbformat.validate(notebook)
    assert not any(findings_in(book).values())


# ---- Faults planted in it ------------------------------------------------------------------------------------------


def cell_of(notebook, words):
    return next(cell for cell in notebook.cells if words in cell.source)


def edit(words, new, old=None):
    """Put new words in place of these (or, in the cell that has these, of others)."""

    def spoil(notebook):
        cell = cell_of(notebook, words)
        cell.source = cell.source.replace(old or words, new)

    return spoil


def put(words, **values):
    return lambda notebook: cell_of(notebook, words).update(copy.deepcopy(values))


def gives(*outputs):
    return put("MaskBuilder()", outputs=list(outputs))


def prints(text):
    return put("print(", outputs=[printed(f"1 {text}\n")])


def runs(source):
    return put("# %time", source=source)


def says(words):
    return edit("Words.", words)


def live(words, **metadata):
    """Change what live front ends read of a cell; None takes it away."""

    def spoil(notebook):
        cell = cell_of(notebook, words)
        cell.metadata = {key: value for key, value in (cell.metadata | metadata).items() if value is not None}

    return spoil


def tagged(tag):
    return put("MaskBuilder()", metadata={"tags": [tag]})


def described(alt):
    return put("heatmap_of", metadata={"mystnb": {"image": {"alt": alt}}})


def claims(**values):
    """Make the claim's metadata other than its text."""
    return lambda nb: cell_of(nb, "claim(").outputs[0].metadata.attention_tutorial_claim.update(values)


def moves(words, place=None):
    """Move a cell to another place, the end if none is given."""

    def spoil(notebook):
        cell = cell_of(notebook, words)
        notebook.cells.remove(cell)
        notebook.cells.insert(len(notebook.cells) if place is None else place, cell)
        counted(notebook)

    return spoil


def drops(*words):
    def spoil(notebook):
        notebook.cells = [cell for cell in notebook.cells if not any(word in cell.source for word in words)]
        counted(notebook)

    return spoil


def both(*spoils):
    return lambda notebook: [spoil(notebook) for spoil in spoils]


PRIMER, DEEPER = "00_primer", "01a_deep"  # where a fault is planted, if not in the chapter
LOOKS_AWAY = sorted({"skip-execution", *nbval.plugin.metadata_tags} - {"raises-exception"})
FAULTS = [
    (R.executed_in_order, "never executed", put("MaskBuilder()", execution_count=None)),
    (R.executed_in_order, "has execution count 9; top to bottom it is 2", put("heatmap_of", execution_count=9)),
    (R.errors_where_announced, "not tagged", gives(RAISED)),
    (R.errors_where_announced, "raised nothing", put("fails()", outputs=[])),
    *[(R.exemptions_are_listed, f"tagged {tag}", tagged(tag)) for tag in LOOKS_AWAY],
    *[(R.exemptions_are_listed, comment, runs(f"1\n  ## {comment}")) for comment in (
      "NBVAL_IGNORE_OUTPUT", "PYTEST_VALIDATE_IGNORE_OUTPUT")],
    (R.exemptions_outlive_no_cell, "no such cell is tagged", put("fails()", metadata={}, outputs=[])),
    *[(R.outputs_name_no_machine, "an absolute path", prints(path)) for path in (
      "/home/me/x.py", "in /tmp", "'/usr/lib'", "C:\\x", "~/a.py", "/data/run/1", "file://x")],
    *[(R.outputs_name_no_machine, "a device's name", prints(name)) for name in (
      "on cuda:0", "cpu", "a GeForce", "an A100 GPU", "device(type=)")],
    (R.outputs_name_no_machine, "a memory address: 0x7f3a", gives(shown("f 0x7f3a21"))),
    (R.outputs_name_no_machine, "a memory address", put("fails()", outputs=[new_output("error", evalue="0x7f3a21")])),
    *[(R.no_raw_reprs, "a raw repr", prints(raw)) for raw in (
      "tensor([1.])", "Parameter containing:", "<Axes: >", "Text(0.5, 1.0, 'a')", "[<wedge>]", "np.float64(0.5)",
      "<function f>", "<bound method A.f of 1>", "<__main__.A object>")],
    (R.no_raw_reprs, "<Figure", gives(shown("<Figure size 300x200 with 1 Axes>"))),
    (R.nothing_on_stderr, "wrote to stderr", gives(new_output("stream", name="stderr", text="100%|##|"))),
    (R.nothing_on_stderr, "rewrote a line", prints("10%\r20%")),
    (R.small_enough, "at most 1,000,000", gives(printed("1 " * 600_000))),
    *[(R.plain_python, why, runs(source)) for why, source in (
      ("not plain Python", "%matplotlib inline"), ("not plain Python", "!ls"), ("not plain Python", "len?"),
      ("ends with `;`", "a = 1\na;  # nothing shown\n"), ("calls clear_output", "display.clear_output()"),
      ("calls get_ipython", "get_ipython().run_line_magic('time', '1')"),
      ("display_id", "display(1, display_id='a')"))],
    *[(R.public_names_are_kept, "redefines `causal_mask`", runs(source)) for source in (
      "def causal_mask(m): ...", "class causal_mask: ...", "first, (causal_mask, *_) = 1, (2, 3)",
      "import numpy as causal_mask", "from elsewhere import mask as causal_mask",
      "if True:\n    def causal_mask(): ...")],
    (R.public_names_are_kept, "redefines `show_source`", runs("show_source = print")),  # a module's own public name
    (R.figures_are_described, "mystnb.image.alt", put("heatmap_of", metadata={})),
    *[(R.figures_are_described, "mystnb.image.alt", described(alt)) for alt in (
      "", "_images/a-very-long-name-of-a-file.png", "accuracy-by-length-and-model", "A figure")],
    (R.figures_are_described, "draws 2 figures", put("heatmap_of", outputs=[PICTURE, PICTURE])),
    (R.figures_are_described, "no number of it", put("print(", outputs=[])),
    (R.figures_are_described, "no number of it", put("print(", outputs=[shown("1", **{"text/markdown": "```\n1"})])),
    (R.letters_can_be_read_on_a_phone, "letters of 5.0 pixels", put("heatmap_of", outputs=[drawn(12, 936)])),
    (R.letters_can_be_read_on_a_phone, "letters of 4.7 pixels",
     put("heatmap_of", outputs=[drawn(9, 974)], metadata={**ALT, "tags": ["wide-figure"]})),
    (R.letters_can_be_read_on_a_phone, "without the tag",
     put("heatmap_of", outputs=[drawn(9, 500)], metadata={**ALT, "tags": ["wide-figure"]})),
    (R.pictures_come_from_code, "embeds a picture", says("![A map](../book/notation.md)")),
    (R.pictures_come_from_code, "embeds a picture", says("<img src='a.png'>")),
    (R.pictures_come_from_code, "embeds a picture", put("Words.", attachments={"a.png": {}})),
    *[(R.claims_are_what_was_printed, "an id is a letter", put("claim(", outputs=[measured(id)])) for id in (
      "B3", "b3a", "B3ab")],
    (R.claims_are_what_was_printed, "metadata differ", claims(predicted="at most 0.9")),
    (R.uncompared_claims_are_few, "1 claims have digits", put("claim(", outputs=[measured(stable=False)])),
    (R.claim_ids_are_unique, "claim id B3a is used 2 times", put("MaskBuilder()", outputs=[measured()])),
    (R.metadata_is_normal, "the format is 4.4", lambda nb: nb.update(nbformat_minor=4)),
    (R.metadata_is_normal, "not python3", lambda nb: nb.metadata.kernelspec.update(name="venv")),
    (R.metadata_is_normal, "version of Python", lambda nb: nb.metadata.language_info.update(version="3.12.1")),
    (R.metadata_is_normal, "extra metadata: widgets", lambda nb: nb.metadata.update(widgets={})),
    (R.metadata_is_normal, "used 2 times", lambda nb: nb.cells[1].update(id=nb.cells[0].id)),
    (R.metadata_is_normal, "cell id 'a b'", lambda nb: nb.cells[0].update(id="a b")),
    (R.metadata_is_normal, "extra metadata: execution", put("# %time", metadata={"execution": {"now": 1}})),
    *[(R.folds_are_the_same_live, "not folded live", spoil, PRIMER) for spoil in (
      *(live("heatmap_of", **{name: None}) for name in ("jupyter", "cellView", "_kg_hide-input", "is_code_hidden")),
      *(live("x = 1", **{name: None}) for name in ("collapsed", "_kg_hide-output", "is_output_hidden")),
      live("x = 1", jupyter={"source_hidden": True}), live("# %time", cellView="form"),
      live("# %time", jupyter={"outputs_hidden": False}), live("heatmap_of", tags=["setup"]),
      edit("# @title Draw the figure\n", ""), edit("# @title Draw the figure", "# @title Answer"),
      edit("# %time", "# @title Draw the figure\n# %time"))],
    (R.headings_in_order, "only level-1 heading", says("Another title\n=====")),
    (R.headings_in_order, "only level-1 heading", moves("## Part two", 0)),
    (R.headings_in_order, "from level 2 to level 4", says("#### Too deep")),
    *[(R.renders_everywhere, fault, says(words)) for fault, words in (
      ("a directive", "```{note}\nHello\n```"), ("a directive", ":::{tip}\nHello\n:::"), ("a role", "see {doc}`intro`"),
      ("a label", "(here)=\n### Here"), ("a substitution", "version {{ version }}"), ("a footnote", "so[^1]"),
      ("a block break or comment", "% for the editor"), ("a link without text", "[](../book/notation.md)"))],
    *[(R.folds_are_closed, why, says(words)) for why, words in (
      ("opens 1 folds and closes 0", "<details><summary>Hint</summary>\n\nThink.\n"),
      ("blank line is needed after the summary", "<details><summary>Hint</summary>\nThink.\n\n</details>"),
      ("on a line of its own", "<details><summary>Hint</summary> Think.\n\n</details>"),
      ("on a line of its own", "Text\n<details><summary>Hint</summary>\n\nThink.\n\n</details>"),
      ("blank line before and after", "<details><summary>Hint</summary>\n\nThink.\n\n</details>\nText"),
      ("needs a line of its own", "<details><summary>Hint</summary>\n\nThink. </details>"))],
    *[(R.links_resolve, f"links to {target}", says(f"[a]({target})")) for target in (
      "../book/no.md", "/book/notation.md", "../book")],
    *[(R.papers_are_in_the_bibliography, "not in book/references.bib", says(f"[a paper]({link})")) for link in (
      "https://arxiv.org/abs/1409.0474", "https://arxiv.org/pdf/1409.04731v1.pdf", "http://www.arxiv.org/abs/409.0473",
      "https://doi.org/10.1000/18", "https://dx.doi.org/10.1000/182.3")],
    *[(R.has_every_section, why, spoil) for why, spoil in (
      ("you will learn", edit("You will learn", "")), ("nn minutes", edit("20 minutes", "")),
      ("you need", both(edit("You need nothing.", ""), says("You need nothing."))),
      ("exercises", edit("## Exercises", "## Tasks")), ("summary", edit("## Summary", "### Summary")))],
    (R.has_every_section, "common mistakes", edit("## Common mistakes", "## Mistakes"), PRIMER),
    (R.has_every_section, "summary", edit("## Summary", "## So"), DEEPER),
    *[(R.exercises_can_be_solved, why, spoil) for why, spoil in (
      ("'Exercise 1.1 Do it (5 min)' should read 'Exercise N.M ★ Title (10 min)'", edit("1.1 ★★", "1.1")),
      ("should read 'Exercise N.M ★ Title (10 min)'", edit("1.1 ★★", "1.1 ★★★★")),
      ("should read 'Exercise N.M ★ Title (10 min)'", edit("Exercise 1.1", "", " (5 min)")),
      ("cell after exercise 1.5", moves("Exercise 1.5")),
      ("exercise 1.1 has no folded hint", edit("1.1", "", "<summary>Hint</summary>")),
      ("exercise 1.5 has no folded solution", edit("1.5", "", "<summary>Solution</summary>")),
      ("cell after exercise 1.2", edit('check("number_2"', "check(mine")),
      ("cell after exercise 1.1", put('check("number_1"', metadata={})))],
    (R.findings_are_few, "4 findings, B3a, B3b, B3c, B3d; at most 3",
     put("claim('B3a'", outputs=[measured(f"B3{letter}", finding=True) for letter in "abcd"])),
    *[(R.summary_says_what_one_can_do, "begins with **You can now**", spoil) for spoil in (
      edit("**You can now** stop.", "Stop now."), edit("Done.", "Then go.", "**You can now** stop.\n"))],
    (R.exercises_are_numbered, "numbered [1, 2, 4, 5, 5]", edit("Exercise 1.3", "Exercise 1.5")),
    (R.exercises_are_numbered, "chapter 1 has 4 exercises; at least 5", drops("Exercise 1.5", "number_5")),
    (R.exercises_are_numbered, "the primer has 3 turns; at least 4", drops("Is it 4?", "turn_4"), PRIMER),
    *[(R.turns_can_be_taken, why, spoil, PRIMER) for why, spoil in (
      ("does not begin a paragraph with **Your turn", edit("**Your turn.** Is it 1?", "Is it your turn?")),
      ("is not tagged turn", put('...\n\ncheck("turn_1"', metadata={})),
      ("lacks the dots", edit('x = ...\n\ncheck("turn_1"', 'x = 0\n\ncheck("turn_1"')),
      ("the answer of turn_1 is not tagged", put('x = 1\n\ncheck("turn_1"', metadata={"tags": ["answer"]})),
      ("the answer of turn_1 does not say", put('x = 1\n\ncheck("turn_1"', outputs=[shown("turn_1: right.")])))],
    *[(R.questions_are_answered, why, spoil) for why, spoil in (
      ("question 1 is numbered otherwise", edit(QUESTION.format(1), "")),
      ("question 1 offers no options", edit("(b) no", "")),
      ("question 1 has no folded answer", edit("(a). Not (b): it is.", "")),
      ("there are 5 questions; at least 6", edit(QUESTION.format(6), "")))],
    (R.questions_are_answered, "there are 2 questions; at least 3", edit(QUESTION.format(3), ""), PRIMER),
    (R.depths_lead_to_each_other, "01_chapter.ipynb: ", edit("(01a_deep.ipynb)", "(#part-two)")),
    (R.depths_lead_to_each_other, "01a_deep.ipynb: ", edit("(01_chapter.ipynb)", "(#part-two)"), DEEPER),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "expected", "spoil", "page"),
    [pytest.param(*fault, *["01_chapter"][len(fault) - 3 :], id=f"{fault[0].__name__}-{number}")
     for number, fault in enumerate(FAULTS)],
)  # fmt: skip
def test_planted_fault_is_found_by_its_rule_alone(book, rule, expected, spoil, page):
    notebook = next(notebook for path, notebook in book.items() if path.stem == page)
    spoil(notebook)
    for cell in notebook.cells if rule is not R.folds_are_the_same_live else ():
        if cell.cell_type == "code":
            folds.fold(cell)
    findings = findings_in(book)
    assert expected.lower() in " / ".join(findings.pop(rule)).lower()
    others = [findings[other] for other in (RULES if rule in RULES else BOOK_RULES) if other in findings]
    assert not any(others), "another rule found something too"


def test_every_rule_has_a_planted_fault():
    assert {fault[0] for fault in FAULTS} == {*RULES, *BOOK_RULES}


def test_a_figure_may_come_before_its_numbers(book):
    notebook = next(notebook for path, notebook in book.items() if path.stem == "01_chapter")
    put("heatmap_of", outputs=[])(notebook)
    put("print(", outputs=[PICTURE], metadata=ALT)(notebook)  # a claim follows
    assert not any(findings_in(book).values())


def test_an_exercise_may_stand_in_a_deep_notebook(book):
    _, chapter, deep = book.values()
    deep.cells += [cell_of(chapter, "Exercise 1.3"), cell_of(chapter, "number_3")]
    drops("Exercise 1.3", "number_3")(chapter)
    counted(deep)
    assert not any(findings_in(book).values())
