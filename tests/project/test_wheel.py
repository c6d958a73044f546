"""Laws of the package as it is published: what the archives hold, and how it behaves where only the wheel is installed.

`make test-dist` runs these tests on the files in dist/ (ATTENTION_TUTORIAL_DIST); else the archives are built here.
"""

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from clean_environment import build, make_environment, pip

from tools.book import ROOT, files_of_the_working_tree

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("attention_classroom", "attention_tutorial")
# The masters hold solutions, and are published nowhere.
UNPUBLISHED = re.compile("attention_classroom/(masters|tests)/")
OF_PACKAGES = {name for name in files_of_the_working_tree() if name.split("/")[0] in PACKAGES}
SOURCES = {name for name in OF_PACKAGES if not UNPUBLISHED.match(name)}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Return the source archive (.gz) and the wheel (.whl)."""
    if "ATTENTION_TUTORIAL_DIST" not in os.environ:
        return build(tmp_path_factory.mktemp("published"))
    (archive,), (wheel,) = (list((ROOT / os.environ["ATTENTION_TUTORIAL_DIST"]).glob(k)) for k in ("*.tar.gz", "*.whl"))
    return {".gz": archive, ".whl": wheel}


@pytest.fixture(scope="module")
def python(archives, tmp_path_factory):
    """Return the interpreter of an environment that has the wheel, and nothing else of this repository."""
    interpreter = make_environment(tmp_path_factory.mktemp("environment"))
    pip(interpreter, "install", "--no-deps", "--no-index", archives[".whl"])
    return interpreter


# ---- The archives ------------------------------------------------------------------------------------------------


def test_masters_and_tests_are_no_packages():
    unpublished = OF_PACKAGES - SOURCES
    assert unpublished and not [name for name in unpublished if name.endswith("__init__.py")]


def test_the_wheel_holds_the_packages_and_nothing_else(archives):
    names = set(zipfile.ZipFile(archives[".whl"]).namelist())
    information = {name for name in names if ".dist-info/" in name}
    assert names - information == SOURCES
    elsewhere = {name for name in SOURCES if "/templates/" not in name}
    assert {Path(name).suffix for name in elsewhere} == {".css", ".js", ".json", ".md", ".py", ".txt", ".typed"}
    assert f"attention_tutorial-{PROJECT['version']}.dist-info/licenses/LICENSE" in information


def test_the_source_archive_holds_what_building_needs(archives):
    with tarfile.open(archives[".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= SOURCES | {"pyproject.toml", "README.md", "LICENSE"}
    assert not [name for name in names if name.startswith(("notebooks/", "book/", "tests/", "."))]
    assert not [name for name in names if UNPUBLISHED.match(f"{name}/")]


def test_the_metadata_are_those_of_the_project(archives):
    with zipfile.ZipFile(archives[".whl"]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Name"] == PROJECT["name"]
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["License-Expression"] == PROJECT["license"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    required = [value for value in metadata.get_all("Requires-Dist") if "extra ==" not in value]
    assert required == PROJECT["dependencies"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.get_payload(decode=True).decode().strip() == readme.strip()
    assert metadata.get_all("Project-URL") == [f"{name}, {url}" for name, url in PROJECT["urls"].items()]


# ---- Where only the wheel is installed ---------------------------------------------------------------------------

EVERYTHING = """
import contextlib, importlib, json, pkgutil, runpy, sys
sys.argv = ["classroom", "quickstart", "course"]  # the teacher's command, which needs a copy of the repository for this
with contextlib.suppress(SystemExit):
    runpy.run_module("attention_tutorial.classroom", run_name="__main__")
import attention_classroom, attention_tutorial
from attention_tutorial import widgets
modules = []
for package in (attention_classroom, attention_tutorial):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
        modules.append(module.name)
sources = [text for name in widgets.__all__ for text in (getattr(widgets, name)._esm, getattr(widgets, name)._css)]
lengths = [len(str(source)) for source in sources]
print(json.dumps([attention_tutorial.__file__, attention_tutorial.__version__, modules, lengths]))
"""


def test_every_module_can_be_imported_widgets_find_their_sources_and_the_teachers_command_runs(python, tmp_path):
    command = [python, "-I", "-W", "error", "-c", EVERYTHING]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refusal = " ".join(done.stderr.split())
    assert "they come with a copy of the repository" in refusal, refusal
    file, version, modules, lengths = json.loads(done.stdout)
    assert Path(file).is_relative_to(python.parents[1])
    assert version == PROJECT["version"]
    sources = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in SOURCES
               if name.endswith(".py")}  # fmt: skip
    assert set(modules) == sources - set(PACKAGES)
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
