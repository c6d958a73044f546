"""Laws of the workflows in .github: what they may do, what they call, and when the GPU is used.

`make lint` looks for what is weak in any project (zizmor): actions without a commit, rights for all jobs, runs side by
side. Here stands what this project wants beyond that.
"""

import itertools
import os
import re
import shlex
import subprocess
import sys

import yaml

from tools.book import ROOT, settings

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FILES}
JOBS = {(name, job): body for name, workflow in WORKFLOWS.items() for job, body in workflow["jobs"].items()}
STEPS = [(f"{name}: {job}", step) for (name, job), body in JOBS.items() for step in body["steps"]]

# Who may change anything, and what. A job that may runs nothing of this repository.
MAY_WRITE = {
    ("colab", "report"): {"issues"},
    ("release", "attest"): {"attestations", "id-token"},
    ("release", "github"): {"contents"},
    ("release", "pypi"): {"id-token"},
    ("site", "deploy"): {"id-token", "pages"},
}
HOSTED = {"ubuntu-latest", "macos-latest", "${{ matrix.os }}"}


def events(workflow):
    return workflow[True]  # YAML takes the word "on" for a yes


def commands(step):
    """The lines that a step hands to the shell, each as a list of words."""
    return [shlex.split(line) for line in step.get("run", "").splitlines()]


def make_targets(words):
    """The targets that a shell line asks make for, on this machine or in a container."""
    if "make" not in words:
        return []
    rest = words[words.index("make") + 1 :]
    words = itertools.takewhile(lambda word: word not in (">", "|", "&&"), rest)
    return [word for word in words if re.fullmatch("[a-z][a-z-]*", word)]


# What they may do


def test_there_are_the_workflows_that_the_page_for_maintainers_names():
    named = re.findall(r"^\| `([a-z]+)\.yml` \|", (ROOT / "docs" / "maintaining.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(WORKFLOWS)


def test_an_action_says_its_version_and_has_the_same_everywhere():
    uses = {line for path in FILES for line in re.findall(r"uses: *(.*)", path.read_text("utf-8"))}
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line) for line in uses), sorted(uses)
    assert len({line.partition("@")[0] for line in uses}) == len(uses), sorted(uses)


def test_only_the_listed_jobs_may_write():
    asked = {key: {right for right, level in job["permissions"].items() if level != "read"}
             for key, job in JOBS.items()}  # fmt: skip
    assert {key: rights for key, rights in asked.items() if rights} == MAY_WRITE


def test_a_job_that_may_write_runs_nothing_of_the_repository():
    for key in MAY_WRITE:
        for step in JOBS[key]["steps"]:
            assert "checkout" not in step.get("uses", "")
            assert not any(make_targets(words) for words in commands(step))


def test_every_job_ends():
    for key, job in JOBS.items():
        assert 0 < job["timeout-minutes"] <= 90, key


def test_nothing_is_taken_from_a_cache():
    for where, step in STEPS:
        words = [step.get("uses", ""), *step.get("with", {})]
        assert not any("cache" in word for word in words), where


def test_the_projects_address_stands_in_none():
    address = settings()["repository"]["url"].removeprefix("https://")
    for path in FILES:
        assert address.partition("/")[2] not in path.read_text("utf-8")


# What they call


def test_every_target_that_is_called_exists():
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = {target for _, step in STEPS for words in commands(step) for target in make_targets(words)}
    assert (
        set("lint test book test-gpu test-colab test-portable dist test-dist release-notes linkcheck".split()) <= called
    )
    assert called <= there


def test_a_release_is_what_was_tested():
    jobs = WORKFLOWS["release"]["jobs"]
    assert [job.get("needs") for job in jobs.values()] == [None, *list(jobs)[:-1]]  # one after the other
    ran = [target for step in jobs["build"]["steps"] for words in commands(step) for target in make_targets(words)]
    assert ran == ["dist", "test-dist", "release-notes", "browser", "pdf"]


def test_a_release_has_the_book_to_take_along_and_pypi_the_packages_alone():
    taken = {
        job: [step["with"]["name"] for step in body["steps"] if "download-artifact" in step.get("uses", "")]
        for job, body in WORKFLOWS["release"]["jobs"].items()
    }
    assert taken == {"build": [], "attest": ["dist"], "pypi": ["dist"], "github": ["dist", "notes", "book"]}


# The GPU


def test_only_one_job_uses_the_gpu_and_its_machine_is_named_outside_the_repository():
    others = {key: job["runs-on"] for key, job in JOBS.items() if job["runs-on"] not in HOSTED}
    assert others == {("gpu", "gpu"): "${{ vars.GPU_RUNNER }}"}


def test_the_gpu_job_first_asks_for_cuda():
    lines = [words for step in JOBS["gpu", "gpu"]["steps"] for words in commands(step)]
    assert lines == [["make", "cuda"], ["make", "test-gpu"]]


def make(*arguments):
    """Run make on a machine without a GPU, in the environment of this test."""
    command = ["make", "--assume-old=.venv/.installed", f"PY={sys.executable}", *arguments]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_without_cuda_the_gpu_tests_do_not_begin():
    run = make("cuda")
    assert run.returncode != 0
    assert "NVIDIA" in run.stdout
    planned = make("--dry-run", "test-gpu").stdout
    assert 0 < planned.find("import torch") < planned.find("pytest --device cuda")


def gpu_job_runs(event, *, runner="a-machine", label="GPU", head="us/book"):
    """Work out the condition of the GPU job as GitHub does, for one event; what an event lacks is an empty string."""
    if event != "pull_request":
        label = head = ""
    values = {
        "vars.GPU_RUNNER": runner,
        "github.event_name": event,
        "github.event.label.name": label,
        "github.event.pull_request.head.repo.full_name": head,
        "github.repository": "us/book",
    }
    condition = JOBS["gpu", "gpu"]["if"].replace("&&", "and").replace("||", "or")
    words = [repr(values[word]) if word in values else word for word in condition.split()]
    return eval(" ".join(words), {"__builtins__": {}})


def test_the_gpu_runs_where_it_should():
    assert set(events(WORKFLOWS["gpu"])) == {"push", "pull_request", "schedule", "workflow_dispatch"}
    assert all(gpu_job_runs(event) for event in events(WORKFLOWS["gpu"]))


def test_the_gpu_does_not_run_elsewhere():
    assert events(WORKFLOWS["gpu"])["pull_request"] == {"types": ["labeled"]}  # so a push has to be let in again
    assert not gpu_job_runs("pull_request", head="stranger/book")
    assert not gpu_job_runs("pull_request", label="documentation")
    for event in events(WORKFLOWS["gpu"]):
        assert not gpu_job_runs(event, runner="")
