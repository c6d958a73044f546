"""A deck of slides for each chapter, made by rules from its finished page: no word of it is written a second time.

A section becomes slides under its heading. They show its formulas, tables, figures, demonstrations and
call-outs, and short code with what it prints; of its prose they show the first sentence and those that have bold words
or end in a colon. All prose is in the speaker's notes, with the proofs. A prediction, a *Your turn* and a question each
have a slide that shows the answer at the next step. A turn whose answer can be typed is a poll, in which the right
answer stands among the likeliest wrong ones. The questions come last: they are for the next session's beginning.

`slides.js` lays the parts out in the browser, as many as fit on each slide, and starts reveal.js, whose files come from
the package `sphinx-revealjs`. The decks lie in a folder of their own, and load nothing that is not in the site.
"""

import html
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from bs4 import BeautifulSoup, NavigableString, Tag
from sphinx.application import Sphinx

from .downloads import offer
from .levels import is_deep, number_of

FOLDER = "slides"
REVEAL = Path(str(files("sphinx_revealjs"))) / "_static" / "revealjs"
OF_REVEAL = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")
OURS = (Path(__file__).with_suffix(".js"), Path(__file__).with_suffix(".css"))
TEMPLATE = Path(__file__).with_suffix(".html")

LONGEST = 12  # lines of code, and of what it prints
ALONE, SPACIOUS = "alone", "alone spacious"
WRONG_OPTIONS = 3  # of a poll
LAST = ("summary", "common-mistakes", "exercises", "questions")  # the sections that end a deck, in this order
LEFT_OUT = {"further-reading"}
SILENT = {"tag_setup", "tag_turn", "tag_answer", "tag_exercise", "toctree-wrapper"}
# Where a sentence ends. An element is one private character here, of the first kind if it ends a sentence itself.
SENTENCE_END = re.compile(r"(?:(?<=[.?!\ue000-\ue7ff])(?<!et al\.)|(?<=[.?!][)”]))\s+(?=[A-Z(“\ue000-\uefff])")
# What leans on the sentence before: how it begins, or a pronoun among its first five words
POINTS_BACK = re.compile(
    r"(But|Each of|Hence|Here|None|So|That|The same|Then|There|Yet)\b"
    r"|(\S+ ){,4}(?i:both|it|its|such|them|their|these|they|this|those)\b"
)
LABEL = re.compile(r"<strong>(?:(?!</strong>).)*</strong>")
STATED = re.compile(r"<strong>(Theorem|Lemma|Corollary)")
SPAN = re.compile(r"<span\b|</span>")
FORMULA = '<span class="katex">'
PLACE = re.compile(r'<math data-(formula|noted)="(\d+)"></math>')
KEYS = "<p class='keys'>S: speaker’s notes · F: full screen · O: overview · D: light or dark · ?: all keys</p>"


class Part(NamedTuple):
    """What stays together: its HTML, the speaker's notes for it, and its kind.

    A part that is "alone" begins a slide and ends it; one that is "spacious" as well may have a line or two above it.
    """

    shown: str
    notes: str = ""
    kind: str = ""

    def __str__(self) -> str:
        notes = f'<aside class="notes">{self.notes}</aside>' if self.notes else ""
        return f'<div class="part {self.kind}">{self.shown}{notes}</div>\n'


# ---- Formulas -------------------------------------------------------------------------------------------------------


def without_formulas(page: str) -> tuple[str, list[str]]:
    """Take the formulas, which are most of a page, out of it; return what is left, with their places, and them.

    Example:
        >>> without_formulas('A <span class="katex"><span>n</span></span>.')
        ('A <math data-formula="0"></math>.', ['<span class="katex"><span>n</span></span>'])
    """
    left: list[str] = []
    formulas: list[str] = []
    end = 0
    while (start := page.find(FORMULA, end)) >= 0:
        left += page[end:start], f'<math data-formula="{len(formulas)}"></math>'
        depth = 0
        for tag in SPAN.finditer(page, start):
            depth += 1 if tag[0] == "<span" else -1
            if depth == 0:
                end = tag.end()
                break
        else:
            raise ValueError(f"a formula must end; got {page[start : start + 80]!r}")
        formulas.append(page[start:end])
    return "".join([*left, page[end:]]), formulas


def with_formulas(deck: str, formulas: list[str]) -> str:
    """Put formulas in their places, in a speaker's notes their MathML alone: that view has no style sheet of ours."""

    def formula(place: re.Match[str]) -> str:
        whole = formulas[int(place[2])]
        return whole if place[1] == "formula" else whole[whole.index("<math") : whole.index("</math>")] + "</math>"

    return PLACE.sub(formula, deck)


# ---- Words ----------------------------------------------------------------------------------------------------------


def tidy(article: Tag) -> Tag:
    """Take links and the map out of a page, and all ids but those of sections; its pictures do not wait."""
    for link in article.select(".headerlink, a.claim-id, .you-are-here"):
        link.decompose()
    for link in article.select("a, span.unbroken"):
        link.unwrap()
    for element in article.find_all(lambda element: element.name != "section" and element.has_attr("id")):
        del element["id"]
    for picture in article.find_all("img"):
        del picture["loading"]
    return article


def inner(element: Tag) -> str:
    """Return the HTML within an element."""
    return str(element.decode_contents()).strip()


def noted(element: Tag) -> str:
    """Return an element for the speaker's view: formulas as MathML, folds open."""
    words = str(element).replace("<math data-formula", "<math data-noted")
    return re.sub(r"<(/?)details", r"<\1div", re.sub(r"<(/?)summary", r"<\1strong", words))


def sentences(paragraph: Tag) -> list[str]:
    """Return the sentences of a paragraph, with their markup.

    Example:
        >>> text = "<p><b>Focus.</b> One <i>ends. Here</i>. <i>Sat</i>, at 2 p.m. sharp. (Three?) So:</p>"
        >>> sentences(BeautifulSoup(text, "html.parser").p)
        ['<b>Focus.</b>', 'One <i>ends. Here</i>.', '<i>Sat</i>, at 2 p.m. sharp.', '(Three?)', 'So:']
    """
    elements: dict[str, str] = {}
    text = ""
    for number, child in enumerate(paragraph.children):
        if isinstance(child, NavigableString):
            text += html.escape(str(child), quote=False)
        else:
            kind = 0xE000 if re.search(r"[.?!]$", child.get_text()) and "math" not in child.get("class", ()) else 0xE800
            elements[chr(kind + number)] = str(child)
            text += chr(kind + number)
    split = (" ".join(sentence.split()) for sentence in SENTENCE_END.split(text))
    return [re.sub("[\ue000-\uefff]", lambda match: elements[match[0]], sentence) for sentence in split if sentence]


def key_sentences(paragraph: Tag, *, opening: bool = False, leading: bool = False) -> list[str]:
    """Return what of a paragraph a slide shows; sentences that follow each other are in one line.

    These are the sentences with bold words, the one after a bold label or a question, one that ends in a colon, and all
    of a theorem; the first sentence of an `opening` paragraph, and the last of one that is `leading` to what stands
    below it. One that points back ("This is ...", "To the sum it adds ...") brings the sentence before it.

    Example:
        >>> text = "<p><strong>Focus.</strong> Weights vary. They sum to 1. Why <strong>exp</strong>? See 2a.</p>"
        >>> key_sentences(BeautifulSoup(text, "html.parser").p)
        ['<strong>Focus.</strong> Weights vary.', 'Why <strong>exp</strong>? See 2a.']
        >>> text = "<p>We sum. The rows stay. To the <em>sum</em> it adds <strong>a bias</strong>. Done.</p>"
        >>> key_sentences(BeautifulSoup(text, "html.parser").p)
        ['The rows stay. To the <em>sum</em> it adds <strong>a bias</strong>.']
    """
    every = sentences(paragraph)
    shown = {0} if opening else set()
    shown |= {len(every) - 1} if leading else set()
    for number, sentence in enumerate(every):
        before = every[number - 1] if number else ""
        if (
            "<strong" in sentence
            or _ends(sentence, ":")
            or (number - 1 in shown and (LABEL.fullmatch(before) or _ends(before, "?")))
            or STATED.match(every[0])
        ):
            shown.add(number)
    for number in range(len(every) - 1, 0, -1):
        if number in shown and POINTS_BACK.match(re.sub(r"<[^>]*>", "", every[number])):
            shown.add(number - 1)
    lines: list[str] = []
    for number in sorted(shown):
        lines[-1:] = [f"{lines[-1]} {every[number]}"] if number - 1 in shown else [*lines[-1:], every[number]]
    return lines


def key_words(item: Tag, section: Tag) -> str:
    """Return what of an item of a list a slide shows: of a summary, all of it."""
    paragraph = item.p or item
    return inner(paragraph) if section.get("id") == "summary" else " ".join(key_sentences(paragraph, opening=True))


def _ends(sentence: str, mark: str) -> bool:
    return re.sub(r"</?\w+>", "", sentence).endswith(mark)


def sentence_case(words: str) -> str:
    """Return words as a sentence; a symbol at their start stays as it is.

    Example:
        >>> sentence_case("that is n²; half of it"), sentence_case("n² is too much"), sentence_case("")
        ('That is n²; half of it.', 'n² is too much.', '')
    """
    first = words[:1].upper() if re.match(r"[a-z]{2}|a ", words) else words[:1]
    return f"{first}{words[1:].rstrip('.')}." if words else ""


# ---- Questions ------------------------------------------------------------------------------------------------------


def poll(asked: str, options: Iterable[tuple[str, bool, str]], answer: str = "") -> str:
    """Return a question with (option, whether it is right, what is said to it); the next step answers it."""
    items = (
        f'<li class="{"right" if right else "wrong"}"><span>{option}</span>'
        f'<span class="why fragment" data-fragment-index="0">{why}</span></li>'
        for option, right, why in options
    )
    answer = f'<div class="answer fragment" data-fragment-index="0">{answer}</div>' if answer else ""
    return f'<div class="asked">{asked}</div><ol class="poll">{"".join(items)}</ol>{answer}'


def option(value: list[float], state: dict[str, Any]) -> str:
    """Return an answer of a turn as a poll offers it.

    Example:
        >>> option([0.7719], {"kind": "number"}), option([2.0, -1.0], {"kind": "shape"})
        ('0.772', '(2, −1)')
    """
    if state["kind"] == "choice":
        return str(state["choices"][int(value[0])])
    numbers = ", ".join(f"{number:.3g}" for number in value).replace("-", "−")
    return numbers if state["kind"] == "number" else f"({numbers})"


def poll_of_turn(state: dict[str, Any]) -> str:
    """Return the poll for a turn whose answer can be typed, from what its widget knows."""
    right = option(state["right"], state)
    wrong = {
        option(wrong_answer["answer"], state): wrong_answer
        for wrong_answer in state["wrong"]
        if option(wrong_answer["answer"], state) != right
    }
    if state["kind"] == "choice":
        offered = state["choices"]
    else:
        values = {right: state["right"]} | {
            name: wrong_answer["answer"] for name, wrong_answer in list(wrong.items())[:WRONG_OPTIONS]
        }
        offered = sorted(values, key=values.__getitem__)
    options = [
        (html.escape(name), name == right, html.escape(sentence_case(wrong[name]["words"] if name in wrong else "")))
        for name in offered
    ]
    return poll(f"<p>{html.escape(state['question'])}</p>", options)


def parts_of_turn(asked: Tag, after: list[Tag]) -> Iterator[Part]:
    """Yield a *Your turn* as a poll if its answer can be typed; else as code to complete, with its answer."""
    cell, answer = (
        next(element for element in after if tag in element.get("class", ())) for tag in ("tag_turn", "tag_answer")
    )
    words = noted(asked)
    if widget := cell.select_one("[data-widget=your_turn]"):
        yield Part(f"<h3>Your turn</h3>{poll_of_turn(json.loads(str(widget['data-state'])))}", words, ALONE)
        return
    code = code_of(answer, "div") or code_of(cell, "div")
    shown = f'<div class="answer fragment" data-fragment-index="0">{code}</div>'
    yield Part(f'<div class="asked"><p>{inner(asked)}</p></div>{shown}', words, ALONE)


def parts_of_questions(section: Tag) -> Iterator[Part]:
    """Yield the questions at the end of a chapter, "**1. Which?** (a) this; (b) that.", as polls."""
    for fold in section.find_all("details", recursive=False):
        stem, offered = options_in(inner(fold.find_previous_sibling("p")))
        right = fold.p.get_text().strip()[:3]
        options = [(words, right == f"({letter})", "") for letter, words in zip("abcde", offered, strict=False)]
        yield Part(poll(f"<p>{stem}</p>", options, unfolded(fold)), noted(fold), ALONE)


def options_in(question: str) -> tuple[str, list[str]]:
    """Return a question and what it offers.

    Example:
        >>> options_in("<b>1. Which?</b> (a) this; (b) neither (a) nor that.")
        ('<b>1. Which?</b>', ['this', 'neither (a) nor that'])
    """
    parts = [question]
    for letter in "abcde":
        parts[-1:] = parts[-1].split(f"({letter})", 1)
    stem, *offered = (part.strip().rstrip(";.") for part in parts)
    return stem, offered


def unfolded(fold: Tag) -> str:
    """Return what a fold holds."""
    return "".join(str(element) for element in fold.find_all(recursive=False) if element.name != "summary")


def answer_to(quote: Tag) -> Tag | None:
    """Return the folded answer to a prediction: the first one before the next prediction."""
    for block in quote.find_next_siblings(["details", "blockquote"]):
        if "callout-predict-first" in block["class"] if block.name == "blockquote" else "Answer" in block.summary.text:
            return block if block.name == "details" else None
    return None


# ---- Parts of a section ---------------------------------------------------------------------------------------------


def code_of(cell: Tag, scope: str = ":scope >") -> str:
    """Return a cell's code if it is in sight and short enough."""
    code = cell.select_one(f"{scope} .cell_input pre")
    if code is None or sum(bool(line.strip()) for line in code.get_text().splitlines()) > LONGEST:
        return ""
    lines = re.sub(r"\n{3,}", "\n\n", str(code))
    return f'<div class="highlight">{lines}</div>'


def parts_of_cell(cell: Tag, lead: str, notes: str) -> Iterator[Part]:
    """Yield a demonstration, figures, or code with what it prints, below the words that lead to it.

    Code is shown if it begins with a definition or if words lead to it: the others prepare.
    """
    code = code_of(cell)
    printed = "".join(
        str(element) for element in cell.select(".cell_output .stream") if element.get_text().count("\n") <= LONGEST
    )
    if widget := cell.select_one("[data-widget], [data-later-widget]"):
        if later := widget.attrs.pop("data-later-widget", None):  # a deck is opened to show what is in it
            widget["data-widget"] = later
        yield Part(f'{lead}<div class="demonstration">{widget}</div>', notes, SPACIOUS)
    elif pictures := cell.select(".cell_output img"):
        for picture in pictures:
            caption = inner(picture.find_next("p", class_="figure-caption"))
            tall = int(str(picture["height"])) > int(str(picture["width"]))
            if tall and lead:  # words above would leave it too little room
                yield Part(lead, notes)
                lead = notes = ""
            figure = f"{lead}<figure>{picture}<figcaption>{caption}</figcaption></figure>"
            yield Part(figure, notes, ALONE if tall else SPACIOUS)
            lead = notes = ""
    elif code and (lead or cell.pre.get_text().startswith("def ")):
        yield Part(f'{lead}{code}<div class="printed">{printed}</div>', notes)
    else:
        yield Part(re.sub(r":(</\w+>)*$", r".\1", lead), notes)


def parts_of(section: Tag, blocks: Iterable[Tag] | None = None) -> Iterator[Part]:
    """Yield the parts of a section in their order, without those of the sections in it; or of some of its blocks."""
    lead = notes = ""  # what waits for the next part
    opening = True
    for block in section.find_all(recursive=False) if blocks is None else blocks:
        kind = dict.fromkeys(block.get("class", ()))  # in their order
        if block.name in ("section", "h1", "h2", "h3", "span") or kind.keys() & SILENT:
            continue
        if block.name == "details":
            notes += noted(block) if "Answer" not in block.summary.text else ""
        elif block.name == "p" and block.get_text().startswith("Your turn."):
            yield Part(lead, notes)
            yield from parts_of_turn(block, block.find_next_siblings("div", limit=4))
            lead = notes = ""
        elif block.name == "p":
            below = block.find_next_sibling()
            leading = below is not None and "math" in below.get("class", ())
            shown = key_sentences(block, opening=opening, leading=leading)
            lead += "".join(f"<p>{line}</p>" for line in shown)
            notes += noted(block)
            if shown and not leading and not _ends(shown[-1], ":"):
                yield Part(lead, notes)
                lead = notes = ""
        else:
            if "cell" in kind:
                yield from parts_of_cell(block, lead, notes)
            elif "callout-predict-first" in kind:
                fold = answer_to(block)
                answer = f'<div class="answer fragment" data-fragment-index="0">{unfolded(fold)}</div>' if fold else ""
                yield Part(f'{lead}<div class="asked">{inner(block)}</div>{answer}', notes + noted(block), SPACIOUS)
            elif block.name == "blockquote":
                yield Part(f'{lead}<div class="{" ".join(kind)}">{inner(block)}</div>', notes + noted(block))
            elif block.name in ("ul", "ol"):
                items = block.find_all("li", recursive=False)
                rows = "".join(f"<li>{key_words(item, section)}</li>" for item in items)
                yield Part(f"{lead}<{block.name}>{rows}</{block.name}>", notes + noted(block))
            else:  # a formula, a table
                yield Part(f"{lead}{block}", notes)
            lead = notes = ""
        opening = False
    yield Part(lead, notes)


def with_their_notes(parts: Iterable[Part]) -> list[Part]:
    """Return the parts that show something, each with its notes.

    Those of a part that shows nothing go to the part before, at first to the next one. A part without words, such as a
    demonstration, has those that come after it.
    """
    parts_with_notes: list[Part] = []
    waiting = ""
    for part in parts:
        if part.shown:
            parts_with_notes.append(part._replace(notes=waiting + part.notes))
            waiting = ""
        elif parts_with_notes:
            parts_with_notes[-1] = parts_with_notes[-1]._replace(notes=parts_with_notes[-1].notes + part.notes)
        else:
            waiting += part.notes
    for place in range(len(parts_with_notes) - 2, -1, -1):
        parts_with_notes[place] = parts_with_notes[place]._replace(
            notes=parts_with_notes[place].notes or parts_with_notes[place + 1].notes
        )
    return parts_with_notes


def parts_of_exercises(section: Tag) -> Iterator[Part]:
    """Yield the demonstration that may stand before the exercises."""
    yield from (part for part in parts_of(section) if part.kind)


# ---- The deck -------------------------------------------------------------------------------------------------------


def title_slide(section: Tag) -> tuple[str, list[Part]]:
    """Return the first slide of a chapter, its title and question, and the parts before its first section."""
    setup = section.find("div", class_="tag_setup")
    before = [element for element in section.find_all(recursive=False) if element in setup.find_previous_siblings()]
    first, *rest = with_their_notes(parts_of(section, before))
    notes = first.notes + "".join(part.notes for part in rest)
    title = Part(f"<h1>{inner(section.h1)}</h1>{first.shown}{KEYS}", notes, ALONE)
    return str(title), with_their_notes(parts_of(section, setup.find_next_siblings()))


def stacks(article: Tag) -> Iterator[tuple[str, str, list[Part]]]:
    """Yield (id, heading, parts) for each section of a chapter, those that end a deck last."""
    every = [element for element in article.select("section") if element.find(["h2", "h3"], recursive=False)]
    shown = [
        element for element in every if element["id"] not in LEFT_OUT and not element["id"].startswith("exercise-")
    ]
    for section in sorted(shown, key=lambda element: LAST.index(element["id"]) if element["id"] in LAST else -1):
        make = {"questions": parts_of_questions, "exercises": parts_of_exercises}.get(str(section["id"]), parts_of)
        heading = inner(section.find(["h2", "h3"], recursive=False))
        yield str(section["id"]), heading, with_their_notes(make(section))


def deck_of(article: Tag, page: str, book: str) -> str:
    """Return the deck of a chapter."""
    title, first = title_slide(tidy(article).section)
    name = article.section.h1.get_text()
    sections = [("start", inner(article.section.h1), first), *stacks(article)]
    slides = "".join(
        f'<section id="{id}"><h2>{heading}</h2>\n{"".join(map(str, parts))}</section>\n'
        for id, heading, parts in sections
        if parts
    )
    used = sorted(set(re.findall(r'data-widget="(\w+)"', slides)))
    return TEMPLATE.read_text(encoding="utf-8").format(
        title=html.escape(f"{name} · {book}"),
        page=html.escape(page),
        sheets="".join(f'<link rel="stylesheet" href="../_static/widgets/{widget}.css">\n' for widget in used),
        widgets="".join(f'<script src="../_static/widgets/{widget}.js"></script>\n' for widget in used),
        slides=f'<section id="title">{title}</section>\n{slides}',
    )


def write_deck(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Write the deck of a chapter, and add it to the page's menu of downloads."""
    if doctree is None or not number_of(pagename) or is_deep(pagename):
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    name = f"{pagename.rpartition('/')[2]}.html"
    body, formulas = without_formulas(str(context["body"]))
    deck = deck_of(BeautifulSoup(body, "lxml").body, f"../{pagename}.html", app.config.project)
    (folder / name).write_text(with_formulas(deck, formulas), encoding="utf-8")
    words = {"text": "Slides", "tooltip": "Show the chapter as slides", "label": "slides-button"}
    offer(context, 3, f"{FOLDER}/{name}", icon="fas fa-chalkboard-user", **words)


def write_files(app: Sphinx) -> None:
    """Write what all decks load, beside them."""
    folder = Path(app.outdir) / FOLDER / "reveal"
    folder.mkdir(parents=True, exist_ok=True)
    for path in (*(REVEAL / name for name in OF_REVEAL), *OURS):
        shutil.copyfile(path, folder / path.name)
