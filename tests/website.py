"""What tests of the website share: the built book, a page for each widget, a server and a browser.

Several test processes share one build. Where Chromium is missing the tests that need it skip, but never when CI=true
(unless ATTENTION_TUTORIAL_BROWSER=none says that there shall be no browser).
"""

import contextlib
import functools
import gzip
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import page_faults
import pytest
import sphinx.cmd.build
import yaml
from bs4 import BeautifulSoup
from filelock import FileLock
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, writes

from attention_tutorial import widgets
from tools.book import ROOT, settings
from tools.node import node

HOST = ROOT / "book" / "_ext" / "attention_book" / "widgets_host.js"
WIDGETS = {widget.module: widget for widget in (getattr(widgets, name) for name in widgets.__all__)}
BUILD = "from jupyter_book.cli.main import main; main()"


def missing(thing):
    """Skip the test, or fail it where everything has to be there."""
    if os.environ.get("CI") == "true" and os.environ.get("ATTENTION_TUTORIAL_BROWSER") != "none":
        pytest.fail(f"{thing} was not found; with CI=true these tests must run")
    pytest.skip(f"{thing} was not found")


def once(tmp_path_factory, name, make):
    """Call `make(folder)` in the first process that asks; every process gets the result, which must fit into JSON."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    with FileLock(root / f"{name}.lock"):
        result = root / f"{name}.json"
        if not result.exists():
            (root / name).mkdir(exist_ok=True)
            result.write_text(json.dumps(make(root / name)), encoding="utf-8")
        return json.loads(result.read_text(encoding="utf-8"))


def jupyter_book(source, *options, cwd):
    """Run `jupyter-book build`; return its exit status and what it printed, without colours."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-c", BUILD, "build", str(source), *options]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=3000)
    return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def small_book(folder):
    """Build the book in a folder, strictly, in this process; return its exit status and what it complained of.

    A process of its own would take seconds to import Sphinx and all that the extensions need.
    """
    said = io.StringIO()
    options = ["-q", "-W", "-n", "--keep-going", "--no-color"]
    with contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Sphinx and its extensions; pytest would make errors of them
        status = sphinx.cmd.build.main([*options, str(folder), str(folder / "_out")])
    return status, said.getvalue()


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Build the site as `make book` does; return its folder, the exit status and what was printed."""

    def make(folder):
        return jupyter_book(ROOT, "--path-output", str(folder), "-W", "-n", "--keep-going", cwd=folder)

    status, printed = once(tmp_path_factory, "site", make)
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    return root / "site" / "_build" / "html", status, printed


@pytest.fixture(scope="session")
def site(build):
    """Return the folder of the built site; warnings are left to the first test of tests/site/test_site.py."""
    folder, _, printed = build
    if not (folder / "index.html").is_file():
        pytest.fail(f"the site was not built: {printed[-1000:]}")
    return folder


@pytest.fixture(scope="session")
def widget_pages(tmp_path_factory):
    """Return the folder of a book with one page for each widget, as its class makes it, and a plain page.

    The real book's configuration and extensions build it. A page is named as the widget's module.
    """

    def make(source):
        shutil.copytree(ROOT / "book", source / "book")
        shutil.copy(ROOT / "CITATION.cff", source)  # every page says how to cite the book
        config = settings()
        extensions = config["sphinx"]["local_extensions"]
        config["sphinx"]["local_extensions"] = {name: str(ROOT / folder) for name, folder in extensions.items()}
        (source / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        plain = source / "more" / "plain.md"  # the configuration leaves out .md files at the top
        plain.parent.mkdir()
        plain.write_text("# Without a widget\n", encoding="utf-8")
        for number, widget in enumerate((each() for each in WIDGETS.values()), start=1):
            shown = {"text/plain": repr(widget), "text/html": widget.to_html()}
            output = new_output("execute_result", shown, execution_count=1)
            cells = [new_markdown_cell(f"# {number}"), new_code_cell("Widget()", outputs=[output], execution_count=1)]
            text = writes(new_notebook(cells=cells))
            (source / f"{widget.module}.ipynb").write_text(text, encoding="utf-8")
        chapters = [{"file": name} for name in WIDGETS]
        toc = {"format": "jb-book", "root": "more/plain", "chapters": chapters}
        (source / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
        _, printed = jupyter_book(source, cwd=source)
        built = source / "_build" / "html"
        assert all((built / f"{name}.html").is_file() for name in WIDGETS), printed[-4000:]
        return str(built)

    return Path(once(tmp_path_factory, "widget_pages", make))


@pytest.fixture(scope="session")
def browser():
    """Chromium: Playwright's own, or the one on the path."""
    if importlib.util.find_spec("playwright") is None:
        missing("the package playwright")
    from tools.browser import BrowserMissing, chromium

    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(chromium())
        except BrowserMissing as error:
            missing(str(error))


@pytest.fixture(scope="session")
def widget_addresses(widget_pages):
    """Return where the pages with the widgets are, served ("http") and as files ("file")."""
    from tools.browser import serve

    with serve(widget_pages) as address:
        yield {"http": address, "file": widget_pages.as_uri()}


WISHES = {"color_scheme": "light", "reduced_motion": "no-preference", "forced_colors": "none"}


class Pages:
    """Pages of one browser, used again by the next test: a new context costs twice what opening a page in one does."""

    def __init__(self, browser):
        self.browser, self.free = browser, {}

    def take(self, **options):
        """Return a page with these options that no one uses; what it asks for and complains of goes to `page.heard`."""
        kind = json.dumps(options, sort_keys=True)
        page = self.free[kind].pop() if self.free.get(kind) else self.make(options)
        page.heard.clear()
        return page

    def make(self, options):
        """Open a page in a context of its own."""
        page = self.browser.new_context(**options).new_page()
        page.options, page.heard = options, []
        page.on("request", lambda asked: page.heard.append(("request", asked.url)))
        page.on("pageerror", lambda error: page.heard.append(("failure", str(error))))
        page.on("console", lambda said: page.heard.append((said.type, f"{said.text} {said.location}")))
        return page

    def give_back(self, page):
        """Take a page back. Whatever a test did to it, it begins anew: nothing is stored, all is as it was made."""
        if page.context.pages != [page] or page.evaluate("'__pwClock' in globalThis"):  # or a clock stands
            page.context.close()
            return
        page.evaluate("if (location.protocol !== 'about:') localStorage.clear(), sessionStorage.clear()")
        page.goto("about:blank")
        page.mouse.move(0, 0)
        page.set_viewport_size(page.options["viewport"])
        wishes = {wish: page.options.get(wish, usual) for wish, usual in WISHES.items()}
        page.emulate_media(media="screen", **wishes)
        self.free.setdefault(json.dumps(page.options, sort_keys=True), []).append(page)


@pytest.fixture(scope="session")
def pages(browser):
    return Pages(browser)


def await_widget(page):
    """Ask for the widget of a page, where it has to be asked for, and wait until it is there."""
    if (later := page.locator(".attention-widget-later:enabled")).count():
        later.first.click()
    page.evaluate("dispatchEvent(new Event('mount-widgets'))")  # without waiting for a sign of a reader
    page.wait_for_selector("[data-widget][data-mounted=yes]")


@contextlib.contextmanager
def visiting(pages, addresses):
    """Open pages of widgets. At the end no script may have failed or warned, and no other server been asked."""
    opened = []

    def open_page(module, way="file", *, width=1280, **options):
        page = pages.take(viewport={"width": width, "height": 900}, **options)
        opened.append((way, page))
        page.goto(f"{addresses[way]}/{module}.html")
        if options.get("java_script_enabled", True):
            await_widget(page)
        return page

    yield open_page
    ours = (f"{addresses['http']}/", "file:", "blob:", "data:", "about:")
    failures = [
        (kind, what)
        for way, page in opened
        for kind, what in page.heard
        if kind == "failure"
        or (kind in ("error", "warning") and way == "http")
        or (kind == "request" and not what.startswith(ours))
    ]
    for _, page in opened:
        pages.give_back(page)
    assert failures == []


@pytest.fixture
def visit_widget(pages, widget_addresses):
    with visiting(pages, widget_addresses) as open_page:
        yield open_page


@pytest.fixture
def visit(visit_widget, request):
    """Open the page of the widget that a file of tests is about."""
    return functools.partial(visit_widget, request.path.stem.removeprefix("test_"))


@pytest.fixture
def live(monkeypatch):
    """Widgets bring their script, as in a notebook that nobody builds a book from."""
    monkeypatch.delenv("ATTENTION_TUTORIAL_WIDGETS", raising=False)


IN_NODE = """
import { readFileSync } from "node:fs";
import * as widget from "./widget.mjs";
const answer = (given) => { BODY };
console.log(JSON.stringify(await answer(JSON.parse(readFileSync(0, "utf8")))));
"""


@pytest.fixture(scope="session")
def run_in_node(tmp_path_factory):
    """Return `run(module, body, given)`: what a JavaScript function returns of `given`, in JSON.

    Its body may use all that the module's bundle, as a page has it, exports as `widget`.
    """

    def run(module, body, given=None):
        folder = tmp_path_factory.mktemp("node")
        (folder / "widget.mjs").write_text(WIDGETS[module].bundle("js"), encoding="utf-8")
        (folder / "test.mjs").write_text(IN_NODE.replace("BODY", body), encoding="utf-8")
        command, text = [node(), "test.mjs"], json.dumps(given)
        done = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@functools.cache
def soup_of(path):
    """Parse a page of the site, once in a process (conftest.py keeps the tests that read pages together)."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "lxml")


@functools.cache
def bytes_sent(path):
    """Return how many bytes a server that uses gzip sends for a file."""
    data = path.read_bytes()
    return min(len(data), len(gzip.compress(data, 9)))


def state_in(page):
    """Return the state of the first widget in a page's HTML."""
    return json.loads(BeautifulSoup(page, "html.parser").select_one("[data-state]")["data-state"])


def put(page, widget):
    """Show a widget on a page of its own, which holds nothing else."""
    shown = widget.to_html().replace("data-later-widget=", "data-widget=")  # its bundle is there at once
    page.set_content(f"<style>{widget.bundle('css')}</style><body style='margin: 20px'>{shown}")
    sources = json.dumps({widget.module: widget.bundle("js")})
    page.add_script_tag(content=f"window.attentionWidgets = {sources};{HOST.read_text(encoding='utf-8')}")
    page.wait_for_selector("[data-mounted=yes]")


def luminance(colour):
    """Return the relative luminance of a colour, written as "#rrggbb" or "rgb(r,g,b)" (WCAG 2)."""
    parts = re.findall(r"\d+", colour) if colour.startswith("rgb") else [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(part) / 255 for part in parts)]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    """Return the contrast of two colours, from 1 to 21."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def press(page, name):
    """Click a widget's button, box or switch."""
    page.click(f"[id$='-{name}']")


def slide(page, name, position):
    """Put a widget's slider on a position, as dragging does."""
    page.locator(f"[id$='-{name}'][type=range]").evaluate(
        "(input, position) => { input.value = position; input.dispatchEvent(new Event('input', { bubbles: true })); }",
        position,
    )


def layouts_while_sliding(page, *names):
    """Return how many layouts a widget has, from top to bottom, while one slides each slider from end to end."""
    return page.evaluate(
        """(names) => {
          const [root, seen] = [document.querySelector(".bw"), new Set()];
          for (const input of names.map((name) => root.querySelector(`[id$='-${name}']`))) {
            const step = Math.max(1, Math.round((input.max - input.min) / 8));
            for (let at = Number(input.min); at <= Number(input.max); at += step) {
              input.value = at;
              input.dispatchEvent(new Event("input", { bubbles: true }));
              const tops = [...root.querySelectorAll("svg, input, .bw-panel, table, summary")].map((x) =>
                Math.round(x.getBoundingClientRect().top - root.getBoundingClientRect().top));
              seen.add(JSON.stringify(tops));
            }
          }
          return seen.size;
        }""",
        names,
    )


def hard_to_tap(page, selector):
    """List what can be pressed and is less than 44 pixels high, of all that a selector finds in sight."""
    assert page.locator(selector).count()
    return page.eval_on_selector_all(
        selector, "all => all.filter(x => x.offsetHeight && x.offsetHeight < 44).map(x => x.outerHTML)"
    )


def phone_faults(page):
    """List what of a widget is wider than the window or hard to tap."""
    found = page.eval_on_selector_all(
        ".bw svg, .bw p, .bw button",
        "all => all.filter(x => x.getBoundingClientRect().right > innerWidth && !x.closest('.bw-scroll'))"
        ".map(x => x.outerHTML.slice(0, 200))",
    )
    if not page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"):
        found.append("the page scrolls sideways")
    controls = ".bw .bw-button, .bw select, .bw input[type=range], .bw label.bw-toggle, .bw summary"
    return found + hard_to_tap(page, controls)


DESK, PHONE = 1280, 360  # pixels
#: Counts the points at which an arc lies in a word, a pixel or more from its edge.
CROSSINGS = """([arcs, words]) => {
  const boxes = [...document.querySelectorAll(words)].map((x) => x.getBoundingClientRect());
  return [...document.querySelectorAll(arcs)].flatMap((arc) => {
    const { left, top } = arc.ownerSVGElement.getBoundingClientRect();
    return Array.from({ length: 101 }, (_, i) => arc.getPointAtLength((i / 100) * arc.getTotalLength()))
      .map(({ x, y }) => [left + x, top + y]);
  }).filter(([x, y]) => boxes.some((box) =>
    x > box.left + 1 && x < box.right - 1 && y > box.top + 1 && y < box.bottom - 1)).length;
}"""

DRESS = """async ([theme, width]) => {
    document.documentElement.dataset.theme = theme;
    while (innerWidth !== width) await new Promise(requestAnimationFrame);
    for (let frame = 0; frame < 2; frame++) await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}"""


def serious_findings(page, context, thorough=True):
    """What axe finds serious or critical in a part of a page, and letters that are too faint: [rule, where].

    `page_faults.contrast` looks by night on a phone and, where it is to be thorough, by day at a desk, where axe looks
    as well. It sees no less than axe, in a fraction of the time.
    """
    if importlib.util.find_spec("axe_playwright_python") is None:
        missing("the package axe-playwright-python")
    found = []
    for theme, width in (("dark", PHONE), ("light", DESK))[: 1 + thorough]:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(DRESS, [theme, width])
        scheme = page.eval_on_selector(context, "x => getComputedStyle(x).colorScheme")
        found += [("colour-scheme", f"{theme}: {scheme}")] * (scheme != theme)
        found += [("color-contrast", f"{theme}, {width}: {letters}") for letters in page_faults.contrast(page, context)]
    if thorough:
        found += [(rule, element) for rule, element, _ in page_faults.axe(page, ("color-contrast",), context)]
    else:
        page.set_viewport_size({"width": DESK, "height": 900})
        page.evaluate(DRESS, ["light", DESK])
    return found
