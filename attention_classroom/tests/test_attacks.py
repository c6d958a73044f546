"""What students hand in by accident and on purpose: each with the points it must earn and the flags it must raise.

Every submission goes the whole way: laid on the release, run in a fresh child of the strongest sandbox, judged outside.
Those that are laid to the same code run once.
"""

import base64
import io
import json
import os
import socket
import struct
import tempfile
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import toy
from nbformat.v4 import new_markdown_cell
from test_rebuild import remove
from toy import ASSIGNMENT, DOUBLE, FULL, VARIANT, WEIGH, changed, kinds, named, submission, written

from attention_classroom import grading, sandbox
from attention_classroom.child import PACKAGES, read_cell
from attention_classroom.grading import grade
from attention_classroom.packages import FOLDER
from attention_classroom.rebuild import rebuild
from attention_classroom.sandbox import SANDBOXES, strongest
from attention_classroom.variants import Variant

_graded = {}


def graded(notebook, sandbox=None, limits=None):
    """Lay and grade a handed-in notebook; what has the same code in it is run once."""
    laid, flags = rebuild(written(notebook), toy.release())
    sandbox = sandbox or strongest()
    key = sandbox.name, json.dumps([(cell.id, cell.source) for cell in laid.cells if cell.cell_type == "code"])
    if key not in _graded:
        _graded[key] = grade(laid, ASSIGNMENT, VARIANT, sandbox=sandbox, limits=limits)
    result = _graded[key]
    return {**result, "flags": [*flags, *result["flags"]]}


def needs(name):
    if fault := toy.working(name):
        pytest.skip(f"{name} does not work here ({fault}); the other sandbox is tried")


def points(result):
    return {task: found["points"] for task, found in result["tasks"].items() if found["checks"]}


def words(result, task):
    return " ".join(result["tasks"][task]["words"])


def said(result):
    return json.dumps(result["cells"])


# ---- Honest ----------------------------------------------------------------------------------------------------------


def test_a_perfect_notebook_earns_everything():
    result = graded(submission())
    assert points(result) == FULL and result["flags"] == []
    assert result["tasks"]["weigh"]["words"] == [] and result["tasks"]["why"]["by_hand"] == 2
    assert result["tasks"]["weigh"]["max"] == 4 and result["sandbox"] == strongest().name


def test_an_unfilled_notebook_earns_nothing_and_is_not_flagged():
    result = graded(toy.release())
    assert points(result) == {"weigh": 0, "double": 0} and result["flags"] == []
    assert words(result, "weigh") == words(result, "double") == "not filled in yet"


def test_a_half_right_notebook_earns_half_and_is_told_its_mistake():
    result = graded(
        submission("def weigh(q, k):\n    return (q @ k.T).softmax(-1)", "def double(x):\n    return x * x")
    )
    assert points(result) == {"weigh": 1, "double": 0} and result["flags"] == []
    assert result["tasks"]["weigh"]["mistakes"] == ["mistake:2"]
    assert words(result, "weigh") == "you did not scale the scores" and words(result, "double") == "that is the square"
    assert [check["points"] for check in result["tasks"]["weigh"]["checks"]] == [1, 0]


BY_LOOPS = """def weigh(q, k):
    rows = []
    for query in q.tolist():
        scores = [sum(a * b for a, b in zip(query, key)) / len(key) ** 0.5 for key in k.tolist()]
        powers = [math.exp(s - max(scores)) for s in scores]
        rows.append([p / sum(powers) for p in powers])
    return torch.tensor(rows)"""


BY_SUM = """%matplotlib inline
!pip install einops
import sys, tqdm, warnings, not_installed
from attention_tutorial.masks import causal_mask
warnings.warn('careful')
print('on stderr', file=sys.stderr)
def double(x):
    print('shown', x)
    return sum(tqdm.tqdm([x, x]))
%timeit -n1 -r1 double(torch.ones(2))
check('double', double)"""
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
RICH = """from IPython.display import HTML, Javascript, display
display(HTML('<script>alert(1)</script>'), Javascript('alert(2)'))
print('\\x1b]0;title\\x07 \\x1b[31m')"""


COMPARES = """torch.testing.assert_close(torch.nn.functional.scaled_dot_product_attention(
    torch.ones(2, 3), torch.ones(4, 3), torch.eye(4)), weigh(torch.ones(2, 3), torch.ones(4, 3)))"""


def another_route():
    return graded(submission(BY_LOOPS, BY_SUM, extra=[FIGURE, RICH, COMPARES], behind="weigh"))


def test_another_route_to_the_right_result_earns_everything():
    result = another_route()
    assert points(result) == FULL and result["flags"] == []  # warnings on stderr cost nothing
    assert "careful" in said(result) and "on stderr" in said(result)


def test_a_figure_comes_back_and_other_rich_output_does_not():
    result = another_route()
    figures = [output["png"] for outputs in result["cells"].values() for output in outputs if "png" in output]
    assert len(figures) == 1 and base64.b64decode(figures[0]).startswith(b"\x89PNG")
    assert "alert" not in said(result) and "\\u001b" not in said(result)


LATER = "def weigh(q, k):\n    return rows(q @ k.T / math.sqrt(k.size(-1)))"
TWICE = "@twice\nclass Double(torch.nn.Module):\n    def forward(self, x):\n        return x\ndouble = Double()"
HELPERS = """from written import FACTOR
@torch.compile
def rows(scores):
    return scores.softmax(-1)
def twice(module):
    forward = module.forward
    module.forward = lambda self, x: FACTOR * forward(self, x)
    return module"""
FIGURES = [
    "%config InlineBackend.figure_format = 'svg'\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    "%%writefile written.py\nFACTOR = 2",
    "%matplotlib widget\nplt.plot([1, 2]);",
    "%config InlineBackend.figure_formats = ['jpeg', 'pdf']\nplt.plot([1, 2]);",
    "%load_ext autoreload\n%autoreload 2\ntorch.set_num_threads(8)\ntorch.set_default_dtype(torch.float16)",
    "async def later():\n    return await asyncio.sleep(0.01, 'awaited')\nimport asyncio\nprint(await later())",
]


def test_cells_that_were_run_in_another_order_and_figures_of_every_format_earn_everything():
    notebook = submission(LATER, TWICE, extra=[*FIGURES, HELPERS], behind="double-check")
    result = graded(notebook)
    assert points(result) == FULL and about(result) == {("error", "double")}  # said, and done again at the end
    shown = [output for outputs in result["cells"].values() for output in outputs]
    assert sum("png" in output for output in shown) == 3
    assert "awaited" in said(result) and "Traceback" not in said(result)


def test_code_that_differs_only_in_names_has_the_same_print():
    renamed = 'def weigh(queries, keys):\n    """Mine."""\n    # my own\n'
    renamed += "    return (queries @ keys.T\n        / math.sqrt(keys.size(-1))).softmax(-1)"
    first, second, third = (read_cell(source)["print"] for source in (WEIGH, renamed, BY_LOOPS))
    assert first == second != third and graded(submission())["prints"]["weigh"]["print"] == first


@pytest.mark.parametrize(
    "source",
    [
        "__import__('g' + 'c')",
        "eval('1')",
        "getattr(torch, 'ones' + '_like')",
        "importlib.import_module(name)",
        "vars(torch)['equal'] = print",
        "type.__setattr__(torch.Tensor, 'max', print)",
        "check = print",
    ],
)
def test_a_way_round_a_name_is_unusual_too(source):
    honest = "import os, torch\nos.environ['A'] = '1'\nmodel.eval()\ntorch.compile(model)\ngetattr(torch, 'ones')\n"
    assert read_cell(honest)["unusual"] == [] and read_cell(honest + source)["unusual"]


# ---- Accidents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(  # what leaves the answers as they were is in test_rebuild.py
    ("change", "flagged"),
    [
        (lambda nb: named(nb, "weigh-check").update(source="check = lambda *a: print('right')"), {"tampered"}),
        (lambda nb: nb.metadata.update(toy.release(Variant("toy", "bob", {"number": 8})).metadata), {"variant"}),
        (lambda nb: nb.cells.append(new_markdown_cell("<script>alert(1)</script>")), set()),
    ],
)
def test_a_mangled_notebook_earns_what_its_answers_are_worth(change, flagged):
    result = graded(changed(change))
    assert points(result) == FULL and kinds(result["flags"]) == flagged


def test_an_answer_whose_cell_is_gone_counts_in_another_cell_and_a_renamed_function_does_not():
    result = graded(changed(remove("double"), weigh=f"{DOUBLE}\n{WEIGH.replace('weigh', 'weights')}"))
    assert points(result) == {"weigh": 0, "double": 2}
    assert about(result) == {("missing", "weigh"), ("missing", "double")} and "no `weigh`" in words(result, "weigh")


def test_an_answer_behind_its_check_is_found_and_what_comes_behind_changes_nothing():
    result = graded(submission(toy.STUBS["weigh"], extra=[WEIGH + "\ndouble = None"], behind="why-task"))
    assert points(result) == FULL and result["flags"] == []


UNUSUAL = f"import ctypes\n{WEIGH}"
OURS = [f"import {name}" for name in PACKAGES]


def test_exceptions_and_syntax_errors_cost_their_task_only():
    raises = "def weigh(q, k):\n    return q @ k"
    result = graded(submission(raises, "def double(x)\n    return 2 * x"))
    assert points(result) == {"weigh": 0, "double": 0} and kinds(result["flags"]) == {"error", "missing"}
    assert "RuntimeError" in words(result, "weigh") and "return q @ k" in words(result, "weigh")
    assert "SyntaxError" in words(result, "double")
    many = [f"1 / 0  # {i}" for i in range(100)]
    result = graded(submission(UNUSUAL, extra=["x = [", "raise SystemExit", "input()", *OURS, *many], behind="double"))
    assert points(result) == FULL and len(result["flags"]) < 40, "many flags of one kind hide no other"
    assert ("unusual", "weigh") in about(result) and kinds(result["flags"]) == {"error", "unusual"}
    assert all(f"{name} is not there when you are graded" in said(result) for name in PACKAGES)


def test_a_function_that_exits_or_changes_its_arguments_is_told_so():
    result = graded(submission("def weigh(q, k):\n    q += 1\n    return q", "def double(x):\n    exit()"))
    assert points(result) == {"weigh": 0, "double": 0} and result["flags"] == []
    assert "changed its arguments (q)" in words(result, "weigh") and "called exit()" in words(result, "double")


def test_results_that_are_no_numbers_pass_no_comparison():
    nothing = WEIGH.replace(".softmax(-1)", ".softmax(-1) * float('nan')")
    result = graded(submission(nothing, "def double(x):\n    return x * float('nan')"))
    assert points(result) == {"weigh": 0, "double": 0} and result["flags"] == []
    assert "NaN" in words(result, "weigh") and "NaN or infinity" in words(result, "double")


# ---- Without end, without measure ------------------------------------------------------------------------------------

STUBBORN = """
import signal
for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
def weigh(q, k):
    while True:
        try:
            import time
            while True:
                time.sleep(0.01)
        except BaseException:
            pass
"""


def about(result):
    """The flags with the tasks that they are about."""
    return {(flag["kind"], flag["task"]) for flag in result["flags"]}


def test_loops_at_the_top_level_cost_their_cells_only():
    sleep = "import time\nprint('before')\ntime.sleep(10**6)"
    result = graded(
        submission("while True:\n    pass", extra=["kept = 2", sleep], double="def double(x):\n    return kept * x"),
        limits=toy.QUICK,
    )
    assert points(result) == {"weigh": 0, "double": 2} and kinds(result["flags"]) == {"timeout", "missing"}
    assert "was stopped after 2 seconds" in words(result, "weigh")
    assert [flag["task"] for flag in result["flags"]] == ["", "weigh", "weigh"]


FORKS = """
import multiprocessing, os, subprocess, threading
made = []
for make in (os.fork, lambda: subprocess.Popen(['sh']), lambda: multiprocessing.Process(target=print).start(),
             lambda: threading.Thread(target=print).start(), lambda: os.system('true') and 1 / 0,
             lambda: os.posix_spawn('/bin/true', ['true'], {})):
    for _ in range(100):
        try:
            make()
        except (OSError, RuntimeError, ZeroDivisionError):
            break
    else:
        made.append(make)
print('MADE', made)
while True:
    os.fork()
"""


def loud_and_many():
    lines, line = "for i in range(400_000):\n    print('x' * 250)", "print('y' * 100_000_000)"
    direct = "import os\nos.write(1, b'w' * 10**7)\nos.write(2, b'w' * 10**7)"
    loud = DOUBLE.replace("return", "print('z' * 10**8)\n    return")
    many = "from PIL import Image\nfor number in range(21):\n    display(Image.new('RGB', (2, 2)))"
    return graded(submission(double=loud, extra=[lines, line, direct, FORKS, many]))


def test_output_without_end_is_cut():
    result = loud_and_many()
    assert points(result) == FULL
    assert [flag["words"] for flag in result["flags"] if flag["kind"] == "output"] == [
        "cell extra-1 shows more than 200 kB or 20 figures",
        "cell extra-2 shows more than 200 kB or 20 figures",
        "cell extra-5 shows more than 200 kB or 20 figures",
        "the function prints more than is kept",
    ]
    assert len(said(result)) < 3 * 2**20 and "are not kept" in said(result)
    assert "zzz" not in said(result) and "www" not in said(result)


def test_no_process_and_no_thread_can_be_started():
    result = loud_and_many()
    assert points(result) == FULL and kinds(result["flags"], "output") == {"error", "unusual"}
    assert "MADE []" in said(result)


FORGE = """
import os
for number in range(3, 64):
    try:
        os.write(number, b'\\x02' + bytes(15) + b'{}')
    except OSError:
        pass
"""


def test_ending_python_and_speaking_for_the_worker_cost_what_does_it_only():
    """So does a loop in a function that ignores every signal."""
    ends = "import os\ndef double(x):\n    os._exit(0)"
    last_words = "import os\nos.write(2, b'\\x1b]0;title\\x07 my last words')\nos._exit(3)"
    result = graded(submission(STUBBORN, ends, extra=[last_words, FORGE]), limits=toy.QUICK)
    assert points(result) == {"weigh": 0, "double": 0} and "still running" in words(result, "weigh")
    unusual = {("unusual", task) for task in ("", "weigh", "double")}
    assert about(result) == {("timeout", "weigh"), ("crash", ""), ("broken", ""), ("crash", "double")} | unusual
    assert "exit status 3" in said(result) and "no plain data" in said(result)
    assert "my last words" in said(result) and "\\u001b" not in json.dumps(result)
    assert "ended Python itself" in words(result, "double")


SMALL = replace(toy.QUICK, cell_s=20.0)


def test_memory_and_files_are_limited():
    hog = "def double(x):\n    return [x.repeat(10**8) for _ in range(10**4)]"
    disk = "with open('full', 'wb') as file:\n    while True:\n        file.write(bytes(2**20))"
    result = graded(
        submission(double=hog, extra=["hog = []\nwhile True:\n    hog.append(bytearray(10**8))", "del hog", disk]),
        limits=SMALL,
    )
    assert points(result) == {"weigh": 4, "double": 0} and kinds(result["flags"]) == {"memory", "error"}
    assert "No space left" in said(result) or "File too large" in said(result)


def test_an_answer_of_any_size_is_refused():
    many = "def weigh(q, k):\n    return [q.tolist()] * 10**6"
    result = graded(submission(many, "def double(x):\n    return torch.zeros(10**8, dtype=torch.uint8)"))
    assert points(result) == {"weigh": 0, "double": 0} and kinds(result["flags"]) == {"broken"}
    assert "too large" in words(result, "weigh") and "100000" in words(result, "double")


# ---- Fraud -----------------------------------------------------------------------------------------------------------

PATCHES = """
import builtins, torch
torch.allclose = torch.equal = torch.isclose = torch.Tensor.equal = lambda *a, **k: True
torch.Tensor.__eq__ = torch.Tensor.allclose = lambda *a, **k: torch.ones((), dtype=torch.bool)
torch.Tensor.max = torch.Tensor.abs = lambda self, *a, **k: torch.zeros(())
builtins.max = builtins.all = builtins.isinstance = lambda *a, **k: True
check = judge = grade = lambda *a, **k: print('right')
points = 100
"""


def test_patching_torch_and_the_checks_changes_nothing():
    wrong = "def weigh(q, k):\n    return torch.zeros(len(q), len(k))"
    result = graded(submission(wrong, "def double(x):\n    return x + 1", extra=[PATCHES]))
    assert points(result) == {"weigh": 0, "double": 0} and "unusual" in kinds(result["flags"])


SAVES = """
import json, pickle, safetensors.torch, sys, torch
class Payload:
    def __reduce__(self):
        return (exec, ("open({path!r}, 'w').write('ran')",))
def save(*a, **k):
    return pickle.dumps(Payload())
torch.save = save
def double(x):
    safetensors.torch.save = save
    return 2 * x
"""


def test_pickles_are_never_read(tmp_path):
    ran = tmp_path / "ran"
    payload = f"class Payload:\n    def __reduce__(self):\n        return (open, ({str(ran)!r}, 'w'))\n"
    result = graded(
        submission(payload + "def weigh(q, k):\n    return Payload()", SAVES.replace("{path!r}", repr(str(ran))))
    )
    assert points(result) == {"weigh": 0, "double": 0} and kinds(result["flags"]) == {"broken", "unusual"}
    assert "got Payload" in words(result, "weigh") and not ran.exists()


ODD = """
import numpy as np
odd = [
    torch.zeros(3, 7).to_sparse(), torch.zeros(3, 7, device="meta"), torch.ones(3, 7, dtype=torch.complex64),
    torch.quantize_per_tensor(torch.ones(3, 7), 0.1, 0, torch.qint8), torch.zeros(0, 2**40), torch.zeros(()),
    torch.full((3, 7), float("inf")), (x for x in range(3)), "x" * 10**6, 10**5000, {"a": {1, 2}}, np.longdouble(3),
    np.zeros((3, 7), dtype="U5"), object, print, b"xx", [[]] * 5, Ellipsis,
]
def weigh(q, k):
    return odd
def double(x):
    return odd.pop() if odd else 2 * x
"""
TAMPERS = """
import atexit, builtins, gc, json, os, safetensors.torch, signal, struct, sys, threading, time
atexit.register(lambda: os.write(1, b"x" * 1000))
sys.settrace(lambda *a: None)
sys.setprofile(lambda *a: None)
sys.addaudithook(lambda event, args: None)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
signal.signal(signal.SIGALRM, lambda *a: None)
for folder in [*sys.path, os.path.dirname(torch.__file__), "/run/classroom"]:
    for name in ("sitecustomize.py", "x.pth"):
        try:
            open(os.path.join(folder, name), "w").write("raise SystemExit")
            print("WRITTEN", folder)
        except OSError:
            pass
os.environ.update(OMP_NUM_THREADS="64", PYTHONPATH="/tmp", LD_PRELOAD="x.so")
torch.set_default_device("meta")
torch.set_grad_enabled(False)
torch.use_deterministic_algorithms(True)
time.monotonic = time.time = lambda: 0.0
json.dumps = safetensors.torch.save = struct.pack = lambda *a, **k: b"x"
sys.modules["safetensors.torch"] = sys.modules["json"] = None
builtins.len = lambda x: 0
sys.setrecursionlimit(10**6)
"""


def test_what_is_no_tensor_is_named_and_what_was_tampered_with_hurts_nobody_else():
    """The child may break itself: it costs no more than its own points, and no other child knows of it."""
    result = graded(submission("weigh = ...", ODD))
    assert points(result) == {"weigh": 0, "double": 0} and kinds(result["flags"]) == set(), result["flags"]
    result = graded(submission(extra=[TAMPERS], behind="why-task"), limits=toy.QUICK)
    assert points(result) == FULL and kinds(result["flags"], "crash", "broken", "timeout") == {"unusual"}
    assert "WRITTEN" not in said(result)


FLOOD = """
import base64, io, sys
from PIL import Image
file, screen = io.BytesIO(), sys.stdout.buffer
Image.new("RGB", (4, 4)).save(file, "PNG")
screen.events += [{"png": base64.b64encode(file.getvalue()).decode()}] * 1000 + [{"bytes": b"y" * 10**6}] * 3
"""
SHAPELESS = "import sys\nsys.stdout.buffer.take = lambda: torch.ones(2)"
UNREAD = f"x = {' + '.join(['0'] * 1500)}\n{UNUSUAL}"


def test_a_worker_that_tells_more_than_there_is_to_tell_is_not_listened_to():
    result = graded(submission(UNREAD, extra=[FLOOD, SHAPELESS]))
    assert points(result) == {"weigh": 0, "double": 2}
    shown = result["cells"]["extra-1"]
    assert sum("png" in output for output in shown) == grading.PICTURES and len(said(result)) < 10**6
    assert result["cells"]["extra-2"] == []
    # A source on which the reading of trees fails is read as words.
    assert ("unusual", "weigh") in about(result) and "ungraded" not in kinds(result["flags"])


FAKE = """
class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.ones(())
    def __eq__(self, other):
        return True
    shape = property(lambda self: (3, 7))
"""


def test_a_fake_tensor_is_no_tensor():
    weigh = FAKE + "def weigh(q, k):\n    return Tensor(torch.zeros(len(q), len(k)))"
    double = (
        "class Yes(float):\n    __eq__ = __le__ = __ge__ = lambda *a: True\ndef double(x):\n    return [Yes(1)] * 5"
    )
    result = graded(submission(weigh, double))
    assert points(result) == {"weigh": 0, "double": 0} and kinds(result["flags"]) == {"unusual"}
    assert "must be a tensor; got Tensor" in words(result, "weigh")


# ---- Out of the sandbox ----------------------------------------------------------------------------------------------

CANARY = "canary-7d1f"

ATTEMPTS = {
    "gradebook": "assert open({course!r} + '/gradebook.db').read()",
    "hidden": "assert open({course!r} + '/hidden/toy.py').read()",
    "another's work": "assert os.listdir({course!r} + '/received')",
    "course": "assert os.listdir({course!r})",
    "write the gradebook": "open({course!r} + '/gradebook.db', 'a').write('x')",
    "truncate the gradebook": "os.truncate({course!r} + '/gradebook.db', 0)",
    "remove the gradebook": "os.remove({course!r} + '/gradebook.db')",
    "rename the gradebook": "os.rename({course!r} + '/gradebook.db', {course!r} + '/other')",
    "chmod the gradebook": "os.chmod({course!r} + '/gradebook.db', 0o777)",
    "date the gradebook": "os.utime({course!r} + '/gradebook.db', (0, 0))",
    "link to the gradebook": "os.link({course!r} + '/gradebook.db', 'g')\nopen('g').read()",
    "symlink to the gradebook": "os.symlink({course!r} + '/gradebook.db', 's')\nopen('s').read()",
    "through /proc/self/root": "assert open('/proc/self/root' + {course!r} + '/gradebook.db').read()",
    "through the grader's cwd": "assert os.listdir('/proc/{grader}/cwd/')",
    "home": "assert any(os.path.isfile(os.path.join({home!r}, file)) for file in os.listdir({home!r}))",
    "passwords": "assert open('/etc/passwd').read()",
    "the masters": "assert open({root!r} + '/attention_classroom/masters/hidden/masking.py').read()",
    "the names of the masters": "assert os.listdir({root!r} + '/attention_classroom/masters/hidden')",
    **{f"{name}, its code": f"assert open({{root!r}} + '/{name}/__init__.py').read()" for name in PACKAGES},
    **{f"{name}, installed": f"assert open({{installed!r}} + '/{name}/answers.py').read()" for name in PACKAGES},
    **{
        f"{name}, imported": "sys.path.insert(0, {root!r})\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != 'NotThere']\n"
        f"import {name}"
        for name in ("attention_classroom.wire", "attention_tutorial.functional")
    },
    "the grader's environment": "assert open('/proc/{grader}/environ').read()",
    "the grader's memory": "open('/proc/{grader}/mem', 'rb')",
    "the parent's environment": "assert open('/proc/' + str(os.getppid()) + '/environ').read()",
    "the first process's environment": "assert {canary!r} in open('/proc/1/environ').read()",
    "own environment": "assert {canary!r} in str(os.environ) or {canary!r} in open('/proc/self/environ').read()",
    "processes": "assert len([p for p in os.listdir('/proc') if p.isdigit()]) > 1",
    "kill the grader": "os.kill({grader}, 0)",
    "kill everybody": "os.kill(-1, 9)",
    "kill the group": "os.killpg(0, 9)",
    "outlive the grader": "assert libc.prctl(1, 0, 0, 0, 0) == 0",
    "trace": "assert libc.ptrace(16, {grader}, 0, 0) == 0",
    "read memory": "assert libc.syscall(310, {grader}, 0, 0, 0, 0, 0) == 0",
    "tcp": "socket.create_connection(('127.0.0.1', {port}), 1)",
    "udp": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))",
    "unix": "socket.socket(socket.AF_UNIX)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "names": "socket.getaddrinfo('example.org', 80)",
    "fork": "os.fork() or os._exit(0)",
    "raw clone": "assert libc.syscall(56, 17, 0, 0, 0, 0) >= 0",
    "raw clone3": "assert libc.syscall(435, (ctypes.c_uint64 * 8)(), 64) >= 0",
    "program": "subprocess.run(['/bin/sh', '-c', 'true'], check=True)",
    "exec": "os.execv(sys.executable, ['python'])",
    "thread": "threading.Thread(target=print).start()",
    "mount": "assert libc.mount(b'none', b'/tmp', b'tmpfs', 0, 0) == 0",
    "unshare": "assert libc.unshare(0x10000000) == 0",
    "bpf": "assert libc.syscall(321, 0, 0, 0) >= 0",
    "io_uring": "assert libc.syscall(425, 1, (ctypes.c_char * 120)()) >= 0",
    "keys": "assert libc.syscall(250, 0, -3, 0) > 0",
    "shared memory": "assert libc.shmget(0, 4096, 0o1600) >= 0",
    "anonymous file": "os.memfd_create('x')",
    "more memory": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "another filter": "assert libc.prctl(22, 2, 0, 0, 0) == 0",
    "write elsewhere": "open('/var/tmp/x', 'w')",
    "write in /dev/shm": "open('/dev/shm/x', 'w')",
    "expected values": "import gc, inspect\n"
    "def inside(x):\n"
    "    parts = list(x.values()) if type(x) is dict else x if type(x) in (list, tuple) else []\n"
    "    return any(type(part) is str and ''.join(['you did not sc', 'ale the']) in part for part in parts)\n"
    "assert any(map(inside, gc.get_objects())) or any(inside(f.frame.f_locals) for f in inspect.stack())",
}

TRIES = """
import ctypes, os, resource, socket, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
for name, source in {attempts!r}.items():
    try:
        exec(source)
    except (OSError, AssertionError, RuntimeError, ImportError, ValueError, subprocess.SubprocessError) as error:
        pass
    else:
        print('OPEN', name)
from other import answers
print('TRIED', os.listdir('.') and 'all', answers.RIGHT)
"""


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_nothing_outside_can_be_read_written_reached_or_started(name, tmp_path, monkeypatch):
    needs(name)
    course = tmp_path / "course"
    for folder in ("hidden", "received"):
        (course / folder).mkdir(parents=True)
    for file in ("gradebook.db", "hidden/toy.py", "received/bob.ipynb"):
        (course / file).write_text(CANARY)
    before = {path: (path.read_text(), path.stat()) for path in course.rglob("*") if path.is_file()}
    installed = tmp_path / "site-packages"  # as where the package is installed, not worked on
    for name_of in (*PACKAGES, "other"):
        (installed / name_of).mkdir(parents=True)
        (installed / name_of / "answers.py").write_text("RIGHT = 1")
    monkeypatch.setattr(sandbox, "landlock_version", lambda: name == "landlock")  # bubblewrap has to do without
    packages = (*sandbox._packages(), str(installed))
    monkeypatch.setattr(sandbox, "_packages", lambda: packages)
    monkeypatch.setenv("CLASSROOM_SECRET", CANARY)
    reached = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: reached.append(server.accept()), daemon=True).start()
        facts = {
            "course": str(course),
            "home": str(Path.home()),
            "grader": os.getpid(),
            "installed": str(installed),
            "root": str(FOLDER),
            "canary": CANARY[:6] + CANARY[6:],
            "port": server.getsockname()[1],
        }
        attempts = {key: source.format(**facts) for key, source in ATTEMPTS.items()}
        result = graded(submission(extra=[TRIES.replace("{attempts!r}", repr(attempts))]), SANDBOXES[name])
    assert "TRIED all 1" in said(result), result["flags"]
    assert "OPEN" not in said(result), said(result)
    assert points(result) == FULL and kinds(result["flags"]) == {"unusual"}
    assert not reached and {path: (path.read_text(), path.stat()) for path in before} == before


SLEEPS = "import time\ndef double(x):\n    time.sleep(10**6)"


def test_what_a_sandbox_without_a_disk_of_its_own_must_count_is_counted():
    needs("landlock")
    many = "for i in range(10**4):\n    open(f'f{i}', 'wb').write(bytes(10**7))"
    deep = "import os\nwhile True:\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)"  # soon it has no path
    result = graded(submission(double=SLEEPS, extra=[many, deep]), SANDBOXES["landlock"], SMALL)
    assert "folders in folders without end" in said(result)
    assert points(result) == {"weigh": 4, "double": 0} and result["sandbox"] == "landlock"
    assert kinds(result["flags"]) == {"timeout", "files"}
    assert not list(Path(tempfile.gettempdir()).glob(f"attention-classroom-{os.getpid()}-*"))


# ---- What comes back as a picture ------------------------------------------------------------------------------------


def png(width, height, data, *chunks):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + head + b"".join(chunk(*c) for c in chunks) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def test_pictures_are_drawn_anew():
    from PIL import Image

    pixels = zlib.compress(b"\0" + bytes([1, 2, 3, 4, 5, 6]))
    dirty = png(2, 1, pixels, (b"tEXt", b"Comment\0<script>alert(1)</script>")) + b"<script>"
    clean = base64.b64decode(grading._picture(base64.b64encode(dirty).decode()))
    assert b"script" not in clean and b"tEXt" not in clean
    assert Image.open(io.BytesIO(clean)).tobytes() == bytes([1, 2, 3, 4, 5, 6])
    bomb = png(60000, 60000, zlib.compress(bytes(10**6)))
    for bad in (bomb, dirty[:40], b"GIF89a", b"<svg onload=alert(1)>", png(2, 1, b"broken"), b""):
        assert grading._picture(base64.b64encode(bad).decode()) == ""
