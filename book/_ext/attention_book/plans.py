"""A session in class: what a chapter has for it, made from the notebook when the site is built.

    ```{session} 01_bottleneck
    :until: 1.7

    **Show** ...
    ```

stands for its minutes, its demonstrations, and what to ask, up to that section; the words stay as they are.
"""

import re
from typing import ClassVar, NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from nbformat import NotebookNode
from sphinx.util.docutils import SphinxDirective

from .anchors import lasting_id
from .notebooks import HEADING, headings, predictions, read_chapters, title_of
from .tables import inline

MINUTES = re.compile(r"(\d+) minutes to read, (\d+) (?:more )?for your turns")
TURN = re.compile(r"^\*\*Your turn\.\*\*(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
BOX = re.compile(r" If there is a box below.*")  # how to answer on the page
ENDS = {"Exercises", "Common mistakes"}  # what comes first of these ends a chapter
TOP = "the top"


class Session(NamedTuple):
    """What a notebook has for a session: minutes, and by section demonstrations, predictions and turns."""

    read: int
    turns_take: int
    demonstrations: list[str]
    predictions: list[tuple[str, str]]
    turns: list[tuple[str, str]]


def session(notebook: NotebookNode, until: str = "") -> Session:
    """Return what a chapter has for class.

    Args:
        notebook: the chapter.
        until: the number of the last section, such as "4.4"; without it, all to the last.

    Returns:
        The session. Sections are headings; what stands above the first one is at "the top".

    Raises:
        ValueError: if there is no such section, or the chapter does not say its minutes.
    """
    sections = [text for level, text in headings(notebook) if level == 2]
    last = next((i for i, text in enumerate(sections) if until and text.startswith(f"{until} ")), None)
    if until and last is None:
        raise ValueError(f"until must be a section of the chapter, such as {sections[0].split()[0]}; got {until!r}")
    end = next(i for i, text in enumerate(sections) if text in ENDS)
    shown = sections[: end if last is None else last + 1]
    minutes = MINUTES.search("\n".join(cell.source for cell in notebook.cells).replace("\n", " "))
    if minutes is None:
        raise ValueError("a chapter must say its minutes: N minutes to read, M for your turns")
    demonstrations, turns, section = [], [], TOP
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for part in re.split(r"(?m)^(?=## )", cell.source):
                heading = HEADING.match(part)
                section = heading[1] if heading else section
                turns += [(section, BOX.sub("", " ".join(asked.split()))) for asked in TURN.findall(part)]
        elif "attention-widget" in str(cell.get("outputs", "")):
            demonstrations.append(section)
    wanted = {TOP, *shown}
    return Session(
        int(minutes[1]),
        int(minutes[2]),
        [place for place in demonstrations if place in wanted],
        [(place, " ".join(asked.split())) for place, asked, _ in predictions(notebook) if place in wanted],
        [(place, asked) for place, asked in turns if place in wanted],
    )


class SessionDirective(SphinxDirective):
    """Set what a chapter has for a session, and the words on it."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"until": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the session's lines."""
        docname = f"notebooks/{self.arguments[0]}"
        chapters = dict(read_chapters(self.env))
        if docname not in chapters:
            raise self.error(f"session must name a notebook of the book, such as 01_bottleneck; got {docname}")
        notebook, until = chapters[docname], self.options.get("until", "")
        try:
            about = session(notebook, until)
        except ValueError as error:
            raise self.error(str(error)) from error
        page = self.env.app.builder.get_relative_uri(self.env.docname, docname)
        chapter = nodes.reference("", "", *inline(title_of(notebook, docname)), refuri=page, internal=True)
        time = f", to section {until}" if until else ""
        time += f". The whole chapter takes {about.read} minutes to read and {about.turns_take} for the turns."
        result: list[nodes.Node] = [nodes.paragraph("", "", chapter, nodes.Text(time))]
        if about.demonstrations:
            links = [node for place in about.demonstrations for node in (self._link(page, place), nodes.Text(", "))]
            result.append(nodes.paragraph("", "", nodes.strong("", "Demonstrations:"), nodes.Text(" "), *links[:-1]))
        for title, asked in (("Ask before you show:", about.predictions), ("Polls:", about.turns)):
            if asked:
                result.append(nodes.paragraph("", "", nodes.strong("", title)))
                result.append(nodes.bullet_list("", *(self._item(page, place, words) for place, words in asked)))
        words = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, words)
        return [*result, *words.children]

    def _item(self, page: str, place: str, words: str) -> nodes.Node:
        return nodes.list_item(
            "", nodes.paragraph("", "", self._link(page, place), nodes.Text(": "), *inline(words.strip()))
        )

    def _link(self, page: str, place: str) -> nodes.Node:
        address = "" if place == TOP else f"#{lasting_id(place) or nodes.make_id(place)}"
        return nodes.reference("", place.split()[0] if address else place, refuri=page + address, internal=True)
