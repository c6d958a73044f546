"""Collecting what students handed in, from a folder, a zip or the downloads of Moodle and Canvas.

Whatever the files are called, each is matched with one student or listed with the reason why not. What was handed in
goes to ``received/``, as it came, once; nothing there is ever changed or removed. The names that a learning platform
gave stand above the names that a student gave, so nobody hands in for another by a file's name. What stands inside a
notebook says nothing about whose it is, because anybody can copy it.
"""

import contextlib
import fcntl
import functools
import hashlib
import io
import itertools
import os
import re
import shutil
import stat
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from .assignment import load, variant_for
from .course import CANVAS, Course, CourseError, Student, write
from .rebuild import METADATA, Unreadable, read

__all__ = ["Collected", "collect", "match", "platform_names", "undo"]

MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL)
OF_THE_SYSTEM = re.compile(
    r"(?:.*/)?(?:__MACOSX/.*|\.ipynb_checkpoints/.*|\._[^/]*|\.DS_Store|Thumbs\.db|desktop\.ini)"
)
MAX_FILE = 100 * 2**20  # bytes of all that one student hands in
MAX_INSIDE = 2_000  # files of one student
SHORTEST_ID = 3  # a shorter id must be the whole name: "1" is in "notebook-1" too
LONGEST_NAME = 300
ENDINGS = re.compile(r"(?:\.(?:ipynb|py|txt|zip|pdf|html?|json|png|jpe?g|csv|md|docx?))+$")
# What people and programs add to a name, beside the names of assignments.
ADDED = (
    r"final|draft|new|late|copy\d*|of|kopie|v\d+|version\d*|attempt\d*|submission|solutions?|solved|answers?|notebook|"
    r"assignment\d*|homework\d*|hw\d*|exercise\d*|ex\d+|week\d+|\d{4}-\d\d-\d\d[\d-]*"
)


@dataclass(frozen=True)
class _Item:
    """A file to collect: where it was in its source, when it was last changed, and what reads it."""

    name: str
    modified: datetime | None
    read: Callable[[], bytes]
    form: str = ""  # what a platform called it, if that says whose it is

    @property
    def parts(self) -> tuple[str, ...]:
        return PurePosixPath(self.name).parts or ("_",)


@dataclass
class Collected:
    """What became of every file, by its name in the source."""

    new: list[tuple[str, str]] = field(default_factory=list)  # (student, file)
    known: list[tuple[str, str]] = field(default_factory=list)  # (student, file) of what was there already
    unmatched: list[tuple[str, str]] = field(default_factory=list)  # (file, reason)
    system: list[str] = field(default_factory=list)  # what a system or an editor put there, such as .DS_Store


def collect(course: Course, name: str, source: Path, *, given: Mapping[str, str] | None = None) -> Collected:
    """Take what was handed in for an assignment into ``received/``, as an attempt of each student.

    The same call again changes nothing.

    Args:
        course: its folder.
        name: the assignment's name.
        source: a folder, a zip or one file.
        given: students' ids by the path of a file in the source, or by a folder or file at its top; for names that
            say nothing. What lies in a folder that names another student stays that student's, and so does a file in
            a folder that was given whose own name says so.

    Raises:
        CourseError: if the source cannot be read, or something is given to another than its folder says. Then nothing
            was taken.
    """
    course.named(name)
    given = given or {}
    for student in given.values():
        course.student(student)
    collected = Collected()
    items = _items(source, collected)
    _must_name(given, items, source)
    numbers = {_number(form): student for student, form in platform_names(course, name).items()}
    theirs: dict[str, list[_Item]] = {}
    nobodys: list[tuple[_Item, str]] = []
    for item in items:
        if OF_THE_SYSTEM.fullmatch(item.name):
            collected.system.append(item.name)
            continue
        owner, part = _owner(course, name, item, given, numbers)
        if isinstance(owner, Student):
            theirs.setdefault(owner.id, []).append(replace(item, form=_form(item.parts, part)))
        else:
            nobodys.append((item, owner))
    variants = _variants(course, name, [item for item, _ in nobodys], numbers)
    collected.unmatched += [(item.name, why + variants.get(item.parts[0], "")) for item, why in nobodys]
    with _alone(course, name):
        for student in sorted(theirs):
            own = _of_one_person(student, theirs[student], given, numbers, collected)
            attempt, taken = _receive(course, name, student, own, collected)
            if form := next((item.form for item in taken if item.form), ""):
                write(_form_file(course.received(name, student) / attempt), form)
    return collected


def platform_names(course: Course, name: str) -> dict[str, str]:
    """Return what the platform called the newest attempt of each student that came from one, as it takes names back.

    Moodle: ``Emmy Noether_4711_assignsubmission_file_``, a folder; Canvas: ``noetheremmy_77_8899``, how a name begins.
    """
    found = {}
    for student in course.received_from(name):
        for path in filter(Path.is_file, map(_form_file, course.attempts(name, student))):
            found[student] = path.read_text(encoding="utf-8")
    return found


def _form_file(attempt: Path) -> Path:
    """Return where it is kept what the platform called an attempt."""
    return attempt.with_name(f"{attempt.name}.platform")


def _form(parts: Sequence[str], part: int) -> str:
    """Return what a platform called a file, where that part of its path is a platform's; "" elsewhere."""
    moodle = MOODLE.fullmatch(parts[part])
    canvas = CANVAS.fullmatch(parts[part]) if part == len(parts) - 1 else None
    if moodle:
        return f"{moodle['name'].replace('_', ' ')}_{moodle['number']}_assignsubmission_file_"
    return f"{canvas['name']}_{canvas['number']}_{canvas['upload']}" if canvas else ""


def _number(form: str) -> str:
    """Return the number of a person in what `_form` says, with the platform's name."""
    moodle = MOODLE.fullmatch(form)
    return f"Moodle's number {moodle['number']}" if moodle else f"Canvas's number {form.split('_')[1]}"


def _of_one_person(
    student: str, items: list[_Item], given: Mapping[str, str], numbers: Mapping[str, str], collected: Collected
) -> list[_Item]:
    """Return a student's files without those of a namesake, which are listed: a platform has a number for each person.

    Of several numbers the one counts that was given to this student, or under which this student handed in before.
    """
    by_number = {item: _number(item.form) for item in items if item.form}
    there = set(by_number.values())
    right = {by_number[item] for item in by_number if item.name in given or item.parts[0] in given}
    right = right or {number for number in there if numbers.get(number) == student}
    others = there - right if len(there) > 1 else set()
    for item in items:
        if by_number.get(item) in others:
            why = f"{by_number[item]} is one of several people who could be {student}: {', '.join(sorted(there))}"
            collected.unmatched.append((item.name, why))
    return [item for item in items if by_number.get(item) not in others]


def _variants(course: Course, name: str, items: Iterable[_Item], numbers: Mapping[str, str]) -> dict[str, str]:
    """Say for folders of an anonymous Moodle whose variant is in them: a hint, because anybody can copy a notebook."""
    carried: dict[str, str] = {}
    marks: dict[str, str] = {}
    for item in items:
        form = MOODLE.fullmatch(item.parts[0])
        if form is None or any(same_name(student, form["name"]) for student in course.students.values()):
            continue
        if not marks:
            assignment = load(course.hidden(name))
            marks = {variant_for(assignment, student, course.secret).mark: student for student in course.students}
        with contextlib.suppress(CourseError, OSError, Unreadable):
            about = read(item.read()).metadata.get(METADATA)
            mark = str(about.get("variant")) if isinstance(about, dict) else ""
            carried |= {item.parts[0]: marks[mark]} if mark in marks else {}
    words = {}
    for folder, student in carried.items():
        folders = [known for known in (*numbers, *carried) if student in (numbers.get(known), carried.get(known))]
        words[folder] = f"; it carries {student}'s variant. If it is theirs: --is '{folder}={student}'"
        if len(folders) > 1:
            words[folder] = f"; {len(folders)} folders carry {student}'s variant: {', '.join(folders)}"
    return words


@contextlib.contextmanager
def _alone(course: Course, name: str) -> Iterator[None]:
    """Wait until no other `collect` takes what was handed in for an assignment; remove what a killed one left."""
    folder = course.received(name, "")
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for part in folder.glob("*/.part-*"):
            shutil.rmtree(part)
        yield
    finally:
        os.close(handle)


def undo(course: Course, name: str, student: str) -> Path:
    """Take the newest attempt of a student out of ``received/``, so that the one before it counts, or none.

    Returns:
        Where the attempt is now, in ``undone/``: nothing of what was handed in is lost. What was made of it, marks
        given by hand among it, is removed if no other attempt is left.
    """
    if student not in course.received_from(course.named(name)):
        raise CourseError(f"student must have handed in something for {name}; got {student!r}")
    newest = course.attempts(name, student)[-1]
    folder = course.root / "undone" / name / student
    folder.mkdir(parents=True, exist_ok=True)
    places = (folder / f"{newest.name}{'' if i == 1 else f'.undone{i}'}" for i in itertools.count(1))
    place = next(place for place in places if not place.exists())
    newest.rename(place)
    try:
        if not course.attempts(name, student):
            course.rebuilt(name, student).unlink(missing_ok=True)
        course.result(name, student).unlink(missing_ok=True)
        _form_file(newest).unlink(missing_ok=True)
    except BaseException:
        place.rename(newest)
        raise
    return place


# ---- Whose is it ----------------------------------------------------------------------------------------------------


def _owner(
    course: Course, name: str, item: _Item, given: Mapping[str, str], numbers: Mapping[str, str]
) -> tuple[Student | str, int]:
    """Return whose a file is, by what was given and by its name, and which part says so; or why nobody was found."""
    named, part = match(course.students, item.name, numbers, course.assignments)
    key = item.name if item.name in given else item.parts[0]
    if key in given and not (isinstance(named, Student) and named.id != given[key]):
        return course.student(given[key]), 0
    if key in given and (part == 0 or (key == item.name and part < len(item.parts) - 1)):
        raise CourseError(
            f"--is must not take a file from the folder of another student; got {item.name} for {given[key]}. "
            "Move it out of that folder first"
        )
    if item.name in given:
        return course.student(given[item.name]), 0
    words = [*item.parts[:-1], item.parts[-1].split(".")[0]]
    other = next((other for other in course.assignments if other in words), name)
    if name in words or other == name or _holds(words[-1], name):
        return named, part
    return f"its name says that it is of the assignment {other}", -1


def _must_name(given: Mapping[str, str], items: Sequence[_Item], source: Path) -> None:
    """Refuse what names no file of the source, and say which files may have been meant."""
    there = {key for item in items for key in (item.name, item.parts[0])}
    for key in sorted(set(given) - there):
        meant = [item.name for item in items if item.parts[-1] == PurePosixPath(key).name]
        hint = f"; give the whole path: {' or '.join(meant[:3])}" if meant else ""
        raise CourseError(f"--is must name a file of {source}, or a folder at its top; got {key}{hint}")


def match(
    students: Mapping[str, Student],
    name: str,
    numbers: Mapping[str, str] = MappingProxyType({}),
    assignments: Iterable[str] = (),
) -> tuple[Student | str, int]:
    """Find whose file it is by its name and those of its folders.

    Args:
        students: by their ids.
        name: the file's path.
        numbers: the ids of those whose number on the platform is known, such as ``"Moodle's number 4711"``.
        assignments: names that may stand beside a student's.

    Returns:
        The student and which part of the path says so, or the reason why nobody was found and -1.

    Example:
        >>> emmy = Student("s1", "Noether", "Emmy", canvas_id="77")
        >>> match({"s1": emmy}, "Noether Emmy_4711_assignsubmission_file_/scaling.ipynb")[0].id
        's1'
        >>> match({"s1": emmy}, "noetheremmy_LATE_77_8899_scaling-1.ipynb")[0].id
        's1'
        >>> match({"s1": emmy}, "scaling.ipynb")
        ('no part of its name is a student of students.csv', -1)
    """
    parts = PurePosixPath(name).parts
    added = "|".join([*map(re.escape, map(str.casefold, assignments)), ADDED])
    keys = {s: {s.id.casefold(), s.email.casefold()} - {""} for s in students.values()}
    near: dict[str, list[str]] = {}
    for i, part in enumerate(parts):
        is_file = i == len(parts) - 1
        moodle, canvas = MOODLE.fullmatch(part), CANVAS.fullmatch(part) if is_file else None
        if form := moodle or canvas:
            platform = "Moodle" if moodle else "Canvas"
            known = numbers.get(f"{platform}'s number {form['number']}", "")
            if known in students:
                return students[known], i
            named = [s for s in keys if same_name(s, form["name"])]
            # Moodle has other numbers in each assignment, so they say nothing.
            numbered = [s for s in keys if not moodle and s.canvas_id == form["number"]]
            fitting = [s for s in numbered if s in named] or numbered + named
            return _one(fitting, i, f"{platform} says {form['name']!r} (number {form['number']}), which fits")
        text = unicodedata.normalize("NFC", part[:LONGEST_NAME]).casefold()
        stem = ENDINGS.sub("", text) if is_file else text
        chunks = _chunks(stem, added)
        fitting = [s for s in keys if {text, stem} & keys[s]] or [s for s in keys if _is_whole(s, keys[s], chunks)]
        if fitting:
            return _one(fitting, i, f"{part!r} fits")
        inside = [s.id for s in keys if any(_holds(stem, key) for key in keys[s]) or _name(s) <= set(_words(stem))]
        near |= {part: inside} if inside else {}
    for part, ids in near.items():
        return f"{part!r} says more than the name of {', '.join(ids)}", -1
    return "no part of its name is a student of students.csv", -1


def _one(fitting: list[Student], part: int, says: str) -> tuple[Student | str, int]:
    if len(fitting) == 1:
        return fitting[0], part
    several = f"several students: {', '.join(s.id for s in fitting)}"
    return f"{says} {several if fitting else 'no student of students.csv'}", -1


def _words(text: str) -> list[str]:
    """Return the words of a text, without accents, in small letters."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return re.findall(r"[^\W_]+", plain.casefold())


def _squeezed(text: str) -> set[str]:
    """Return what platforms may make of a name: no spaces, and letters beyond ASCII kept, bare or left out."""
    return {"".join(_words(text)), re.sub(r"[^a-z0-9]", "", text.lower())} - {""}


def same_name(student: Student, name: str) -> bool:
    orders = (f"{student.last_name} {student.first_name}", f"{student.first_name} {student.last_name}")
    words = sorted(_words(orders[0]))
    squeezed = {form for order in orders for form in _squeezed(order)}
    return words != [] and (words == sorted(_words(name)) or "".join(_words(name)) in squeezed)


def _name(student: Student) -> set[str]:
    """Return the words of a name; one alone is no name."""
    words = set(_words(f"{student.first_name} {student.last_name}"))
    return words if len(words) > 1 else {""}


def _holds(text: str, word: str) -> bool:
    whole_word = rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"
    return len(word) >= SHORTEST_ID and re.search(whole_word, text) is not None


def _chunks(text: str, added: str) -> list[str]:
    """Return the pieces of a name between blanks and brackets, without what was added to them, such as "_final".

    What is joined to an id or an address in another way is a part of it, and makes it that of somebody else.
    """
    text = re.sub(r"\(\d{1,3}\)|\s\d{1,2}$", " ", text)  # a copy's number
    chunks = []
    for chunk in re.split(r"[\s,;()\[\]{}]+", text):
        joint = "_" if "@" in chunk else "_.-"
        ends = rf"^(?:{added})(?:[{joint}]+|$)|[{joint}]+(?:{added})?$"
        while (shorter := re.sub(ends, "", chunk)) != chunk:
            chunk = shorter
        chunks.append(chunk)
    return chunks


def _is_whole(student: Student, keys: set[str], chunks: Iterable[str]) -> bool:
    """Whether all that a name says is a student's id, address or whole name."""
    keys = {key for key in keys if len(key) >= SHORTEST_ID}
    pieces = [piece for chunk in chunks for piece in ([chunk] if chunk in keys or "@" in chunk else chunk.split("_"))]
    words = {word for piece in pieces if piece not in keys for word in _words(piece)}
    name = _name(student)
    return words == name or (words <= name and not keys.isdisjoint(pieces))


# ---- What is in the source ------------------------------------------------------------------------------------------


def _items(source: Path, collected: Collected) -> list[_Item]:
    if source.is_dir():
        return list(_of_folder(source, collected))
    if not source.is_file():
        raise CourseError(f"source must be a folder, a zip or a file; there is no {source}")
    if zipfile.is_zipfile(source):
        return list(_of_zip(source, str(source)))
    if re.search(r"\.(zip|tar|t?gz|bz2|xz|7z|rar)$", source.name.lower()):
        raise CourseError(
            f"source must be a folder, a zip or a file; {source} is not a zip that can be read: unpack it"
        )
    return [_Item(source.name, _changed(source), source.read_bytes)]


def _changed(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _of_folder(source: Path, collected: Collected) -> Iterator[_Item]:
    for folder, folders, files in os.walk(source):
        folders.sort()
        for name in sorted([*files, *(f for f in folders if (Path(folder) / f).is_symlink())]):
            path = Path(folder) / name
            inside = path.relative_to(source).as_posix()
            if path.is_symlink() or not path.is_file():
                collected.unmatched.append((inside, "a link or a device; links are not followed"))
            elif path.stat().st_size > MAX_FILE:
                collected.unmatched.append((inside, f"larger than {MAX_FILE >> 20} MB"))
            else:
                yield _Item(inside, _changed(path), path.read_bytes)


def _of_zip(file: Path | io.BytesIO, whose: str) -> Iterator[_Item]:
    """Yield what is in a zip. Nothing is written, and what is not safe raises a `CourseError` where it is read."""
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        raise CourseError(f"{whose} must be a zip that can be read; {error}") from error
    for entry in archive.infolist():
        if not entry.filename.endswith("/"):
            reader = functools.partial(_read_entry, archive, entry)
            yield _Item(entry.filename.replace("\\", "/"), _packed(entry), reader)


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    name = entry.filename
    if re.match(r"[/\\]|[A-Za-z]:", name) or ".." in re.split(r"[/\\]", name) or "\0" in name:
        raise CourseError("it would be written outside its folder")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise CourseError("it is a link")
    if entry.flag_bits & 1:
        raise CourseError("it needs a password")
    if entry.file_size > MAX_FILE:
        raise CourseError(f"it unpacks to {entry.file_size >> 20} MB, more than {MAX_FILE >> 20} MB")
    try:
        with archive.open(entry) as packed:
            data = packed.read(entry.file_size + 1)  # what an entry says about its size may be untrue
    except Exception as error:  # each way of packing has errors of its own
        raise CourseError(f"it cannot be unpacked ({error})") from error
    if len(data) > entry.file_size:
        raise CourseError("it is larger than its zip says")
    return data


def _packed(entry: zipfile.ZipInfo) -> datetime | None:
    """Return when an entry was changed; None where that is the zip format's zero."""
    try:
        return datetime(*entry.date_time).astimezone(UTC) if entry.date_time[:3] > (1980, 1, 1) else None
    except ValueError:
        return None


# ---- Into received/ -------------------------------------------------------------------------------------------------


def _receive(
    course: Course, name: str, student: str, items: list[_Item], collected: Collected
) -> tuple[str, list[_Item]]:
    """Store a student's files as one attempt, unless they are those of an earlier one.

    Returns:
        The attempt that has them, and those that could be taken.
    """
    contents: dict[str, bytes] = {}
    taken: list[_Item] = []
    if len(items) > MAX_INSIDE:
        words = f"{student} has {len(items)} files there; at most {MAX_INSIDE} are taken"
        collected.unmatched.append((items[0].parts[0], words))
        items = []
    for item in items:
        try:
            data = item.read()
            if sum(map(len, contents.values())) + len(data) > MAX_FILE:
                raise CourseError(f"of one student at most {MAX_FILE >> 20} MB are taken")
            contents[_free(item, contents)] = data
            taken.append(item)
        except (CourseError, OSError) as error:
            collected.unmatched.append((item.name, str(error)))
    files = [(student, item.name) for item in taken]
    attempts = course.attempts(name, student)
    digests = _digests(contents.values())
    known = [path.name for path in attempts if digests == _digests(map(Path.read_bytes, _originals(path)))]
    if not contents or known:
        collected.known += files
        return (known or [""])[-1], taken
    when = max(filter(None, (item.modified for item in taken)), default=datetime.now(UTC))
    stamp = f"{when.astimezone(UTC):%Y-%m-%dT%H%M%SZ}"
    if attempts:
        stamp = max(stamp, attempts[-1].name[: len(stamp)])  # a newer attempt is never put before an older one
    folder = course.received(name, student)
    folder.mkdir(parents=True, exist_ok=True)
    places = itertools.chain([folder / stamp], (folder / f"{stamp}.{i:03}" for i in itertools.count(2)))
    place = next(place for place in places if not place.exists())
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder))
    try:
        for file, data in contents.items():
            _write(part / file, data)
            if file.lower().endswith(".zip") and zipfile.is_zipfile(io.BytesIO(data)):
                _unpack(part / f"{file}.unpacked", data, f"{student}'s {file}", collected)
        part.chmod(0o755)
        part.rename(place)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    collected.new += files
    return place.name, taken


def _unpack(folder: Path, data: bytes, whose: str, collected: Collected) -> None:
    """Unpack a zip that a student handed in, beside it. One that is not safe stays as it is, and is listed."""
    inside: dict[str, bytes] = {}
    try:
        for number, item in enumerate(_of_zip(io.BytesIO(data), whose)):
            if number >= MAX_INSIDE:
                raise CourseError(f"it holds more than {MAX_INSIDE} files")
            if not OF_THE_SYSTEM.fullmatch(item.name):
                inside[_free(item, inside)] = item.read()
            if sum(map(len, inside.values())) > MAX_FILE:
                raise CourseError(f"it unpacks to more than {MAX_FILE >> 20} MB")
    except CourseError as error:
        collected.unmatched.append((whose, f"kept, but not opened: {error}"))
        return
    for name, content in inside.items():
        _write(folder / name, content)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o444)


def _free(item: _Item, taken: Iterable[str]) -> str:
    """Return the name of a file as every system can write it, and as no other file has it."""
    file = PurePosixPath(re.sub(r'[\x00-\x1f<>:"|?*\\]', "_", item.parts[-1]).strip() or "_")
    stem = file.stem.encode(errors="replace")[:150].decode(errors="ignore")
    suffix = file.suffix[:20].encode(errors="replace").decode()
    names = itertools.chain([f"{stem}{suffix}"], (f"{stem} ({i}){suffix}" for i in itertools.count(2)))
    lower = {name.lower() for name in taken}
    return next(name for name in names if name.lower() not in lower)


def _originals(attempt: Path) -> Iterator[Path]:
    return (path for path in attempt.iterdir() if path.is_file())


def _digests(contents: Iterable[bytes]) -> list[str]:
    """Return what is the same for the same files; their names do not count, since platforms change them."""
    return sorted(hashlib.sha256(data).hexdigest() for data in contents)
