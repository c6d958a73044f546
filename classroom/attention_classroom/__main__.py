"""The program of a course: ``attention-classroom COMMAND``.

Every command says what it does with ``--help``, and ends with 0 where all is well, 1 where a person should look at
something that it named, and 2 where it could not do what was asked.
"""

import errno
import functools
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

import click

from .course import Course, CourseError, open_course, write

PROGRAM = "attention-classroom"
FEW = 3  # absent students that are always named
DONE, LOOK, REFUSED = 0, 1, 2
NOBODY = "{} lists nobody yet: put your list there, a line for each student"

EPILOG = """\b
A course in a minute:
  {0} quickstart my-course
  cd my-course
  {0} release bottleneck
  {0} collect bottleneck examples/bottleneck.zip
  {0} grade bottleneck
  {0} report bottleneck

Then open reports/bottleneck/index.html. What was handed in stays in received/, untouched.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the command line; return its status."""
    try:
        status: int = program.main(arguments, PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return REFUSED
    except (click.Abort, KeyboardInterrupt):
        return _refuse("stopped; run the same command again to go on where it was")
    except Exception as error:
        words = _why(error)
        if words is None:
            raise
        return _refuse(words)
    return status


AGAIN = "What was finished is kept: see to this, and run the same command again"


def _why(error: Exception) -> str | None:
    """Say in a sentence what was refused, by us or by the system; None for what is our own fault."""
    from .sandbox import NoSandbox

    if isinstance(error, CourseError | NoSandbox):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno == errno.EPIPE:  # what is still to be printed has nowhere to go
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        path = f"{error.filename}: " if error.filename else ""
        return f"{path}{error.strerror}. {AGAIN}"
    return str(error) if isinstance(error, ValueError | OSError) else None


def _printable(name: str) -> str:
    """Return a file's name without what a terminal would obey."""
    return "".join(c if c.isprintable() else "�" for c in name)


def _refuse(words: str) -> int:
    print(textwrap.fill(f"classroom: {words}", 110, break_long_words=False, break_on_hyphens=False), file=sys.stderr)
    return REFUSED


# ---- The commands ---------------------------------------------------------------------------------------------------

FILE = click.Path(path_type=Path)
one_name = click.argument("name")


def some_students(words: str) -> Callable[[Any], Any]:
    """Return the option that names students."""
    return click.option("--student", "students", multiple=True, metavar="ID", help=f"{words}; may be repeated")


def in_course(run: Callable[..., int]) -> Callable[..., int]:
    """Give a command the option ``--course``, and the course that it names as its first argument."""

    @click.option("--course", "folder", type=FILE, default=".", metavar="FOLDER", help="default: this folder")
    @functools.wraps(run)
    def opened(folder: Path, **options: Any) -> int:
        import torch

        torch.set_num_threads(1)  # small tensors; submissions are graded side by side
        course = open_course(folder)
        _ = course.settings  # what is wrong with them is said before anything is done
        return run(course, **options)

    return opened


@click.group(epilog=EPILOG.format(PROGRAM), context_settings={"max_content_width": 100})
def program() -> None:
    """Assignments of the book for a class: hand out, collect, grade, report."""


@program.command()
@click.argument("folder", type=FILE)
@click.option("--masters", type=FILE, help="classroom/masters/ of a copy of the repository, if it is elsewhere")
@click.option("--empty", is_flag=True, help="without the made-up students")
def quickstart(folder: Path, masters: Path | None, empty: bool) -> int:
    """Make a new course, with made-up students."""
    from . import quickstart as making

    course = making.quickstart(folder, masters=masters, empty=empty)
    print(f"{course.root} has the assignments {', '.join(course.assignments)}.")
    if not empty:
        for example in making.EXAMPLES:
            print(f"  {example.id.capitalize()} {example.last_name} {example.does}")
        print("What they hand in is in examples/. For your own class put your list into students.csv.")
    print("Keep the file `secret`: variants are drawn from it, and whoever has it can draw them too.")
    if empty:
        print(f"Put your list into {folder / 'students.csv'}, below the names of the columns.")
    print(f"Next: cd {folder} && {PROGRAM} release {course.assignments[0]}")
    return DONE


@program.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@some_students("only for this student")
@in_course
def release(course: Course, names: Sequence[str], students: Sequence[str]) -> int:
    """Make the notebooks to hand out.

    release/NAME/NAME.ipynb is for everybody, handout/NAME/STUDENT.ipynb has a student's own variant. Give out the one
    or the other. Nothing is written if a solution or a hidden check is found in it.
    """
    import nbformat
    from tqdm.auto import tqdm

    from .assignment import PLAIN, load, variant_for
    from .release import leaks, make_release

    for name in names:
        assignment = load(course.hidden(course.named(name)))
        master = nbformat.read(course.master(name), as_version=4)
        chosen = students or list(course.students)
        made = {}
        for student in chosen:
            course.student(student)
        for student in tqdm([PLAIN, *chosen], desc=f"{name}: making and searching", disable=None):
            variant = variant_for(assignment, student, course.secret)
            made[student] = make_release(master, assignment, variant)
            leaked = leaks(made[student], master, assignment, variant)
            if leaked:
                shown = "; ".join(leaked[:3])
                raise CourseError(f"the release of {name} would hold what it must not: {shown}. Nothing was written")
        write(course.release(name), nbformat.writes(made[PLAIN]) + "\n")
        for student in chosen:
            write(course.handout(name, student), nbformat.writes(made[student]) + "\n")
        folder = course.handout(name, "").parent
        print(f"{course.release(name)} is for everybody; {folder} has {len(chosen)} variants.")
    return DONE


@program.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--variants", "more", default=3, metavar="N", help="so many variants besides (default: 3)")
@in_course
def validate(course: Course, names: Sequence[str], more: int) -> int:
    """Try the masters of assignments.

    Solved they earn full marks, unfilled nothing, and nothing leaks. Each is tried in the common variant and in those
    of a few students. The master is run here, without a sandbox.
    """
    import nbformat

    from .assignment import PLAIN, load, variant_for
    from .release import copied
    from .release import validate as faults_of

    faults = 0
    for name in names or course.assignments:
        assignment = load(course.hidden(course.named(name)))
        master = nbformat.read(course.master(name), as_version=4)
        further = [*course.students, *(f"variant {i}" for i in range(more))][:more]
        variants = [variant_for(assignment, student, course.secret) for student in (PLAIN, *further)]
        by_student = {variant.student: faults_of(master, assignment, variant) for variant in variants}
        for student, words in by_student.items():
            for line in words:
                print(f"{name}, {f'variant of {student}' if student else 'common variant'}: {line}")
        faults += sum(map(len, by_student.values()))
        if not any(by_student.values()):
            print(
                f"{name}: right in {len(variants)} variants: solved it earns full marks, unfilled 0, and nothing leaks."
                f" The right answers of another variant earn {copied(master, assignment, variants):.0%}."
            )
    return LOOK if faults else DONE


@program.command()
@one_name
@click.argument("source", type=FILE)
@click.option("--is", "given", multiple=True, metavar="FILE=ID", help="whose a file or folder of SOURCE is")
@in_course
def collect(course: Course, name: str, source: Path, given: Sequence[str]) -> int:
    """Take what was handed in into received/.

    SOURCE is a folder, a zip, or a download of Moodle or Canvas as it is. Files may have any names. What fits nobody is
    listed and left where it is. The same again changes nothing.
    """
    from . import collect as collecting

    owners: dict[str, str] = {}
    for pair in given:
        file, is_there, student = pair.rpartition("=")
        if not is_there:
            raise CourseError(f"--is must be FILE=ID, such as --is answers.ipynb=rita; got {pair!r}")
        file = PurePath(file).as_posix()
        if owners.setdefault(file, student) != student:
            raise CourseError(f"--is must give {file} to one student; got {owners[file]} and {student}")
    collected = collecting.collect(course, name, source, given=owners)
    students = {student for student, _ in collected.new}
    print(f"{len(collected.new)} new files of {len(students)} students; {len(collected.known)} were there already.")
    if collected.system:
        print(f"{len(collected.system)} files of the system were left out, such as {_printable(collected.system[0])}.")
    there = course.received_from(name)
    missing = [student for student in course.students if student not in there]
    if missing:
        few = len(missing) <= FEW or 4 * len(missing) <= len(course.students)
        print(f"Nothing yet from {len(missing)} of {len(course.students)}{': ' + ', '.join(missing) if few else ''}.")
    for file, why in collected.unmatched:
        print(f"Not taken: {_printable(f'{file}: {why}')}", file=sys.stderr)
    if collected.unmatched:
        print("To say whose a file is: --is FILE=ID. Nothing was moved or deleted.", file=sys.stderr)
    if students:
        print(f"If one is not theirs: {PROGRAM} undo {name} ID")
        print(f"Next: {PROGRAM} grade {name}")
    return LOOK if collected.unmatched else DONE


@program.command()
@one_name
@click.argument("student")
@in_course
def undo(course: Course, name: str, student: str) -> int:
    """Take back a student's newest attempt.

    For one that was collected for the wrong student. It goes from received/ to undone/, as it is; the attempt before it
    counts again, once you grade again.
    """
    from . import collect as collecting

    place = collecting.undo(course, name, student)
    left = len(course.attempts(name, student))
    print(f"{student}: the newest attempt is in {place} now; {left} earlier ones are left.")
    print(f"Next: {PROGRAM} grade {name}" if left else "Nothing of theirs counts now.")
    return DONE


@program.command()
@one_name
@some_students("only this student")
@click.option("--jobs", type=int, metavar="N", help="so many at a time (default: one per core)")
@click.option(
    "--unsafe",
    is_flag=True,
    help="where no sandbox starts: limits on time and memory alone. Students' code can then read your files, and use "
    "your network",
)
@in_course
def grade(course: Course, name: str, students: Sequence[str], jobs: int | None, unsafe: bool) -> int:
    """Grade what was collected.

    Each submission runs in a sandbox. Stopped at any time, the same command goes on where it was. What has not changed
    is not graded again.
    """
    from .batch import grade_all
    from .grading import is_ungraded
    from .sandbox import choose

    if not course.received_from(course.named(name)):
        raise CourseError(f"nothing was collected for {name} yet; first run: {PROGRAM} collect {name} SOURCE")
    sandbox = choose(unsafe=unsafe)
    print(textwrap.fill(f"Sandbox: {sandbox.name}. {sandbox.words[0].upper()}{sandbox.words[1:]}.", 100))
    results = grade_all(course.root, name, jobs=jobs, sandbox=sandbox, students=students or None)
    flags = Counter(flag["kind"] for result in results for flag in result["flags"])
    counts = ", ".join(f"{kind} {n}" for kind, n in flags.most_common())
    print(f"{len(results)} submissions graded.{f' Flags: {counts}.' if flags else ''}")
    ungraded = [result["student"] for result in results if is_ungraded(result)]
    for student in ungraded:
        print(f"Not graded: {student}: the grader failed; see the report, and grade again", file=sys.stderr)
    print(f"Next: {PROGRAM} report {name}")
    return LOOK if ungraded else DONE


@program.command()
@one_name
@in_course
def report(course: Course, name: str) -> int:
    """Write grades and feedback.

    That is grades.csv, a page for each student, and one for you, all in reports/NAME/. Marks given by hand are in it;
    run it again after marking.
    """
    from . import report as reporting

    if not course.students and not course.received_from(course.named(name)):
        raise CourseError(NOBODY.format(course.root / "students.csv"))
    folder = reporting.report(course, name)
    rows = reporting.read_rows(course, name)
    counts = Counter(row.status for row in rows)
    print(f"{len(rows)} students: {', '.join(f'{n} {status}' for status, n in counts.most_common())}.")
    print(f"For you: {folder / 'index.html'} and grades.csv. For students: {folder / 'feedback'}.")
    if any(row.waiting for row in rows):
        print(f"To mark by hand: {PROGRAM} marks {name}")
    not_graded = [row.student.id for row in rows if row.status == reporting.NOT_GRADED]
    if not_graded:
        print(f"Not graded as they are now: {', '.join(not_graded)}. Next: {PROGRAM} grade {name}", file=sys.stderr)
    return LOOK if not_graded else DONE


@program.command()
@one_name
@click.argument("files", type=FILE, nargs=-1)
@in_course
def marks(course: Course, name: str, files: Sequence[Path]) -> int:
    """Mark by hand, question by question.

    Without FILES it writes marks/NAME.html: open it in a browser, mark, and save. With FILES, those that the page saved
    for each marker, it takes them into marks/NAME.csv, and says where markers differ. It can be done again at any time.
    """
    from .marking import join, marking_page

    course.named(name)
    differ: list[str] = []
    if files:
        number, differ = join(course, name, files)
        print(f"{number} marks are in {course.root / 'marks' / f'{name}.csv'}. Next: {PROGRAM} report {name}")
    for words in differ:
        print(f"Look at {words}", file=sys.stderr)
    if differ or not files:
        print(f"To mark, open {marking_page(course, name)} in a browser.")
    return LOOK if differ else DONE


@program.command()
@one_name
@some_students("only for this student")
@in_course
def sheet(course: Course, name: str, students: Sequence[str]) -> int:
    """Print questions for an oral or written check.

    A sheet for each student: ten minutes, without a computer. The questions come from a student's variant, and from
    what was handed in. sheets/NAME/sheets.html is for the students, sheets/NAME/answers.html for you alone.
    """
    from .oral_exam import sheets

    course.named(name)
    if not course.students:
        raise CourseError(NOBODY.format(course.root / "students.csv"))
    folder = sheets(course, name, students or list(course.students))
    print(f"{folder / 'sheets.html'} is to be printed, one or two pages for each student.")
    print(f"{folder / 'answers.html'} is for you alone.")
    return DONE


@program.group()
def export() -> None:
    """Take an assignment or its grades elsewhere."""


@export.command()
@one_name
@click.argument("worksheet", type=FILE)
@click.option("--to", type=FILE, metavar="ZIP", help="default: exports/NAME-handout.zip")
@in_course
def handout(course: Course, name: str, worksheet: Path, to: Path | None) -> int:
    """Give each student of a Moodle the own notebook, in one upload.

    WORKSHEET is the assignment's grading worksheet. Moodle takes the zip at "Upload multiple feedback files in a zip".
    """
    from . import exports

    course.named(name)
    return _packed(*exports.handout(course, name, worksheet, to or course.root / "exports" / f"{name}-handout.zip"))


@export.command()
@one_name
@click.option("--to", type=FILE, metavar="ZIP", help="default: exports/NAME-feedback.zip")
@in_course
def feedback(course: Course, name: str, to: Path | None) -> int:
    """Give each student the page of feedback, in one upload.

    For a class that was collected from a download of Moodle ("Upload multiple feedback files in a zip") or of Canvas,
    which takes the zip where marked submissions are uploaded again.
    """
    from . import exports

    return _packed(*exports.feedback(course, name, to or course.root / "exports" / f"{name}-feedback.zip"))


def _packed(path: Path, there: Sequence[str], left: Sequence[tuple[str, str]]) -> int:
    print(f"{path} has a file for each of {len(there)} students.")
    for who, why in left:
        print(f"Without a file: {_printable(who)}: {why}", file=sys.stderr)
    return LOOK if left else DONE


@export.command()
@one_name
@click.argument("table", type=FILE)
@click.option("--to", type=FILE, required=True, metavar="FILE", help="the new CSV, to be imported there")
@click.option("--column", default="", help="the beginning of the column's name, where it is not the assignment's")
@click.option("--sheet", "of_sheet", is_flag=True, help="the points of the printed sheet, not the assignment's")
@in_course
def grades(course: Course, name: str, table: Path, to: Path, column: str, of_sheet: bool) -> int:
    """Fill in the CSV of Canvas or Moodle.

    Canvas: Grades, Export. Moodle: the assignment's grading worksheet. TABLE is read and not changed.
    """
    from .assignment import load
    from .collect import platform_names
    from .exports import fill_in
    from .report import read_rows

    rows = read_rows(course, course.named(name))
    about = load(course.hidden(name))
    called = [name, about.title, f"Assignment {about.chapter}"]
    if of_sheet:
        rows, called = [row.of_sheet() for row in rows], [f"{one} sheet" for one in called]
    filled = fill_in(course, rows, table, to, column=column, called=called, came=platform_names(course, name))
    print(f"{filled.path} has the grades of {len(filled.given)} students, in the column {filled.column}.")
    if filled.converted:
        print("Points were converted: {:g} here are {:g} there.".format(*filled.converted))
    for who, why in filled.left:
        print(f"Without a grade: {_printable(who)}: {why}", file=sys.stderr)
    return LOOK if filled.left else DONE


if __name__ == "__main__":
    sys.exit(main())
