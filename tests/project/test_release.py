"""`make release-notes`: a tag becomes a release only where every file agrees with it."""

import pytest

import attention_tutorial
from tools import release
from tools.book import ROOT

CHANGELOG = """# Changes

What a reader would notice.

## 1.3.0, not yet released

- Something new.

## 1.2.3, 2026-01-31

- One thing,
  on two lines.
- Another.

## 1.2.2, 2025-12-01

- An older thing.

## 1.2.1, 2025-11-01

"""
PYPROJECT = '[project]\nname = "book"\nversion = "VERSION"\n'
FILES = {
    "pyproject.toml": PYPROJECT,
    "classroom/pyproject.toml": PYPROJECT,
    "CITATION.cff": "cff-version: 1.2.0\nversion: VERSION\n",
}


@pytest.fixture
def repository(tmp_path):
    """Write a repository whose files state a version."""

    def write(version, **others):
        (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
        (tmp_path / "classroom").mkdir()
        for name, text in FILES.items():
            (tmp_path / name).write_text(text.replace("VERSION", others.get(name, version)), encoding="utf-8")
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("version", "notes"), [("1.2.3", "- One thing,\n  on two lines.\n- Another.\n"), ("1.2.2", "- An older thing.\n")]
)
def test_the_notes_are_the_versions_section(version, notes, repository, capsys):
    assert release.main([f"v{version}"], repository(version)) == 0
    assert capsys.readouterr().out == notes


@pytest.mark.parametrize(
    ("version", "tag", "reason"),
    [
        ("1.2.3", "1.2.3", "a tag must look like v1.2.3; got '1.2.3'"),
        ("1.2.3", "v1.2.3rc1", "a tag must look like v1.2.3; got 'v1.2.3rc1'"),
        ("1.3.0", "v1.3.0", "CHANGELOG.md must give the day that 1.3.0 is released; got 'not yet released'"),
        ("1.2.0", "v1.2.0", "CHANGELOG.md has no section '## 1.2.0, YEAR-MONTH-DAY'"),
        ("1.2.1", "v1.2.1", "CHANGELOG.md says nothing about 1.2.1"),
    ],
)
def test_what_is_not_ready_is_no_release(version, tag, reason, repository, capsys):
    assert release.main([tag], repository(version)) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"release: {reason}\n"


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_states_the_version_must_agree(name, repository, capsys):
    assert release.main(["v1.2.3"], repository("1.2.3", **{name: "1.2.2"})) == 1
    assert capsys.readouterr().err == f"release: {name} must state the tag's version; expected 1.2.3, got 1.2.2\n"


def test_the_files_here_agree_with_each_other():
    version = attention_tutorial.__version__
    release.check_files(version, ROOT)
    assert f"\n## {version}, " in (ROOT / "CHANGELOG.md").read_text("utf-8")
