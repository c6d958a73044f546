"""The program of a course: ``attention-classroom COMMAND``.

Every command says what it does with ``--help``, and ends with 0 where all is well, 1 where a person should look at
something that it named, and 2 where it could not do what was asked.
"""

import argparse
import errno
import functools
import os
import sqlite3
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

from .course import Course, CourseError, open_course

PROGRAM = "attention-classroom"
DONE, LOOK, REFUSED = 0, 1, 2
NOBODY = "{} lists nobody yet: put your list there, a line for each student"

EPILOG = """\
a course in a minute:
  {0} quickstart my-course
  cd my-course
  {0} release bottleneck
  {0} collect bottleneck examples/bottleneck.zip
  {0} grade bottleneck
  {0} report bottleneck
Then open reports/bottleneck/index.html. What was handed in stays in received/, untouched."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the command line."""
    options = _parser().parse_args(arguments)
    import torch

    torch.set_num_threads(1)  # small tensors; submissions are graded side by side

    run: Run | None = options.run
    try:
        status = run(options, open_course(options.course)) if run else _quickstart(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _refuse("stopped; run the same command again to go on where it was")
    except Exception as error:
        words = _why(error)
        if words is None:
            raise
        return _refuse(words)
    return status


CAUSES = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "your share of the disk is full; free some space",
    errno.EFBIG: "a file may not become so large here",
    errno.EROFS: "this folder can only be read; use one that you may write to",
    errno.EACCES: "you have no right to this; change its rights",
    errno.EPERM: "you have no right to this; change its rights",
    errno.EPIPE: "whatever was reading the output has ended",
}
AGAIN = "What was finished is kept: see to this, and run the same command again"


def _why(error: Exception) -> str | None:
    """Say in a sentence what was refused, by us, the system or the database; None for what is our own fault."""
    from .sandbox import NoSandbox

    if isinstance(error, CourseError | NoSandbox):
        return str(error)
    cause: BaseException | None = error
    while cause is not None:  # nbgrader and its database wrap what sqlite says
        if isinstance(cause, sqlite3.Error):
            return f"gradebook.db cannot be read or written: {cause}. {AGAIN}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno == errno.EPIPE:  # what is still to be printed has nowhere to go
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        path = f"{error.filename}: " if error.filename else ""
        return f"{path}{CAUSES.get(error.errno, error.strerror)}. {AGAIN}"
    return str(error) if isinstance(error, ValueError | OSError) else None


def _printable(name: str) -> str:
    """Return a file's name without what a terminal would obey."""
    return "".join(c if c.isprintable() else "�" for c in name)


def _refuse(words: str) -> int:
    print(textwrap.fill(f"classroom: {words}", 110, break_long_words=False, break_on_hyphens=False), file=sys.stderr)
    return REFUSED


# ---- The commands ---------------------------------------------------------------------------------------------------


RAW = functools.partial(argparse.RawDescriptionHelpFormatter, max_help_position=26, width=100)
Run = Callable[[argparse.Namespace, Course], int]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Assignments of the book for a class: hand out, collect, grade, report.",
        epilog=EPILOG.format(PROGRAM),
        formatter_class=RAW,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND OPTIONS", required=True)

    new = _add(commands, "quickstart", None, "make a new course, with made-up students to try it")
    new.add_argument("folder", type=Path, help="a new folder")
    new.add_argument("--masters", type=Path, help="classroom/masters/ of a copy of the repository, if it is elsewhere")
    new.add_argument("--empty", action="store_true", help="without the made-up students")

    release = _add(
        commands, "release", _release, "make the notebooks to hand out",
        "release/NAME/NAME.ipynb is for everybody, handout/NAME/STUDENT.ipynb has a student's own variant.\n"
        "Give out the one or the other. Nothing is written if a solution or a hidden check is found in it.",
    )  # fmt: skip
    release.add_argument("name", nargs="+", help="the assignment, or several")
    release.add_argument("--student", action="append", metavar="ID", help="only for this student; may be repeated")

    validate = _add(
        commands, "validate", _validate,
        "try a master: solved it earns full marks, unfilled nothing, and nothing leaks",
        "It is tried in the common variant and in those of a few students. The master is run here, without a sandbox.",
    )  # fmt: skip
    validate.add_argument("name", nargs="*", help="the assignment, or several (default: all)")
    validate.add_argument("--variants", type=int, default=3, metavar="N", help="so many variants besides (default: 3)")

    collect = _add(
        commands, "collect", _collect, "take what was handed in into received/",
        "SOURCE is a folder, a zip, or a download of Moodle or Canvas as it is. Files may have any names.\n"
        "What fits nobody is listed and left where it is. The same again changes nothing.",
    )  # fmt: skip
    collect.add_argument("name", help="the assignment")
    collect.add_argument("source", type=Path, help="a folder, a zip or a file")
    whose = "whose a file is, by its path in SOURCE, or a folder at the top of SOURCE, where no name says it"
    collect.add_argument("--is", action="append", default=[], dest="given", metavar="FILE=ID", help=whose)
    when = "when it was handed in, such as 2027-01-31T23:59+01:00 (default: the files' own times)"
    collect.add_argument("--at", type=_moment, metavar="TIME", help=when)

    undo = _add(
        commands, "undo", _undo, "take back a student's newest attempt, such as one collected for the wrong student",
        "It goes from received/ to undone/, as it is; the attempt before it counts again, once you grade again.\n"
        "Where there was no other, its marks leave the gradebook.",
    )  # fmt: skip
    undo.add_argument("name", help="the assignment")
    undo.add_argument("student", metavar="ID", help="the student")

    grade = _add(
        commands, "grade", _grade, "grade what was collected, each submission in a sandbox",
        "Stopped at any time, the same command goes on where it was. What has not changed is not graded again.",
    )  # fmt: skip
    grade.add_argument("name", help="the assignment")
    grade.add_argument("--student", action="append", metavar="ID", help="only this student; may be repeated")
    grade.add_argument("--jobs", type=int, metavar="N", help="so many at a time (default: one per core)")
    grade.add_argument(
        "--unsafe",
        action="store_true",
        help="where no sandbox starts: limits on time and memory alone. Students' code can then read your files, and "
        "use your network",
    )
    grade.add_argument("--quiet", action="store_true", help="without a progress bar")

    report = _add(
        commands, "report", _report, "write grades.csv, feedback for each student, and a page for you",
        "All of it in reports/NAME/. Marks given by hand in formgrader are in it; run it again after marking.",
    )  # fmt: skip
    report.add_argument("name", help="the assignment")
    report.add_argument("--nbgrader", action="store_true", help="also nbgrader's own pages of feedback, in feedback/")

    export = _add(commands, "export", None, "take an assignment or its grades elsewhere")
    kinds = export.add_subparsers(title="where to", metavar="KIND", required=True)

    scope = _add(
        kinds, "gradescope", _export_gradescope, "an autograder for Gradescope",
        "The zip holds the solutions and hidden checks: upload it, and give it to nobody.",
    )  # fmt: skip
    scope.add_argument("name", help="the assignment")
    zip_or_folder = "the zip, or a folder for it (default: exports)"
    scope.add_argument("--to", type=Path, default=Path("exports"), help=zip_or_folder)
    scope.add_argument("--unsafe", action="store_true", help="grade there with limits only if no sandbox starts")

    says = "a repository whose visible checks run under pytest in any CI"
    repository = _add(kinds, "repository", _export_repository, says)
    repository.add_argument("name", help="the assignment")
    repository.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where to write it")
    repository.add_argument("--student", default="", metavar="ID", help="with this student's variant")

    table = _add(
        kinds, "grades", _export_grades, "grades in the CSV that your own Canvas or Moodle exported",
        "Canvas: Grades, Export. Moodle: the assignment's grading worksheet. The file is read and not changed.",
    )  # fmt: skip
    table.add_argument("name", help="the assignment")
    table.add_argument("table", type=Path, help="the platform's CSV")
    table.add_argument("--to", type=Path, required=True, metavar="FILE", help="the new CSV, to be imported there")
    column = "the beginning of the column's name, where it is not the assignment's"
    table.add_argument("--column", default="", help=column)
    table.add_argument("--so-far", action="store_true", help="also where answers still wait for a mark or a look")

    sheet = _add(
        commands, "sheet", _sheet, "print a sheet of questions for each student, for an oral or a written check",
        "Ten minutes, without a computer. The questions come from a student's variant, and from what was handed in.\n"
        "sheets/NAME/sheets.html is for the students, sheets/NAME/answers.html for you alone.",
    )  # fmt: skip
    sheet.add_argument("name", help="the assignment")
    sheet.add_argument("--student", action="append", metavar="ID", help="only for this student; may be repeated")
    return parser


def _add(commands: Any, name: str, run: Run | None, says: str, more: str = "") -> argparse.ArgumentParser:
    """Add a command; one that runs in a course has the option that names it."""
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=says, description=f"{says[0].upper()}{says[1:]}.\n\n{more}", formatter_class=RAW
    )
    added.set_defaults(run=run)
    if run is not None:
        where = "the course's folder (default: this one)"
        added.add_argument("--course", type=Path, default=Path(), metavar="FOLDER", help=where)
    return added


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a time such as 2027-01-31T23:59+01:00; got {text!r}") from error


def _quickstart(options: argparse.Namespace) -> int:
    from .quickstart import EXAMPLES, quickstart

    course = quickstart(options.folder, masters=options.masters, empty=options.empty)
    print(f"{course.root} has the assignments {', '.join(course.assignments)}.")
    if not options.empty:
        for example in EXAMPLES:
            print(f"  {example.id.capitalize()} {example.last_name} {example.does}")
        print("What they hand in is in examples/. For your own class put your list into students.csv.")
    print("Keep the file `secret`: variants are drawn from it, and whoever has it can draw them too.")
    if options.empty:
        print(f"Put your list into {options.folder / 'students.csv'}, below the names of the columns.")
    print(f"Next: cd {options.folder} && {PROGRAM} release {course.assignments[0]}")
    return DONE


def _release(options: argparse.Namespace, course: Course) -> int:
    import nbformat
    from tqdm.auto import tqdm

    from .assignment import load
    from .batch import write
    from .gradebook import register
    from .release import leaks, make_release
    from .variants import PLAIN, variant_for

    for name in options.name:
        assignment = load(course.hidden(course.named(name)))
        master = nbformat.read(course.master(name), as_version=4)
        students = options.student or list(course.students)
        made = {}
        for student in students:
            course.student(student)
        for student in tqdm([PLAIN, *students], desc=f"{name}: making and searching", disable=None):
            variant = variant_for(assignment, student, course.secret)
            made[student] = make_release(master, assignment, variant)
            leaked = leaks(made[student], master, assignment, variant)
            if leaked:
                shown = "; ".join(leaked[:3])
                raise CourseError(f"the release of {name} would hold what it must not: {shown}. Nothing was written")
        register(course, name)
        for student in students:
            write(course.handout(name, student), nbformat.writes(made[student]) + "\n")
        folder = course.handout(name, "").parent
        print(f"{course.release(name)} is for everybody; {folder} has {len(students)} variants.")
    return DONE


def _validate(options: argparse.Namespace, course: Course) -> int:
    import nbformat

    from .assignment import load
    from .release import copied, validate
    from .variants import PLAIN, variant_for

    faults = 0
    for name in options.name or course.assignments:
        assignment = load(course.hidden(course.named(name)))
        master = nbformat.read(course.master(name), as_version=4)
        further = [*course.students, *(f"variant {i}" for i in range(options.variants))][: options.variants]
        variants = [variant_for(assignment, student, course.secret) for student in (PLAIN, *further)]
        by_student = {variant.student: validate(master, assignment, variant) for variant in variants}
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


def _collect(options: argparse.Namespace, course: Course) -> int:
    from .collect import collect

    owners: dict[str, str] = {}
    for pair in options.given:
        file, is_there, student = pair.rpartition("=")
        if not is_there:
            raise CourseError(f"--is must be FILE=ID, such as --is answers.ipynb=rita; got {pair!r}")
        file = PurePath(file).as_posix()
        if owners.setdefault(file, student) != student:
            raise CourseError(f"--is must give {file} to one student; got {owners[file]} and {student}")
    collected = collect(course, options.name, options.source, given=owners, at=options.at)
    students = {student for student, _ in collected.new}
    print(f"{len(collected.new)} new files of {len(students)} students; {len(collected.known)} were there already.")
    if collected.system:
        print(f"{len(collected.system)} files of the system were left out, such as {_printable(collected.system[0])}.")
    there = course.received_from(options.name)
    missing = [student for student in course.students if student not in there]
    if missing:
        print(f"Nothing yet from {len(missing)} of {len(course.students)}: {', '.join(missing)}.")
    for file, why in collected.unmatched:
        print(f"Not taken: {_printable(file)}: {why}", file=sys.stderr)
    if collected.unmatched:
        print("To say whose a file is: --is FILE=ID. Nothing was moved or deleted.", file=sys.stderr)
    if students:
        print(f"If one is not theirs: {PROGRAM} undo {options.name} ID")
    return LOOK if collected.unmatched else DONE


def _undo(options: argparse.Namespace, course: Course) -> int:
    from .collect import undo

    place = undo(course, options.name, options.student)
    left = len(course.attempts(options.name, options.student))
    print(f"{options.student}: the newest attempt is in {place} now; {left} earlier ones are left.")
    print(f"Next: {PROGRAM} grade {options.name}" if left else "The marks for it are out of the gradebook.")
    return DONE


def _grade(options: argparse.Namespace, course: Course) -> int:
    from .batch import grade_all
    from .gradebook import record, register
    from .grading import is_ungraded
    from .sandbox import choose

    name = course.named(options.name)
    if not course.received_from(name):
        raise CourseError(f"nothing was collected for {name} yet; first run: {PROGRAM} collect {name} SOURCE")
    sandbox = choose(unsafe=options.unsafe)
    print(textwrap.fill(f"Sandbox: {sandbox.name}. {sandbox.words[0].upper()}{sandbox.words[1:]}.", 100))
    results = grade_all(
        course.root, name, jobs=options.jobs, sandbox=sandbox, progress=not options.quiet, students=options.student
    )
    if not course.release(name).is_file():
        register(course, name)
    failed = record(course, name)
    flags = Counter(flag["kind"] for result in results for flag in result["flags"])
    counts = ", ".join(f"{kind} {n}" for kind, n in flags.most_common())
    print(f"{len(results)} submissions graded.{f' Flags: {counts}.' if flags else ''}")
    ungraded = [result["student"] for result in results if is_ungraded(result)]
    for student in ungraded:
        print(f"Not graded: {student}: the grader failed; see the report, and grade again", file=sys.stderr)
    for student, why in failed.items():
        print(f"Not in the gradebook: {student}: {why}", file=sys.stderr)
    print(f"Next: {PROGRAM} report {name}")
    return LOOK if failed or ungraded else DONE


def _report(options: argparse.Namespace, course: Course) -> int:
    from .gradebook import feedback
    from .report import NOT_GRADED, read_rows, report

    name = course.named(options.name)
    if not course.students and not course.received_from(name):
        raise CourseError(NOBODY.format(course.root / "students.csv"))
    folder = report(course, name)
    if options.nbgrader:
        feedback(course, name)
    rows = read_rows(course, name)
    counts = Counter(row.status for row in rows)
    print(f"{len(rows)} students: {', '.join(f'{n} {status}' for status, n in counts.most_common())}.")
    print(f"For you: {folder / 'index.html'} and grades.csv. For students: {folder / 'feedback'}.")
    if any(row.waiting for row in rows):
        how = "jupyter lab in the course's folder, then Nbgrader, Formgrader; afterwards run this again."
        print(f"To mark by hand: {how}")
    return LOOK if counts[NOT_GRADED] else DONE


def _export_gradescope(options: argparse.Namespace, course: Course) -> int:
    from .exports import gradescope

    path = gradescope(course, options.name, options.to, unsafe=options.unsafe)
    print(f"{path} is for Gradescope's page Configure Autograder. It holds the solutions.")
    return DONE


def _export_repository(options: argparse.Namespace, course: Course) -> int:
    from .exports import repository

    path = repository(course, options.name, options.to, student=options.student)
    print(f"{path} can go to a repository as it is; python -m pytest there runs the visible checks.")
    return DONE


def _export_grades(options: argparse.Namespace, course: Course) -> int:
    from .assignment import load
    from .exports import fill_in
    from .report import read_rows

    rows = read_rows(course, course.named(options.name))
    about = load(course.hidden(options.name))
    called = (options.name, about.title, f"Assignment {about.chapter}")
    chosen = {"column": options.column, "called": called, "so_far": options.so_far}
    filled = fill_in(course, rows, options.table, options.to, **chosen)
    print(f"{filled.path} has the grades of {len(filled.given)} students, in the column {filled.column}.")
    if filled.converted:
        print("Points were converted: {:g} here are {:g} there.".format(*filled.converted))
    for who, why in filled.left:
        print(f"Without a grade: {who}: {why}", file=sys.stderr)
    return LOOK if filled.left else DONE


def _sheet(options: argparse.Namespace, course: Course) -> int:
    from .sheet import sheets

    name = course.named(options.name)
    if not course.students:
        raise CourseError(NOBODY.format(course.root / "students.csv"))
    folder = sheets(course, name, options.student or list(course.students))
    print(f"{folder / 'sheets.html'} is to be printed, one or two pages for each student.")
    print(f"{folder / 'answers.html'} is for you alone.")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
