"""Give pages the public address of the repository, which is written once, in _config.yml.

A page of the book writes `https://REPOSITORY` where the address belongs, also inside a command that a reader copies.
"""

from sphinx.application import Sphinx

PLACEHOLDER = "https://REPOSITORY"


def fill_in_address(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the address in the place of its placeholder."""
    source[0] = source[0].replace(PLACEHOLDER, app.config.html_theme_options["repository_url"])


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.connect("source-read", fill_in_address)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
