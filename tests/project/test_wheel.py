"""Laws of the packages as they are published: what the archives hold, and what works where only wheels are installed.

`make test-dist` runs these tests on the files in dist/ (ATTENTION_TUTORIAL_DIST); else the archives are built here.
"""

import email
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from clean_environment import build, make_environment, pip

from tools.book import ROOT, files_of_the_working_tree

FOLDERS = {"attention_tutorial": "", "attention_classroom": "classroom"}  # of the projects, by their packages
PROJECTS = {
    package: tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package, folder in FOLDERS.items()
}
PROJECT = PROJECTS["attention_tutorial"]
SOURCES = {
    package: {
        name.removeprefix(f"{folder}/")
        for name in files_of_the_working_tree()
        if name.startswith(f"{folder}/{package}/".lstrip("/"))
    }
    for package, folder in FOLDERS.items()
}
every_package = pytest.mark.parametrize("package", FOLDERS)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Return the source archive (.gz) and the wheel (.whl) of each package."""
    if "ATTENTION_TUTORIAL_DIST" not in os.environ:
        return {name: build(tmp_path_factory.mktemp(name), project=folder) for name, folder in FOLDERS.items()}
    there = ROOT / os.environ["ATTENTION_TUTORIAL_DIST"]
    return {name: {path.suffix: path for path in there.glob(f"{name}-*")} for name in FOLDERS}


@pytest.fixture(scope="module")
def python(archives, tmp_path_factory):
    """Return the interpreter of an environment that has the wheels, and nothing else of this repository."""
    interpreter = make_environment(tmp_path_factory.mktemp("environment"))
    pip(interpreter, "install", "--no-deps", "--no-index", *(archives[package][".whl"] for package in FOLDERS))
    return interpreter


# ---- The archives ------------------------------------------------------------------------------------------------


@every_package
def test_the_wheel_holds_the_package_and_nothing_else(package, archives):
    """Above all not the classroom's masters, which hold solutions."""
    names = set(zipfile.ZipFile(archives[package][".whl"]).namelist())
    information = {name for name in names if ".dist-info/" in name}
    assert names - information == SOURCES[package]
    elsewhere = {Path(name).suffix for name in SOURCES[package] if "/templates/" not in name}
    assert (
        {".py", ".typed"} <= elsewhere <= {"", ".css", ".js", ".json", ".md", ".py", ".toml", ".ttf", ".txt", ".typed"}
    )
    assert f"{package}-{PROJECTS[package]['version']}.dist-info/licenses/LICENSE" in information


@every_package
def test_the_source_archive_holds_what_building_needs(package, archives):
    with tarfile.open(archives[package][".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= SOURCES[package] | {"pyproject.toml", "README.md", "LICENSE"}
    assert not [name for name in names if name.startswith(("notebooks/", "book/", "tests/", "masters", "pages", "."))]
    assert package == "attention_classroom" or not [name for name in names if "classroom" in name]


@every_package
def test_the_metadata_are_those_of_the_project(package, archives):
    project = PROJECTS[package]
    with zipfile.ZipFile(archives[package][".whl"]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Name"] == project["name"]
    assert metadata["Version"] == project["version"]
    assert metadata["License-Expression"] == project["license"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    required = [value for value in metadata.get_all("Requires-Dist") if "extra ==" not in value]
    assert required == project["dependencies"]
    readme = (ROOT / FOLDERS[package] / "README.md").read_text(encoding="utf-8")
    assert metadata.get_payload(decode=True).decode().strip() == readme.strip()
    assert metadata.get_all("Project-URL") == [f"{name}, {url}" for name, url in project["urls"].items()]


# ---- Where only the wheel is installed ---------------------------------------------------------------------------

EVERYTHING = """
import importlib, json, pkgutil
import attention_classroom, attention_tutorial
from attention_tutorial import widgets
modules = []
for package in (attention_classroom, attention_tutorial):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
        modules.append(module.name)
sources = [getattr(widgets, name).bundle(kind) for name in widgets.__all__ for kind in ("js", "css")]
lengths = [len(source) for source in sources]
print(json.dumps([attention_tutorial.__file__, attention_tutorial.__version__, modules, lengths]))
"""


def test_the_teachers_command_runs_and_says_that_masters_come_with_a_copy_of_the_repository(python, tmp_path):
    command = [python.with_name("attention-classroom"), "quickstart", "course"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "they come with a copy of the repository" in " ".join(done.stderr.split()), done.stderr


def test_every_module_can_be_imported_and_widgets_find_their_sources(python, tmp_path):
    command = [python, "-I", "-W", "error", "-c", EVERYTHING]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file, version, modules, lengths = json.loads(done.stdout)
    assert Path(file).is_relative_to(python.parents[1])
    assert version == PROJECT["version"]
    sources = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for names in SOURCES.values()
               for name in names if name.endswith(".py")}  # fmt: skip
    assert set(modules) == sources - set(FOLDERS)
    assert lengths and all(length > 1000 for length in lengths)


CONSUMER = """
import torch
from attention_tutorial import MultiHeadAttention, scaled_dot_product_attention

reveal_type(scaled_dot_product_attention)
MultiHeadAttention("eight", num_heads=2)
"""
WITHOUT_TORCH = "[mypy]\nstrict = true\n[mypy-torch.*]\nfollow_imports = skip\n"  # reading all of torch takes long


def test_a_type_checker_sees_the_types(python, tmp_path):
    (tmp_path / "consumer.py").write_text(CONSUMER)
    (tmp_path / "mypy.ini").write_text(WITHOUT_TORCH)
    command = [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", "--python-executable", python]
    done = subprocess.run([*command, "consumer.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "is_causal: bool =" in done.stdout, done.stdout
    assert 'Argument 1 to "MultiHeadAttention" has incompatible type "str"; expected "int"' in done.stdout
    assert done.stdout.count("error:") == 1, done.stdout
