"""What runs inside the sandbox: a fresh process for one submission.

It is started as a file, where the package is not there, with one argument: its settings as JSON. It imports what a
notebook needs, takes its own rights away, says what it can no longer do, and then answers requests on the pipes that
were its input and output: run this cell, take this name, call what was taken. It knows no expected value and decides
nothing. All that it says may be forged by the code that it runs: `grading` believes no more than the numbers.
"""

import ast
import base64
import builtins
import contextlib
import errno
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import json
import linecache
import os
import pydoc
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def _beside(name: str) -> Any:
    """Load a module that lies beside this file."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


confinement = _beside("confinement")

SPOKEN = 600  # characters of one error's message
NOT_THERE = "is not there when you are graded"
GPUS = ("cuda", "mps", "xpu")
PICTURE_BYTES, ALL_PICTURES = 4_000_000, 32_000_000  # of one cell: bytes of one and of all

# ---- What a cell shows ----------------------------------------------------------------------------------------------


class OutputCapture(io.RawIOBase):
    """Takes what cells print and draw, in order, up to a limit."""

    def __init__(self, limit: int, most_pictures: int) -> None:
        super().__init__()
        self.limit, self.most_pictures = limit, most_pictures
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.events: list[dict[str, Any]] = []
        self.used = self.asked = self.pictures = self.drawn = self.left_out = 0

    def writable(self) -> bool:
        """It takes text."""
        return True

    def write(self, data: Any) -> int:
        """Take bytes of text."""
        size = len(data)
        self.asked += size
        if self.used < self.limit:
            part = bytes(memoryview(data)[: self.limit - self.used])
            self.used += len(part)
            if self.events and "bytes" in self.events[-1]:
                self.events[-1]["bytes"] += part
            else:
                self.events.append({"bytes": bytearray(part)})
        return size

    def show(self, data: Mapping[str, Any]) -> None:
        """Take what a cell displays: a figure, else its text."""
        picture, text = data.get("image/png"), data.get("text/plain")
        if isinstance(picture, bytes):
            picture = base64.b64encode(picture).decode()
        size = len(picture) if isinstance(picture, str) else ALL_PICTURES
        if size <= min(PICTURE_BYTES, ALL_PICTURES - self.drawn) and self.pictures < self.most_pictures:
            self.pictures += 1
            self.drawn += size
            self.events.append({"png": picture})
            return
        self.left_out += isinstance(picture, str)
        if isinstance(text, str):
            self.write(text.encode("utf-8", "replace") + b"\n")

    def take(self) -> list[dict[str, Any]]:
        """Return what there is, and forget it."""
        events = [{"text": e["bytes"].decode("utf-8", "replace")} if "bytes" in e else e for e in self.events]
        if self.asked > self.limit:
            events.append({"text": f"\n... {self.asked - self.used} more bytes were printed and are not kept"})
        self.clear()
        return events


# ---- Names that are not there ---------------------------------------------------------------------------------------


def noop(*args: Any, **named: Any) -> None:
    """Do nothing: what the visible checks of a notebook are while it is graded."""


def no_program(returns: Any = None) -> Callable[..., Any]:
    """Return what takes the place of a function that starts a program."""

    def refuse(*args: Any, **named: Any) -> Any:
        print("(programs do not run when you are graded)")
        return returns

    return refuse


class ImportBlocker(importlib.abc.MetaPathFinder):
    """Refuses our packages."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse a package of ours before anything else finds it."""
        package = name.split(".")[0]
        if package in self.packages:
            raise ModuleNotFoundError(f"{package} {NOT_THERE}", name=name)


class MissingModule:
    """Stands for a package that is not there, and for all in it, so that only an answer that needs it fails.

    It may be imported, stand in annotations and unions, and decorate. Colab's own, which mounts drives and moves files,
    may be called too, since no answer can need it.
    """

    package = ""

    def __getattr__(self, name: str) -> Any:
        """Return what stands for a part of the package."""
        if name.startswith("_"):  # what Python, torch and IPython look for
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Refuse to do anything; what has settings alone, such as a decorator, is not used yet."""
        return self.__mro_entries__(args) if args and self.package != "google" else self

    def __mro_entries__(self, bases: Any) -> Any:
        """Refuse to be derived from."""
        raise ModuleNotFoundError(f"{self.package} {NOT_THERE}", name=self.package)

    def __getitem__(self, axes: Any) -> Any:
        """Return the same type, whatever its axes are."""
        return self

    __or__ = __ror__ = __getitem__
    __iter__ = None  # else Python would ask for one item after another, without end

    def __instancecheck__(self, x: Any) -> bool:
        """Say that nothing is of a type that is not there."""
        return False


def stand_in(package: str) -> MissingModule:
    """Return what stands for a package. Python's own errors name a type, so they say what is the matter."""
    print(f"{package} {NOT_THERE}")
    return type(f"{package}, which {NOT_THERE}", (MissingModule,), {"package": package})()


def decorator(x: Any) -> Any:
    """Return a decorator, or one that changes nothing for one that is not there."""
    return (lambda function: function) if isinstance(x, MissingModule) else x


class Imports(ast.NodeTransformer):
    """Puts a `MissingModule` in place of what a cell imports at its outermost level and is not there."""

    def visit_Module(self, tree: ast.Module) -> ast.Module:
        """Change the statements of a cell, and the decorators in it."""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                node.decorator_list = [self.decorator(x) for x in node.decorator_list]
        tree.body = [part for node in tree.body for part in self.without_missing(node)]
        return tree

    def decorator(self, x: ast.expr) -> ast.expr:
        """Return a decorator that does nothing if it is not there."""
        name = ast.copy_location(ast.Name("__decorator__", ast.Load()), x)
        return ast.copy_location(ast.Call(name, [x], []), x)

    def without_missing(self, node: ast.stmt) -> Iterator[ast.stmt]:
        """Yield a statement, or what stands in its place."""
        if not isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.ImportFrom) and node.level):
            yield node
            return
        for alias in node.names:
            module = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
            package = module.split(".")[0]
            bound = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else package)
            if not module.startswith("google.colab") and _is_there(package):
                yield ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), "names": [alias]}), node)
            else:
                target = "_" if bound == "*" else bound
                yield ast.copy_location(ast.parse(f"{target} = __stand_in__({package!r})").body[0], node)


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False
    except ValueError:  # as of __main__
        return True


# ---- Running --------------------------------------------------------------------------------------------------------


class TimeUp(BaseException):
    """Raised in a cell whose time is up; what it did before stays."""


def _time_up(*args: Any) -> None:
    raise TimeUp


class Worker:
    """Runs cells in an IPython shell, keeps what is asked for by name, and calls it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        import numpy as np
        import torch
        from IPython.core.displayhook import DisplayHook
        from IPython.core.displaypub import DisplayPublisher
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        torch.set_num_threads(1)
        screen = self.screen = OutputCapture(settings["output_kb"] * 1024, settings["pictures"])

        class Publisher(DisplayPublisher):
            def publish(self, data: Any, *args: Any, **named: Any) -> None:
                sys.stdout.flush()
                screen.show(data)

        class Hook(DisplayHook):
            def write_output_prompt(self) -> None:
                sys.stdout.flush()

            def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
                screen.show(format_dict)

        class Shell(InteractiveShell):
            displayhook_class = Hook
            display_pub_class = Publisher

            def showtraceback(self, *args: Any, **named: Any) -> None:
                """Nothing is printed: `run` tells the error."""

            showsyntaxerror = showindentationerror = showtraceback

            @contextlib.contextmanager
            def _tee(self, channel: str) -> Iterator[None]:
                """Print without a copy of everything in the shell's history, which takes time and memory."""
                yield

            def enable_gui(self, gui: Any = None) -> None:
                """There is no window."""

            def ask_exit(self) -> None:
                """Do what exit() does where nobody is asked."""
                raise SystemExit

        config = Config()
        config.HistoryManager.enabled = False
        config.HistoryManager.hist_file = ":memory:"
        config.InteractiveShell.colors = "nocolor"
        self.shell = Shell.instance(config=config)
        sys.modules["__mp_main__"] = self.shell.user_module  # in place of this one
        for name in ("system", "system_raw", "system_piped"):
            setattr(self.shell, name, no_program())
        self.shell.getoutput = no_program([])  # type: ignore[method-assign]
        os.system = no_program(1)
        magics = self.shell.magics_manager
        for group in ("ScriptMagics", "PackagingMagics"):
            for kind, names in magics.registry[group].magics.items():
                for name in names:
                    magics.register_function(no_program(), kind, name)
        magics.register_function(no_program(), "line", "edit")
        magics.register_function(noop, "line", "matplotlib")  # figures are drawn inline, whatever is asked for
        self.shell.compile.get_code_name = lambda *args: f"<{self.cell}>"  # type: ignore[method-assign]
        self.shell.user_ns.update(check=noop, load=noop)  # the visible checks
        self.shell.ast_transformers.append(Imports())
        builtins.__stand_in__ = stand_in  # type: ignore[attr-defined]
        builtins.__decorator__ = decorator  # type: ignore[attr-defined]
        self.cell = ""
        self.names_gpu = False
        self.kept: dict[str, Any] = {}
        sys.meta_path.insert(0, ImportBlocker(settings["blocked"]))
        sys.stdout = sys.stderr = io.TextIOWrapper(self.screen, "utf-8", errors="replace")
        sys.stdin = open(os.devnull)  # noqa: SIM115
        _draw_png()
        builtins.help = pydoc.help  # type: ignore[assignment]
        builtins.input = lambda prompt="": _no_input()
        warnings.filterwarnings("ignore", message="tqdm:disabling monitor")  # its monitor is a thread
        np.random.seed(0)  # noqa: NPY002  (a student's code may still draw from it)
        torch.manual_seed(0)
        random.seed(0)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked for."""
        handlers: dict[str, Callable[..., dict[str, Any]]] = {
            "run": self.run,
            "take": self.take,
            "call": self.call,
        }
        rest = {key: value for key, value in request.items() if key not in ("do", "number")}
        return handlers[request["do"]](**rest)

    def run(self, cell: str, source: str, stop_s: float) -> dict[str, Any]:
        """Run a cell for so many seconds; say what it showed and what it raised."""
        self.cell = cell
        if not self.names_gpu and any(name in source for name in GPUS):
            self.names_gpu = True
            _take_cpu_for_gpu()
        signal.signal(signal.SIGALRM, _time_up)
        signal.setitimer(signal.ITIMER_REAL, stop_s)
        try:
            result = self.shell.run_cell(source, store_history=False)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        too_much = self.screen.asked > self.screen.limit or self.screen.left_out > 0
        error = result.error_before_exec or result.error_in_exec
        reply: dict[str, Any] = {"shown": self.screen.take(), "too_much": too_much}
        if error is not None:
            reply["error"] = self.describe_error(error)
        return reply

    def take(self, task: str, name: str) -> dict[str, Any]:
        """Keep what a name stands for now; say what it is."""
        missing = object()
        value = self.shell.user_ns.get(name, missing)
        self.kept[task] = value
        if value is missing:
            return {"kind": "missing"}
        if not callable(value):
            return {"kind": "value", "value": value}
        reply: dict[str, Any] = {"kind": "function", "type": type(value).__name__, "does": True}
        with contextlib.suppress(BaseException):
            reply["does"] = _does_something(value)
        with contextlib.suppress(BaseException):
            reply["parameters"] = [str(name) for name in inspect.signature(value).parameters][:30]
        return reply

    def call(self, task: str, args: list[Any], named: dict[str, Any], dtype: str, grad: bool) -> dict[str, Any]:
        """Call what was kept for a task; say what it returned or raised, and what its arguments are now."""
        import torch

        default = torch.get_default_dtype()
        reply: dict[str, Any] = {}
        self.cell = task
        try:
            torch.set_default_dtype(getattr(torch, dtype))
            with torch.set_grad_enabled(grad):
                reply["value"] = self.kept[task](*args, **named)
        except SystemExit:
            reply["exit"] = True
        except BaseException as error:
            reply["error"] = self.describe_error(error)
        finally:
            torch.set_default_dtype(default)
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        reply["too_much"] = self.screen.asked > self.screen.limit
        self.screen.clear()  # what a function prints while it is judged may name hidden inputs: nobody sees it
        reply["args"] = args
        return reply

    def describe_error(self, error: BaseException) -> dict[str, Any]:
        """Say what was raised, and in which lines of the student's code."""
        try:
            message = str(error)[:SPOKEN]
        except BaseException:
            message = ""
        lines, last, file = [], "", ""
        stub = False
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            file = code.co_filename
            stub = isinstance(error, NotImplementedError) and "NotImplementedError" in code.co_names
            if file.startswith("<") and not file.startswith("<frozen"):
                last = linecache.getline(file, trace.tb_lineno).strip()[:200]
                if last:
                    lines.append(f"{file[1:-1]}, line {trace.tb_lineno}: {last}")
            trace = trace.tb_next
        if isinstance(error, SyntaxError):
            lines = [f"{self.cell}, line {error.lineno}: {(error.text or '').strip()[:200]}"]
            message = str(error.msg)[:SPOKEN]
        refused = getattr(error, "errno", None) == errno.EPERM or message == "can't start new thread"
        if refused or "/multiprocessing/" in file:
            message += ": when you are graded, no program, process, thread or connection starts"
        memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
        memory = memory or "can't allocate memory" in message
        return {
            "type": type(error).__name__[:60],
            "message": message,
            "line": last,
            "lines": lines[-8:],
            "stub": stub,
            "memory": memory,
        }


def _take_cpu_for_gpu() -> None:
    """Have every GPU that code names be the CPU. What is moved there is copied, as it would be."""
    import torch
    from torch.overrides import TorchFunctionMode

    def is_gpu(x: Any) -> bool:
        return isinstance(x, str | torch.device) and str(x).split(":")[0] in GPUS

    def on_cpu(x: Any) -> Any:
        return torch.device("cpu") if is_gpu(x) else x

    class NoGPU(TorchFunctionMode):
        def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            if function in (torch.Tensor.cuda, torch.Tensor.pin_memory):
                return args[0].clone()
            if function is torch.device or not any(map(is_gpu, (*args, *named.values()))):
                return function(*args, **named)
            result = function(*map(on_cpu, args), **{name: on_cpu(x) for name, x in named.items()})
            return result.clone() if function in (torch.Tensor.to, torch.as_tensor, torch.asarray) else result

    class Generator(torch.Generator):
        def __new__(cls, device: Any = "cpu") -> "Generator":
            return super().__new__(cls, on_cpu(device))  # type: ignore[call-arg]

    set_default_device = torch.set_default_device
    torch.set_default_device = lambda device: set_default_device(on_cpu(device))
    torch.Generator = Generator  # type: ignore[misc]
    torch.cuda.synchronize = noop
    NoGPU().__enter__()


def _draw_png() -> None:
    """Have figures come as PNG too where a notebook asks for SVG or JPEG."""
    from IPython.core import pylabtools

    select = pylabtools.select_figure_formats

    def with_png(shell: Any, formats: Any, **rest: Any) -> None:
        select(shell, {formats, "png"} if isinstance(formats, str) else {*formats, "png"}, **rest)

    pylabtools.select_figure_formats = with_png
    backend = sys.modules.get("matplotlib_inline.backend_inline")
    if backend is not None:
        backend.select_figure_formats = with_png  # type: ignore[attr-defined]


def _no_input() -> str:
    raise EOFError("nobody answers input() when you are graded")


def _does_something(answer: Any) -> bool:
    """Whether a function is more than a stub: it uses names, or has variables besides its parameters."""
    code = getattr(getattr(answer, "forward", answer), "__code__", None)
    if code is None:
        return False
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return bool(code.co_names) or code.co_nlocals > code.co_argcount + code.co_kwonlyargcount + starred


# ---- The pipes ------------------------------------------------------------------------------------------------------


def _read(source: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(source, min(count, 2**20))
        if not part:
            os._exit(0)  # the grader has gone
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def main() -> None:
    """Serve one submission."""
    settings = json.loads(sys.argv[1])
    confinement.set_parent_death_signal(settings["parent"])
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)] + settings["packages"]
    protocol = _beside("protocol")
    os.chdir(settings["home"])
    sys.path.append(settings["home"])  # a notebook may write a module and import it
    worker = Worker(settings)
    confinement.limit(settings)
    done, threads, fault = [], 1, ""
    if sys.platform == "linux":
        threads = len(os.listdir("/proc/self/task"))
    try:
        if settings["landlock"]:
            confinement.landlock(**settings["landlock"])
            done.append("landlock")
        if sys.platform == "linux":
            confinement.seccomp()
            done.append("seccomp")
    except OSError as error:
        fault = str(error)
    ready = {"number": 0, "done": done, "fault": fault, "threads": threads, "can": confinement.probe_escapes()}
    _write(target, protocol.pack(ready))
    while True:
        header = _read(source, protocol.HEADER.size)
        request = protocol.unpack(header + _read(source, sum(protocol.lengths(header, 2**30))))
        try:
            reply = worker.answer(request)
            data = protocol.pack({**reply, "number": request["number"]}, strict=False)
        except BaseException as error:
            data = protocol.pack({"number": request["number"], "error": worker.describe_error(error)})
        _write(target, data)


if __name__ == "__main__":
    main()
