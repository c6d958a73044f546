"""The rules of notebook_rules.py: every stored notebook keeps them, and each is seen to find the fault it is for."""

import copy
import re

import nbformat
import nbval.plugin
import notebook_rules
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebook_rules import BOOK, BOOK_RULES, CHAPTERS, EXEMPT_CELLS, RULES, cells, tags

from attention_tutorial.notebook.claims import Claim, Kind
from tools import colab
from tools import notebooks as tool
from tools.book import ROOT


def test_there_are_chapters():
    assert CHAPTERS
    stored = {path for path in (ROOT / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts}
    assert stored == set(CHAPTERS), "nbval and `make notebooks` look in one folder"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_keeps_every_rule(path):
    findings = [f"{rule.__name__}: {finding}" for rule in RULES for finding in rule(BOOK[path], path)]
    assert not findings, f"{path.name}:\n" + "\n".join(findings)


def test_the_book_keeps_every_rule():
    findings = [f"{rule.__name__}: {finding}" for rule in BOOK_RULES for finding in rule(BOOK)]
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_first_code_of_a_chapter_sets_the_session_up(path):
    first = next(cell for _, cell in cells(BOOK[path], "code") if cell.id != colab.INSTALL)
    assert re.search(r"\bsetup\(\)", first.source) and "setup" in tags(first), "call setup() there, and tag it setup"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_named_figures_are_the_stored_ones(path):
    for name, picture in tool.figures(BOOK[path]).items():
        file = ROOT / "book" / "images" / f"{name}.png"
        stored = file.read_bytes() if file.is_file() else None
        assert stored == picture, f"{file.name} is missing or stale: run `make notebooks`"


def test_figure_names_are_unique():
    names = [name for notebook in BOOK.values() for name in tool.figures(notebook)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_stored_notebook_is_as_make_notebooks_writes_it(path):
    notebook = tool.normalise(copy.deepcopy(BOOK[path]))
    assert path.read_text(encoding="utf-8") == tool.render(notebook), "run `make notebooks`"


# ---- A chapter without fault, and faults planted in it -----------------------------------------------------------


def printed(text):
    return new_output("stream", name="stdout", text=text)


def shown(text, **data):
    return new_output("display_data", data={"text/plain": text, **data})


def measured(claim_id="B3a", sentence="It is small", predicted="at most 0.5", value="0.38", stable=True):
    claim = Claim(claim_id, sentence, predicted, value, Kind.BOUND, stable)
    about = {"attention_tutorial_claim": vars(claim)}
    return new_output("display_data", data={"text/plain": repr(claim)}, metadata=about)


RAISED = new_output("error", ename="ValueError", evalue="no", traceback=["ValueError: no"])
PICTURE = shown("<Figure size 300x200 with 1 Axes>", **{"image/png": "iVBORw0KGgo=\n"})
ALT = {"mystnb": {"image": {"alt": "Accuracy falls as the sequence grows."}}}

OPENING = """# 1. A chapter

You will learn one thing. You need nothing. It takes 20 minutes.

$$
\\mathbf{x}_{[i]}(t) = {{a}}
$$

> **Key point.** See the [notation](../book/notation.md#symbols), [part two](#part-two)
> and [the paper](https://arxiv.org/abs/1409.0473v7)."""
EXERCISE = """### Exercise 1.{} ★★ Do it

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
EXERCISES = [EXERCISE.format(number) for number in range(1, 6)]
QUESTIONS = "\n".join(["## Questions\n", *(QUESTION.format(number) for number in range(1, 7))])
MORE_QUESTIONS = "\n".join([*(QUESTION.format(number) for number in range(6, 10)), "**10. And so?** (a) yes; (b) no."])
ENDING = "## Common mistakes\n\nNone.\n\n## Summary\n\nDone.\n\n## Further reading\n\n[It](https://doi.org/10.1000/182)"


@pytest.fixture
def chapter(tmp_path):
    """Return a notebook that keeps every rule, and where it would stand."""
    (tmp_path / "book").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book" / "notation.md").write_text("# Notation")
    (tmp_path / "book" / "references.bib").write_text("@misc{a, eprint = {1409.0473}}\n@misc{b, doi = {10.1000/182}}")
    code = [
        ("import torch\nfrom attention_tutorial import causal_mask", []),
        ("ax = heatmap_of(causal_mask(3))", [PICTURE]),
        ("print('accuracy', 0.38)\nshow_source(causal_mask)", [printed("accuracy 0.38\n")]),
        ("claim('B3a', 'It is small', 0.38, at_most=0.5)", [measured()]),
        ("show_source(causal_mask)", [shown("torch.tensor(1, device='cpu')", **{"text/markdown": "tensor(1, 'cpu')"})]),
        ("MaskBuilder()", [shown("MaskBuilder()", **{"text/html": '<div data-state="torch.tensor(1)"></div>'})]),
    ]
    cells = [
        new_code_cell(source, execution_count=number, outputs=copy.deepcopy(outputs))
        for number, (source, outputs) in enumerate(code, start=1)
    ]
    cells[1].metadata.update(
        copy.deepcopy(ALT), tags=["hide-input"], attention_tutorial={"figure": "mask"}, nbgrader={}
    )
    text = [new_markdown_cell(part) for part in (OPENING, "## Part two", "## Exercises", ENDING, QUESTIONS, *EXERCISES)]
    for number, exercise in enumerate(text[5:], start=1):
        answer = new_code_cell(f'mine = ...\n\ncheck("number_{number}", mine)', execution_count=6 + number)
        answer.metadata.tags = ["exercise"]
        cells += [exercise, answer]
    notebook = new_notebook(cells=[text[0], *cells[:3], text[1], *cells[3:6], text[2], *cells[6:], text[4], text[3]])
    return tool.normalise(notebook, fresh_ids=True), tmp_path / "notebooks" / "01_chapter.ipynb"


def test_a_chapter_without_fault_passes(chapter):
    notebook, path = chapter
    nbformat.validate(notebook)
    assert not [finding for rule in RULES for finding in rule(notebook, path)]
    assert not [finding for rule in BOOK_RULES for finding in rule({path: notebook})]


def code(notebook, number):
    """Return a code cell, counted from 1 as its execution count is."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"][number - 1]


def text(notebook, number):
    """Return a text cell: 1 the opening, 2 part two, 3 the heading of the exercises, 4 to 8 these, 9 and 10 the end.

    Numbers below 0 count from the end.
    """
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"][number - 1 if number > 0 else number]


# Ways to spoil a notebook: each returns a function that does it in place.


def prints(output):
    return lambda notebook: code(notebook, 3).outputs[0].update(text=f"1 {output}\n")


def runs(source):
    return lambda notebook: code(notebook, 1).update(source=source)


def says(words):
    return lambda notebook: text(notebook, 2).update(source=f"## Part two\n\n{words}")


def sets(number, **values):
    return lambda notebook: code(notebook, number).update(copy.deepcopy(values))


def tagged(number, tag, *outputs):
    return lambda notebook: code(notebook, number).update(metadata={"tags": [tag]}, outputs=copy.deepcopy(outputs))


def without(number, phrase):
    return lambda notebook: text(notebook, number).update(source=text(notebook, number).source.replace(phrase, ""))


def replaces(number, old, new):
    return lambda notebook: text(notebook, number).update(source=text(notebook, number).source.replace(old, new))


def described(alt):
    return lambda notebook: code(notebook, 2).metadata.update(mystnb={"image": {"alt": alt}})


def claims(**values):
    """Make the claim's metadata other than its text."""
    return lambda notebook: code(notebook, 4).outputs[0].metadata.attention_tutorial_claim.update(values)


def silences_the_figure(notebook):
    code(notebook, 3).outputs = []  # what follows is a claim, but in the cell after the next


def moves_the_needs_down(notebook):
    without(1, "You need nothing.")(notebook)
    says("You need nothing.")(notebook)


def duplicates_an_id(notebook):
    notebook.cells[1].id = notebook.cells[0].id


def turn(number):
    """Return the three cells of a turn, without execution counts."""
    name = f"turn_{number}"
    blank, answer = (new_code_cell(f'{mine}\n\ncheck("{name}", x)') for mine in ("x = ...", "x = 1"))
    blank.metadata.tags, answer.metadata.tags = ["turn"], ["answer", "hide-cell"]
    blank.outputs, answer.outputs = [printed(f"{name}: not filled in yet.\n")], [printed(f"{name}: right.\n")]
    return [new_markdown_cell(f"**Your turn.** Is it {number}?"), blank, answer]


def adds_turn(number, **values):
    """Add a turn whose text (0), blank (1) or answer (2) is changed."""

    def spoil(notebook):
        added = turn(1)
        added[number].update(copy.deepcopy(values))
        for count, cell in enumerate(added[1:], start=12):
            cell.execution_count = count
        notebook.cells += added

    return spoil


R = notebook_rules
NBVAL_TAGS = sorted(set(nbval.plugin.metadata_tags) - {"raises-exception"})
FAULTS = [
    (R.executed_in_order, "never executed", sets(1, execution_count=None)),
    (R.executed_in_order, "never executed", sets(6, execution_count=None, outputs=[])),
    (R.executed_in_order, "has execution count 7; top to bottom it is 2", sets(2, execution_count=7)),
    (R.executed_in_order, "has execution count 0", sets(1, execution_count=0)),
    (R.errors_where_announced, "not tagged", sets(6, outputs=[RAISED])),
    (R.exemptions_are_listed, "tagged raises-exception", tagged(6, "raises-exception", RAISED)),
    *[(R.exemptions_are_listed, f"tagged {tag}", tagged(6, tag)) for tag in ("skip-execution", *NBVAL_TAGS)],
    *[(R.exemptions_are_listed, comment, runs(f"1\n  ## {comment}")) for comment in (
      "NBVAL_IGNORE_OUTPUT", "NBVAL_SKIP", "PYTEST_VALIDATE_IGNORE_OUTPUT")],
    *[(R.outputs_name_no_machine, "an absolute path", prints(path)) for path in (
      "/home/me/x.py", "/home", "/root", "/usr", "in /tmp", "'/usr/lib'", "C:\\x", "~/a.py", "/data/run/1",
      "file://x")],
    (R.outputs_name_no_machine, "a memory address: 0x7f3a", prints("at 0x7f3a")),
    *[(R.outputs_name_no_machine, "a device's name", prints(name)) for name in (
      "on cuda:0", "mps", "cpu", "NVIDIA", "a GeForce", "RTX 3060", "an A100 GPU", "device(type=)")],
    (R.outputs_name_no_machine, "a memory address", sets(6, outputs=[shown("f 0x7f3a21")])),
    *[(R.no_raw_reprs, "a raw repr", prints(raw)) for raw in (
      "tensor([1.])", "Parameter containing:", "<Axes: >", "<matplotlib.lines.Line2D>", "Text(0.5, 1.0, 'a')",
      "[<wedge>]", "np.float64(0.5)", "np.int64(5)", "np.bool(True)", "<function f>", "<bound method A.f of 1>",
      "<class 'int'>", "<__main__.A object>")],
    (R.no_raw_reprs, "<Figure", sets(6, outputs=[shown("<Figure size 300x200 with 1 Axes>")])),
    (R.nothing_on_stderr, "wrote to stderr", sets(6, outputs=[new_output("stream", name="stderr", text="100%|##|")])),
    (R.nothing_on_stderr, "rewrote a line", prints("10%\r20%")),
    (R.small_enough, "at most 1,000,000", sets(6, outputs=[printed("1 " * 600_000)])),
    *[(R.plain_python, "not plain Python", runs(source)) for source in (
      "%matplotlib inline", "%%time\n1", "!ls", "len?")],
    (R.plain_python, "ends with `;`", runs("a = 1\na;")),
    (R.plain_python, "ends with `;`", runs("a = 1\na;  # nothing shown\n")),
    (R.plain_python, "calls clear_output", runs("display.clear_output()")),
    (R.plain_python, "calls update_display", runs("update_display(1)")),
    (R.plain_python, "calls input", runs("name = input()")),
    (R.plain_python, "calls get_ipython", runs("get_ipython().run_line_magic('time', '1')")),
    (R.plain_python, "display_id", runs("display(1, display_id='a')")),
    *[(R.public_names_are_kept, "redefines `causal_mask`", runs(source)) for source in (
      "def causal_mask(m): ...", "class causal_mask: ...", "async def causal_mask(): ...", "causal_mask = 1",
      "first, (causal_mask, *_) = 1, (2, 3)", "for causal_mask in []: ...", "import causal_mask",
      "import numpy as causal_mask", "from elsewhere import mask as causal_mask",
      "if True:\n    def causal_mask(): ...")],
    (R.public_names_are_kept, "redefines `show_source`", runs("show_source = print")),  # a module's own public name
    (R.figures_are_told, "mystnb.image.alt", sets(2, metadata={})),
    (R.figures_are_told, "got ''", described("")),
    (R.figures_are_told, "mystnb.image.alt", described("_images/a-very-long-name-of-a-file.png")),
    (R.figures_are_told, "mystnb.image.alt", described("picture of file.png and file2.png")),
    (R.figures_are_told, "mystnb.image.alt", described("accuracy-by-length-and-model")),
    (R.figures_are_told, "mystnb.image.alt", described("A figure")),
    (R.figures_are_told, "draws 2 figures", sets(2, outputs=[PICTURE, PICTURE])),
    (R.figures_are_told, "no number of it", silences_the_figure),
    (R.figures_are_told, "no number of it", sets(3, outputs=[printed("a line without a figure in it")])),
    (R.figures_are_told, "no number of it", sets(3, outputs=[shown("1", **{"text/markdown": "1"})])),
    (R.figures_are_told, "no number of it", sets(6, outputs=[PICTURE], metadata=ALT)),
    (R.pictures_come_from_code, "embeds a picture", says("![A map](../book/notation.md)")),
    (R.pictures_come_from_code, "embeds a picture", says("<img src='a.png'>")),
    (R.pictures_come_from_code, "embeds a picture", lambda nb: text(nb, 2).update(attachments={"a.png": {}})),
    *[(R.claims_are_what_was_printed, "an id is a letter", sets(4, outputs=[measured(claim_id)])) for claim_id in (
      "B3", "b3a", "B3A", "Ba", "B3ab", "BB3a")],
    (R.claims_are_what_was_printed, "metadata differ", claims(id="B3b")),
    (R.claims_are_what_was_printed, "metadata differ", claims(sentence="It is large")),
    (R.claims_are_what_was_printed, "metadata differ", claims(predicted="at most 0.9")),
    (R.claims_are_what_was_printed, "metadata differ", claims(measured="0.3")),
    (R.metadata_is_normal, "the format is 4.4", lambda nb: nb.update(nbformat_minor=4)),
    (R.metadata_is_normal, "not python3", lambda nb: nb.metadata.kernelspec.update(name="venv")),
    (R.metadata_is_normal, "not python3", lambda nb: nb.metadata.pop("kernelspec")),
    (R.metadata_is_normal, "version of Python", lambda nb: nb.metadata.language_info.update(version="3.12.1")),
    (R.metadata_is_normal, "extra metadata: widgets", lambda nb: nb.metadata.update(widgets={})),
    (R.metadata_is_normal, "used 2 times", duplicates_an_id),
    (R.metadata_is_normal, "cell id 'a b'", lambda nb: nb.cells[0].update(id="a b")),
    (R.metadata_is_normal, "cell id ''", lambda nb: nb.cells[0].pop("id")),
    (R.metadata_is_normal, "extra metadata: execution", sets(1, metadata={"execution": {"iopub.status.busy": "now"}})),
    (R.headings_in_order, "only level-1 heading", says("# Another title")),
    (R.headings_in_order, "only level-1 heading", says("Another title\n=====")),
    (R.headings_in_order, "only level-1 heading", without(1, "# 1. A chapter")),
    (R.headings_in_order, "only level-1 heading", lambda nb: nb.cells.insert(0, nb.cells.pop(4))),
    (R.headings_in_order, "from level 2 to level 4", says("#### Too deep")),
    *[(R.renders_everywhere, fault, says(words)) for fault, words in (
      ("a directive", "```{note}\nHello\n```"), ("a directive", "~~~{note}\nHello\n~~~"),
      ("a directive", ":::{tip}\nHello\n:::"), ("a role", "see {doc}`intro`"), ("a role", "{math:numref}`a <b>`"),
      ("a label", "(here)=\n### Here"), ("a substitution", "version {{ version }}"), ("a footnote", "so[^1]"),
      ("a block break", "+++"), ("a block break or comment", "% for the editor"),
      ("a link without text", "[](../book/notation.md)"))],
    *[(R.folds_are_closed, why, says(words)) for why, words in (
      ("opens 1 folds and closes 0", "<details><summary>Hint</summary>\n\nThink.\n"),
      ("opens 0 folds and closes 1", "Think.\n\n</details>"),
      ("blank line is needed after the summary", "<details><summary>Hint</summary>\nThink.\n\n</details>"),
      ("blank line is needed after the summary", "<details>\n<summary>Hint</summary>\nThink.\n\n</details>"),
      ("on a line of its own", "<details><summary>Hint</summary> Think.\n\n</details>"),
      ("on a line of its own", "Text\n<details><summary>Hint</summary>\n\nThink.\n\n</details>"),
      ("blank line before and after", "<details><summary>Hint</summary>\n\nThink.\n</details>"),
      ("blank line before and after", "<details><summary>Hint</summary>\n\nThink.\n\n</details>\nText"),
      ("needs a line of its own", "<details><summary>Hint</summary>\n\nThink. </details>"))],
    (R.links_resolve, "links to ../book/no.md", says("[a](../book/no.md)")),
    (R.links_resolve, "links to /book/notation.md", says("[a](/book/notation.md)")),
    (R.links_resolve, "links to ../book", says("[a](../book)")),
    *[(R.papers_are_in_the_bibliography, "not in book/references.bib", says(f"[a paper]({link})")) for link in (
      "https://arxiv.org/abs/1409.0474", "https://arxiv.org/pdf/1409.04731v1.pdf", "http://www.arxiv.org/abs/409.0473",
      "https://doi.org/10.1000/18", "https://dx.doi.org/10.1000/182.3")],
    (R.has_every_section, "you will learn", without(1, "You will learn")),
    (R.has_every_section, "you need", without(1, "You need")),
    (R.has_every_section, "NN minutes", without(1, "20 minutes")),
    (R.has_every_section, "you need", moves_the_needs_down),
    (R.has_every_section, "summary", lambda nb: text(nb, 10).update(source=ENDING.replace("## Sum", "### Sum"))),
    *[(R.has_every_section, section.lower(), without(number, section)) for number, section in (
      (3, "Exercises"), (10, "Common mistakes"), (10, "Summary"), (10, "Further reading"))],
    *[(R.exercises_can_be_solved, why, spoil) for why, spoil in (
      ("'Exercise 1.1 Do it' should read 'Exercise N.M ★ Title'", without(4, "★★ ")),
      ("should read 'Exercise N.M ★ Title'", without(5, " Do it")),
      ("should read 'Exercise N.M ★ Title'", replaces(4, "★★", "★★★★")),
      ("should read 'Exercise N.M ★ Title'", replaces(5, "1.2", "1-2")),
      ("cell after exercise 1.5", lambda nb: nb.cells.append(nb.cells.pop(nb.cells.index(text(nb, 8))))),
      ("cell after exercise 1.1", sets(7, source='check("number_1")')),
      ("exercise 1.1 has no folded hint", without(4, "<summary>Hint</summary>")),
      ("exercise 1.5 has no folded solution", without(8, "<summary>Solution</summary>")),
      ("cell after exercise 1.2", sets(8, source="check(mine)")),
      ("cell after exercise 1.1", sets(7, metadata={})))],
    *[(R.turns_can_be_taken, why, spoil) for why, spoil in (
      ("does not begin a paragraph with **Your turn", adds_turn(0, source="Is it your turn?")),
      ("is not tagged turn", adds_turn(1, metadata={})),
      ("lacks the dots", adds_turn(1, source='x = 0\n\ncheck("turn_1", x)')),
      ("lacks the dots or check", adds_turn(1, source="x = ...")),
      ("the answer of turn_1 is not tagged", adds_turn(2, metadata={"tags": ["answer"]})),
      ("the answer of turn_1 is not tagged", adds_turn(2, metadata={"tags": ["hide-cell"]})),
      ("the answer of turn_1 does not print", adds_turn(2, outputs=[])),
      ("the answer of turn_1 does not print", adds_turn(2, outputs=[printed("turn_1: not yet.\n")])))],
    *[(R.questions_are_answered, why, spoil) for why, spoil in (
      ("question 1 is numbered otherwise", without(9, QUESTION.format(1))),
      ("question 1 offers no options", without(9, "(b) no")),
      ("question 1 has no folded answer", without(9, "(a). Not (b): it is.")),
      ("question 10 has no folded answer", replaces(9, QUESTION.format(6), MORE_QUESTIONS)),
      ("there are 5 questions", without(9, QUESTION.format(6))),
      ("there are 5 questions", replaces(9, QUESTION.format(6), "\n## Answers\n\n" + QUESTION.format(6))))],
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "expected", "spoil"),
    [pytest.param(*fault, id=f"{fault[0].__name__}-{number}") for number, fault in enumerate(FAULTS)],
)
def test_planted_fault_is_found_by_its_rule_alone(chapter, rule, expected, spoil):
    notebook, path = chapter
    spoil(notebook)
    findings = {checked.__name__: list(checked(notebook, path)) for checked in RULES}
    assert expected.lower() in " / ".join(findings.pop(rule.__name__)).lower()
    assert not any(findings.values()), "another rule found something too"


def test_every_rule_has_a_planted_fault():
    assert {rule for rule, _, _ in FAULTS} == set(RULES)


@pytest.fixture
def exempt(chapter, monkeypatch):
    """Return a chapter whose last code cell is tagged, and the table in which it is listed."""
    notebook, path = chapter
    tagged(6, "raises-exception", RAISED)(notebook)
    table = {(path.name, code(notebook, 6).id): "the lesson is the error"}
    monkeypatch.setattr(notebook_rules, "EXEMPT_CELLS", table)
    return notebook, path, table


def test_an_exemption_is_listed_once_with_a_reason_and_as_long_as_its_cell_raises(exempt, monkeypatch):
    notebook, path, table = exempt
    monkeypatch.setattr(notebook_rules, "MOST_EXEMPT_CELLS", 1)
    for rule in (R.exemptions_are_listed, R.errors_where_announced):
        assert not list(rule(notebook, path))
    assert not list(R.exemptions_are_few({path: notebook}))
    monkeypatch.setattr(notebook_rules, "MOST_EXEMPT_CELLS", 0)
    assert [finding.partition(";")[0] for finding in R.exemptions_are_few({path: notebook})] == [
        "EXEMPT_CELLS has 1 entries"
    ]
    monkeypatch.setattr(notebook_rules, "MOST_EXEMPT_CELLS", 1)
    code(notebook, 6).outputs = []
    assert "raised nothing" in "".join(R.errors_where_announced(notebook, path))
    code(notebook, 6).metadata.tags = []
    assert "no such cell is tagged" in "".join(R.exemptions_are_few({path: notebook}))
    table.update(dict.fromkeys(table, ""))
    code(notebook, 6).metadata.tags = ["raises-exception"]
    assert list(R.exemptions_are_listed(notebook, path))


@pytest.mark.parametrize("part", ["ename", "evalue", "traceback"])
def test_an_address_in_an_error_is_found(exempt, part):
    notebook, path, _ = exempt
    code(notebook, 6).outputs[0][part] = ["0x7f3a21"] if part == "traceback" else "0x7f3a21"
    assert len(list(R.outputs_name_no_machine(notebook, path))) == 1


def test_a_missing_bibliography_is_found(chapter):
    notebook, path = chapter
    (path.parent.parent / "book" / "references.bib").unlink()
    assert len(list(R.papers_are_in_the_bibliography(notebook, path))) == 2


def test_one_more_claim_whose_digits_are_not_compared_is_found(chapter, monkeypatch):
    notebook, path = chapter
    monkeypatch.setattr(notebook_rules, "MOST_UNSTABLE", 0)
    assert not list(R.claims_that_are_not_compared_are_few({path: notebook}))
    code(notebook, 4).outputs = [measured(stable=False)]
    (finding,) = R.claims_that_are_not_compared_are_few({path: notebook})
    assert finding.startswith("1 claims have digits")


def test_a_claim_id_used_twice_is_found(chapter):
    notebook, path = chapter
    (finding,) = R.claim_ids_are_unique({path: notebook, path.with_name("02.ipynb"): copy.deepcopy(notebook)})
    assert finding == "claim id B3a is used 2 times"


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda nb: text(nb, 6).update(source=EXERCISES[4]), "numbered [1, 2, 4, 5, 5]"),
        (without(8, "### Exercise 1.5 ★★ Do it"), "chapter 1 has 4 exercises; at least 5"),
    ],
)
def test_exercises_numbered_twice_or_too_few_are_found(chapter, spoil, expected):
    notebook, path = chapter
    spoil(notebook)
    (finding,) = R.exercises_are_numbered({path: notebook})
    assert expected in finding


@pytest.fixture
def deep(chapter):
    """Return a chapter and a deep notebook of it that lead to each other, as {path: notebook}."""
    notebook, path = chapter
    below = path.with_name("01a_below.ipynb")
    opening = f"# 1a. Below\n\nHow deep? You need [chapter 1]({path.name}), and 20 minutes."
    pages = [new_markdown_cell(opening), *copy.deepcopy(notebook.cells[1:4]), new_markdown_cell("## Summary\n\nSo.")]
    for number, cell in enumerate(pages[1:4], start=1):
        cell.execution_count = number
    text(notebook, 1).source += f"\n\nDeeper: [1a]({below.name})."
    for other in (path, below):
        other.touch()
    return {path: notebook, below: tool.normalise(new_notebook(cells=pages), fresh_ids=True)}


def test_a_deep_notebook_needs_no_exercises_and_no_questions(deep):
    for path, notebook in deep.items():
        assert not [finding for rule in RULES for finding in rule(notebook, path)]
    assert not [finding for rule in BOOK_RULES for finding in rule(deep)]


def test_an_exercise_may_stand_in_a_deep_notebook(deep):
    notebook, below = deep.values()
    number = next(i for i, cell in enumerate(notebook.cells) if cell.source.startswith("### Exercise 1.3"))
    below.cells += notebook.cells[number : number + 2]
    del notebook.cells[number : number + 2]
    assert not list(R.exercises_are_numbered(deep))


# ---- A primer, which has turns in place of exercises ---------------------------------------------------------------


def counted(notebook):
    """Number the code cells of a notebook as if it had been executed."""
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
    return tool.normalise(notebook, fresh_ids=True)


def faults(notebook, path):
    """Return all that the rules find in a notebook, and in a book of it alone."""
    findings = [finding for rule in RULES for finding in rule(notebook, path)]
    return findings + [finding for rule in BOOK_RULES for finding in rule({path: notebook})]


@pytest.fixture
def primer(chapter):
    """Return a primer that keeps every rule, and where it would stand."""
    notebook, path = chapter
    questions = "\n".join(["## Questions\n", *(QUESTION.format(number) for number in range(1, 4))])
    parts = [new_markdown_cell(OPENING), *notebook.cells[1:4], *(cell for i in range(4) for cell in turn(i))]
    made = new_notebook(cells=[*parts, new_markdown_cell(questions), new_markdown_cell(ENDING)])
    return counted(made), path.with_name("00_primer.ipynb")


def test_a_primer_needs_turns_and_no_exercises(primer):
    assert not faults(*primer)


def test_what_suffices_for_a_primer_does_not_for_a_chapter(primer):
    notebook, path = primer
    findings = " / ".join(faults(notebook, path.with_name("01_chapter.ipynb")))
    for words in ("heading with 'exercises'", "has 0 exercises; at least 5", "3 questions; at least 6"):
        assert words in findings


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda nb: nb.cells.__delitem__(slice(4, 7)), "the primer has 3 turns; at least 4"),
        (replaces(-2, QUESTION.format(3), ""), "there are 2 questions; at least 3"),
        (without(-1, "## Summary"), "'summary'"),
        (without(-1, "## Common mistakes"), "'common mistakes'"),
        (without(-1, "## Further reading"), "'further reading'"),
    ],
)
def test_a_primer_without_its_parts_is_found(primer, spoil, expected):
    notebook, path = primer
    spoil(notebook)
    (finding,) = faults(counted(notebook), path)
    assert expected in finding


@pytest.mark.parametrize("spoiled", [0, 1])
def test_depths_that_do_not_lead_to_each_other_are_found(deep, spoiled):
    path = list(deep)[spoiled]
    deep[path].cells[0].source = deep[path].cells[0].source.replace(".ipynb)", ".md)")
    (finding,) = R.depths_lead_to_each_other(deep)
    assert finding.startswith(f"{path.name}: ")


@pytest.mark.parametrize("number", [3, 5])
def test_a_figure_may_follow_or_precede_its_numbers(chapter, number):
    notebook, path = chapter
    code(notebook, 2).outputs, code(notebook, 6).outputs = [], []
    sets(number, outputs=[PICTURE], metadata=ALT)(notebook)  # cell 4 claims
    assert not list(R.figures_are_told(notebook, path))


def test_an_unstable_claim_and_words_in_code_are_no_fault(chapter):
    notebook, path = chapter
    code(notebook, 4).outputs = [measured(stable=False)]
    code(notebook, 1).source = "# %time; NBVAL_SKIP and more\nfrom attention_tutorial import causal_mask as mask"
    assert not [finding for rule in RULES for finding in rule(notebook, path)]


def test_headings_in_code_and_questions_elsewhere_are_not_counted(chapter):
    notebook, path = chapter
    code(notebook, 6).source = "### Exercise 1.7 is a comment\n1 + 1"
    text(notebook, 10).source += "\n\n**3. Not a question.** It has no options."
    assert not [finding for rule in RULES for finding in rule(notebook, path)]


def test_exemptions_have_reasons():
    assert all(len(reason) > 10 for reason in EXEMPT_CELLS.values())
