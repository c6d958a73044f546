"""What was handed in is taken once, as it came, and every file is either somebody's or listed."""

import io
import os
import stat
import warnings
import zipfile

import pytest

from attention_classroom.collect import collect, match, platform_names, undo
from attention_classroom.course import CourseError, Student, open_course

OF_OTHERS = [("j.", ""), ("jo-", ""), ("jo_", ""), ("x+", ""), ("", ".2"), ("", "-2"), ("", "_2"), ("", "@uni.de")]
STUDENTS = """id;last_name;first_name;email;canvas_id
s101;Noether;Emmy;emmy@example.org;71
s102;Müller-Łuk;Jörg;jorg@example.org;
s103;van der Berg;Ada Maria;a.berg@example.org;
s104;Kim;Min;min1@example.org;
s105;Kim;Min;min2@example.org;
anna;;;;
anna-b;;;;
"""


@pytest.fixture
def course(tmp_path):
    root = tmp_path / "course"
    for name in ("scaling", "masking"):
        (root / "source" / name).mkdir(parents=True)
        (root / "source" / name / f"{name}.ipynb").write_text("{}")
    (root / "hidden").mkdir()
    for name in ("scaling", "masking"):
        (root / "hidden" / f"{name}.py").write_text("")
    (root / "course.toml").write_text('title = "T"\n')
    (root / "students.csv").write_bytes(b"\xef\xbb\xbf" + STUDENTS.encode())
    return open_course(root)


def make_zip(path, files, **attributes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (2027, 1, 2, 3, 4, 6))
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in attributes.items():
                setattr(info, key, value)
            archive.writestr(info, data)
    return path


def make_folder(path, files):
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def received(course, name="scaling"):
    """All files in received/, as {student: [contents of each attempt]}."""
    return {
        student: [
            {p.relative_to(attempt).as_posix(): p.read_bytes() for p in attempt.rglob("*") if p.is_file()}
            for attempt in course.attempts(name, student)
        ]
        for student in course.received_from(name)
    }


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("Emmy Noether_4711_assignsubmission_file_/x.ipynb", "s101"),
        ("Noether Emmy_4711_assignsubmission_file_/sub/x.ipynb", "s101"),
        ("Emmy Noether_4711_assignsubmission_file/x.ipynb", "s101"),  # Moodle 4
        ("download/Noether Emmy_4711_assignsubmission_file_x.ipynb", "s101"),  # not in folders
        ("Jorg Muller-Łuk_4711_assignsubmission_file_/x.ipynb", "s102"),
        ("Ada Maria van der Berg_1_assignsubmission_file_/x.ipynb", "s103"),
        ("noetheremmy_123_456_x.ipynb", "s101"),
        ("noetheremmy_LATE_123_456_x-1.ipynb", "s101"),
        ("whoever_71_456_x.ipynb", "s101"),  # by Canvas's number
        ("vanderbergadamaria_5_6_x.ipynb", "s103"),
        ("müllerłukjörg_5_6_x.ipynb", "s102"),
        ("s103.ipynb", "s103"),
        ("S103/whatever.ipynb", "s103"),
        ("scaling_s103.ipynb", "s103"),
        ("s103-final (2).ipynb.txt", "s103"),
        ("a.berg@example.org.ipynb", "s103"),
        ("handed in/emmy_noether scaling.ipynb", "s101"),
        ("anna-b.ipynb", "anna-b"),
        ("scaling_anna-b.ipynb", "anna-b"),
        ("anna.ipynb", "anna"),
        ("Copy of s103.ipynb", "s103"),
        ("s103-Copy1.ipynb", "s103"),
        ("s103 2.ipynb", "s103"),
        ("hw3_s103_attempt_2027-01-31-10-00-00_scaling.ipynb", "s103"),  # Blackboard
        ("scaling_a.berg@example.org.ipynb", "s103"),
        ("Noether, Emmy (s101).ipynb", "s101"),
        ("J\u0061\u0308rg.ipynb/Jo\u0308rg Mu\u0308ller-Łuk.ipynb", "s102"),  # as macOS writes it
        # What the platform says stands above what a student called a file.
        ("Emmy Noether_4711_assignsubmission_file_/s103.ipynb", "s101"),
        ("noetheremmy_123_456_s103.ipynb", "s101"),
        ("s101/s103.ipynb", "s101"),
        ("s101/Ada Maria van der Berg_4711_assignsubmission_file_/x.ipynb", "s101"),
        ("s101/vanderbergadamaria_5_6_x.ipynb", "s101"),
    ],
)
def test_a_name_says_whose_it_is(course, name, student):
    owner, part = match(course.students, name, assignments=course.assignments)
    assert isinstance(owner, Student), owner
    assert owner.id == student
    assert part >= 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Min Kim_4711_assignsubmission_file_/x.ipynb", "s104, s105"),
        ("kimmin_4_5_x.ipynb", "s104, s105"),
        ("vanderbergadamaria_71_5_x.ipynb", "s101, s103"),  # the number is of one, the name of another
        ("Nobody Known_4711_assignsubmission_file_/s101.ipynb", "'Nobody Known' (number 4711)"),
        ("möllerłukjürg_5_6_x.ipynb", "fits no student"),  # without what is not ASCII it is s102's name
        ("s101 and s103.ipynb", "s101, s103"),
        ("notebook-1.ipynb", "no part"),
        ("s1010.ipynb", "no part"),
        # Of another person whose id, address or name holds a student's.
        *((f"{before}anna{after}_scaling.ipynb", "more than the name of anna") for before, after in OF_OTHERS),
        *((f"{before}emmy@example.org{after}.ipynb", "more than the name of s101") for before, after in OF_OTHERS),
        ("emmy@example.orgя.ipynb", "no part"),
        ("annaя.ipynb", "no part"),
        ("anna2_scaling.ipynb", "no part"),
        ("hanna.ipynb", "no part"),
        ("Emmy Maria Noether scaling.ipynb", "more than the name of s101"),
        ("Emmy Noether-Braun.ipynb", "more than the name of s101"),
        ("Anna Schmidt.ipynb", "more than the name of anna"),
    ],
)
def test_a_name_that_fits_nobody_or_several_is_listed_with_the_reason(course, name, says):
    reason, part = match(course.students, name, assignments=course.assignments)
    assert says in str(reason)
    assert part == -1


def test_every_file_of_a_download_is_taken_or_listed(course, tmp_path):
    files = {
        "Emmy Noether_4711_assignsubmission_file_/solution FINAL.ipynb": "emmy",
        "Emmy Noether_4711_assignsubmission_file_/plot.png": "plot",
        "Min Kim_4712_assignsubmission_file_/x.ipynb": "min",
        "__MACOSX/._x": "junk",
        "s103.pdf": "not a notebook",
        "readme.txt": "hello",
        "masking.ipynb": "of another assignment",
    }
    source = make_zip(tmp_path / "moodle.zip", files)
    before = source.read_bytes()
    collected = collect(course, "scaling", source)
    listed = [file for _, file in collected.new] + [file for file, _ in collected.unmatched] + collected.system
    assert sorted(listed) == sorted(files)
    assert {file for file, _ in collected.unmatched} == {
        "Min Kim_4712_assignsubmission_file_/x.ipynb", "readme.txt", "masking.ipynb",
    }  # fmt: skip
    assert received(course) == {
        "s101": [{"solution FINAL.ipynb": b"emmy", "plot.png": b"plot"}],
        "s103": [{"s103.pdf": b"not a notebook"}],
    }
    assert source.read_bytes() == before
    assert course.newest("scaling", "s101").read_bytes() == b"emmy"
    assert course.newest("scaling", "s103").read_bytes() == b"not a notebook", "that it is none is said when graded"
    assert course.newest("scaling", "s104") is None


def test_collecting_again_changes_nothing_and_a_new_attempt_comes_beside_the_old(course, tmp_path):
    source = make_folder(tmp_path / "in", {"s101.ipynb": "first", "s103.ipynb": "one"})
    os.utime(source / "s101.ipynb", (1_800_000_000, 1_800_000_000))
    assert len(collect(course, "scaling", source).new) == 2
    again = collect(course, "scaling", source)
    assert not again.new
    assert sorted(again.known) == [("s101", "s101.ipynb"), ("s103", "s103.ipynb")]
    (source / "s101.ipynb").write_text("second")
    os.utime(source / "s101.ipynb", (1_700_000_000, 1_700_000_000))  # an older date does not put it before the first
    collect(course, "scaling", source)
    assert received(course)["s101"] == [{"s101.ipynb": b"first"}, {"s101.ipynb": b"second"}]
    assert course.newest("scaling", "s101").read_bytes() == b"second"
    assert not stat.S_IMODE(course.newest("scaling", "s101").stat().st_mode) & 0o222, "originals are read-only"


def test_of_several_notebooks_in_canvas_the_one_with_the_highest_number_counts(course, tmp_path):
    files = {
        "noetheremmy_71_903_scaling-2.ipynb": "third",
        "noetheremmy_71_902_scaling-1.ipynb": "second",
        "noetheremmy_LATE_71_901_scaling.ipynb": "first",
        "noetheremmy_71_904_plot.png": "plot",
    }
    collect(course, "scaling", make_zip(tmp_path / "canvas.zip", files))
    assert received(course)["s101"] == [{name: text.encode() for name, text in files.items()}]
    assert course.newest("scaling", "s101").read_bytes() == b"third"
    assert course.attempts("scaling", "s101")[0].name.startswith("2027-01-0")


def test_what_names_do_not_say_can_be_given(course, tmp_path):
    """By the whole path, or a name at the top; a file of the same name in another folder is not meant."""
    source = make_folder(tmp_path / "in", {"x.ipynb": "a", "box/y.ipynb": "b", "bag/x.ipynb": "c", "s103/x.ipynb": "d"})
    collected = collect(course, "scaling", source, given={"x.ipynb": "s104", "box": "s105"})
    assert [file for file, _ in collected.unmatched] == ["bag/x.ipynb"]
    assert received(course) == {
        "s103": [{"x.ipynb": b"d"}], "s104": [{"x.ipynb": b"a"}], "s105": [{"y.ipynb": b"b"}],
    }  # fmt: skip
    collect(course, "scaling", source, given={"bag/x.ipynb": "s102"})
    assert received(course)["s102"] == [{"x.ipynb": b"c"}]


def test_of_two_people_with_one_name_in_a_download_none_is_guessed_and_a_known_number_wins(course, tmp_path):
    """Only one of them is on the list: the other joined later, or left."""
    files = {f"Emmy Noether_{number}_assignsubmission_file_/x.ipynb": str(number) for number in (1, 2)}
    collected = collect(course, "scaling", make_folder(tmp_path / "both", files))
    assert received(course) == {} and len(collected.unmatched) == 2
    assert "several people who could be s101: Moodle's number 1, Moodle's number 2" in collected.unmatched[0][1]
    first, second = (file.split("/")[0] for file in files)
    collect(course, "scaling", tmp_path / "both", given={first: "s101"})
    assert received(course) == {"s101": [{"x.ipynb": b"1"}]}
    collected = collect(course, "scaling", tmp_path / "both")
    assert [file for file, _ in collected.unmatched] == [f"{second}/x.ipynb"]
    assert received(course) == {"s101": [{"x.ipynb": b"1"}]}


def test_a_number_that_a_student_wrote_into_a_name_is_nobodys_number(course, tmp_path):
    forged = {"s103/evil_71_5_x.ipynb": "1", "s103/Evil_4711_assignsubmission_file_/x.ipynb": "2"}
    collect(course, "scaling", make_folder(tmp_path / "plain", forged))
    assert list(received(course)) == ["s103"] and platform_names(course, "scaling") == {}
    files = {"noetheremmy_71_6_x.ipynb": "canvas", "Min Kim_4711_assignsubmission_file_/x.ipynb": "moodle"}
    collect(course, "scaling", make_folder(tmp_path / "in", files))
    assert received(course)["s101"] == [{"noetheremmy_71_6_x.ipynb": b"canvas"}] and len(received(course)["s103"]) == 1


def test_what_names_another_student_in_a_folder_that_is_given_stays_theirs(course, tmp_path):
    source = make_folder(
        tmp_path / "in", {"box/s103/x.ipynb": "s103", "box/y.ipynb": "given", "box/s104.ipynb": "s104"}
    )
    collect(course, "scaling", source, given={"box": "s105"})
    attempts = {student: [*attempt.values()] for student, (attempt,) in received(course).items()}
    assert attempts == {"s103": [b"s103"], "s104": [b"s104"], "s105": [b"given"]}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"x.ipynb": "nobody"}, r"students\.csv; got 'nobody'"),
        ({"z.ipynb": "s104"}, r"must name a file of .*, or a folder at its top; got z\.ipynb$"),
        ({"y.ipynb": "s104"}, r"give the whole path: box/y\.ipynb or s103/y\.ipynb"),
        ({"s103/y.ipynb": "s101"}, "folder of another student; got s103/y.ipynb for s101"),
        ({"s103": "s101"}, "folder of another student"),
    ],
)
def test_what_is_given_against_a_name_is_refused(course, tmp_path, given, says):
    source = make_folder(tmp_path / "in", {"x.ipynb": "a", "box/y.ipynb": "b", "s103/y.ipynb": "c"})
    with pytest.raises(CourseError, match=says):
        collect(course, "scaling", source, given=given)
    assert received(course) == {}


def test_an_attempt_is_taken_back_and_the_one_before_it_counts(course, tmp_path):
    source = make_folder(tmp_path / "in", {"s101.ipynb": "first"})
    collect(course, "scaling", source)
    (source / "s101.ipynb").write_text("second")
    collect(course, "scaling", source)
    course.result("scaling", "s101").parent.mkdir(parents=True)
    course.result("scaling", "s101").write_text("{}")
    place = undo(course, "scaling", "s101")
    assert (place / "s101.ipynb").read_bytes() == b"second" and place.is_relative_to(course.root / "undone")
    assert received(course) == {"s101": [{"s101.ipynb": b"first"}]}
    assert not course.result("scaling", "s101").exists(), "what was made of it does not count any more"
    assert len(collect(course, "scaling", source).new) == 1
    assert undo(course, "scaling", "s101") != place, "nothing is written over"
    for student in ("s103", "../s101"):
        with pytest.raises(CourseError, match="must have handed in something for scaling; got"):
            undo(course, "scaling", student)


def test_of_several_notebooks_the_one_with_the_name_is_graded_and_all_are_kept(course, tmp_path):
    files = {"s101/draft.ipynb": "a longer draft", "s101/scaling.ipynb": "short", "s101/data.csv": "a very long file"}
    collect(course, "scaling", make_folder(tmp_path / "in", files))
    assert course.newest("scaling", "s101").name == "scaling.ipynb"
    assert len(received(course)["s101"][0]) == 3


def test_a_zip_that_a_student_hands_in_is_kept_and_opened_beside_it(course, tmp_path):
    inner = make_zip(tmp_path / "inner.zip", {"work/scaling.ipynb": "inside", "__MACOSX/x": ""}).read_bytes()
    source = make_folder(tmp_path / "in", {"s101/work.zip": inner})
    collect(course, "scaling", source)
    assert received(course)["s101"] == [{"work.zip": inner, "work.zip.unpacked/scaling.ipynb": b"inside"}]
    assert course.newest("scaling", "s101").read_bytes() == b"inside"
    assert not collect(course, "scaling", source).new


@pytest.mark.parametrize(
    "files",
    [
        {"a": "1", "a/b": "2"},
        {"a/b": "1", "a": "2"},
        {"a/B/c": "1", "A/b": "2", "a": "3"},
        {"/".join(["d" * 50] * 200) + "/x.ipynb": "1", "x.ipynb": "2"},
    ],
)
def test_a_zip_whose_names_cannot_all_be_written_stops_nobody(course, tmp_path, files):
    """A file and a folder of one name, and folders too deep for any path: all that is in them is kept."""
    inner = make_zip(tmp_path / "inner.zip", files).read_bytes()
    source = make_folder(tmp_path / "in", {"s101/work.zip": inner, "s103.ipynb": "good"})
    collected = collect(course, "scaling", source)
    assert collected.unmatched == [] and received(course)["s103"] == [{"s103.ipynb": b"good"}]
    ((_, *inside),) = [[attempt.pop("work.zip"), *attempt.values()] for attempt in received(course)["s101"]]
    assert sorted(inside) == sorted(text.encode() for text in files.values())


@pytest.mark.parametrize(
    "name",
    [
        "../evil_s101.ipynb",
        "s101/../../evil.ipynb",
        "/tmp/s101.ipynb",
        "..\\s101.ipynb",
        "\\tmp\\s101.ipynb",
        "C:\\s101.ipynb",
        "C:s101.ipynb",
    ],
)
def test_an_entry_that_points_outside_its_folder_is_refused_and_the_others_are_taken(course, tmp_path, name):
    source = make_zip(tmp_path / "x.zip", {"s103.ipynb": "good", name: "evil"})
    ((file, why),) = collect(course, "scaling", source).unmatched
    assert file == name.replace("\\", "/") and ("outside its folder" in why or "name" in why)
    assert list(received(course)) == ["s103"]
    assert not list(tmp_path.rglob("evil*"))


def flagged(data):
    """A zip whose first entry says that it needs a password."""
    data = bytearray(data)
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def broken(data):
    """A zip whose first entry is not what was packed."""
    data = bytearray(data)
    data[data.index(b"s101.ipynb") + 12] ^= 0xFF
    return bytes(data)


def untrue(data):
    """A zip whose first entry says that it has 10 bytes."""
    return data.replace((5000).to_bytes(4, "little"), (10).to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("content", "about", "change", "says"),
    [
        (b" " * 30_000, {}, bytes, "it unpacks to 0 MB, more than 0 MB"),
        ("/etc/passwd", {"external_attr": (stat.S_IFLNK | 0o777) << 16}, bytes, "it is a link"),
        ("x" * 99, {}, flagged, "it needs a password"),
        ("x" * 99, {"compress_type": zipfile.ZIP_LZMA}, broken, "it cannot be unpacked"),
        ("x" * 99, {"compress_type": zipfile.ZIP_BZIP2}, broken, "it cannot be unpacked"),
        ("x" * 99, {}, broken, "it cannot be unpacked"),
        ("0" * 5000, {}, untrue, ""),
    ],
    ids=["blanks", "link", "password", "lzma", "bzip2", "deflate", "untrue"],
)
def test_one_entry_that_cannot_be_taken_holds_up_nobody(course, tmp_path, monkeypatch, content, about, change, says):
    monkeypatch.setattr("attention_classroom.collect.MAX_FILE", 10_000)
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("s101.ipynb")
        info.compress_type = zipfile.ZIP_DEFLATED
        for key, value in about.items():
            setattr(info, key, value)
        archive.writestr(info, content)
        archive.writestr("s103.ipynb", "good")
        archive.writestr(zipfile.ZipInfo(""), "no name")
    path.write_bytes(change(path.read_bytes()))
    collected = collect(course, "scaling", path)
    assert says in dict(collected.unmatched)["s101.ipynb"]
    assert received(course) == {"s103": [{"s103.ipynb": b"good"}]}
    inner = make_folder(tmp_path / "in", {"s104/x.zip": path.read_bytes()})  # a student's own stays closed
    assert "kept, but not opened" in collect(course, "scaling", inner).unmatched[0][1]
    assert list(received(course)["s104"][0]) == ["x.zip"]


def test_one_student_cannot_fill_the_disk(course, tmp_path, monkeypatch):
    monkeypatch.setattr("attention_classroom.collect.MAX_FILE", 10)
    monkeypatch.setattr("attention_classroom.collect.MAX_INSIDE", 3)
    files = {"s101/a": "1" * 6, "s101/b": "2" * 6, "s103/x": "good", **{f"s104/{i}": f"{i}" for i in range(5)}}
    reasons = dict(collect(course, "scaling", make_folder(tmp_path / "in", files)).unmatched)
    assert reasons == {
        "s101/b": "of one student at most 0 MB are taken",
        "s104": "s104 has 5 files there; at most 3 are taken",
    }
    assert {student: len(attempt) for student, (attempt,) in received(course).items()} == {"s101": 1, "s103": 1}
    monkeypatch.setattr("attention_classroom.collect.MAX_FILE", 10_000)
    inner = make_zip(tmp_path / "inner.zip", {f"x{i}": "" for i in range(4)}).read_bytes()
    ((_, why),) = collect(course, "scaling", make_folder(tmp_path / "zip", {"s105/work.zip": inner})).unmatched
    assert why == "kept, but not opened: it holds more than 3 files" and list(received(course)["s105"][0]) == [
        "work.zip"
    ]


def test_links_in_a_folder_are_not_followed(course, tmp_path):
    source = make_folder(tmp_path / "in", {"s103.ipynb": "good"})
    (source / "s101.ipynb").symlink_to("/etc/passwd")
    (source / "s104").symlink_to("/etc")
    collected = collect(course, "scaling", source)
    assert sorted(file for file, _ in collected.unmatched) == ["s101.ipynb", "s104"]
    assert list(received(course)) == ["s103"]


def test_names_that_no_system_can_write_are_kept_apart(course, tmp_path):
    long = "s101/" + "ü" * 120 + ".ipynb"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = make_zip(tmp_path / "x.zip", {"s101/a:b.ipynb": "1", "s101/a|b.ipynb": "2", long: "3"})
    collect(course, "scaling", source)
    unicode = make_folder(tmp_path / "in", {})
    (unicode / "s103").mkdir(parents=True)
    (unicode / "s103" / os.fsdecode(b"\xff.ip\xff")).write_text("a name that is no Unicode")
    assert len(collect(course, "scaling", unicode).new) == 1
    (attempt,) = received(course)["s101"]
    assert sorted(attempt.values()) == [b"1", b"2", b"3"]
    assert {"a_b.ipynb", "a_b (2).ipynb"} < set(attempt)


def test_nothing_is_left_half_written(course, tmp_path, monkeypatch):
    source = make_folder(tmp_path / "in", {"s101/scaling.ipynb": "x", "s101/z.txt": "y"})

    def full(path, data):
        if path.name == "z.txt":
            raise OSError("disk full")
        write(path, data)

    from attention_classroom import collect as module

    write = module._write
    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(OSError, match="disk full"):
        collect(course, "scaling", source)
    assert course.attempts("scaling", "s101") == []
    assert course.newest("scaling", "s101") is None
    (course.received("scaling", "s103") / ".part-killed").mkdir(parents=True)  # as a `collect` that is killed leaves it
    monkeypatch.undo()
    collect(course, "scaling", source)
    assert not list((course.root / "received").rglob(".part-*")) and course.attempts("scaling", "s101")


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("students.csv", "name,email\nx,y\n", "must have a column 'id'"),
        ("students.csv", "id\n../x\n", r"line 2: id must be letters.*got '\.\./x'"),
        ("students.csv", "id\na1\nA1\n", "got 'A1' twice"),
        ("students.csv", "", "is empty"),
        ("course.toml", "title = 3\n", "title must be a text; got 3"),
        ("course.toml", "heading = ''\n", "may have title, limits, late, due, extensions, questions; got heading"),
        ("course.toml", "[limits]\ncell = 3\n", r"\[limits\] may have .*cell_s.*; got cell"),
        ("course.toml", "[limits]\ncell_s = 'x'\n", "cell_s of .* must be a number, 0 or more; got 'x'"),
        ("course.toml", "[due]\nscaling = 2027-01-01T10:00:00\n", "with its zone"),
        ("course.toml", "[due\n", "must be TOML"),
        (
            "course.toml",
            "[due]\nscalling = 2027-01-01T10:00:00Z\n",
            r"\[due\] must .*got scalling. Did you mean scaling",
        ),
        ("course.toml", "[due]\nScaling = 2027-01-01T10:00:00Z\n", "got Scaling. Did you mean scaling"),
        ("course.toml", '[questions]\nmask = ["1: Why?"]\n', r"\[questions\] must .*; got mask. Did you mean masking"),
        ("course.toml", "[extensions]\nother.anna = 2027-01-01T10:00:00Z\n", r"assignment; got other$"),
        ("course.toml", "[extensions]\nscaling.ana = 2027-01-01T10:00:00Z\n", "got ana. Did you mean anna"),
        ("course.toml", "[extensions]\nscaling.Anna = 2027-01-01T10:00:00Z\n", "got Anna. Did you mean anna"),
        ("secret", "short\n", "at least 32 letters; got 5"),
    ],
)
def test_a_mistake_in_a_course_is_named(course, file, text, says):
    (course.root / file).write_text(text)
    with pytest.raises(CourseError, match=says):
        _ = open_course(course.root).students, course.settings, course.secret


def test_a_course_is_found_from_inside_it_and_nowhere_else(course, tmp_path):
    assert open_course(course.root / "source").root == course.root
    with pytest.raises(CourseError, match="quickstart"):
        open_course(tmp_path)
    with pytest.raises(CourseError, match=r"must be one of masking, scaling .*; got 'scalings'"):
        course.named("scalings")


def test_a_table_with_any_delimiter_and_encoding_is_read(course):
    for text in ("id,last_name\ns1,Ö\n", "id;last_name\ns1;Ö\n", "id\tlast_name\ns1\tÖ\n"):
        for encoding in ("utf-8", "utf-8-sig", "cp1252", "utf-16"):
            (course.root / "students.csv").write_bytes(text.encode(encoding))
            assert open_course(course.root).students["s1"].last_name == "Ö"


def test_a_source_that_cannot_be_read_is_named(course, tmp_path):
    with pytest.raises(CourseError, match="there is no"):
        collect(course, "scaling", tmp_path / "nothing")
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(CourseError, match="not a zip that can be read"):
        collect(course, "scaling", tmp_path / "broken.zip")
    (tmp_path / "x.7z").write_bytes(b"7z")
    with pytest.raises(CourseError, match="unpack it"):
        collect(course, "scaling", tmp_path / "x.7z")
    single = tmp_path / "s101.ipynb"
    single.write_bytes(io.BytesIO(b"one").getvalue())
    assert [student for student, _ in collect(course, "scaling", single).new] == ["s101"]
