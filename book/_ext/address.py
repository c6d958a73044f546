"""Give pages the public addresses, which all come from one: that of the repository, written in _config.yml.

A page of the book writes `https://REPOSITORY` where the repository's address belongs, also inside a command that a
reader copies. The address of the site itself is that of the repository on GitHub Pages.
"""

from urllib.parse import urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config

PLACEHOLDER = "https://REPOSITORY"


def site_address(repository: str) -> str:
    """Return where GitHub Pages shows the site of a repository; nothing for a repository that is kept elsewhere.

    Example:
        >>> site_address("https://github.com/someone/some-book")
        'https://someone.github.io/some-book/'
    """
    parts = urlsplit(repository)
    owner, _, name = parts.path.strip("/").removesuffix(".git").partition("/")
    if parts.netloc != "github.com" or not name:
        return ""
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def set_site_address(app: Sphinx, config: Config) -> None:
    """Let Sphinx name each page's one address in its head."""
    config["html_baseurl"] = site_address(config["html_theme_options"]["repository_url"])


def fill_in_address(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the address in the place of its placeholder."""
    source[0] = source[0].replace(PLACEHOLDER, app.config.html_theme_options["repository_url"])


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.connect("config-inited", set_site_address)
    app.connect("source-read", fill_in_address)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
