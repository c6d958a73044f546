"""The Sphinx extension that makes the page of claims from executed notebooks."""

import json

import pytest
from attention_book.notebooks import headings, title_of
from attention_book.tables import inline
from bs4 import BeautifulSoup
from docutils import nodes
from nbformat import from_dict
from website import small_book

from attention_tutorial.notebook import Claim

CONF = """
from attention_book.claims import ClaimsDirective
extensions = ["myst_nb"]
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"
exclude_patterns = ["_out", "jupyter_execute"]
def setup(app):
    app.add_directive("claims", ClaimsDirective)
"""


def record(id="V1a", **changes):
    """Return one claim as a cell records it."""
    return vars(Claim(id, "The variance of $q$ is $d_k$", "64 ± 3", "63.8")) | changes


def notebook(*records, title="1. The bottleneck"):
    """Return a notebook with one output for each record, and one output without a record."""
    plain = {"output_type": "stream", "name": "stdout", "text": ["no claim\n"]}
    outputs = [
        {
            "output_type": "display_data",
            "metadata": {"attention_tutorial_claim": r},
            "data": {"text/html": [f'<div class="claim" id="claim-{r["id"]}">{r["id"]}</div>']},
        }
        for r in records
    ]
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": [f"# {title}\n", "\n", "Text.\n"]},
        {
            "cell_type": "code",
            "id": "b",
            "execution_count": 1,
            "metadata": {},
            "outputs": [plain, *outputs],
            "source": ["pass"],
        },
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def read(stored):
    """Return a notebook as nbformat reads it."""
    joined = [{**cell, "source": "".join(cell["source"])} for cell in stored["cells"]]
    return from_dict({**stored, "cells": joined})


def test_claims_are_read_in_the_order_of_the_cells():
    claims = Claim.stored_in(notebook(record("V1b"), record("V1a")))
    assert [claim.id for claim in claims] == ["V1b", "V1a"]
    assert claims[0] == Claim("V1b", "The variance of $q$ is $d_k$", "64 ± 3", "63.8")


@pytest.mark.parametrize("field", ["sentence", "predicted", "measured"])
def test_a_record_that_lacks_a_part_is_refused(field):
    part = record()
    del part[field]
    with pytest.raises(ValueError, match=f"^claim V1a has no {field}$"):
        Claim.stored_in(notebook(part))


def test_the_title_is_the_first_heading():
    assert title_of(read(notebook(title="2. Scores and $d_k$")), default="x") == "2. Scores and $d_k$"
    assert title_of(read({"cells": []}), default="x") == "x"


def test_a_heading_is_what_markdown_calls_one():
    text = "# One\n\n```python\n# a comment\n```\n\nTwo\n---\n\n### Three $x$ #\n\n#Four\n"
    cells = [{"cell_type": "markdown", "source": text}, {"cell_type": "code", "source": "# code"}]
    assert list(headings(read({"cells": cells}))) == [(1, "One"), (2, "Two"), (3, "Three $x$")]


def test_a_sentence_keeps_its_math_code_and_plain_text():
    parts = inline("at $d_k = 64$, `mask` and d_v stay *so*")
    kinds = [nodes.Text, nodes.math, nodes.Text, nodes.literal, nodes.Text, nodes.emphasis]
    assert [type(part) for part in parts] == kinds
    texts = [part.astext() for part in parts]
    assert texts == ["at ", "d_k = 64", ", ", "mask", " and d_v stay ", "so"]


@pytest.fixture
def book(tmp_path):
    """Return a function that writes notebooks into a small book and builds its page of claims."""
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "_toc.yml").write_text("")
    (tmp_path / "claims.md").write_text("# Claims\n\n```{claims}\n```\n")

    def build(**notebooks):
        (tmp_path / "notebooks").mkdir(exist_ok=True)
        for name, content in notebooks.items():
            (tmp_path / "notebooks" / f"{name}.ipynb").write_text(json.dumps(content))
        names = sorted(path.stem for path in (tmp_path / "notebooks").iterdir())
        toc = "\n".join(["# Book", "", "```{toctree}", "claims", *(f"notebooks/{name}" for name in names), "```", ""])
        (tmp_path / "index.md").write_text(toc)
        done = small_book(tmp_path)
        page = BeautifulSoup((tmp_path / "_out" / "claims.html").read_text(encoding="utf-8"), "html.parser")
        return done, page

    return build


def test_the_page_follows_the_notebooks(book):
    (status, log), page = book(c1=notebook(record("B1a")), c2=notebook(record("S1a"), record("S1b"), title="2. Scores"))
    assert status == 0, log
    chapters = page.select("section > h2 > a.reference")
    assert [(chapter.get_text(), chapter["href"]) for chapter in chapters] == [
        ("1. The bottleneck", "notebooks/c1.html"),
        ("2. Scores", "notebooks/c2.html"),
    ]
    rows = page.select("table.claims tbody tr")
    assert [row.td.get_text(strip=True) for row in rows] == ["B1a", "S1a", "S1b"]
    assert [row.a["href"] for row in rows] == [
        "notebooks/c1.html#claim-B1a",
        "notebooks/c2.html#claim-S1a",
        "notebooks/c2.html#claim-S1b",
    ]
    cells = [cell.get_text(strip=True) for cell in rows[1].find_all("td")]
    assert cells == ["S1a", r"The variance of\(q\)is\(d_k\)", "predicted 64 ± 3", "63.8", "not yet run"]
    assert "3 claims from 2 chapters and 0 deep notebooks." in page.get_text()

    # Only the notebook changes; the page of claims is made again all the same.
    (status, log), page = book(c2=notebook(record("S1a", measured="64.1"), title="2. Scores"))
    assert status == 0, log
    rows = page.select("table.claims tbody tr")
    assert [row.td.get_text(strip=True) for row in rows] == ["B1a", "S1a"]
    assert rows[1].find_all("td")[3].get_text(strip=True) == "64.1"
