"""How the site is found: by search engines, in its own search, by links that last, by citations, and by who is lost."""

import ast
import contextlib
import json
import re
import sqlite3
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import page_faults
import pytest
from attention_book.address import site_address
from attention_book.anchors import lasting_id
from attention_book.cards import DECK
from attention_book.citation import bibtex, read_citation, sentence
from attention_book.levels import is_deep, neighbours, number_of
from attention_book.search import Record, question_of, records_of, spoken, with_aliases
from docutils import nodes
from sphinx import addnodes
from test_site import TOC
from website import soup_of

from tools.book import ROOT, settings
from tools.browser import QuietHandler, serve

CONFIG = settings()
ADDRESS = site_address(CONFIG["repository"]["url"])
CHAPTERS = [name for name in TOC if (ROOT / f"{name}.ipynb").is_file()]
MAIN = [name for name in CHAPTERS if not is_deep(name)]


@pytest.fixture(scope="module")
def pages(site):
    """Parse every page of the contents once: {name: soup}."""
    return {name: soup_of(site / f"{name}.html") for name in [*TOC, "404", "search"]}


def content_of(soup, **attributes):
    """Return the contents of the meta elements that have some attributes."""
    return [element["content"] for element in soup.find_all("meta", attrs=attributes)]


# ---- What the head of a page says -----------------------------------------------------------------------------------


def test_titles_and_descriptions_are_each_page_s_own(pages):
    titles = [pages[name].title.get_text(strip=True) for name in TOC]
    descriptions = [text for name in TOC for text in content_of(pages[name], name="description")]
    assert len(set(titles)) == len(set(descriptions)) == len(descriptions) == len(TOC)
    assert all(50 <= len(text) <= 210 for text in descriptions)


def test_a_head_says_each_thing_once(pages):
    for name, soup in pages.items():
        assert soup.title.get_text().count(CONFIG["title"]) == 1, name
        assert len(content_of(soup, name="viewport")) == 1, name
    assert pages[TOC[0]].title.get_text() == CONFIG["title"]


def test_the_book_has_its_name_where_one_takes_it_along(site, tmp_path):
    assert (site / "objects.inv").read_bytes().splitlines()[1].decode() == f"# Project: {CONFIG['title']}"
    (deck, *_) = (site / "slides").glob("*.html")
    assert soup_of(deck).title.get_text().endswith(f" · {CONFIG['title']}")
    with zipfile.ZipFile(site / DECK) as package:
        package.extract("collection.anki2", tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "collection.anki2")) as base:
        (made,) = base.execute("select decks from col").fetchone()
    names = {each["name"] for each in json.loads(made).values()} - {"Default"}
    assert names and all(name.startswith(f"{CONFIG['title']}::") for name in names)


@pytest.mark.parametrize("name", TOC)
def test_a_page_says_where_it_lives_and_how_it_looks_when_shared(site, pages, name):
    soup, address = pages[name], f"{ADDRESS}{name}.html"
    assert [link["href"] for link in soup.select("link[rel=canonical]")] == [address]
    assert content_of(soup, property="og:url") == [address]
    assert content_of(soup, property="og:title") == [soup.h1.find(string=True).strip()]
    assert content_of(soup, property="og:site_name") == [CONFIG["title"]]
    assert content_of(soup, property="og:description") == content_of(soup, name="description")
    assert content_of(soup, name="twitter:card") == ["summary_large_image"]
    (picture,) = content_of(soup, property="og:image")
    assert (site / picture.removeprefix(ADDRESS)).is_file()


def test_programs_that_collect_literature_learn_what_a_chapter_is(pages):
    for name in CHAPTERS:
        soup = pages[name]
        assert content_of(soup, name="citation_title") == content_of(soup, property="og:title")
        assert content_of(soup, name="citation_author") == [author["name"] for author in read_citation()["authors"]]
        assert content_of(soup, name="citation_publication_date") == [CONFIG["copyright"]]
        assert content_of(soup, name="citation_public_url") == [f"{ADDRESS}{name}.html"]


# ---- Lists of the site ----------------------------------------------------------------------------------------------


def test_the_site_map_lists_every_page_and_robots_find_it(site):
    names = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
    entries = ET.parse(site / "sitemap.xml").getroot().findall("s:url/s:loc", names)
    assert sorted(entry.text for entry in entries) == sorted(f"{ADDRESS}{name}.html" for name in TOC)
    lines = (site / "robots.txt").read_text(encoding="utf-8").splitlines()
    assert f"Sitemap: {ADDRESS}sitemap.xml" in lines
    assert not [line for line in lines if line.startswith("Disallow: /")]


@contextlib.contextmanager
def pages_host(site, folder, path):
    """Serve a site as GitHub Pages does: below a path, and with 404.html for addresses that lead nowhere."""
    folder = folder / "host"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).symlink_to(site, target_is_directory=True)

    class Handler(QuietHandler):
        def send_error(self, code, *arguments, **options):
            body = (site / "404.html").read_bytes()
            self.send_response(code)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    with serve(folder, Handler) as address:
        yield urljoin(f"{address}/", path)


@pytest.mark.parametrize("path", [urlsplit(ADDRESS).path[1:], "", "preview/of/7/"])
def test_who_is_lost_finds_the_chapters_and_the_search_under_any_address(site, browser, tmp_path, path):
    with pages_host(site, tmp_path, path) as home:
        page, errors, there = browser.new_page(), [], set()
        page.on("response", lambda answer: there.add(answer.url) if answer.ok else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        for lost in ("nothing.html", "notebooks/07_old_name.html", "some/deep/place/"):
            there.clear()
            assert page.goto(urljoin(home, lost)).status == 404
            loads = page.eval_on_selector_all(
                "link[rel=stylesheet], link[rel=preload], script[src]", "all => all.map((one) => one.href || one.src)"
            )
            assert set(loads) <= there and len(loads) > 8 and not errors
            links = page.eval_on_selector_all("article li a", "links => links.map((link) => link.href)")
            assert links == [urljoin(home, f"{name}.html") for name in [TOC[0], *MAIN]]
            form = page.locator("form.bd-search").first
            assert form.evaluate("form => form.action") == urljoin(home, "search.html")
            page.locator("#pst-skip-link a").evaluate("link => link.click()")
            assert page.url == urljoin(home, f"{lost}#main-content")
        page.goto((site / "404.html").as_uri())
        assert page.locator("article li a").first.evaluate("link => link.href") == (site / f"{TOC[0]}.html").as_uri()
        page.goto(links[1])
        assert page.locator("article h1").count() == 1
        page.close()


# ---- The search -----------------------------------------------------------------------------------------------------


def test_a_page_is_cut_into_places_that_can_be_found():
    formula = nodes.paragraph("", "", nodes.Text("It is "), nodes.math("", r"\sqrt{d_k}"), nodes.Text("."))
    code = nodes.container("", nodes.literal_block("", "x = 1"), classes=["cell_input"])
    printed = nodes.container("", nodes.literal_block("", "1"), classes=["cell_output"])
    cell = nodes.container("", code, printed)
    attempt = nodes.container("", nodes.literal_block("", "try:\nexcept E: print()"), classes=["cell_input"])
    error = nodes.container("", nodes.literal_block("", "must fit"), classes=["cell_output"])
    failing = nodes.container("", attempt, error)
    inner = nodes.section("", nodes.title("", "1.1 Two"), formula, cell, failing, ids=["section-1-1", "two"])
    signature = addnodes.desc_signature("", "f(x)", ids=["package.f"], fullname="f")
    function = addnodes.desc("", signature, addnodes.desc_content("", nodes.paragraph("", "Add.")))
    term = nodes.term("", "Key", ids=["term-Key"])
    entry = nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", "It is found.")))
    words = nodes.definition_list("", entry)
    question = nodes.strong("", "Why two, ", nodes.math("", "W^Q"), nodes.Text("?"))
    asked = nodes.paragraph("", "", nodes.Text(""), question, nodes.Text(" Because."), ids=["why-two"])
    inner += asked
    assert question_of(asked) is None, "one of the page's own opening is found with the page"
    begin = nodes.paragraph("", "Begin.")
    outer = nodes.section("", nodes.title("", "1. One"), begin, inner, function, words, ids=["one"])
    places = records_of(nodes.document(None, None, "", outer), "p.html")
    records = [(place.address, place.title, place.page, place.prose, place.code) for place in places]
    assert records == [
        ("p.html", "1. One", "", "Begin.", ""),
        ("p.html#section-1-1", "1.1 Two", "1. One", "It is sqrt(d_k).", "x = 1\ntry:\nexcept E: print()\nmust fit"),
        ("p.html#why-two", "Why two, W_Q?", "1. One", "Because.", ""),
        ("p.html#package.f", "f", "1. One", "Add.", ""),
        ("p.html#term-Key", "Key", "1. One", "It is found.", ""),
    ]


SPOKEN = [
    (r"\frac{Q K^\top}{\sqrt{d_k}}", "(QK^T) / sqrt(d_k)"),
    (r"e^{s_j} / \sum_{l=1}^{n} e^{s_l}, \dots", "e^(s_j) / sum e^(s_l), …"),
    (r"\tfrac12 x^{-1/2} \le d_{\text{model}} \times n", "1/2 x^(-1/2) ≤ d_model × n"),
    (r"W^{QK}, W^O,\quad\text{and}\;W_i^Q", "W_QK, W_O, and W_i^Q"),
]


@pytest.mark.parametrize(("tex", "typed"), SPOKEN)
def test_a_formula_reads_as_one_would_type_it(tex, typed):
    assert spoken(tex) == typed


def test_an_alias_of_no_place_is_warned_of(tmp_path, caplog):
    record = Record("p.html#a", "A", "", "", "", is_code=False)
    table = tmp_path / "aliases.toml"
    table.write_text('["p.html"]\na = "alpha, first"\nb = "beta"\n')
    with caplog.at_level("WARNING"):
        assert [place.aliases for place in with_aliases([record], table)] == ["alpha, first"]
    assert [said.getMessage().removeprefix("WARNING: ") for said in caplog.records] == [
        "aliases.toml names p.html#b, but the book has no such place"
    ]


@pytest.fixture(scope="module")
def search(site, browser):
    """Search from the start page, by keyboard; return the page of results. No script may fail, here or there."""
    pages, failures = [], []
    # A browser may not read the index beside a file: that this was tried is no failure.
    expected = re.compile(r"file:.*pagefind|The search failed|net::ERR_FAILED")

    def ask(words, way="http"):
        while pages:
            pages.pop().close()
        page = browser.new_page()
        pages.append(page)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on(
            "console",
            lambda message: (
                failures.append(message.text)
                if message.type in ("error", "warning") and not (way == "file" and expected.search(message.text))
                else None
            ),
        )
        known = ("blob:", served if way == "http" else "file:")
        page.on("request", lambda request: None if request.url.startswith(known) else failures.append(request.url))
        page.goto(f"{served if way == 'http' else site.as_uri()}/{TOC[0]}.html")
        page.keyboard.press("Control+k")
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        page.wait_for_function("/[0-9]|No page has/.test(document.querySelector('main .search-summary')?.textContent)")
        return page

    with serve(site) as served:
        yield ask
        for page in pages:
            page.close()
    assert failures == []


def results(page):
    """Return the addresses of the results."""
    return page.eval_on_selector_all("main ul.search li > a", "links => links.map((link) => link.href)")


def retype(page, words):
    """Search for other words from the page of results."""
    page.fill("main input[type=search]", words)
    page.wait_for_function(
        "words => document.querySelector('main .search-summary').textContent.includes(`“${words}”`)", arg=words
    )
    return page


@pytest.mark.parametrize("way", ["http", "file"])
def test_the_search_finds_the_chapter(search, way):
    result = results(search("padding mask", way))
    paths = [urlsplit(address).path for address in result]
    assert any(path.endswith("notebooks/05_masking.html") for path in paths), result
    assert way == "http" or len(set(paths)) == len(paths), "each page once"
    assert not [path for path in paths if path.endswith("figures.html")], "lists do not compete with chapters"


FIRST = [  # what is typed, where it should lead, and among how many results
    ("mask", "notebooks/05_masking.html#", 3),
    ("why divide by sqrt", "notebooks/03_square_root_of_d_k.html", 2),
    ("encoder decoder", "notebooks/01_bottleneck.html#section-1-1", 1),
    ("query", "book/glossary.html#term-Query", 3),
    ("softmax", "book/glossary.html#term-Softmax", 3),
    ("temperature", "notebooks/03a_softmax_stops_listening.html#section-3a-6", 3),
    ("causal_mask", "book/package/masks.html#attention_tutorial.masks.causal_mask", 1),
    ("rotate_half", "notebooks/06a_rotary_up_close.html#section-6a-1", 2),
    ("residual connection", "book/glossary.html#term-Residual-path", 1),
    ("mask at inference", "book/symptoms.html#a-mask-is-lost-at-inference-and-nobody-notices", 1),
    ("pre-norm vs post-norm", "book/glossary.html#term-Norm-first-norm-last", 1),
    ("flash attention changes result", "notebooks/08_fast_attention.html#section-8-5", 2),
    ("NoPE", "book/glossary.html#term-Positional-encoding", 1),
    ("perplexity", "book/glossary.html#term-Nat", 1),
    ("hard attention", "book/glossary.html#term-Argmax", 3),
    ("why not merge Wq Wk single matrix", "notebooks/02a_what_the_formula_forces.html#why-not-merge", 4),
    ("kv cache", "notebooks/08b_serving.html#section-8b-", 3),
    ("batch_first", "book/names.html#one-name-two-meanings", 1),
    ("how does attention work", "book/why.html#how-attention-works", 2),
    ("what is d_k", "book/glossary.html#term-d_k", 1),
    ("masking future tokens", "notebooks/05_masking.html#section-5-1", 3),
    ("src_key_padding_mask", "notebooks/05a_pytorch_masks.html#section-5a-6", 1),
    ("attn_mask True or False", "notebooks/05_masking.html#section-5-8", 1),
    ("embed_dim must be divisible by num_heads", "book/symptoms.html#error-messages-word-for-word", 1),
    ("size of tensor a must match", "notebooks/00_pytorch.html#section-0-9", 3),
    ("fp16", "book/glossary.html#term-Half-precision", 2),
    ("OOM", "book/symptoms.html#it-runs-out-of-memory", 1),
    ("cuda out of memory", "book/symptoms.html#it-runs-out-of-memory", 1),
    ("seq2seq", "book/glossary.html#term-Decoder", 2),
    ("heatmap", "book/glossary.html#term-Attention-map", 1),
    ("multiple heads", "book/glossary.html#term-Multi-head-attention", 2),
    ("qkv shapes", "book/notation.html#attention", 1),
    ("mean ablation", "book/glossary.html#term-Ablation", 1),
    ("initialization", "book/glossary.html#term-Initialisation", 1),
    ("cosine similarity", "book/glossary.html#term-Dot-product", 1),
    ("pad_token eos_token", "book/symptoms.html#it-stops-at-once", 1),
    ("logit lens", "notebooks/10a_heads_on_fresh_sentences.html#section-10a-5", 3),
    ("embedding differs from reference", "book/symptoms.html#my-embedding-of-a-text-differs-from-the-reference", 1),
]


SYMPTOMS, SERVING = "book/symptoms.html#", "notebooks/08b_serving.html#section-8b-"
ORDER, PROJECTION = "notebooks/06_order.html#section-6-8", "notebooks/04_several_heads.html#section-4-5"
MATRICES = "notebooks/02_scaled_dot_product.html#"
OTHER_NAMES = [  # the words of people who do not know the book's, and places of which one is among the first three
    ("MHA", "book/glossary.html#term-Multi-head-attention"),
    ("GQA vs MHA", f"{SERVING}3"),
    ("rank collapse", "notebooks/07d_what_the_path_carries.html#section-7d-2"),
    ("oversmoothing", "notebooks/07d_what_the_path_carries.html#section-7d-2"),
    ("long context", ORDER),
    ("extrapolate to longer sequences", ORDER),
    ("generalize to longer than training", ORDER),
    ("kv cache size", f"{SERVING}2"),
    ("how much memory does the kv cache need for a 7B model", f"{SERVING}2"),
    ("stuck", f"{SYMPTOMS}the-loss-does-not-fall"),
    ("why does my transformer not learn anything", f"{SYMPTOMS}the-loss-does-not-fall"),
    ("my loss becomes nan after a few steps", f"{SYMPTOMS}the-loss-is-nan"),
    ("predicts same token", f"{SYMPTOMS}it-writes-one-frequent-word-everywhere"),
    ("good in training but bad at generation", f"{SYMPTOMS}it-works-in-training"),
    ("how do I know which kernel scaled_dot_product_attention uses", f"{SYMPTOMS}it-is-slower-than-expected"),
    ("xformers", f"{SYMPTOMS}it-is-slower-than-expected"),
    ("BOS", "notebooks/10_a_model_that_others_use.html#section-10-7"),
    ("interpret attention weights", "notebooks/04b_what_a_map_shows.html"),
    ("saliency", "notebooks/04b_what_a_map_shows.html"),
    ("mask polarity", "notebooks/05_masking.html#section-5-8"),
    ("local attention", f"{SERVING}4"),
    ("longformer", "book/glossary.html#term-Sliding-window"),
    ("W_O", PROJECTION),
    ("output matrix W_O", PROJECTION),
    ("WO", PROJECTION),
    ("W^O", PROJECTION),
    ("what does W^{O} do", PROJECTION),
    ("WQ", MATRICES),
    ("W^K", MATRICES),
    ("Q K^T", MATRICES),
    ("dk", "book/glossary.html#term-d_k"),
    ("sqrt(dₖ)", "notebooks/03_square_root_of_d_k.html"),
    ("why are query and key different", f"{MATRICES}why-two-matrices"),
    ("why do values differ from keys", f"{MATRICES}why-w-v"),
    ("what do heads learn", "notebooks/04_several_heads.html#section-4-8"),
    ("is attention explanation", "notebooks/04b_what_a_map_shows.html"),
]


def test_a_search_leads_first_to_the_section_that_explains(search):
    page = search("bottleneck")
    for words, expected, among in FIRST:
        first = results(retype(page, words))[:among]
        assert any(expected in address for address in first), (words, first)
        assert page.locator("main ul.search li").first.locator(".search-excerpt mark").count(), (
            f"{words}: the excerpt marks it"
        )
    firsts = {words: results(retype(page, words))[:3] for words, _ in OTHER_NAMES}
    assert {words: firsts[words] for words, expected in OTHER_NAMES if expected not in "\n".join(firsts[words])} == {}


ABSENT = [
    ("MoE", "No page has “MoE”."),
    ("LoRA", "No page has “LoRA”."),
    ("paged attention", "No page has “paged”"),
    ("speculative decoding", "No place has all of “speculative decoding”"),
]


def test_what_the_book_does_not_treat_is_said_to_be_absent(search):
    page = search("bottleneck")
    for words, said in ABSENT:
        assert retype(page, words).locator("main .search-summary").inner_text().startswith(said)
        assert " " in words or not results(page), "no parts of one or two letters are looked for"


@pytest.mark.parametrize("part", ["pagefind.js", "words.txt", "*.json*", "wasm*", "index/*", "fragment/*"])
def test_a_search_whose_index_did_not_come_says_so_and_can_be_made_again(site, browser, part):
    with serve(site) as address, contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        stopped = (f"**/pagefind/{part}", "**/searchindex.js*")
        for name in stopped:
            context.route(name, lambda route: route.abort())
        page.goto(f"{address}/search.html?q=softmax")
        again = page.get_by_role("button", name="Try again")
        again.wait_for()
        assert page.locator("main #search-results").inner_text().startswith("The search did not load.")
        for name in stopped:
            context.unroute(name)
        if part == "words.txt":
            page.keyboard.type("soft")  # in place of what the field holds
        else:
            again.click()
        page.wait_for_selector("main ul.search li mark")
        assert not again.count()


@pytest.mark.parametrize("policy", ["script-src 'self' 'unsafe-inline'", "connect-src 'none'"])
def test_where_the_index_cannot_be_asked_sphinx_answers(site, browser, policy):
    with serve(site) as address, contextlib.closing(browser.new_context()) as context:
        page = context.new_page()

        def restrict(route):
            answer = route.fetch()
            route.fulfill(response=answer, headers={**answer.headers, "content-security-policy": policy})

        page.route("**/search.html*", restrict)
        context.route("**/pagefind*.js*", restrict)
        page.goto(f"{address}/search.html?q=softmax")
        page.wait_for_selector("main ul.search li a[href*='03_square_root_of_d_k.html']")
        page.close()


def test_a_name_that_was_typed_whole_comes_before_longer_ones(search):
    assert results(search("MultiHeadAttention"))[0].endswith("#attention_tutorial.layers.MultiHeadAttention")


def test_a_result_lands_at_its_place_and_colours_nothing(search):
    page = search("padding changes nothing")
    page.locator("main ul.search li > a").first.click()
    page.wait_for_url("**/05_masking.html#section-5-4")
    top = "document.querySelector('#section-5-4 h2').getBoundingClientRect().top"
    page.wait_for_function(f"0 <= {top} && {top} <= 200")
    assert not page.locator("article .highlighted").count()
    assert page.evaluate("Object.keys(localStorage)") in ([], ["mode", "theme"], ["theme", "mode"])


def test_the_search_answers_while_one_types_and_shows_more_when_asked(search):
    page = search("bottleneck")
    page.fill("main input[type=search]", "attention")
    page.wait_for_function("document.querySelector('main .search-summary').textContent.includes('“attention”')")
    assert page.url.endswith("?q=attention")
    shown = page.locator("main ul.search li").count()
    page.get_by_role("button", name="Show more").press("Enter")
    page.wait_for_function(f"document.querySelectorAll('main ul.search li').length > {shown}")
    assert page.evaluate(f"document.querySelectorAll('main ul.search li')[{shown}].contains(document.activeElement)")
    page.fill("main input[type=search]", "pre-norm vs post-norm")  # no place has all of it
    page.wait_for_function("document.querySelector('main .search-summary').textContent.endsWith('some of these words')")
    assert page.locator("main ul.search li").count()
    page.fill("main input[type=search]", "€€€")
    page.wait_for_function("document.querySelector('main .search-summary').textContent.startsWith('0 places')")
    assert not page.locator("main ul.search li").count()


def test_a_word_that_no_page_has_is_called_so_and_leads_to_the_nearest(search):
    page = retype(search("sofmax"), "zzzzqq")
    assert not results(page) and not page.locator("main .search-missing a").count()
    for typed, near in [("sofmax", "softmax"), ("atention", "attention"), ("amsk mask", None), ("cuasal", "causal")]:
        missing = retype(page, typed).locator("main .search-missing")
        assert missing.inner_text().startswith(f"No page has “{typed.split()[0]}”")
        assert not near or missing.locator("a").first.inner_text() == near
    assert not results(page)
    page.locator("main .search-missing a").click()
    page.wait_for_url("**/search.html?q=causal")
    page.wait_for_function("document.querySelector('main ul.search li')")


def test_more_can_be_asked_for_in_the_dark(search):
    page = search("mask")
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.locator("main .search-results button").wait_for()
    assert not page_faults.contrast(page, "main")


def test_results_come_below_the_field_while_one_types(search, site):
    page = search("mask")
    page.goto(page.url.replace("search.html?q=mask", f"{TOC[0]}.html"))
    page.keyboard.press("Control+k")
    page.keyboard.type("padding mask")
    first = page.locator(".search-button__search-container ul.search li > a").first
    first.click()
    page.wait_for_url("**#*")


# ---- Links that last ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOC)
def test_every_section_can_be_linked_and_every_id_is_unique(pages, name):
    article = pages[name].select_one("article.bd-article")
    ids = [element["id"] for element in pages[name].find_all(id=True)]
    twice = {id for id in ids if ids.count(id) > 1}
    assert not {id for id in twice if article.find(id=id)}
    for section in article.find_all("section", id=True):
        heading = section.find(["h1", "h2", "h3", "h4", "h5"])
        assert heading.select_one("a.headerlink")["href"] == f"#{section['id']}"
        wanted = lasting_id(heading.get_text())
        if wanted:
            assert section["id"] == wanted
            assert section.find("span", id=True), "the address made of the heading's words works as well"


def test_every_chapter_has_lasting_addresses(pages):
    for name in CHAPTERS:
        number = number_of(name)
        ids = [section["id"] for section in pages[name].select("article section[id]")]
        numbered = [id for id in ids if id.startswith("section-")]
        assert numbered == [f"section-{number}-{place}" for place in range(1, len(numbered) + 1)] != []
        has_exercises = any(id.startswith(f"exercise-{number}-") for id in ids)
        assert is_deep(name) or has_exercises != (number == "0"), "a primer has turns in place of exercises"


def test_pages_lead_on_and_back_in_their_order(pages):
    for name in TOC:
        for rel, neighbour in zip(("prev", "next"), neighbours(name, TOC), strict=True):
            shown = [
                link["href"].partition("#")[0]
                for link in pages[name].select(f".prev-next-area a.{'left' if rel == 'prev' else 'right'}-{rel}")
            ]
            wanted = [f"{neighbour}.html"] if neighbour else []
            assert [urljoin(f"{ADDRESS}{name}.html", href) for href in shown] == [
                f"{ADDRESS}{target}" for target in wanted
            ]


# ---- Downloads and citations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_can_be_had_as_notebook_and_as_script(site, pages, name):
    menu = {
        Path(urlsplit(link["href"]).path).suffix: link["href"]
        for link in pages[name].select(".dropdown-page-menu a[href][download]")
    }
    assert set(menu) == {".ipynb", ".py"}
    assert not any(urlsplit(href).scheme or href.startswith("/") for href in menu.values()), "they work from files too"
    notebook, script = ((site / f"{name}.html").parent / menu[suffix] for suffix in (".ipynb", ".py"))
    assert notebook.read_bytes() == (ROOT / f"{name}.ipynb").read_bytes()
    source = script.read_text(encoding="utf-8")
    compile(source, script.name, "exec")
    defined = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    wanted = {node.name for cell in code for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.FunctionDef)}
    assert defined == wanted != set()


def test_colab_opens_the_chapters_and_only_them_and_every_page_leads_to_the_repository(pages):
    owner = urlsplit(CONFIG["repository"]["url"]).path.strip("/")
    for name in TOC:
        links = {link["href"] for link in pages[name].find_all("a", href=True)}
        assert CONFIG["repository"]["url"] in links
        expected = (
            f"https://colab.research.google.com/github/{owner}/blob/{CONFIG['repository']['branch']}/{name}.ipynb"
        )
        in_colab = {link.partition("#")[0] for link in links if "colab.research" in link}  # some at one of its cells
        assert in_colab == ({expected} if name in CHAPTERS else set())


def test_a_citation_says_who_what_when_and_where():
    about = {
        "title": "A {B}ook",
        "version": 2,
        "authors": [{"name": "The Group"}, {"given-names": "A", "family-names": "B"}],
    }
    assert sentence(about, "2026", "https://x.org/") == "The Group, A B (2026). A {B}ook. Version 2. https://x.org/"
    entry = bibtex(about, "2026", "https://x.org/")
    assert entry.count("{") == entry.count("}")
    assert "author  = {{The Group} and {A B}}" in entry and "year    = {2026}" in entry
