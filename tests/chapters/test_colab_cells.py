"""Laws of what lets a notebook run in Colab: made from one address, and doing no more than it should."""

import ast
import copy
import functools
import re
import subprocess
import sys
from importlib import util

import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, reads, writes
from notebook_rules import RULES

from tools import colab
from tools.book import ROOT, files_of_the_working_tree

ADDRESS = colab.Address("https://github.com/some-school/some-book", "v1.2.3", "https://colab.example")
LINK = colab.link_cell("notebooks/01_chapter.ipynb", ADDRESS)
INSTALL = colab.install_source(ADDRESS)


# ---- The cells in the notebooks ----------------------------------------------------------------------------------


def test_every_file_has_what_the_address_makes():
    old = [str(path.relative_to(ROOT)) for path in colab.stale()]
    assert not old, "run .venv/bin/python -m tools.colab, then make notebooks"


def test_the_address_of_the_repository_is_written_once():
    url = colab.Address.read().url
    holding = set()
    for name in files_of_the_working_tree():
        text = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
        if name.endswith(".ipynb"):
            notebook = reads(text)
            notebook.cells = [c for c in notebook.cells if c.id not in (colab.LINK, colab.INSTALL)]
            for cell in notebook.cells:
                cell.source = colab.own_code(cell)
            text = writes(notebook)
        if url.removeprefix("https://") in text:
            holding.add(name)
    made = {name for name in holding if name.endswith("pyproject.toml")}  # as the notebooks' cells are, by tools.colab
    assert holding - made == {"_config.yml"} and made


@pytest.fixture
def book(tmp_path):
    """Return a folder with an address and one notebook, whose code cell was executed."""
    config = {"repository": {"url": ADDRESS.url + "/", "branch": ADDRESS.branch},
              "launch_buttons": {"colab_url": ADDRESS.colab}}  # fmt: skip
    (tmp_path / "_config.yml").write_text(yaml.safe_dump(config))
    (tmp_path / "notebooks").mkdir()
    code = new_code_cell("1 + 1", id="sum", execution_count=1, metadata={"tags": ["setup"]})
    code.outputs = [new_output("execute_result", data={"text/plain": "2"}, execution_count=1)]
    cells = [new_markdown_cell("# Title", id="title"), new_markdown_cell("Words.", id="words"), code]
    (tmp_path / "notebooks" / "01_chapter.ipynb").write_text(writes(new_notebook(cells=cells)) + "\n")
    return tmp_path


def notebook_of(book):
    return reads((book / "notebooks" / "01_chapter.ipynb").read_text())


def test_the_link_comes_first_and_the_first_code_installs_and_both_stay_when_they_are_right(book, capsys):
    before = notebook_of(book).cells
    colab.main(book)
    notebook = notebook_of(book)
    assert notebook.cells[:3] == [LINK, *before[:2]]
    assert notebook.cells[3] == before[2] | {"source": f"{INSTALL}\n\n1 + 1"}
    assert capsys.readouterr().out.splitlines() == ["notebooks/01_chapter.ipynb: updated", "Now run: make notebooks"]
    path = book / "notebooks" / "01_chapter.ipynb"
    path.write_text(writes(notebook) + "\n\n")
    stays = path.read_bytes()
    colab.main(book)
    assert path.read_bytes() == stays


def test_a_title_stays_above_the_lines_that_install():
    cell = new_code_cell("# @title Set up\n1 + 1")
    colab.put_own_cells(new_notebook(cells=[cell]), "notebooks/01_chapter.ipynb", ADDRESS)
    assert cell.source == f"# @title Set up\n{INSTALL}\n\n1 + 1"
    assert colab.own_code(cell) == "1 + 1"


@pytest.mark.parametrize("spoil", ["link", "lines", "first code", "place"])
def test_what_is_old_or_displaced_is_renewed(book, spoil):
    colab.main(book)
    right = notebook_of(book)
    wrong = copy.deepcopy(right)
    if spoil == "link":
        wrong.cells[0].metadata = {}
    elif spoil == "lines":
        wrong.cells[3].source = wrong.cells[3].source.replace("torch", "an old one")
    elif spoil == "first code":
        wrong.cells.insert(3, new_code_cell("2", id="first"))
        right.cells.insert(3, new_code_cell(f"{INSTALL}\n\n2", id="first"))
        right.cells[4].source = "1 + 1"
    else:
        wrong.cells.append(wrong.cells.pop(0))
    (book / "notebooks" / "01_chapter.ipynb").write_text(writes(wrong))
    colab.main(book)
    assert notebook_of(book) == right


def test_an_assignment_gets_its_installing_cell_and_a_project_its_address_and_they_keep_the_rest(book):
    path = book / "classroom" / "masters" / "source" / "one" / "one.ipynb"
    path.parent.mkdir(parents=True)
    graded = new_code_cell("2", id="task", metadata={"nbgrader": {"points": 1}})
    installing = new_code_cell("old", id=colab.INSTALL, metadata={"nbgrader": {"locked": True}})
    master = new_notebook(cells=[installing, graded])
    path.write_text(writes(master) + "\n")
    project = '[project]\nname = "book"\n\n[project.urls]\nIssues = "{}"\n'
    (book / "pyproject.toml").write_text(project.format("old"))
    colab.main(book)
    after = reads(path.read_text())
    assert after.cells[0].source == INSTALL
    after.cells[0].source = "old"
    assert after == master
    assert (book / "pyproject.toml").read_text() == project.format(f"{ADDRESS.url}/issues")
    assert not colab.stale(book)


def test_the_cells_are_made_from_the_address():
    assert ADDRESS.in_colab("a/b.ipynb") == "https://colab.example/github/some-school/some-book/blob/v1.2.3/a/b.ipynb"
    assert LINK.source.endswith(
        "](https://colab.example/github/some-school/some-book/blob/v1.2.3/notebooks/01_chapter.ipynb)"
    )
    assert '"git+https://github.com/some-school/some-book@v1.2.3"' in INSTALL
    elsewhere = colab.Address("https://git.example/book", "main", "https://colab.example")
    with pytest.raises(
        ValueError, match=re.escape("must begin with https://github.com/, which Colab reads; got https://git")
    ):
        elsewhere.in_colab("a.ipynb")


def test_the_link_is_not_shown_on_the_site():
    assert LINK.metadata == {"tags": ["remove-cell"]}


# ---- What the installing lines do ----------------------------------------------------------------------------------


@pytest.fixture
def execute(monkeypatch):
    """Run the installing lines where some packages are missing; return the pip commands that it gives."""

    def execute(missing, *, exit_status=0):
        commands = []

        def call(command):
            commands.append(command)
            return exit_status

        monkeypatch.setattr(util, "find_spec", lambda name: None if name in missing else "there")
        monkeypatch.setattr(subprocess, "call", call)
        exec(INSTALL, {})
        return commands

    monkeypatch.delenv("ATTENTION_TUTORIAL_SOURCE", raising=False)
    return execute


PIP = [sys.executable, "-m", "pip", "install", "-qq"]


def test_only_what_is_missing_is_installed_the_package_alone_and_from_the_address(execute, monkeypatch, capfd):
    assert execute(set()) == execute({"torch", "ipywidgets"}) == []
    assert capfd.readouterr() == ("", "")
    package = [*PIP, "--no-deps", "git+https://github.com/some-school/some-book@v1.2.3"]
    assert execute({"attention_tutorial"}) == [package]
    assert execute({"attention_tutorial", "ipywidgets", "tqdm"}) == [package, [*PIP, "tqdm", "ipywidgets"]]
    said = "Installing the book's package: about a minute ...\n{}Installed.\n"
    assert capfd.readouterr().out == said.format("") + said.format("Installing tqdm, ipywidgets: half a minute ...\n")
    monkeypatch.setenv("ATTENTION_TUTORIAL_SOURCE", "somewhere/attention.whl")
    assert execute({"attention_tutorial"}) == [[*PIP, "--no-deps", "somewhere/attention.whl"]]


@pytest.mark.parametrize("missing", [{"attention_tutorial"}, {"attention_tutorial", "torch"}])
def test_a_failure_says_what_to_do(execute, missing):
    with pytest.raises(RuntimeError, match=r"could not be installed.*connected to the internet.*run this cell again"):
        execute(missing, exit_status=1)
    with pytest.raises(RuntimeError, match=r"could not be installed: this Python has no pip.*run this cell again"):
        execute({*missing, "pip"})


@functools.cache
def statements():
    """Return (file name, imports and annotated assignments) of every module."""
    kinds = ast.Import | ast.ImportFrom | ast.AnnAssign
    paths = (ROOT / "attention_tutorial").rglob("*.py")
    trees = {path.name: ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in paths}
    return [(name, node) for name, nodes in trees.items() for node in nodes if isinstance(node, kinds)]


def test_what_the_cell_looks_for_is_what_the_package_imports():
    """numpy, cycler and PIL come with matplotlib, traitlets and matplotlib_inline with IPython, which runs the cell.

    Triton is of the kernel alone, which does without; Colab's PyTorch brings it. Who reads the encoder's weights asks
    for safetensors.
    """
    imported = {alias.name for _, node in statements() if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for _, node in statements() if isinstance(node, ast.ImportFrom) and not node.level}
    others = {name.split(".")[0] for name in imported} - sys.stdlib_module_names
    with_matplotlib_or_ipython = {"IPython", "PIL", "cycler", "matplotlib_inline", "numpy", "traitlets"}
    others -= {"attention_tutorial", "safetensors", "triton", *with_matplotlib_or_ipython}
    needed = sorted(others, key=["torch", "matplotlib", "tqdm", "ipywidgets"].index)
    assert f"needed = {needed}".replace("'", '"') in INSTALL


# ---- What the cells look like ------------------------------------------------------------------------------------


def test_the_cell_keeps_the_format_whatever_the_address(tmp_path):
    long = colab.Address("https://github.com/" + "a-long-name" * 6, "main", ADDRESS.colab)
    cells = [new_code_cell(f"{colab.install_source(long)}\n\nimport math\n\nmath.pi"), LINK]
    path = tmp_path / "cell.ipynb"
    path.write_text(writes(new_notebook(cells=cells)))
    config = ["--config", ROOT / "notebooks" / "ruff.toml", "--no-cache"]
    for command in (["format", "--check"], ["check", "--ignore=E501"]):
        command = [sys.executable, "-m", "ruff", *command, *config, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    assert all(len(line) <= 84 for line in INSTALL.splitlines())


def test_the_cells_keep_the_rules_for_notebooks():
    cells = [copy.deepcopy(LINK), new_code_cell(INSTALL, execution_count=1)]
    bare = new_notebook(cells=[])
    path = ROOT / "notebooks" / "01_chapter.ipynb"

    def findings(notebook):
        return [finding for rule in RULES for finding in rule(notebook, path)]

    assert findings(new_notebook(cells=cells)) == findings(bare)


# ---- What Colab's versions cannot do -----------------------------------------------------------------------------


def test_no_annotation_asks_traitlets_for_more_than_colab_has():
    """traitlets 5.7 has no generic types: `List[int]` must not be evaluated in a class, so it stands in quotes."""
    faults = [
        f"{name}, line {node.lineno}"
        for name, node in statements()
        for part in (ast.walk(node.annotation) if isinstance(node, ast.AnnAssign) else ())
        if isinstance(part, ast.Subscript) and "traitlets." in ast.unparse(part.value)
    ]
    assert not faults, "put the annotation in quotes"


# ---- What single chapters need besides ---------------------------------------------------------------------------


def test_only_a_chapter_that_imports_more_installs_more():
    plain, more = (new_notebook(cells=[new_code_cell(code)]) for code in ("x = 1", "from sacrebleu.metrics import X"))
    for notebook in (plain, more):
        colab.put_own_cells(notebook, "notebooks/01_chapter.ipynb", ADDRESS)
    assert plain.cells[1].source.startswith(INSTALL)
    assert more.cells[1].source.startswith(INSTALL.replace('"ipywidgets"]', '"ipywidgets", "sacrebleu"]'))
