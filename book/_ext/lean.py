"""Keep scripts out of the way of the text, and what no page uses out of the site."""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.builders.html import JavaScript, StandaloneHTMLBuilder

# A script in the page itself writes into the object that this one makes.
NEEDED_AT_ONCE = "documentation_options.js"
UNUSED = ("**/*.map", "**/*webpack-macros.html", "locales/**/*")


def deferred(script: JavaScript) -> JavaScript:
    """Return a script that waits for the text; as it is, if it stands in the page itself or is needed at once."""
    if not script.filename or NEEDED_AT_ONCE in str(script.filename):
        return script
    return JavaScript(script.filename, priority=script.priority, **{"defer": "defer", **script.attributes})


def defer_scripts(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Have a page's scripts run, in their order, when its text is there; not on the search page."""
    if doctree is None:
        return
    context["script_files"] = [deferred(script) for script in context["script_files"]]


def remove_unused(app: Sphinx, exception: Exception | None) -> None:
    """Remove files that the theme brings and no page loads."""
    if exception is None and isinstance(app.builder, StandaloneHTMLBuilder):
        for pattern in UNUSED:
            for path in (Path(app.outdir) / "_static").glob(pattern):
                if path.is_file():
                    path.unlink()


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.connect("html-page-context", defer_scripts, priority=900)  # when all extensions have added theirs
    app.connect("build-finished", remove_unused)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
