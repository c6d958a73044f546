"""Claims as a page shows them: lines and tables in the place of cards, made from the records in a notebook."""

import json
import re

import pytest
from bs4 import BeautifulSoup
from website import small_book, soup_of

from attention_tutorial.notebook.claims import Claim, Kind

CONF = """
from attention_book import claim_lines
extensions = ["myst_nb"]
nb_execution_mode = "off"
nb_mime_priority_overrides = [["html", "text/html", 0]]
exclude_patterns = ["_out", "jupyter_execute"]
def setup(app):
    app.connect("doctree-resolved", claim_lines.set_claims)
"""
LINE = {"output_type": "stream", "name": "stdout", "text": ["a print\n"]}


def output(id, predicted="at least 0.9", measured="0.97", sentence="A share < 1", kind=Kind.BOUND, **options):
    """Return the output that a claim leaves in a notebook."""
    claim = Claim(id, sentence, predicted, measured, kind, **options)
    data, metadata = claim._repr_mimebundle_()
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def cell(name, *outputs, kind="code"):
    base = {"id": name, "metadata": {"tags": ["hide-input"]} if kind == "code" else {}, "source": [f"code_{name} = 1"]}
    return {"cell_type": kind, **base} | ({"execution_count": 1, "outputs": list(outputs)} if kind == "code" else {})


@pytest.fixture
def page(tmp_path):
    """Return a function that builds a book of one notebook, and parses its page."""

    def build(*cells):
        title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# One"]}
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": [title, *cells]}
        (tmp_path / "conf.py").write_text(CONF)
        (tmp_path / "index.ipynb").write_text(json.dumps(notebook))
        status, log = small_book(tmp_path)
        assert status == 0, log
        return BeautifulSoup((tmp_path / "_out" / "index.html").read_text(encoding="utf-8"), "html.parser")

    return build


def words(element):
    return re.sub(r"\s+", " ", element.get_text(" ")).strip().replace(" ,", ",")


def test_a_claim_alone_folds_into_a_line_with_its_code(page):
    (group,) = page(cell("a", output("X1a", stable=False))).select("details.claim-group")
    assert not group.has_attr("open") and group.summary.get_text() == "1 claim holds here"
    (claim,) = group.select(".claim")
    assert claim["id"] == "claim-X1a"
    assert words(claim) == "A share < 1 ≈ 0.97 if at least 0.9 X1a"
    assert claim.select_one("a.claim-id")["href"] == "#claim-X1a"
    (fold,) = group.select("details")
    assert "code_a" in fold.get_text() and not fold.has_attr("open")
    assert {element.get_text() for element in fold.select("summary p")} == {"Code"}


def test_beside_what_a_run_measured_stands_what_fresh_runs_did(page, tmp_path):
    drawn = {"X1a": [0.95, 0.91, 0.99], "X1b": 0.97, "X1c": [True, False, True]}
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "replication.json").write_text(json.dumps({"index": {"offsets": [1, 3], "claims": drawn}}))
    shown = [words(claim) for claim in page(cell("a", *map(output, drawn))).select(".claim")]
    assert shown[0] == "A share < 1 0.97 (fresh runs: 0.91 to 0.99, median 0.95) if at least 0.9 X1a"
    assert not any("fresh" in claim for claim in shown[1:])


def test_claims_of_one_cell_and_of_neighbours_are_one_table_that_folds(page):
    text = cell("t", kind="markdown")
    soup = page(cell("a", output("X1a")), cell("b", output("X1b"), output("X1c")), text, cell("c", output("X1d")))
    group, other = soup.select("details.claim-group")
    assert not group.has_attr("open") and group.summary.get_text() == "3 claims hold here"
    assert [row["id"] for row in group.select("tbody tr.claim")] == ["claim-X1a", "claim-X1b", "claim-X1c"]
    assert words(group.select_one("tbody tr")) == "A share < 1 0.97 if at least 0.9 X1a"
    assert [fold.select_one(".highlight").get_text().strip() for fold in group.select("details")] == [
        "code_a = 1",
        "code_b = 1",
    ]
    assert [claim["id"] for claim in other.select(".claim")] == ["claim-X1d"]
    assert len(soup.select("[id^=claim-]")) == 4


def test_identities_are_marked_and_counted(page):
    identity = {"predicted": "0 ± 1e-05", "measured": "0", "kind": Kind.IDENTITY, "unrounded": "3.8e-06"}
    soup = page(cell("a", output("X1a", **identity), output("X1b", **identity)))
    (group,) = soup.select("details.claim-group")
    assert group.summary.get_text() == "2 identities hold here"
    assert words(group.select_one("tbody tr")) == "Identity A share < 1 3.8·10 −6 0 ± 10 −5 X1a"
    mixed = page(cell("a", output("X1a", **identity), output("X1b")))
    assert mixed.select_one("summary").get_text() == "2 claims hold here, 1 of them an identity"
    assert len(mixed.select(".claim.identity")) == 1


def test_a_finding_stands_before_the_table_of_the_others(page):
    soup = page(cell("a", output("X1a"), output("X1b", finding=True), output("X1c")))
    (finding,) = soup.select("div.claim.finding")
    assert words(finding).startswith("Finding A share < 1 measured 0.97")
    assert [row["id"] for row in finding.find_next("table").select("tr.claim")] == ["claim-X1a", "claim-X1c"]


def test_what_a_cell_prints_beside_its_claims_stays(page):
    soup = page(cell("a", LINE, output("X1a"), output("X1b")))
    assert soup.select_one(".cell_output").get_text().strip() == "a print"
    assert len(soup.select("tr.claim")) == 2 and len(soup.select("[id^=claim-]")) == 2


def test_formulas_of_a_claim_are_handed_on(page):
    assert "d_k" in words(page(cell("a", output("X1a", sentence="At $d_k = 4$"))).select_one(".claim"))


def test_every_claim_of_the_book_is_a_line_or_a_row(site):
    from test_site import TOC

    from tools.book import ROOT, read

    for name in TOC:
        if (ROOT / f"{name}.ipynb").is_file():
            soup = soup_of(site / f"{name}.html")
            shown = [claim["id"].removeprefix("claim-") for claim in soup.select(".claim")]
            assert sorted(shown) == sorted(claim.id for claim in Claim.stored_in(read(ROOT / f"{name}.ipynb")))
