"""What students hand in by accident and on purpose: each with the points it must earn and the flags it must raise.

Every submission goes the whole way: laid on the release, run in a fresh child of the strongest sandbox, judged outside.
A child takes a second to start, so answers that leave it alive are handed in together, each to a task of its own.
"""

import base64
import functools
import io
import json
import os
import socket
import struct
import zlib
from pathlib import Path

import pytest
import toy
from nbformat.v4 import new_markdown_cell
from test_rebuild import remove
from toy import ASSIGNMENT, DOUBLE, FULL, VARIANT, WEIGH, changed, kinds, many, named, needs, submission, written

from attention_classroom import grading, sandbox
from attention_classroom.assignment import Variant
from attention_classroom.grading import grade
from attention_classroom.rebuild import read, rebuild
from attention_classroom.sandbox import FOLDERS, MASTERS, PACKAGES, SANDBOXES, Died, strongest

_graded = {}


def graded(notebook, sandbox=None, limits=None, assignment=ASSIGNMENT, release=None):
    """Lay and grade a handed-in notebook; what has the same code in it is run once."""
    laid, flags = rebuild(read(written(notebook)), release or toy.release())
    sandbox = sandbox or strongest()
    key = sandbox.name, json.dumps([(cell.id, cell.source) for cell in laid.cells if cell.cell_type == "code"])
    if key not in _graded:
        _graded[key] = grade(laid, assignment, VARIANT, sandbox=sandbox, limits=limits)
    result = _graded[key]
    return {**result, "flags": [*flags, *result["flags"]]}


def graded_together(*parts, limits=None):
    """Grade a notebook of many answers, as `toy.many` makes it."""
    assignment, release, notebook = many(*parts)
    return graded(notebook, limits=limits, assignment=assignment, release=release)


def points(result):
    return {task: found["points"] for task, found in result["tasks"].items() if found["checks"]}


def words(result, task):
    return " ".join(result["tasks"][task]["words"])


def said(result):
    return json.dumps(result["cells"])


def about(result):
    """The flags with the tasks that they are about."""
    return {(flag["kind"], flag["task"]) for flag in result["flags"]}


# ---- Answers that leave the child alive ------------------------------------------------------------------------------

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
LATER = "def weigh(q, k):\n    return rows(q @ k.T / math.sqrt(k.size(-1)))"
TWICE = "@twice\nclass Double(torch.nn.Module):\n    def forward(self, x):\n        return x\ndouble = Double()"
ODD = """import numpy as np
odd = [
    torch.zeros(3, 7).to_sparse(), torch.zeros(3, 7, device="meta"), torch.ones(3, 7, dtype=torch.complex64),
    torch.quantize_per_tensor(torch.ones(3, 7), 0.1, 0, torch.qint8), torch.zeros(0, 2**40), torch.zeros(()),
    torch.full((3, 7), float("inf")), (x for x in range(3)), "x" * 10**6, 10**5000, {"a": {1, 2}}, np.longdouble(3),
    np.zeros((3, 7), dtype="U5"), object, print, b"xx", [[]] * 5, Ellipsis,
]
def weigh(q, k):
    return odd"""
PAYLOAD = """class Payload:
    def __reduce__(self):
        return (exec, ("raise SystemExit('ran')",))
def weigh(q, k):
    return Payload()"""
FAKE = """class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.ones(())
    def __eq__(self, other):
        return True
    shape = property(lambda self: (3, 7))
def weigh(q, k):
    return Tensor(torch.zeros(len(q), len(k)))"""
YES = "class Yes(float):\n    __eq__ = __le__ = __ge__ = lambda *a: True\ndef double(x):\n    return [Yes(1)] * 5"
SAVES = """import pickle, safetensors.torch
class Payload:
    def __reduce__(self):
        return (exec, ("raise SystemExit('ran')",))
def double(x):
    torch.save = safetensors.torch.save = lambda *a, **k: pickle.dumps(Payload())
    return 2 * x"""
FOR_NOW = """def weigh(q, k):
    return not_yet(q, k) if q.abs().max() > 0 else torch.full((len(q), len(k)), 1 / len(k))"""
COLAB = """import google.colab
from google.colab import drive, files
drive.mount('/content/drive')
%cd /content/drive/MyDrive
def double(x):
    return 2 * x
files.download('solved.ipynb')"""
BORROWED = "from attention_tutorial import scale\ndef weigh(q, k):\n    return scale(q @ k.T).softmax(-1)"
ELSEWHERE = DOUBLE.replace("double", "in_another_cell")  # whose own cell is gone
UNREAD = f"x = {' + '.join(['0'] * 1500)}\nimport ctypes\n{WEIGH}"

ON_A_GPU = [
    "def double(x):\n    x = x.pin_memory().cuda(non_blocking=True)\n    x *= 2\n    return x.cpu()",
    "device = torch.device('cuda')\ndef double(x):\n    x = x.to(device, torch.float64)\n    x *= 2\n    return x",
    "def double(x):\n    total = torch.zeros(len(x), device='cuda:0')\n    return total + 2 * x.to('cuda:0')",
    "def double(x):\n    y = torch.as_tensor(x, device='cuda')\n    y *= 2\n    return y",
    "def double(x):\n    return (2 * x.float().to('mps')).to(torch.float64)",
    "model = torch.nn.Linear(1, 1, bias=False).cuda()\nfor part in model.parameters():\n    part.data.fill_(2)\n"
    "def double(x):\n    return model(x.cuda().float()[:, None])[:, 0]",
    "def double(x):\n    with torch.device('cuda'):\n        return x.cuda() * torch.full((len(x),), 2)",
    "torch.set_default_device('cuda')\ndef double(x):\n    return x.cuda() * torch.full((len(x),), 2)",
    "def double(x):\n    noise = torch.Generator(device='cuda').manual_seed(0)\n    torch.cuda.synchronize()\n"
    "    return x.cuda() * 2 + 0 * torch.rand(len(x), generator=noise, device='cuda')",
    "def double(x):\n    with torch.autocast(device_type='cuda'):\n        return 2 * x",
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'\ndef double(x):\n    return 2 * x.to(device)",
]
TYPED = [
    "from typed_axes import Float\nT = Float[torch.Tensor, 'n']\ndef double(x: T) -> T | None:\n    return 2 * x",
    "import typed_axes as j, typing\nfrom check_types import check\n@j.typed(checker=check)\n"
    "def double(x: typing.Optional[j.Float[torch.Tensor, 'n']] = None, y: None | j.Int = None):\n    return 2 * x",
    "from faster import compiled\n@compiled\ndef double(x):\n    return 2 * x",
    "import plots as sns, frames as pd\nsns.set_theme(style='white')\n"
    "def double(x):\n    return 2 * (x.values if isinstance(x, pd.Series) else x)",
]
REARRANGED = "from rearranging import rearrange\ndef double(x):\n    return 2 * rearrange(x, 'n -> n')"
CIRCLED = "import constants.constants\ndef double(x):\n    return 2 * constants.constants.pi * x"
DERIVED = "import training\nclass double(training.LightningModule):\n    pass"
GRADIENT = (
    "import gradients\ndef double(x):\n    def square(y):\n        return y * y\n    return gradients.grad(square)(x)"
)
ARRAY = """import numpy as np
def weigh(q, k):
    powers = np.exp((q @ k.T / math.sqrt(k.size(-1))).numpy())
    return powers / powers.sum(-1, keepdims=True)"""

ANSWERS = {  # the answer, its points, words that are said, and the kinds of the flags
    "honest": (WEIGH, 4, "", set()),
    "unfilled": (toy.STUBS["weigh"], 0, "not filled in yet", set()),
    "half_right": ("def weigh(q, k):\n    return (q @ k.T).softmax(-1)", 1, "you did not scale the scores", set()),
    "squared": ("def double(x):\n    print('hidden', x)\n    return x * x", 0, "that is the square", set()),
    "by_loops": (BY_LOOPS, 4, "", set()),
    "by_sum": (BY_SUM, 2, "", set()),  # warnings on stderr cost nothing
    "behind_its_check": (toy.STUBS["weigh"], 4, "", set()),
    "in_another_cell": (DOUBLE, 2, "", {"missing"}),
    "renamed": (f"{WEIGH.replace('weigh', 'weigh_it')}\n{ELSEWHERE}", 0, "no `renamed`", {"missing"}),
    "needs_rows": (LATER, 4, "", set()),
    "for_now": (FOR_NOW, 1, "'not_yet' is not defined", {"error"}),  # judged again at the end, where it is worse
    "colab": (COLAB, 2, "", set()),
    "borrowed": (BORROWED, 0, "attention_tutorial is not there when you are graded", {"error"}),
    "local": ("import helper\ndef double(x):\n    return helper.times(2, x)", 0, "helper is not there", {"error"}),
    "opened": ("def double(x):\n    return float(open('two.txt').read()) * x", 0, "FileNotFoundError", {"error"}),
    "old_name": ("def double(x):\n    return TWO * x", 0, "'TWO' is not defined", {"error"}),  # its cell is deleted
    "draft": ("def weigh(q, k):\n    return 1", 4, "", set()),  # of two copies the better one counts
    "draft_below": ("def double(x):\n    return x", 0, "0.5 times", {"guessed"}),
    "decorated": (TWICE, 2, "", {"error"}),  # said, and done again at the end
    "raises": ("def weigh(q, k):\n    return q @ k", 0, "RuntimeError", set()),
    "no_syntax": ("def double(x)\n    return 2 * x", 0, "SyntaxError", {"error", "missing"}),
    "changes": ("def weigh(q, k):\n    q += 1\n    return q", 0, "changed its arguments (q)", set()),
    "exits": ("def double(x):\n    exit()", 0, "called exit()", set()),
    "no_numbers": (WEIGH.replace(".softmax(-1)", ".softmax(-1) * float('nan')"), 0, "NaN", set()),
    "infinite": ("def double(x):\n    return x * float('nan')", 0, "yours has nan", set()),
    "hog": ("def double(x):\n    return [x.repeat(10**8) for _ in range(10**4)]", 0, "", {"memory"}),
    "a_value": ("double = 3.0", 0, "hand over the function itself", set()),
    "odd_things": (ODD, 0, "", set()),
    "many": ("def weigh(q, k):\n    return [q.tolist()] * 10**6", 0, "too large", set()),
    "payload": (PAYLOAD, 0, "got Payload", set()),
    "fake": (FAKE, 0, "must be a tensor; got Tensor", set()),
    "yes": (YES, 0, "", set()),
    "unread": (UNREAD, 0, "", {"error", "missing"}),
    **{f"gpu_{i}": (source, 2, "", set()) for i, source in enumerate(ON_A_GPU)},
    **{f"typed_{i}": (source, 2, "", set()) for i, source in enumerate(TYPED)},
    "rearranged": (REARRANGED, 0, "rearranging is not there when you are graded", {"error"}),
    "circled": (CIRCLED, 0, "'constants, which is not there when you are graded'", {"error"}),
    "iterated": ("import axes\ndef double(x):\n    return [*axes.of(), *x]", 0, "'axes, which is not there", {"error"}),
    "derived": (DERIVED, 0, "training is not there when you are graded", {"error", "missing"}),
    "gradient": (GRADIENT, 0, "gradients is not there when you are graded", {"error"}),
    "array": (ARRAY, 4, "", set()),
    "endless_below": (f"{DOUBLE}\nimport time\ntime.sleep(60)", 2, "", {"timeout"}),
    "saves": (SAVES, 0, "", {"broken"}),  # the last: its child is dead
}  # fmt: skip
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
RICH = """from IPython.display import HTML, Javascript, display
display(HTML('<script>alert(1)</script>'), Javascript('alert(2)'))
print('\\x1b]0;title\\x07 \\x1b[31m')"""
COMPARES = """torch.testing.assert_close(torch.nn.functional.scaled_dot_product_attention(
    torch.ones(2, 3), torch.ones(4, 3), torch.eye(4)), by_loops(torch.ones(2, 3), torch.ones(4, 3)))"""
COPIES = f"{WEIGH.replace('weigh', 'draft')}\ndef draft_below(x):\n    return x / 2"
BEHIND = f"{WEIGH.replace('weigh', 'behind_its_check')}\nhonest = for_now = None"
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


@functools.cache
def together():
    def change(notebook):
        remove("in_another_cell")(notebook)
        notebook.metadata["language_info"] = {"version": "3.99.1"}

    answers = {name: source for name, (source, *_) in ANSWERS.items()}
    return graded_together(answers, [FIGURE, RICH, COMPARES, BEHIND, COPIES, *FIGURES, HELPERS], change)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_earns_what_it_is_worth_and_is_told_why(name):
    _, earns, says, flagged = ANSWERS[name]
    result = together()
    assert points(result)[name] == earns and {kind for kind, task in about(result) if task == name} == flagged
    assert says in words(result, name) and (words(result, name) == "") == (earns == result["tasks"][name]["max"])


def test_a_notebook_of_many_answers_is_told_whole():
    result = together()
    assert not {kind for kind, task in about(result) if not task}
    half = result["tasks"]["half_right"]
    assert half["mistakes"] == ["mistake:2"] and [check["points"] for check in half["checks"]] == [1, 0]
    assert half["max"] == 4 and result["sandbox"] == strongest().name
    assert "return q @ k" in words(result, "raises")
    assert "careful" in said(result) and "on stderr" in said(result)
    assert "hidden" not in said(result), "what a function prints while it is judged, nobody sees"
    (flag,) = (flag for flag in result["flags"] if (flag["kind"], flag["task"]) == ("error", "no_syntax"))
    assert "written with Python 3.99.1" in flag["words"], "a newer Python may read what is no syntax here"
    assert "awaited" in said(result) and "Traceback" not in said(result)


def test_figures_of_every_format_come_back_and_other_rich_output_does_not():
    shown = [output for outputs in together()["cells"].values() for output in outputs]
    figures = [output["png"] for output in shown if "png" in output]
    assert len(figures) == 4 and all(base64.b64decode(figure).startswith(b"\x89PNG") for figure in figures)
    assert "alert" not in said(together()) and "\\u001b" not in said(together())


# ---- Accidents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(  # what leaves the answers as they were is in test_rebuild.py
    ("change", "flagged"),
    [
        (lambda nb: named(nb, "weigh-check").update(source="check = print"), {"tampered"}),
        (lambda nb: nb.metadata.update(toy.release(Variant("toy", "bob", {"number": 8})).metadata), {"variant"}),
        (lambda nb: nb.cells.append(new_markdown_cell("<script>alert(1)</script>")), set()),
    ],
)
def test_a_mangled_notebook_earns_what_its_answers_are_worth(change, flagged):
    result = graded(changed(change))
    assert points(result) == FULL and kinds(result["flags"]) == flagged and result["tasks"]["why"]["by_hand"] == 2


# ---- Without end, without measure ------------------------------------------------------------------------------------

PROGRAMS = {  # by kinds: what they say
    "(programs do not run when you are graded)": [
        "for name in get_ipython().magics_manager.registry['ScriptMagics'].magics['cell']:\n"
        "    get_ipython().run_cell_magic(name, '', 'ls')\n    print('after', name)",
        *(f"%%{magic}\nls" for magic in ("bash", "script --bg --out x bash", "python3", "!", "sx")),
        *("!ls", "!!ls", "%sx ls", "%ls", "x = !ls", "%pip list", "%conda list", "%edit x.py", "%alias foo ls\n%foo"),
        "import os\nos.system('ls')",
    ],
    "when you are graded, no program, process, thread or connection starts": [
        "import subprocess\nsubprocess.run(['ls'])",
        "import os\nos.popen('ls')",
        "import asyncio\nawait asyncio.create_subprocess_shell('ls')",
        "import multiprocessing\nmultiprocessing.Pool(2)",
        "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(print)",
        "from torch.utils.data import DataLoader\nlist(DataLoader(range(4), num_workers=2))",
    ],
}
FLOOD = """
import base64, io, sys
from PIL import Image
file, screen = io.BytesIO(), sys.stdout.buffer
Image.new("RGB", (4, 4)).save(file, "PNG")
screen.events += [{"png": base64.b64encode(file.getvalue()).decode()}] * 1000 + [{"bytes": b"y" * 10**6}] * 3
"""
LOUD = {
    "lines": "for i in range(400_000):\n    print('x' * 250)",
    "line": "print('y' * 100_000_000)",
    "hog": "hog = []\nwhile True:\n    hog.append(bytearray(10**8))",
    "disk": "del hog\nwith open('full', 'wb') as file:\n    while True:\n        file.write(bytes(2**20))",
    "direct": "import os\nos.write(1, b'w' * 10**7)\nos.write(2, b'w' * 10**7)",
    **{source: source for sources in PROGRAMS.values() for source in sources},
    "figures": "from PIL import Image\nfor number in range(21):\n    display(Image.new('RGB', (2, 2)))",
    "flood": FLOOD,
    "ours": "\n".join(f"import {name}" for name in PACKAGES),
    "errors": "x = [",
    "exits": "raise SystemExit",
    "asks": "input()",
    **{f"error {i}": f"1 / 0  # {i}" for i in range(100)},
    "shapeless": "import sys\nsys.stdout.buffer.take = lambda: torch.ones(2)",
}


@functools.cache
def loud():
    function = DOUBLE.replace("return", "print('z' * 10**8)\n    return")
    result = graded(submission(f"import ctypes\n{WEIGH}", function, extra=LOUD.values(), behind="double"))
    return result, {name: result["cells"][f"extra-{i}"] for i, name in enumerate(LOUD, start=1)}


def test_output_without_end_is_cut():
    result, _ = loud()
    assert points(result) == FULL
    loud_cells = [f"cell extra-{i}" for i, name in enumerate(LOUD, start=1) if name in ("lines", "line", "figures")]
    assert [flag["words"] for flag in result["flags"] if flag["kind"] == "output"] == [
        *(f"{cell} shows more than 200 kB or 20 figures" for cell in loud_cells),
        "the function prints more than is kept",
    ]
    assert len(said(result)) < 3 * 2**20 and "are not kept" in said(result)
    assert "zzz" not in said(result) and "www" not in said(result)


def test_memory_and_files_are_limited():
    result, shown = loud()
    assert "MemoryError" in json.dumps(shown["hog"]) and ("memory", "") in about(result)
    assert any(words in json.dumps(shown["disk"]) for words in ("No space left", "File too large"))


def test_many_flags_of_one_kind_hide_no_other():
    result, shown = loud()
    assert len(result["flags"]) < 50
    assert kinds(result["flags"]) == {"error", "output", "memory"}
    assert all(f"{name} is not there when you are graded" in json.dumps(shown["ours"]) for name in PACKAGES)


@pytest.mark.parametrize(
    ("says", "source"), [(says, source) for says, sources in PROGRAMS.items() for source in sources]
)
def test_a_program_is_refused_at_once_by_whatever_way_it_is_started(says, source):
    said = json.dumps(loud()[1][source])
    assert (
        says in said
        and said.count(says) >= said.count("after ")
        and "Stopped" not in said
        and "was stopped" not in said
    )


def test_a_worker_that_tells_more_than_there_is_to_tell_is_not_listened_to():
    _, shown = loud()
    assert sum("png" in output for output in shown["flood"]) == grading.PICTURES
    assert len(json.dumps(shown["flood"])) < 10**6 and shown["shapeless"] == []


STUBBORN = """
import signal
for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
def double(x):
    while True:
        try:
            import time
            while True:
                time.sleep(0.01)
        except BaseException:
            pass
"""
FORGE = """
import os
for number in range(3, 64):
    try:
        os.write(number, b'\\x02' + bytes(15) + b'{}')
    except OSError:
        pass
"""


def test_what_never_ends_or_ends_python_or_speaks_for_the_worker_costs_what_does_it_only():
    """What was done before is done again in a new child."""
    answers = {
        "honest": f"kept = 2\n{DOUBLE}",
        "stubborn": STUBBORN,
        "again": "def double(x):\n    return kept * x",
        "below": f"{DOUBLE}\nwhile True:\n    pass",
        "ends": "import os\ndef double(x):\n    os._exit(0)",
    }
    last_words = "import os\nos.write(2, b'\\x1b]0;title\\x07 my last words')\nos._exit(3)"
    result = graded_together(answers, ["while True:\n    pass", last_words, FORGE], limits=toy.QUICK)
    assert points(result) == {"honest": 2, "stubborn": 0, "again": 2, "below": 2, "ends": 0}
    stopped = {
        ("timeout", "stubborn"),
        ("timeout", "below"),
        ("crash", "ends"),
        ("timeout", ""),
        ("crash", ""),
        ("broken", ""),
    }
    assert about(result) == stopped
    assert "still running" in words(result, "stubborn") and "ended Python itself" in words(result, "ends")
    assert "was stopped after 2 seconds" in said(result)
    assert "exit status 3" in said(result) and "no plain data" in said(result)
    assert "my last words" in said(result) and "\\u001b" not in json.dumps(result)


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
    assert points(result) == {"weigh": 0, "double": 0}


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


def test_what_was_tampered_with_hurts_nobody_else():
    """The child may break itself: it costs no more than its own points, and no other child knows of it."""
    result = graded(submission(extra=[TAMPERS], behind="why-task"), limits=toy.QUICK)
    assert points(result) == FULL and not kinds(result["flags"], "crash", "broken", "timeout")
    assert "WRITTEN" not in said(result)


# ---- Out of the sandbox ----------------------------------------------------------------------------------------------

CANARY = "canary-7d1f"

ATTEMPTS = {
    "marks": "assert open({course!r} + '/marks.csv').read()",
    "hidden": "assert open({course!r} + '/hidden/toy.py').read()",
    "another's work": "assert os.listdir({course!r} + '/received')",
    "course": "assert os.listdir({course!r})",
    "write the marks": "open({course!r} + '/marks.csv', 'a').write('x')",
    "truncate the marks": "os.truncate({course!r} + '/marks.csv', 0)",
    "remove the marks": "os.remove({course!r} + '/marks.csv')",
    "rename the marks": "os.rename({course!r} + '/marks.csv', {course!r} + '/other')",
    "chmod the marks": "os.chmod({course!r} + '/marks.csv', 0o777)",
    "date the marks": "os.utime({course!r} + '/marks.csv', (0, 0))",
    "link to the marks": "os.link({course!r} + '/marks.csv', 'g')\nopen('g').read()",
    "symlink to the marks": "os.symlink({course!r} + '/marks.csv', 's')\nopen('s').read()",
    "through /proc/self/root": "assert open('/proc/self/root' + {course!r} + '/marks.csv').read()",
    "through the grader's cwd": "assert os.listdir('/proc/{grader}/cwd/')",
    "home": "assert any(os.path.isfile(os.path.join({home!r}, file)) for file in os.listdir({home!r}))",
    "passwords": "assert open('/etc/passwd').read()",
    "the masters": "assert open({masters!r} + '/hidden/masking.py').read()",
    "the names of the masters": "assert os.listdir({masters!r} + '/hidden')",
    **{f"{name}, its code": f"assert open({{folders[{name}]!r}} + '/__init__.py').read()" for name in PACKAGES},
    **{f"{name}, installed": f"assert open({{installed!r}} + '/{name}/answers.py').read()" for name in PACKAGES},
    **{
        f"{name}, imported": "sys.path[:0] = {paths!r}\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != 'ImportBlocker']\n"
        f"import {name}"
        for name in ("attention_classroom.protocol", "attention_tutorial.functional")
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
    "spawn": "os.posix_spawn('/bin/true', ['true'], {{}})",
    "shell": "assert libc.system(b'true') == 0",
    "process": "import multiprocessing\nmultiprocessing.Process(target=print).start()",
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
    for file in ("marks.csv", "hidden/toy.py", "received/bob.ipynb"):
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
    with socket.create_server(("127.0.0.1", 0)) as server:
        facts = {
            "course": str(course),
            "home": str(Path.home()),
            "grader": os.getpid(),
            "installed": str(installed),
            "folders": {package: str(folder) for package, folder in FOLDERS.items()},
            "paths": [str(folder.parent) for folder in FOLDERS.values()],
            "masters": str(MASTERS),
            "canary": CANARY[:6] + CANARY[6:],
            "port": server.getsockname()[1],
        }
        attempts = {key: source.format(**facts) for key, source in ATTEMPTS.items()}
        result = graded(submission(extra=[TRIES.replace("{attempts!r}", repr(attempts))]), SANDBOXES[name])
        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has called
            server.accept()
    assert "TRIED all 1" in said(result), result["flags"]
    assert "OPEN" not in said(result), said(result)
    assert points(result) == FULL and not result["flags"]
    assert {path: (path.read_text(), path.stat()) for path in before} == before


def test_what_a_sandbox_without_a_disk_of_its_own_must_count_is_counted(tmp_path):
    needs("landlock")
    many_files = "import time\nfor i in range(10):\n    open(f'f{i}', 'wb').write(bytes(10**7))\ntime.sleep(1)"
    with SANDBOXES["landlock"].start() as child, pytest.raises(Died, match="more than 64 MB of files") as died:
        child.request("run", 20, cell="c", source=many_files, stop_s=20)
    assert died.value.kind == "files"
    deep = tmp_path
    while len(str(deep)) < sandbox.LONGEST_PATH:
        deep /= "d" * 250
    deep.mkdir(parents=True)
    child._home = str(tmp_path)  # of one that has ended
    with pytest.raises(Died, match="folders in folders without end"):
        child._look_at_disk()


# ---- What comes back as a picture ------------------------------------------------------------------------------------


def png(width, height, data, *chunks):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + head + b"".join(chunk(*c) for c in chunks) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def test_of_a_picture_nothing_comes_but_what_draws_it():
    from PIL import Image

    pixels = zlib.compress(b"\0" + bytes([1, 2, 3, 4, 5, 6]))
    dirty = png(2, 1, pixels, (b"tEXt", b"Comment\0<script>alert(1)</script>")) + b"<script>"
    clean = base64.b64decode(grading._picture(base64.b64encode(dirty).decode()))
    assert b"script" not in clean and b"tEXt" not in clean
    assert Image.open(io.BytesIO(clean)).tobytes() == bytes([1, 2, 3, 4, 5, 6])
    many = png(2, 1, pixels, *[(b"IDAT", b"")] * 300_000)
    assert base64.b64decode(grading._picture(base64.b64encode(many).decode())) == many
    bomb = png(60000, 60000, zlib.compress(bytes(10**6)))
    for bad in (bomb, dirty[:40], b"GIF89a", b"<svg onload=alert(1)>", b""):
        assert grading._picture(base64.b64encode(bad).decode()) == ""
