"""The page of mistakes, made by running the checks of the exercises on the wrong answers of their tables.

    ```{mistakes}
    ```

stands for a table of the common mistakes by the checks that name them, and for each exercise the list of what its check
says about every wrong answer of its table. The checks are run when the site is built, so the page quotes them.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from docutils import nodes
from nbformat import NotebookNode
from sphinx.util.docutils import SphinxDirective

from attention_tutorial import exercises
from attention_tutorial.exercises.verdict import sentence

from .anchors import lasting_id
from .notebooks import read_chapters, title_of
from .tables import inline, make_row, make_table

SECONDS = 120.0  # for an answer; none of the tables runs for ever, and a machine that builds may be busy


class Told(NamedTuple):
    """A wrong answer: its exercise, by name, what the check says, and the number of the common mistake that it is."""

    exercise: str
    words: str
    mistake: int | None


class Place(NamedTuple):
    """Where an exercise stands: its address on the site, its number and title, and the title of its chapter."""

    address: str
    number: str
    title: str
    chapter: str


def exercises_in(notebook: NotebookNode) -> Iterable[tuple[str, str]]:
    """Yield each exercise and *Your turn* of a chapter: the numbered heading over it or the title, its check's name."""
    heading = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for title in re.findall(r"^#+ (.*)$", cell.source, re.MULTILINE):
                heading = title if lasting_id(title) or not heading else heading
        elif called := re.search(r'^check\("(\w+)", ', cell.source, re.MULTILINE):
            yield heading, called[1]


class MistakesDirective(SphinxDirective):
    """Set what every check says about every wrong answer of its table."""

    def run(self) -> list[nodes.Node]:
        """Run the checks and return a line that counts, a section for the common mistakes, and one for each chapter."""
        torch.manual_seed(0)  # some answers draw, and what is said about them names what they drew
        for path in Path(exercises.__file__).parent.glob("*.py"):
            self.env.note_dependency(str(path))
        places = self._places()
        tables = exercises.exercises()
        wrong = [entry for table in tables.values() for entry in self._wrong(table)]
        count = f"{len(tables)} checks, {len(wrong)} wrong answers, each told what is wrong with it."
        return [
            nodes.paragraph("", count, classes=["mistakes-count"]),
            self._common(wrong, places),
            *self._chapters(wrong, places),
        ]

    def _wrong(self, table: exercises.Exercise) -> Iterable[Told]:
        for wrong in table.wrong_answers:
            diagnosis = exercises.judge(table, wrong.answer, seconds=SECONDS)
            if diagnosis is not None:  # as tests/exercises see to
                yield Told(table.name, diagnosis.message, wrong.mistake)

    def _places(self) -> dict[str, Place]:
        """Return where each exercise stands: the heading before the cell that calls its check."""
        places = {}
        for docname, notebook in read_chapters(self.env):
            page = self.env.app.builder.get_relative_uri(self.env.docname, docname)
            chapter = title_of(notebook, docname)
            for heading, name in exercises_in(notebook):
                number, *title = heading.removeprefix("Exercise ").split()
                words = " ".join(word for word in title if set(word) != {"★"})
                number = number.rstrip(".")  # of a chapter's title
                place = number if heading.startswith("Exercise ") else f"turn in {number}"
                places[name] = Place(f"{page}#{nodes.make_id(heading)}", place, words, chapter)
        return places

    def _link(self, exercise: str, places: dict[str, Place]) -> nodes.Node:
        return nodes.reference("", places[exercise].number, refuri=places[exercise].address, internal=True)

    def _common(self, wrong: list[Told], places: dict[str, Place]) -> nodes.section:
        """Set the table of mistakes by checks."""
        rows = []
        for number, words in exercises.MISTAKES.items():
            links: list[nodes.Node] = []
            found_in = {entry.exercise for entry in wrong if entry.mistake == number}
            for exercise in sorted(found_in, key=list(places).index):
                links += [nodes.Text(", ")] * bool(links) + [self._link(exercise, places)]
            rows.append(make_row([[nodes.Text(str(number))], [nodes.Text(words)], self._symptom(number), links]))
        head = (("", 5), ("Mistake", 45), ("In your own model", 20), ("Exercises whose checks name it", 30))
        title = nodes.title("", "The common mistakes")
        return nodes.section("", title, make_table(head, rows, "mistakes"), ids=["the-common-mistakes"])

    def _symptom(self, mistake: int) -> list[nodes.Node]:
        """Link the symptom under which one finds the test for a mistake, if it has one."""
        if mistake not in exercises.SYMPTOMS:
            return []
        heading = exercises.SYMPTOMS[mistake]
        page = self.env.app.builder.get_relative_uri(self.env.docname, "book/symptoms")
        return [nodes.reference("", heading, refuri=f"{page}#{nodes.make_id(heading)}", internal=True)]

    def _chapters(self, wrong: list[Told], places: dict[str, Place]) -> list[nodes.Node]:
        """Set a section for each notebook, in their order, with a folded list for each exercise."""
        chapters: dict[str, nodes.section] = {}
        for exercise in sorted({entry.exercise for entry in wrong}, key=list(places).index):
            _, _, title, chapter = places[exercise]
            if chapter not in chapters:
                ids = [nodes.make_id(f"mistakes-of-{chapter}")]
                chapters[chapter] = nodes.section("", nodes.title("", "", *inline(chapter)), ids=ids)
            diagnoses = nodes.bullet_list(classes=["mistakes-said"])
            for entry in wrong:
                if entry.exercise == exercise:
                    common = f" (Mistake {entry.mistake}.)" if entry.mistake else ""
                    words = nodes.Text(sentence(entry.words) + common)
                    diagnoses += nodes.list_item("", nodes.paragraph("", "", words))
            name = nodes.paragraph("", "", self._link(exercise, places), nodes.Text(" "), *inline(title))
            count = f"What the check says about {len(diagnoses)} wrong answers"
            chapters[chapter] += [
                name,
                nodes.raw("", f"<details><summary>{count}</summary>", format="html"),
                diagnoses,
                nodes.raw("", "</details>", format="html"),
            ]
        return list(chapters.values())
