"""The Sphinx extension of this book: everything that its pages do beyond Sphinx, the theme and published extensions.

Each module is one concern and says at its head what it does. `setup` is the only place that connects them with Sphinx,
so the order in which they work can be read here.
"""

from collections.abc import Callable

from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder


def for_the_site(work: Callable[[Sphinx], None], *, in_drafts: bool = True) -> Callable[..., None]:
    """Have something done where pages are built, not where links are checked, and not after a failure.

    What takes long, or needs all pages, is not done for a draft of single ones (tools/draft.py).
    """

    def handler(app: Sphinx, exception: Exception | None = None) -> None:
        is_draft = app.tags.has("draft")
        if exception is None and isinstance(app.builder, StandaloneHTMLBuilder) and (in_drafts or not is_draft):
            work(app)

    return handler


def setup(app: Sphinx) -> dict[str, object]:
    """Connect the parts with Sphinx, in the order of a build."""
    # Imported here, so that a test or a tool that wants one part does not load all of them.
    import torch
    from docutils import nodes
    from pybtex.plugin import register_plugin

    from . import (
        address,
        cards,
        citation,
        claim_lines,
        downloads,
        embedded,
        figure_list,
        figures,
        formulas,
        laboratory,
        levels,
        notebooks,
        search,
        slides,
        theme,
        widgets,
        you_are_here,
    )
    from .anchors import LastingIds
    from .benchmark import BenchmarkDirective
    from .claims import ClaimsDirective
    from .mistakes import MistakesDirective
    from .plans import SessionDirective
    from .sayings import SayingsDirective, note_topics
    from .start_widget import StartWidgetDirective

    torch.set_num_threads(1)  # threads that wait for one another are slow on a busy machine

    # What a page may write
    app.add_directive("benchmark", BenchmarkDirective)
    app.add_directive("claims", ClaimsDirective)
    app.add_directive("figures", figure_list.FiguresDirective)
    app.add_directive("laboratory", laboratory.LaboratoryDirective)
    app.add_directive("mistakes", MistakesDirective)
    app.add_directive("review-cards", cards.CardsDirective)
    app.add_directive("sayings", SayingsDirective)
    app.add_directive("session", SessionDirective)
    app.add_directive("start-widget", StartWidgetDirective)
    app.add_directive("cite-this-book", citation.CiteThisBook)
    app.add_directive("chapter-widget", widgets.ChapterWidget)
    app.add_role("minutes", levels.minutes)
    app.add_role("thumbnail", figure_list.thumbnail)
    register_plugin("pybtex.style.sorting", "year_first", citation.YearFirst)
    register_plugin("pybtex.style.formatting", "by_year", citation.ByYear)

    app.add_js_file("progress.js", priority=400)  # before the host of the widgets, which asks it for answers

    # 1. The configuration is read. The address comes before the extensions that need it ask for it.
    app.connect("config-inited", address.set_site_address, priority=100)
    app.add_config_value("book_static_files", "", "html", str)
    app.connect("config-inited", theme.mark_of_static_files)
    app.connect("config-inited", theme.count_no_figures, priority=900)
    # before a page refers to them: Sphinx adds their checksums
    app.connect("builder-inited", for_the_site(widgets.write_files))
    app.connect("builder-inited", for_the_site(slides.write_files))
    app.connect("builder-inited", for_the_site(search.leave_out_of_drafts))

    # 2. Each page is read.
    app.connect("source-read", address.fill_in)
    app.connect("source-read", notebooks.show_own_code)
    app.add_transform(LastingIds)
    app.connect("doctree-read", theme.mark_callouts)
    app.connect("doctree-read", theme.mark_facts)
    app.connect("doctree-read", search.note_records)
    app.connect("doctree-read", laboratory.note_tasks)
    app.connect("doctree-read", note_topics)

    # 3. All pages are read: what needs to know all of them.
    app.connect("html-collect-pages", address.make_lost_page)

    # 4. Each page is written. Claims are set when myst-nb has chosen which output of a cell to show.
    app.add_post_transform(figures.PackedPictures)
    app.connect("doctree-resolved", claim_lines.set_claims)
    app.connect("doctree-resolved", figures.number_figures)
    app.connect("doctree-resolved", formulas.keep_together)
    app.connect("doctree-resolved", you_are_here.set_map)
    app.add_html_math_renderer("katex", (formulas.visit_math, None), (formulas.visit_math, None))
    app.add_node(nodes.image, override=True, html=(figures.visit_image, figures.depart_image))

    # 5. Each page gets its frame. The theme's own buttons have priority 501.
    app.connect("html-page-context", levels.set_prev_next)
    app.connect("html-page-context", citation.add_tags)
    app.connect("html-page-context", widgets.add_to_page)
    app.connect("html-page-context", embedded.write_pages)
    app.connect("html-page-context", address.lead_to_form, priority=502)
    app.connect("html-page-context", downloads.offer_script, priority=502)
    app.connect("html-page-context", slides.write_deck, priority=502)
    app.connect("html-page-context", theme.make_one_menu, priority=503)  # of what these three have changed
    app.connect("html-page-context", theme.name_edition)
    app.connect("html-page-context", theme.choose_assets, priority=900)  # when all extensions have added theirs

    # 6. All pages are written, and all static files copied.
    app.connect("build-finished", for_the_site(address.write_robots, in_drafts=False))
    app.connect("build-finished", for_the_site(cards.write_deck, in_drafts=False))
    app.connect("build-finished", for_the_site(figure_list.write_files, in_drafts=False))
    app.connect("build-finished", for_the_site(search.write_index, in_drafts=False))
    app.connect("build-finished", for_the_site(theme.cut_icons))
    app.connect("build-finished", for_the_site(theme.cut_fonts, in_drafts=False))
    # The theme writes the colours of code, light and dark, at 500.
    app.connect("build-finished", for_the_site(theme.join_sheets), priority=501)
    app.connect("build-finished", for_the_site(theme.remove_unused), priority=502)
    app.connect("build-finished", for_the_site(theme.cut_scripts), priority=502)
    app.connect("build-finished", for_the_site(theme.cut_sheets, in_drafts=False), priority=503)

    return {
        "version": "1",
        "env_version": 5,  # to be raised when what is noted of a page changes: then all pages are read again
        "parallel_read_safe": True,
        "parallel_write_safe": False,
    }
