"""Laws of drafts of single pages: what they leave out, and the links to a page that they miss."""

from types import SimpleNamespace

import attention_book
import pytest
from sphinx.builders.html import StandaloneHTMLBuilder

from tools import draft


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book whose page `book/a` had the places one and two when it was built."""
    for name in ("ROOT", "BUILT", "DRAFTS"):
        monkeypatch.setattr(draft, name, tmp_path)
    monkeypatch.setattr(draft, "BUILT", tmp_path / "built")
    (tmp_path / "built" / "html" / "book").mkdir(parents=True)
    (tmp_path / "built" / "html" / "book" / "a.html").write_text('<h2 id="one">One</h2><h2 id="two">Two</h2>')
    sources = {"b.md": "[one](a.md#one), [two](book/a.md#two), [three](c.md#one)", "n.ipynb": "(../book/a.md#one)"}
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(draft, "files_of_the_working_tree", lambda: sorted(sources))

    def run(page, status=0):
        def build(source, folder, *, filenames, tags, **options):
            assert (tags, options["warningiserror"], options["confoverrides"]["nitpicky"]) == (["draft"], True, True)
            assert filenames == [str(tmp_path / "book" / "a.md")]
            (tmp_path / "html" / "book").mkdir(parents=True, exist_ok=True)
            (tmp_path / "html" / "book" / "a.html").write_text(page)
            return status

        monkeypatch.setattr(draft, "build_sphinx", build)
        return draft.main([str(tmp_path / "book" / "a.md")])

    return run


def test_a_draft_finds_the_links_of_others_to_a_place_that_is_no_more(book, capsys):
    assert book('<h2 id="one">One</h2><h2 id="two">Two</h2>') == 0
    capsys.readouterr()
    assert book('<h2 id="two">Two</h2>') == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["b.md: book/a#one is no more", "n.ipynb: book/a#one is no more"]
    assert book('<h2 id="one">One</h2>') == 1
    assert capsys.readouterr().out.splitlines()[0] == "b.md: book/a#two is no more"
    assert book('<h2 id="one">One</h2><h2 id="two">Two</h2>', status=1) == 1, "a warning of the build itself"
    assert draft.main([]) == 2


@pytest.mark.parametrize("tag", ["draft", "site"])
def test_what_needs_all_pages_is_left_out_of_drafts_alone(tag):
    app = SimpleNamespace(
        builder=StandaloneHTMLBuilder.__new__(StandaloneHTMLBuilder), tags=SimpleNamespace(has=tag.__eq__)
    )
    done = []
    for in_drafts in (True, False):
        attention_book.for_the_site(lambda app, kind=in_drafts: done.append(kind), in_drafts=in_drafts)(app)
    assert done == ([True] if tag == "draft" else [True, False])
