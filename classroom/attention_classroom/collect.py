"""Collecting what students handed in, from a folder, a zip or the downloads of Moodle and Canvas.

Whatever the files are called, each is matched with one student or listed with the reason why not. What was handed in
goes to ``received/``, as it came, once; nothing there is ever changed or removed. The names that a learning platform
gave stand above the names that a student gave, so nobody hands in for another by a file's name.
"""

import contextlib
import fcntl
import functools
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import stat
import tempfile
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from .assignment import load, variant_for
from .course import CANVAS, Course, CourseError, Student, write
from .rebuild import METADATA, Unreadable, read

__all__ = ["Collected", "collect", "match", "platform_names", "undo"]

MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL)
OF_THE_SYSTEM = re.compile(
    r"(?:.*/)?(?:__MACOSX/.*|\.ipynb_checkpoints/.*|\._[^/]*|\.DS_Store|Thumbs\.db|desktop\.ini)"
)
MAX_FILE = 200 * 2**20
MAX_ALL = 8 * 2**30
MAX_ENTRIES = 50_000
MAX_INSIDE = 2_000  # entries of a zip that one student hands in
MAX_RATIO = 200  # of a large zip unpacked to its packed size; notebooks with figures reach 3
SHORTEST_ID = 3  # shorter ids are looked for as a whole name only: "1" is in "notebook-1" too


@dataclass(frozen=True)
class _Item:
    """A file to collect: where it was in its source, when it was last changed, and what reads it."""

    name: str
    modified: datetime | None
    read: Callable[[], bytes]

    @property
    def parts(self) -> tuple[str, ...]:
        return PurePosixPath(self.name).parts


@dataclass
class Collected:
    """What became of every file, by its name in the source."""

    new: list[tuple[str, str]] = field(default_factory=list)  # (student, file)
    known: list[tuple[str, str]] = field(default_factory=list)  # (student, file) of what was there already
    unmatched: list[tuple[str, str]] = field(default_factory=list)  # (file, reason)
    system: list[str] = field(default_factory=list)  # what a system or an editor put there, such as .DS_Store


def collect(
    course: Course, name: str, source: Path, *, given: Mapping[str, str] | None = None, at: datetime | None = None
) -> Collected:
    """Take what was handed in for an assignment into ``received/``, as an attempt of each student.

    The same call again changes nothing.

    Args:
        course: its folder.
        name: the assignment's name.
        source: a folder, a zip or one file.
        given: students' ids by the path of a file in the source, or by a folder or file at its top; for names that
            say nothing. What lies in a folder that names another student stays that student's, and so does a file in
            a folder that was given whose own name says so.
        at: when it was handed in; without it, the time that each file carries.

    Raises:
        CourseError: if something is not safe, not there, or given to another than its folder says. Then nothing was
            taken.
    """
    course.named(name)
    given = given or {}
    for student in given.values():
        course.student(student)
    collected = Collected()
    items = _items(source, collected)
    _must_name(given, items, source)
    given = _anonymous(course, name, items) | dict(given)
    theirs: dict[str, list[_Item]] = {}
    for item in items:
        if OF_THE_SYSTEM.fullmatch(item.name):
            collected.system.append(item.name)
            continue
        owner = _owner(course, name, item, given)
        if isinstance(owner, Student):
            theirs.setdefault(owner.id, []).append(item)
        else:
            collected.unmatched.append((item.name, owner))
    with _alone(course, name):
        for student in sorted(theirs):
            _receive(course, name, student, theirs[student], at, collected)
        came = {student: form for student in theirs for form in map(_platform_name, theirs[student]) if form}
        if came:
            write(_came(course, name), json.dumps(platform_names(course, name) | came, indent=1))
    return collected


def platform_names(course: Course, name: str) -> dict[str, str]:
    """Return what the platform called the newest file of each student, as it takes names back.

    Moodle: ``Emmy Noether_4711_assignsubmission_file_``, a folder; Canvas: ``noetheremmy_77_8899``, how a name begins.
    """
    try:
        came: dict[str, str] = json.loads(_came(course, name).read_bytes())
    except (OSError, ValueError):
        return {}
    return came


def _came(course: Course, name: str) -> Path:
    return course.received(name, "platform.json")


def _platform_name(item: _Item) -> str:
    for part in item.parts:
        if moodle := MOODLE.fullmatch(part):
            return f"{moodle['name'].replace('_', ' ')}_{moodle['number']}_assignsubmission_file_"
    canvas = re.match(r"([^_]+)_(?:LATE_)?(\d+_\d+)_", item.parts[-1])
    return f"{canvas[1]}_{canvas[2]}" if canvas else ""


def _anonymous(course: Course, name: str, items: Iterable[_Item]) -> dict[str, str]:
    """Return whose the folders of Moodle are that say a number only, such as ``Participant_4711_...``.

    The number says so, if something of it was collected before; else the variant that the notebook was made from, if
    one student has it and one folder.
    """
    numbers = {
        path.split("_")[-4]: student for student, path in platform_names(course, name).items() if path[-1] == "_"
    }
    found: dict[str, str] = {}
    marks: dict[str, str] = {}
    for item in items:
        form = MOODLE.fullmatch(item.parts[0])
        if form is None or any(same_name(student, form["name"]) for student in course.students.values()):
            continue
        if not marks:
            assignment = load(course.hidden(name))
            marks = {variant_for(assignment, s, course.secret).mark: s for s in course.students}
        student = numbers.get(form["number"])
        if student is None and ".ipynb" in item.parts[-1]:
            with contextlib.suppress(CourseError, OSError, Unreadable):
                student = marks.get((read(item.read()).metadata.get(METADATA) or {}).get("variant", ""))
        if student is not None:
            found[item.parts[0]] = student
    twice = Counter(found.values())
    return {folder: student for folder, student in found.items() if twice[student] == 1}


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
    except BaseException:
        place.rename(newest)
        raise
    return place


# ---- Whose is it ----------------------------------------------------------------------------------------------------


def _owner(course: Course, name: str, item: _Item, given: Mapping[str, str]) -> Student | str:
    """Return whose a file is, by what was given and by its name, or why nobody was found."""
    named, part = match(course.students, item.name)
    key = item.name if item.name in given else item.parts[0]
    if key in given and not (isinstance(named, Student) and named.id != given[key]):
        return course.student(given[key])
    if key in given and (part == 0 or (key == item.name and part < len(item.parts) - 1)):
        raise CourseError(
            f"--is must not take a file from the folder of another student; got {item.name} for {given[key]}. "
            "Move it out of that folder first"
        )
    if item.name in given:
        return course.student(given[item.name])
    words = [*item.parts[:-1], _stem(item.parts[-1])]
    other = next((other for other in course.assignments if other in words), name)
    if name in words or other == name or _holds(words[-1], name):
        return named
    return f"its name says that it is of the assignment {other}"


def _must_name(given: Mapping[str, str], items: Sequence[_Item], source: Path) -> None:
    """Refuse what names no file of the source, and say which files may have been meant."""
    there = {key for item in items for key in (item.name, item.parts[0])}
    for key in sorted(set(given) - there):
        meant = [item.name for item in items if item.parts[-1] == PurePosixPath(key).name]
        hint = f"; give the whole path: {' or '.join(meant[:3])}" if meant else ""
        raise CourseError(f"--is must name a file of {source}, or a folder at its top; got {key}{hint}")


def match(students: Mapping[str, Student], name: str) -> tuple[Student | str, int]:
    """Find whose file it is by its name and those of its folders.

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
    last = len(parts) - 1
    for i, part in enumerate(parts):
        moodle, canvas = MOODLE.fullmatch(part), CANVAS.fullmatch(part) if i == last else None
        if form := moodle or canvas:
            named = [s for s in students.values() if same_name(s, form["name"])]
            # Moodle has other numbers in each assignment, so they say nothing.
            numbered = [s for s in students.values() if not moodle and s.canvas_id == form["number"]]
            fitting = [s for s in numbered if s in named] or numbered + named
            platform = "Moodle" if moodle else "Canvas"
            return _one(fitting, i, f"{platform} says {form['name']!r} (number {form['number']}), which fits")
    rules: list[Callable[[Student, str], bool]] = [
        lambda student, part: part.casefold() in {student.id.casefold(), student.email.casefold() or None},
        lambda student, part: _holds(part, student.email) or _holds(part, student.id),
        lambda student, part: _holds_name(part, student),
    ]
    for i, part in enumerate(parts):
        # An address has dots, so a file's name is looked at whole, too.
        forms = [part, _stem(part)] if i == last else [part]
        for rule in rules:
            fitting = [s for s in students.values() if any(rule(s, form) for form in forms)]
            longest = max(fitting, key=lambda s: len(s.id), default=None)
            if longest and rule is rules[1] and all(s.id.casefold() in longest.id.casefold() for s in fitting):
                fitting = [longest]  # "anna-b" is not also "anna"
            if fitting:
                return _one(fitting, i, f"{part!r} fits")
    return "no part of its name is a student of students.csv", -1


def _one(fitting: list[Student], part: int, says: str) -> tuple[Student | str, int]:
    if len(fitting) == 1:
        return fitting[0], part
    several = f"several students: {', '.join(s.id for s in fitting)}"
    return f"{says} {several if fitting else 'no student of students.csv'}", -1


def _stem(file: str) -> str:
    return file.split(".")[0] or file


def _words(text: str) -> list[str]:
    """Return the words of a text, without accents, in small letters."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return re.findall(r"[^\W_]+", plain.casefold())


def _squeezed(text: str) -> set[str]:
    """Return the forms of a name without spaces: platforms differ in what they do with letters beyond ASCII."""
    return {"".join(_words(text)), re.sub(r"[^a-z0-9]", "", text.lower())} - {""}


def same_name(student: Student, name: str) -> bool:
    orders = (f"{student.last_name} {student.first_name}", f"{student.first_name} {student.last_name}")
    words = sorted(_words(orders[0]))
    squeezed = {form for order in orders for form in _squeezed(order)}
    return words != [] and (words == sorted(_words(name)) or not squeezed.isdisjoint(_squeezed(name)))


def _holds(part: str, word: str) -> bool:
    whole_word = rf"(?<![^\W_]){re.escape(word.casefold())}(?![^\W_])"
    return len(word) >= SHORTEST_ID and re.search(whole_word, part.casefold()) is not None


def _holds_name(part: str, student: Student) -> bool:
    name = _words(f"{student.first_name} {student.last_name}")
    return len(name) > 1 and set(name) <= set(_words(part))


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


def _of_zip(file: Path | io.BytesIO, whose: str, most: int = MAX_ENTRIES) -> Iterator[_Item]:
    """Return what is in a zip, or raise a `CourseError` that names what is not safe in it. Nothing is written."""
    try:
        archive = zipfile.ZipFile(file)
        entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise CourseError(f"{whose} must be a zip that can be read; {error}") from error
    if len(entries) > most:
        raise CourseError(f"{whose} must hold at most {most} files; got {len(entries)}")
    for entry in entries:
        name = entry.filename
        if re.match(r"[/\\]|[A-Za-z]:", name) or ".." in re.split(r"[/\\]", name) or "\0" in name:
            raise CourseError(f"{whose} is refused: the entry {name!r} would be written outside its folder")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise CourseError(f"{whose} is refused: the entry {name!r} is a link")
        if entry.flag_bits & 1:
            raise CourseError(f"{whose} must not need a password; the entry {name!r} does")
    total, packed = sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries)
    if total > MAX_ALL or (total > MAX_FILE and total > MAX_RATIO * max(packed, 1)):
        raise CourseError(f"{whose} is refused: its {packed >> 10} kB unpack to {total >> 20} MB")
    for entry in entries:
        if not entry.is_dir():
            reader = functools.partial(_read_entry, archive, entry)
            yield _Item(entry.filename.replace("\\", "/"), _packed(entry), reader)


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    if entry.file_size > MAX_FILE:
        raise CourseError(f"it unpacks to more than {MAX_FILE >> 20} MB")
    try:
        with archive.open(entry) as packed:
            data = packed.read(entry.file_size + 1)  # what an entry says about its size may be untrue
    except (zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, ValueError, EOFError) as error:
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
    course: Course, name: str, student: str, items: list[_Item], at: datetime | None, collected: Collected
) -> None:
    """Store a student's files as one attempt, unless they are those of an earlier one."""
    contents: dict[str, bytes] = {}
    for item in items:
        try:
            contents[_free(item, contents)] = item.read()
        except (CourseError, OSError) as error:
            collected.unmatched.append((item.name, str(error)))
    files = [(student, item.name) for item in items]
    attempts = course.attempts(name, student)
    digests = _digests(contents.values())
    if not contents or any(digests == _digests(map(Path.read_bytes, _originals(path))) for path in attempts):
        collected.known += files if contents else []
        return
    when = at or max(filter(None, (item.modified for item in items)), default=datetime.now(UTC))
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


def _unpack(folder: Path, data: bytes, whose: str, collected: Collected) -> None:
    """Unpack a zip that a student handed in, beside it. One that is not safe stays as it is, and is listed."""
    inside: dict[str, bytes] = {}
    try:
        for item in _of_zip(io.BytesIO(data), whose, MAX_INSIDE):
            if not OF_THE_SYSTEM.fullmatch(item.name):
                inside[_free(item, inside)] = item.read()
            if sum(map(len, inside.values())) > MAX_FILE:
                raise CourseError(f"{whose} is refused: it unpacks to more than {MAX_FILE >> 20} MB")
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
    stem, suffix = file.stem.encode()[:150].decode(errors="ignore"), file.suffix[:20]
    names = itertools.chain([f"{stem}{suffix}"], (f"{stem} ({i}){suffix}" for i in itertools.count(2)))
    lower = {name.lower() for name in taken}
    return next(name for name in names if name.lower() not in lower)


def _originals(attempt: Path) -> Iterator[Path]:
    return (path for path in attempt.iterdir() if path.is_file())


def _digests(contents: Iterable[bytes]) -> list[str]:
    """Return what is the same for the same files; their names do not count, since platforms change them."""
    return sorted(hashlib.sha256(data).hexdigest() for data in contents)
