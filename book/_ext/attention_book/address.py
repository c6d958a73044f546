"""Give pages the public addresses, which all come from the repository's in _config.yml, and the supported Pythons.

A page of the book writes `https://REPOSITORY` where the repository's address belongs, also inside a command that a
reader copies, `https://SITE/` for that of the site, and `PYTHONS` for the versions that pyproject.toml lists. The
address of the site is that of the repository on GitHub Pages. Who comes to an address that leads nowhere sees the page
made here, which GitHub Pages knows by its name, 404.
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config

from .levels import is_deep

PLACEHOLDER = "https://REPOSITORY"
CHAPTERS = "notebooks/"
# The page 404 is shown at addresses of any depth. Its links begin at the nearest folder that has the site's files,
# whatever the site's address is, or at its own where it is a file. A link to a place in it stays in it.
HOME = """<base href="{home}">
<script>
const folders = location.pathname.split("/"), root = document.documentElement.dataset;
while (folders.length > 1) {{
  folders.pop();
  const asked = new XMLHttpRequest();
  const home = `${{folders.join("/")}}/`;
  try {{
    asked.open("HEAD", `${{home}}_static/theme.css`, false);
    asked.send();
  }} catch {{}}
  if (asked.status === 200 || location.protocol === "file:") {{
    document.querySelector("base").href = root.content_root = home;
    break;
  }}
}}
addEventListener("click", (event) => {{
  const link = event.target.closest("a[href^='#']");
  if (!link) return;
  event.preventDefault();
  location.hash = link.hash;
}});
</script>"""
LOST = """<h1>Page not found</h1>
<p>There is no page at this address. It may have moved: search for it in the box at the side, or go on from here.</p>
<ul>
{links}
</ul>"""


def site_address(repository: str) -> str:
    """Return where GitHub Pages shows the site of a repository; nothing for a repository that is kept elsewhere.

    Example:
        >>> site_address("https://github.com/someone/some-book")
        'https://someone.github.io/some-book/'
        >>> site_address("https://github.com/One/one.github.io.git"), site_address("https://example.org/one/book")
        ('https://one.github.io/', '')
    """
    parts = urlsplit(repository)
    owner, _, name = parts.path.strip("/").removesuffix(".git").partition("/")
    if parts.netloc != "github.com" or not name:
        return ""
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def pythons(root: Path = Path(__file__).parents[3]) -> list[str]:
    """Return the supported versions of Python, as the classifiers in pyproject.toml list them."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def pythons_in_words() -> str:
    """Return these versions as a sentence names them: "3.11, 3.12 or 3.13"."""
    *others, newest = pythons()
    return f"{', '.join(others)} or {newest}"


def set_site_address(app: Sphinx, config: Config) -> None:
    """Let Sphinx name each page's one address in its head."""
    address = site_address(config["html_theme_options"]["repository_url"])
    config["html_baseurl"] = config["ogp_site_url"] = address
    config["project"] = config["html_title"]


def fill_in(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the addresses and the supported Pythons in the place of their placeholders."""
    repository = app.config.html_theme_options["repository_url"]
    text = source[0].replace(PLACEHOLDER, repository).replace("https://SITE/", app.config.html_baseurl)
    source[0] = text.replace("PYTHONS", pythons_in_words())


def make_lost_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page 404, which leads to the start and to the chapters."""
    main = [page for page in app.env.collect_relations() if not is_deep(page)]
    pages = [page for page in main if page == app.config.root_doc or page.startswith(CHAPTERS)]
    links = "\n".join(f'<li><a href="{page}.html">{escape(app.env.titles[page].astext())}</a></li>' for page in pages)
    home = HOME.format(home=urlsplit(app.config.html_baseurl).path or "/")
    yield "404", {"title": "Page not found", "body": LOST.format(links=links), "metatags": home}, "page.html"


def lead_to_form(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Have the button for issues open the form for an error, with this page in it; custom.js adds the section."""
    fields = {"template": "chapter.yml", "place": urljoin(app.config.html_baseurl, f"{pagename}.html")}
    for menu in context.get("header_buttons", []):
        for button in menu.get("buttons", []):
            if button.get("label") == "source-issues-button":
                button["url"] = f"{app.config.html_theme_options['repository_url']}/issues/new?{urlencode(fields)}"


def write_robots(app: Sphinx) -> None:
    """Tell robots where the list of pages is, which `sphinx-sitemap` writes."""
    lines = f"User-agent: *\nAllow: /\nSitemap: {urljoin(app.config.html_baseurl, 'sitemap.xml')}\n"
    (Path(app.outdir) / "robots.txt").write_text(lines, encoding="utf-8")
