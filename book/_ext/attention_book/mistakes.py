"""The page of mistakes, made by running the checks of the exercises on the bank of wrong answers.

    ```{mistakes}
    ```

stands for a table of the common mistakes by the checks that name them, and for each exercise the list of what its check
says about every wrong answer of the bank (tests/bank). The checks are run when the site is built, so the page quotes
them. A wrong answer that a check lets pass, a right one that it rejects, or a common mistake that no check finds is a
warning, which fails a strict build.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import torch
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from attention_tutorial import checks
from attention_tutorial.checks import diagnose, exercises

from .notebooks import headings, read_chapters, title_of
from .tables import inline, make_row, make_table

logger = logging.getLogger(__name__)


def sentence(words: str) -> str:
    """Write a diagnosis as `check` prints it."""
    return f"{words[0].upper()}{words[1:].rstrip('.')}."


class MistakesDirective(SphinxDirective):
    """Set what every check says about every wrong answer of the bank."""

    def run(self) -> list[nodes.Node]:
        """Run the checks and return a line that counts, a section for the common mistakes, and one for each chapter."""
        torch.set_num_threads(1)  # threads that wait for one another are slow on a busy machine
        checks.SECONDS = 120.0  # no answer of the bank runs for ever, so there is time
        bank = self._bank()
        places = self._places()
        order = {exercise: place for place, exercise in enumerate(exercises())}
        answers = sorted(bank.wrong_answers(), key=lambda answer: order[answer.exercise])
        wrong = [(answer, diagnose(answer.exercise, answer.answer)) for answer in answers]
        for answer, found in wrong:
            if found is None:
                self._warn(f"the check of exercise {answer.exercise} lets a wrong answer pass ({answer.says!r})")
        for number, words in bank.MISTAKES.items():
            if not any(answer.mistake == number for answer, _ in wrong):
                self._warn(f"no check finds mistake {number} ({words})")
        right = [(exercise, answer) for exercise, some in bank.right_answers().items() for answer in some.values()]
        for exercise, answer in right:
            found = diagnose(exercise, answer)
            if found is not None:
                self._warn(f"the check of exercise {exercise} rejects a right answer: {found}")
        count = (
            f"{len(order)} checks, {len(wrong)} wrong answers, each told what is wrong with it, and "
            f"{len(right)} right answers, all accepted."
        )
        return [
            nodes.paragraph("", count, classes=["mistakes-count"]),
            self._common(bank.MISTAKES, wrong, places),
            *self._chapters(wrong, places),
        ]

    def _bank(self) -> Any:
        tests = str(Path(self.env.srcdir) / "tests")
        if tests not in sys.path:
            sys.path.insert(0, tests)
        for path in (Path(tests) / "bank").glob("*.py"):
            self.env.note_dependency(str(path))
        for path in (Path(self.env.srcdir) / "attention_tutorial" / "checks").glob("*.py"):
            self.env.note_dependency(str(path))
        return importlib.import_module("bank")

    def _places(self) -> dict[str, tuple[str, str, str]]:
        """Return, for each exercise, (address on the site, its title, the title of its chapter)."""
        found = {}
        for docname, notebook in read_chapters(self.env):
            page = self.env.app.builder.get_relative_uri(self.env.docname, docname)
            chapter = title_of(notebook, docname)
            for _, heading in headings(notebook):
                if heading.startswith("Exercise "):
                    number = heading.split()[1]
                    name = " ".join(word for word in heading.split()[2:] if set(word) != {"★"})
                    found[number] = (f"{page}#{nodes.make_id(heading)}", name, chapter)
        return found

    def _link(self, exercise: str, places: dict[str, tuple[str, str, str]]) -> nodes.Node:
        if exercise not in places:
            self._warn(f"exercise {exercise} has a check but no heading in a chapter")
            return nodes.Text(exercise)
        return nodes.reference("", exercise, refuri=places[exercise][0], internal=True)

    def _common(self, mistakes: dict[int, str], wrong: list[Any], places: dict[str, Any]) -> nodes.section:
        """Set the table of mistakes by checks."""
        rows = []
        for number, words in mistakes.items():
            links: list[nodes.Node] = []
            for exercise in dict.fromkeys(answer.exercise for answer, _ in wrong if answer.mistake == number):
                links += [nodes.Text(", ")] * bool(links) + [self._link(exercise, places)]
            rows.append(make_row([[nodes.Text(str(number))], [nodes.Text(words)], links]))
        head = (("", 5), ("Mistake", 55), ("Exercises whose checks name it", 40))
        title = nodes.title("", "The common mistakes")
        return nodes.section("", title, make_table(head, rows, "mistakes"), ids=["the-common-mistakes"])

    def _chapters(self, wrong: list[Any], places: dict[str, Any]) -> list[nodes.Node]:
        """Set a section for each chapter, with a folded list for each exercise."""
        chapters: dict[str, nodes.section] = {}
        for exercise in dict.fromkeys(answer.exercise for answer, _ in wrong):
            _, title, chapter = places.get(exercise, ("", exercise, "Elsewhere"))
            if chapter not in chapters:
                ids = [nodes.make_id(f"mistakes-of-{chapter}")]
                chapters[chapter] = nodes.section("", nodes.title("", "", *inline(chapter)), ids=ids)
            said = nodes.bullet_list(classes=["mistakes-said"])
            for answer, found in wrong:
                if answer.exercise == exercise:
                    common = f" (Mistake {answer.mistake}.)" if answer.mistake else ""
                    words = nodes.Text(sentence(found or "right") + common)
                    said += nodes.list_item("", nodes.paragraph("", "", words))
            name = nodes.paragraph("", "", self._link(exercise, places), nodes.Text(" "), *inline(title))
            count = f"What the check says about {len(said)} wrong answers"
            chapters[chapter] += [
                name,
                nodes.raw("", f"<details><summary>{count}</summary>", format="html"),
                said,
                nodes.raw("", "</details>", format="html"),
            ]
        return list(chapters.values())

    def _warn(self, message: str) -> None:
        logger.warning(message, location=self.get_location(), type="mistakes")
