"""The built site in a real browser: a server for it, Chromium, and a page that has finished loading.

`make screenshots` and the tests of the site in a browser use it.
"""

import argparse
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Error, Page, sync_playwright

from tools.serve import QuietHandler, serve

__all__ = ["BrowserMissing", "QuietHandler", "built_site", "chromium", "serve", "visit"]

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
PATIENCE = 300_000  # milliseconds for what a page is waited for: it ends what hangs, on a busy machine too
# Pictures are there, also those that wait for a reader to come near, and widgets are mounted or have failed.
READY = """async () => {
    await document.fonts.ready;
    dispatchEvent(new Event("mount-widgets"));
    const open = '[data-widget]:not([data-mounted=yes], [data-mounted=failed])';
    while (document.querySelector(open)) await new Promise((done) => setTimeout(done, 20));
    for (const image of document.images) image.loading = "eager";
    await Promise.allSettled([...document.images].map((image) => image.decode()));
}"""


class BrowserMissing(RuntimeError):
    """There is no Chromium, or none that starts."""


def built_site(folder: str) -> Path:
    """Return the folder of a built site, as a command line names it."""
    if not (Path(folder) / "index.html").is_file():
        raise argparse.ArgumentTypeError(f"{folder} holds no built site; run `make book` first")
    return Path(folder)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium: Playwright's own, or the one on the path."""
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        program = own if own.exists() else next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            raise BrowserMissing("Chromium was not found: install it, or run `playwright install chromium`")
        try:
            browser = playwright.chromium.launch(executable_path=str(program), args=ARGUMENTS)
        except Error as error:
            raise BrowserMissing(f"Chromium does not start: {error.message.splitlines()[0]}") from error

        def patient(make: Callable[..., BrowserContext | Page]) -> Callable[..., Any]:
            def made(**options: Any) -> BrowserContext | Page:
                new = make(**options)
                new.set_default_timeout(PATIENCE)
                return new

            return made

        browser.new_context, browser.new_page = patient(browser.new_context), patient(browser.new_page)  # type: ignore[method-assign]
        yield browser
        browser.close()


def visit(page: Page, address: str) -> None:
    """Open an address, and wait until its pictures are there and its widgets mounted."""
    page.goto(address)
    page.evaluate(READY)
