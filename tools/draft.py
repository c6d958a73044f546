"""Draft single pages: build them in seconds as the site would have them, and check their links.

    python -m tools.draft book/why.md ...      any pages, chapters too (this is `make draft PAGES="..."`)

A chapter is shown with the outputs that it stores; `python -m tools.notebooks --draft` executes it. Left out is what
needs all pages or takes long: the search, fonts cut to size, the whole encoder. The links of the pages are checked as
`make book` does, and so are the links of other files to a place that a page had in the last `make book` and lost.
"""

import re
import shutil
import sys
from pathlib import Path

from jupyter_book.sphinx import build_sphinx

from tools.book import ROOT, files_of_the_working_tree

BUILT = ROOT / "_build"
DRAFTS = BUILT / "draft"
LINKS = (".md", ".ipynb", ".html", ".py", ".toml")  # files that may link to a page


def places(page: Path) -> set[str]:
    """Return the ids of a page: what a link can point to."""
    return set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8"))) if page.is_file() else set()


def lost_links(page: str) -> list[str]:
    """Return the files that link to a place of a page which its draft has no more, with the link."""
    lost = places(BUILT / "html" / f"{page}.html") - places(DRAFTS / "html" / f"{page}.html")
    name = re.escape(Path(page).name)
    found = []
    for file in files_of_the_working_tree():
        if file.endswith(LINKS):
            links = re.findall(rf"\b{name}\.(?:md|ipynb|html)#([\w.-]+)", (ROOT / file).read_text(encoding="utf-8"))
            found += [f"{file}: {page}#{place} is no more" for place in sorted(lost.intersection(links))]
    return found


def main(paths: list[str]) -> int:
    """Build the pages; return 1 if something is wrong with them."""
    files = [Path(path).resolve() for path in paths]
    if not files:
        print("Say which pages: python -m tools.draft book/why.md")
        return 2
    if not DRAFTS.is_dir() and (BUILT / ".doctrees").is_dir():
        shutil.copytree(BUILT / ".doctrees", DRAFTS / ".doctrees")  # so that only what has changed is read
    overrides = {"nitpicky": True, "external_toc_path": str(ROOT / "_toc.yml"), "latex_individualpages": False}
    status = build_sphinx(
        str(ROOT), str(DRAFTS / "html"), noconfig=True, path_config=str(ROOT / "_config.yml"), confoverrides=overrides,
        filenames=list(map(str, files)), warningiserror=True, keep_going=True, tags=["draft"], quiet=True,
    )  # fmt: skip
    pages = [file.relative_to(ROOT).with_suffix("").as_posix() for file in files]
    faults = [fault for page in pages for fault in lost_links(page)]
    print(*faults, *(DRAFTS / "html" / f"{page}.html" for page in pages), sep="\n")
    return int(bool(status or faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
