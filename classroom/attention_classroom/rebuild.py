"""Putting what a student handed in into the release that this student got. Of a received file only texts are taken.

The result has the release's cells, in its order, with the student's answers in the cells for answers. An answer is
found by nbgrader's id, else the cell's id, else the name that it defines, else its place. Cells that the student added
stay where they were, as cells of code and text without rights, and so does what was written into locked cells. What was
handed in is only read.
"""

import ast
import copy
import difflib
import functools
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from .assignment import TAG

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = [
    "EXTRA", "METADATA", "NOT_WHEN_GRADED", "Flag", "Received", "Unreadable", "add_modules", "defined", "is_common",
    "read", "rebuild",
]  # fmt: skip

MEGABYTES, VALUES = 20, 1_000_000  # of a file, with its outputs
CELLS, CHARACTERS = 1000, 2_000_000  # of sources
METADATA = "attention_tutorial"
EXTRA = "extra"
NOT_WHEN_GRADED = "not-when-graded"  # on cells that are for the student's own checks
PASTED = re.compile(r"data:image/[\w.+-]+;base64,[\w+/=\s]*")  # as Colab stores a picture in a text
DEFINED = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
DRAWS = re.compile(r"\b(?:plt|ax|axes|fig)[.\[]|\b(?:plot|imshow|savefig)\(")
PROSE = re.compile(r"(?:[\w'’,.;:()=-]{1,20}\s+(?:#\s*)?){11}\w")  # twelve words on end, in a cell of code
BEGINNINGS = {  # of files that are no notebooks
    b"PK": "a zip archive or an office document",
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"\x1f\x8b": "a packed file",
    b"<": "a web page, or what was saved in place of the notebook",
    b"version https://git-lfs": "a pointer of Git LFS; the notebook itself was not handed in",
}


class Flag(TypedDict):
    """What a teacher should know: its kind, the task it is about (or ""), and words."""

    kind: str
    task: str
    words: str


class Unreadable(ValueError):
    """A file that is no notebook of this assignment; the message says why."""


@dataclass(frozen=True)
class _Cell:
    """A received cell: texts, and by what names it may be known."""

    kind: str
    source: str
    grade_id: str
    cell_id: str
    picture: bool = False  # whether one was pasted into a text


@dataclass
class _Slot:
    """A cell of the release, and the received cells that may belong there."""

    cell: Any
    id: str
    answer: bool
    found: list[int] = field(default_factory=list)
    beside: list[int] = field(default_factory=list)  # cells of the student's that stand in its place

    @property
    def by_hand(self) -> bool:
        """Whether it is an answer that a person marks: a text, or a figure."""
        about = self.cell.metadata.get("nbgrader", {})
        return self.answer and bool(about.get("grade"))

    @functools.cached_property
    def names(self) -> set[str]:
        """The names that an answer in code defines."""
        return defined(self.cell.source) if self.answer and self.cell.cell_type == "code" else set()

    @property
    def task(self) -> str:
        """The task that the cell belongs to, as far as its id says."""
        return re.sub(r"-(check|plot)$", "", self.id)

    @property
    def skipped(self) -> bool:
        """Whether the cell does not run while it is graded: the visible checks, what installs the package."""
        return NOT_WHEN_GRADED in self.cell.metadata.get("tags", ()) or bool(
            self.cell.metadata.get("nbgrader", {}).get("grade")
        )

    @property
    def varies(self) -> bool:
        """Whether the cell differs between students."""
        return TAG in self.cell.metadata.get("tags", ())


# ---- Reading ---------------------------------------------------------------------------------------------------------


class Received(NamedTuple):
    """A received file: the notebook's cells, its metadata, and whether its letters had to be guessed."""

    cells: list[_Cell]
    metadata: Mapping[str, Any]
    guessed: bool = False


def read(received: bytes) -> Received:
    """Read a file as a notebook, or raise `Unreadable`."""
    data, guessed = _parse(received)
    cells = data.get("cells")
    if not isinstance(cells, list):
        raise Unreadable("it is JSON, but no notebook: it has no cells")
    known = [_cell(cell) for cell in cells[: CELLS + 1] if isinstance(cell, dict)]
    if len(cells) > CELLS or sum(len(cell.source) for cell in known) > CHARACTERS:
        raise Unreadable(f"it has more than {CELLS} cells or {CHARACTERS} characters in them")
    metadata = data.get("metadata")
    return Received(known, metadata if isinstance(metadata, dict) else {}, guessed)


def _parse(received: bytes) -> tuple[dict[str, Any], bool]:
    if not received.strip():
        raise Unreadable("the file is empty")
    if len(received) > MEGABYTES * 2**20:
        raise Unreadable(f"the file has {len(received) >> 20} MB; at most {MEGABYTES} are read, so clear its outputs")
    for beginning, kind in BEGINNINGS.items():
        if received.lstrip().startswith(beginning):
            raise Unreadable(f"it is {kind}, not a notebook")
    if sum(map(received.count, (b"[", b"{", b","))) > VALUES:  # read, each would take some hundred bytes of memory
        raise Unreadable(f"it holds more than {VALUES} lists, names and numbers")
    guessed = False
    try:
        text = received.decode(json.detect_encoding(received))
    except UnicodeDecodeError:
        text, guessed = received.decode("cp1252", "replace"), True  # as older editors save it
        if not text.lstrip().startswith("{"):
            raise Unreadable("it is no text, so no notebook") from None
    try:
        data = json.loads(text)
    except RecursionError as error:
        raise Unreadable("its JSON is nested too deeply") from error
    except ValueError as error:
        if "{" not in text[:200]:
            raise Unreadable("it is a text, such as a program, but no notebook; hand in the .ipynb file") from error
        line = getattr(error, "lineno", 0)
        where = f" at line {line} of {text.count(chr(10)) + 1}" if line else ""
        raise Unreadable(f"its JSON is broken{where}; perhaps the upload broke off") from error
    if not isinstance(data, dict):
        raise Unreadable("it is JSON, but no notebook")
    return data, guessed


def _cell(cell: Mapping[str, Any]) -> _Cell:
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    about = metadata.get("nbgrader")
    grade_id = about.get("grade_id") if isinstance(about, dict) else ""
    cell_id = cell.get("id") or metadata.get("id")  # Colab keeps it among the metadata
    kind = cell.get("cell_type")
    source, pasted = PASTED.subn("(a picture)", source) if isinstance(source, str) and kind != "code" else (source, 0)
    return _Cell(
        kind=kind if kind in ("code", "raw") else "markdown",
        source=_clean(source) if isinstance(source, str) else "",
        picture=pasted > 0 or bool(cell.get("attachments")),
        grade_id=grade_id if isinstance(grade_id, str) else "",
        cell_id=cell_id if isinstance(cell_id, str) else "",
    )


def _clean(text: str) -> str:
    """Return a text that can be stored: one kind of line end, no halves of characters, no zero bytes."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "�")
    return text.encode("utf-8", "replace").decode()


def _bare(text: str) -> str:
    """Return a text without what editors change: blanks at the ends of lines, empty lines around it."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


# ---- Finding ---------------------------------------------------------------------------------------------------------


def _slots(release: "NotebookNode") -> list[_Slot]:
    slots = []
    for i, cell in enumerate(release.cells):
        about = cell.metadata.get("nbgrader") or {}
        name = str(about.get("grade_id") or cell.get("id") or f"cell-{i}")
        slots.append(_Slot(cell, name, bool(about.get("solution"))))
    return slots


def _find(slots: list[_Slot], cells: list[_Cell]) -> tuple[set[int], list[_Slot]]:
    """Find which received cell belongs in which slot; return those found, and the slots found by their place only."""
    rules: list[Callable[[_Slot, _Cell], bool]] = [
        lambda slot, cell: cell.grade_id == slot.id,
        lambda slot, cell: cell.cell_id in {slot.id, slot.cell.get("id")} and not cell.grade_id,
        lambda slot, cell: cell.cell_id == slot.id,
        lambda slot, cell: _bare(cell.source) == _bare(slot.cell.source),
        lambda slot, cell: cell.kind == "code" and bool(slot.names & defined(cell.source)),
    ]
    taken: set[int] = set()
    for rule in rules:
        for slot in slots:
            if not slot.found:
                slot.found = [i for i, cell in enumerate(cells) if i not in taken and rule(slot, cell)]
                if rule is rules[3]:  # what is the same, such as empty cells, may belong to another slot
                    del slot.found[1:]
                taken.update(slot.found)
    guessed = _find_by_place(slots, cells, taken)
    _find_beside(slots, cells, taken)
    return taken, guessed


def defined(source: str) -> set[str]:
    """Return the names that a cell defines at its outermost level."""
    return {name for groups in DEFINED.findall(source) for name in groups if name}


def _find_by_place(slots: list[_Slot], cells: list[_Cell], taken: set[int]) -> list[_Slot]:
    """Give an answer that is not found what stands between the cells around it."""
    guessed = []
    for number, slot in enumerate(slots):
        if slot.found or not slot.answer:
            continue
        before = [i for other in slots[:number] for i in other.found]
        after = [i for other in slots[number + 1 :] for i in other.found]
        first, last = max(before, default=-1) + 1, min(after, default=len(cells))
        between = [
            i
            for i in range(first, last)
            if i not in taken and cells[i].kind == slot.cell.cell_type and cells[i].source.strip()
        ]
        if between and (before or after):
            slot.found.append(between[0])
            taken.add(between[0])
            guessed.append(slot)
    return guessed


def _find_beside(slots: list[_Slot], cells: list[_Cell], taken: set[int]) -> None:
    """Where an answer that a person marks was left as it is, take the cells that the student added beside it."""
    for slot in slots:
        empty = ("", _bare(slot.cell.source))
        if not slot.by_hand or not slot.found or any(_bare(cells[i].source) not in empty for i in slot.found):
            continue
        others = [i for other in slots if other is not slot for i in other.found]
        first = max((i for i in others if i < min(slot.found)), default=-1) + 1
        last = min((i for i in others if i > max(slot.found)), default=len(cells))
        is_code = slot.cell.cell_type == "code"
        slot.beside = [
            i
            for i in range(first, last)
            if i not in taken and cells[i].source.strip() and (cells[i].kind == "code") == is_code
        ]
        taken.update(slot.beside)


# ---- Putting together ------------------------------------------------------------------------------------------------


@dataclass
class _Overlay:
    """The notebook while it is made: for each slot, what comes before and after it."""

    slots: list[_Slot]
    cells: list[_Cell]
    own: bool  # whether it says that it was made from this release
    flags: list[Flag] = field(default_factory=list)
    before: dict[int, list[int]] = field(default_factory=dict)
    after: dict[int, list[int]] = field(default_factory=dict)  # -1: before everything
    below: set[int] = field(default_factory=set)  # other copies of answers, which stand below the one that counts
    names: dict[int, str] = field(default_factory=dict)  # of the cells that were added, in the new notebook

    def flag(self, kind: str, task: str, words: str) -> None:
        self.flags.append({"kind": kind, "task": task, "words": words})

    def fill(self, notebook: "NotebookNode") -> None:
        """Put each answer in its slot; the release's own text stays in all others."""
        changed, gone = [], []
        for number, slot in enumerate(self.slots):
            stub = _bare(slot.cell.source)
            if slot.answer:
                self.answer(number, slot, stub, notebook.cells[number])
                continue
            if not slot.found:
                gone += (
                    [slot.id]
                    if slot.cell.cell_type == "code" and NOT_WHEN_GRADED not in slot.cell.metadata.get("tags", ())
                    else []
                )
                gone += [slot.id] if slot.id.endswith("-check") and slot.id not in gone else []
            for i in slot.found:
                if _bare(self.cells[i].source) != stub:
                    changed.append(slot)
                    self.keep_added(number, slot, i)
        locked = [slot.id for slot in changed if slot.cell.cell_type == "code" and not slot.varies]
        texts = [slot.id for slot in changed if slot.cell.cell_type != "code" and not slot.varies]
        if locked or gone:
            words = "; ".join(
                f"{', '.join(dict.fromkeys(names))} {fate}"
                for names, fate in ((locked, "changed"), (gone, "gone"))
                if names
            )
            self.flag(
                "tampered", "", f"cells that are locked: {words}; those of the release were used, then what was added"
            )
        if texts:
            self.flag("edited", "", f"texts of the assignment were changed: {', '.join(dict.fromkeys(texts))}")

    def keep_added(self, number: int, slot: _Slot, i: int) -> None:
        """Keep what was written into a locked cell, as a cell behind it.

        Of a cell that does not run while it is graded these are the lines that the release does not have. So it is of
        one that varies, if it is this student's own: another's numbers must not take the place of this one's.
        """
        if slot.cell.cell_type == "code" and (slot.skipped or slot.varies):
            added = _added(slot.cell.source, self.cells[i].source)
            self.cells[i] = replace(self.cells[i], source=added)
        if self.cells[i].source.strip() and (self.own or not slot.varies):
            self.after.setdefault(number, []).append(i)

    def answer(self, number: int, slot: _Slot, stub: str, cell: Any) -> None:
        """Put one answer in its slot."""
        if not slot.found:
            self.flag("missing", slot.task, f"the cell {slot.id} is gone")
            if slot.cell.cell_type == "code":
                cell.source = ""  # its stub would take the place of an answer that stands in another cell
            return
        if slot.beside:
            cell.source = "\n\n".join(self.cells[i].source for i in slot.beside)
            self.flag("guessed", slot.task, f"the cell {slot.id} was left as it is; what stands beside it was taken")
            return
        filled = [i for i in slot.found if _bare(self.cells[i].source) not in ("", stub)]
        check = min((i for other in self.slots if other.id == f"{slot.id}-check" for i in other.found), default=CELLS)
        chosen = ([i for i in filled if i < check] or filled[:1] or slot.found)[-1]
        others = [i for i in filled if _bare(self.cells[i].source) != _bare(self.cells[chosen].source)]
        cell.source = self.cells[chosen].source
        which = "the last above its check counts, or one below it that earns more"
        if slot.by_hand and cell.cell_type != "code":
            which = "they were put together"
            cell.source = "\n\n".join(dict.fromkeys(self.cells[i].source for i in filled or [chosen]))
        else:
            self.before[number] = [i for i in others if i < chosen]
            self.below |= {i for i in others if i > chosen}
        if len(slot.found) > 1:
            self.flag("duplicate", slot.task, f"there are {len(slot.found)} cells {slot.id}; {which}")
        if self.cells[chosen].kind != slot.cell.cell_type and filled:
            self.flag("edited", slot.task, f"the cell {slot.id} was made a cell of another kind")

    def place_extras(self, taken: set[int]) -> None:
        """Put each cell that the student added after the slot that it followed."""
        place = {i: number for number, slot in enumerate(self.slots) for i in (*slot.found, *slot.beside)}
        at = -1
        for i, cell in enumerate(self.cells):
            if i in taken - self.below:
                at = place[i]
            elif cell.source.strip():
                self.after.setdefault(at, []).append(i)

    def look_for_pictures(self) -> None:
        """Flag pictures that were pasted into texts of the student's: only their words come along."""
        tasks = {i: slot.task for slot in self.slots for i in (*slot.found, *slot.beside)}
        answers = {i for slot in self.slots if slot.answer for i in (*slot.found, *slot.beside)}
        for i, cell in enumerate(self.cells):
            if cell.picture and (i in answers or i not in tasks):
                words = "a picture was pasted into a text; see it in the notebook in received/"
                self.flag("picture", tasks.get(i, ""), words)

    def cells_in_order(self, notebook: "NotebookNode") -> list[Any]:
        """Return all cells, those added with ids of their own."""
        from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

        make = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}
        names = {slot.id for slot in self.slots} | {slot.cell.get("id") for slot in self.slots}
        free = (name for name in (f"{EXTRA}-{i}" for i in range(1, CELLS * 3)) if name not in names)

        def extra(i: int) -> Any:
            cell = make[self.cells[i].kind](self.cells[i].source)
            cell.id = self.names[i] = next(free)
            cell.metadata[METADATA] = {EXTRA: True}
            return cell

        order = [extra(i) for i in self.after.get(-1, ())]
        for number, cell in enumerate(notebook.cells):
            order += [extra(i) for i in self.before.get(number, ())]
            order.append(cell)
            order += [extra(i) for i in sorted(self.after.get(number, ()))]
        return order

    def look_for_answers(self, notebook: "NotebookNode") -> None:
        """Where an answer was left as it is, see whether it stands elsewhere: take it, or say where to look."""
        above = {i: number for number, cells in self.after.items() for i in cells}
        above |= {i: number - 1 for number, cells in self.before.items() for i in cells}
        cells = {i: (name, self.cells[i], self.cells[i].source) for i, name in self.names.items()}
        answers = {i: slot for slot in self.slots if slot.answer for i in slot.found if i not in cells}
        for i, slot in answers.items():
            cells[i] = slot.id, self.cells[i], _added(slot.cell.source, self.cells[i].source)
        for number, slot in enumerate(self.slots):
            cell = next(cell for cell in notebook.cells if cell.id == slot.cell.id)
            if not slot.answer or _bare(cell.source) not in ("", _bare(slot.cell.source)):
                continue
            if slot.by_hand:
                looks = _draws if cell.cell_type == "code" else _speaks
                elsewhere = [of for i, of in cells.items() if answers.get(i) is not slot]
                names = [name for name, of, added in elsewhere if looks(of, added)]
                if names:
                    words = f"is empty; look whether the answer stands in {', '.join(names[:5])}"
                    self.flag("guessed", slot.task, f"the cell {slot.id} {words}")
                continue
            for i, name in self.names.items():
                source, is_code = self.cells[i].source, self.cells[i].kind == "code"
                source = source if is_code else re.sub(r"^```.*$", "", source, flags=re.MULTILINE).strip()
                if slot.id in defined(source) and (above[i] < number if is_code else _is_python(source)):
                    cell.source = f"{slot.cell.source}\n\n{source}"
                    words = f"the cell {slot.id} was left as it is; what stands in {name} was taken"
                    self.flag("guessed", slot.task, words)


def _added(old: str, new: str) -> str:
    """Return the lines of a text that another does not have."""
    lines = new.strip("\n").splitlines()
    changes = difflib.SequenceMatcher(None, old.strip("\n").splitlines(), lines, autojunk=False).get_opcodes()
    return "\n".join(line for kind, _, _, a, b in changes if kind in ("insert", "replace") for line in lines[a:b])


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _draws(cell: _Cell, added: str) -> bool:
    return cell.picture or (cell.kind == "code" and DRAWS.search(added) is not None)


def _speaks(cell: _Cell, added: str) -> bool:
    """Whether a cell holds what may be a written answer: more than a heading, or comments and texts in code."""
    if cell.kind != "code":
        return re.sub(r"^#.*$", "", added, flags=re.MULTILINE).strip() != ""
    return any(PROSE.search(text) for text in _texts(added))


def _texts(source: str) -> Iterator[str]:
    """Yield the texts in code and its comments, lines of them together; all of what is no code."""
    if not _is_python(source):
        yield source
        return
    yield "\n".join(re.findall(r"^[ \t]*#(.*)", source, re.MULTILINE))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string


def rebuild(received: Received, release: "NotebookNode") -> tuple["NotebookNode", list[Flag]]:
    """Put a student's answers into the student's own release.

    Returns:
        A new notebook, and what a teacher should know about the file.

    Raises:
        Unreadable: if it is no notebook of this assignment.
    """
    cells, metadata, guessed_letters = received
    slots = _slots(release)
    taken, guessed = _find(slots, cells)
    other = _other_assignment(metadata, release)
    if not cells:
        raise Unreadable("it has no cells")
    if not taken or (other and not any(slot.answer and slot.found and slot not in guessed for slot in slots)):
        raise Unreadable(f"none of its answers is of this assignment; is it the notebook of {other or 'another'}?")
    made = _Overlay(slots, list(cells), own=_mark(metadata) == _mark(release.metadata))
    notebook = copy.deepcopy(release)
    _look_at_variant(made, metadata, release)
    ids = {slot.id for slot in slots}
    if not any(cell.grade_id in ids or cell.cell_id in ids for cell in cells):
        made.flag("ids", "", "all ids of cells are lost; the answers were found by their names and places")
    if guessed_letters:
        made.flag("edited", "", "it is not stored in UTF-8 as notebooks are; letters such as ä may have become others")
    made.fill(notebook)
    for slot in guessed:
        made.flag("guessed", slot.task, f"the cell {slot.id} was found by its place only; see whether it is the answer")
    made.place_extras(taken)
    made.look_for_pictures()
    notebook.cells = made.cells_in_order(notebook)
    made.look_for_answers(notebook)
    language = metadata.get("language_info")
    version = language.get("version") if isinstance(language, dict) else None
    if isinstance(version, str) and re.fullmatch(r"3\.\d+(\.\d+)?", version):
        notebook.metadata.setdefault(METADATA, {})["python"] = version
    return notebook, made.flags


def add_modules(notebook: "NotebookNode", modules: Mapping[str, bytes]) -> None:
    """Put cells in front that write the modules that were handed in beside a notebook, by their names."""
    from nbformat.v4 import new_code_cell

    for number, (name, source) in enumerate(sorted(modules.items()), start=1):
        text = _clean(source.decode("utf-8-sig", "replace"))
        cell = new_code_cell(f"%%writefile {name}\n{text}", metadata={METADATA: {EXTRA: True}})
        cell.id = f"{EXTRA}-module-{number}"
        notebook.cells.insert(0, cell)


def _mark(metadata: Mapping[str, Any]) -> Any:
    """Return the mark of the variant that a notebook says it was made from."""
    theirs = metadata.get(METADATA)
    return theirs.get("variant") if isinstance(theirs, dict) else None


def is_common(received: Received, own: "NotebookNode", common: Callable[[], "NotebookNode"]) -> bool:
    """Whether a file was made from the notebook that is the same for everybody, and not from the student's own.

    Args:
        received: the file.
        own: the student's release.
        common: makes the common release. It is called only where the file does not say that it is the student's own.

    Returns:
        Whether it was: by the mark in its metadata, and where that is lost by the cells that vary.
    """
    cells, mark = received.cells, _mark(received.metadata)
    if mark is not None and mark == own.metadata[METADATA]["variant"]:
        return False
    other = common()
    if isinstance(mark, str):
        return mark == str(other.metadata[METADATA]["variant"])
    there = {_bare(cell.source) for cell in cells}

    def fits(release: "NotebookNode") -> bool:
        return all(_bare(slot.cell.source) in there for slot in _slots(release) if slot.varies and not slot.answer)

    return fits(other) and not fits(own)


def _other_assignment(metadata: Mapping[str, Any], release: "NotebookNode") -> str:
    """Return the assignment that a notebook says it is of, if that is another one."""
    own, theirs = (data.get(METADATA) for data in (release.metadata, metadata))
    other = theirs.get("assignment") if isinstance(theirs, dict) else None
    return repr(other[:60]) if isinstance(other, str) and (own or {}).get("assignment") not in (None, other) else ""


def _look_at_variant(made: _Overlay, metadata: Mapping[str, Any], release: "NotebookNode") -> None:
    """Flag a notebook that was made for another student, or for another assignment."""
    other = _other_assignment(metadata, release)
    if other:
        made.flag("variant", "", f"it says that it is a notebook of the assignment {other}")
        return
    differs = [
        slot.id
        for slot in made.slots
        if slot.varies
        and not slot.answer
        and any(_bare(made.cells[i].source) != _bare(slot.cell.source) for i in slot.found)
    ]
    mark = _mark(metadata)
    if isinstance(mark, str) and _mark(release.metadata) not in (None, mark):
        made.flag(
            "variant", "", "it is the notebook of another student's variant; the answers were judged by this student's"
        )
    elif differs:
        made.flag(
            "variant",
            "",
            f"what is this student's own was changed: {', '.join(differs)}; it was judged as it was given out",
        )
