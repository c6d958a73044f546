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
import ctypes
import errno
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import json
import linecache
import os
import random
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("attention_classroom", "attention_tutorial")  # their functions are answers, or judge them
SPOKEN = 600  # characters of one error's message
PICTURES, PICTURE_BYTES, ALL_PICTURES = 20, 4_000_000, 32_000_000  # of one cell: how many, bytes of one and of all

# ---- Taking rights away ---------------------------------------------------------------------------------------------

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, SIGKILL = 1, 38, 9
PR_SET_NAME, PR_GET_NAME, PR_SET_VMA = 15, 16, 0x53564D41


def set_parent_death_signal(parent: int) -> None:
    """Have the kernel end this process when the one that started it ends, however it ends. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        if parent and os.getppid() != parent:  # it has ended already
            os._exit(1)


def limit(settings: Mapping[str, Any]) -> None:
    """Set the limits that every Unix has."""
    import resource

    mega = 2**20
    wanted = {
        "RLIMIT_CPU": settings["total_s"],
        "RLIMIT_FSIZE": settings["files_mb"] * mega,
        "RLIMIT_NOFILE": 256,
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": 0,
        "RLIMIT_AS": _address_space() + settings["memory_mb"] * mega,
    }
    for name, value in wanted.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):  # macOS has not all of them
            resource.setrlimit(getattr(resource, name), (int(value), int(value)))


def _address_space() -> int:
    """Return how many bytes this process has mapped."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 4 * 2**30


# Landlock: rights to files, by the version of its interface that knows them.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
ALL_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # what can be said of what is no folder
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the numbers are the same on every architecture


def landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 if there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(CREATE_RULESET, None, 0, 1)))


def landlock(readable: Sequence[str], listable: Sequence[str], writable: Sequence[str]) -> None:
    """Leave this process the named files and folders, and nothing else of the file system.

    Args:
        readable: to be read, with all that is in them.
        listable: whose names may be listed, with those of all that is in them.
        writable: to be written too.

    Raises:
        OSError: if the kernel does not do it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = landlock_version()
    if version < 1:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    every = ALL_FILES[max(known for known in ALL_FILES if known <= version)]
    network, scope = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    attributes = (ctypes.c_uint64 * 3)(every, network, scope)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _checked(libc.syscall(CREATE_RULESET, attributes, size, 0))
    rights = [(path, READ_FILE | READ_DIR | EXECUTE) for path in readable]
    rights += [(path, READ_DIR) for path in listable] + [(path, every) for path in writable]
    for path, access in rights:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what is not there needs no right
        if not os.path.isdir(path):
            access &= OF_FILES
        rule = (access & every).to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
        _checked(libc.syscall(ADD_RULE, rules, 1, rule, 0))
        os.close(descriptor)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(RESTRICT_SELF, rules, 0))
    os.close(rules)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# What a notebook's code needs of the kernel once everything is imported. All else is refused with EPERM.
ALLOWED = """
    read write readv writev pread64 pwrite64 preadv pwritev lseek close close_range dup dup2 dup3 pipe pipe2 fcntl ioctl
    open openat creat stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat
    getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2
    ftruncate fallocate fsync fdatasync fadvise64 flock copy_file_range sendfile umask
    mmap munmap mremap mprotect madvise brk mincore msync
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause
    restart_syscall alarm setitimer getitimer nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday
    time times timer_create timer_settime timer_gettime timer_delete timerfd_create timerfd_settime timerfd_gettime
    futex get_robust_list set_robust_list rseq membarrier sched_yield sched_getaffinity sched_getparam
    sched_getscheduler sched_get_priority_max sched_get_priority_min getcpu set_tid_address
    poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
    getpid getppid gettid getuid geteuid getgid getegid getgroups getresuid getresgid getpgrp getpgid getsid
    getrusage getrlimit sysinfo uname getrandom getpriority exit exit_group
    sendto recvfrom sendmsg recvmsg shutdown getsockname getpeername getsockopt
"""


class _Compare(ctypes.Structure):
    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def seccomp() -> None:
    """Leave this process, and all its threads, the system calls of `ALLOWED` and nothing else, for ever.

    No process, thread or program can be started, no connection opened, nobody else signalled or looked at.

    Raises:
        OSError: if libseccomp is not there, or the kernel does not do it.
    """
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        raise OSError("libseccomp.so.2 is not there (apt install libseccomp2)") from error
    library.seccomp_init.restype = ctypes.c_void_p
    refuse, allow, equal = 0x00050000 | errno.EPERM, 0x7FFF0000, 4
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(refuse)))
    if not context:
        raise OSError("libseccomp does not start")

    def rule(action: int, name: str, *compare: tuple[int, int]) -> None:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return  # this architecture, or this libseccomp, does not have it
        array = (_Compare * len(compare))(*(_Compare(arg, equal, value, 0) for arg, value in compare))
        failed = library.seccomp_rule_add_array(context, ctypes.c_uint32(action), number, len(compare), array)
        if failed:
            raise OSError(-failed, f"libseccomp refuses the rule for {name}")

    for name in ALLOWED.split():
        rule(allow, name)
    for name in ("clone3", "openat2"):  # so that glibc tries the older call, which is refused or allowed as it should
        rule(0x00050000 | errno.ENOSYS, name)
    for name in ("kill", "tkill", "tgkill"):
        rule(allow, name, (0, os.getpid()))
    for option in (PR_SET_NAME, PR_GET_NAME, PR_SET_VMA):
        rule(allow, "prctl", (0, option))
    rule(allow, "prlimit64", (2, 0))  # to ask for limits, not to set them
    rule(allow, "socketpair", (0, 1))  # of this process with itself: asyncio starts with one
    every_thread = 4
    failed = library.seccomp_attr_set(context, every_thread, ctypes.c_uint32(1)) or library.seccomp_load(context)
    if failed:
        raise OSError(-failed, f"the kernel refuses the filter: {os.strerror(-failed)}")


def probe_escapes() -> list[str]:
    """Try what must not be possible any more, and return what is."""
    open_doors = []
    import socket

    with contextlib.suppress(OSError):
        socket.socket().close()
        open_doors.append("network")
    with contextlib.suppress(OSError):
        process = os.fork()
        if process == 0:
            os._exit(0)
        os.waitpid(process, 0)
        open_doors.append("processes")
    with contextlib.suppress(OSError):
        os.listdir("/home")
        open_doors.append("files")
    with contextlib.suppress(OSError):
        Path("/etc/passwd").read_bytes()
        open_doors.append("files")
    return sorted(set(open_doors))


# ---- What a cell shows ----------------------------------------------------------------------------------------------


class OutputCapture(io.RawIOBase):
    """Takes what cells print and draw, in order, up to a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
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
        if size <= min(PICTURE_BYTES, ALL_PICTURES - self.drawn) and self.pictures < PICTURES:
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


class ImportBlocker(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Refuses our packages; to the cells of a release, which call its checks, it gives things that do nothing."""

    released = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Find a package of ours before anything else does."""
        package = name.split(".")[0]
        if package not in PACKAGES:
            return None
        if not self.released:
            raise ModuleNotFoundError(f"{package} is not there when you are graded", name=name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def exec_module(self, module: types.ModuleType) -> None:
        """Fill a module that stands in for one of ours."""
        module.__getattr__ = lambda name: noop  # type: ignore[method-assign]

    def forget(self) -> None:
        """Remove what stands in for our packages."""
        for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
            del sys.modules[name]


class MissingModule:
    """Stands for a package that is not there, so that an import which nothing uses costs nothing."""

    def __init__(self, package: str) -> None:
        self.__dict__["package"] = package
        print(f"{package} is not there when you are graded")

    def __getattr__(self, name: str) -> None:
        """Refuse to be used."""
        package = self.__dict__["package"]
        raise ModuleNotFoundError(f"{package} is not there when you are graded", name=package)

    def __call__(self, *args: Any, **named: Any) -> None:
        """Refuse to be used."""
        self.__getattr__("")


class Imports(ast.NodeTransformer):
    """Puts an `MissingModule` in place of what a cell imports at its outermost level and is not there."""

    def visit_Module(self, tree: ast.Module) -> ast.Module:
        """Change the statements of a cell."""
        tree.body = [part for node in tree.body for part in self.without_missing(node)]
        return ast.fix_missing_locations(tree)

    def without_missing(self, node: ast.stmt) -> Iterator[ast.stmt]:
        """Yield a statement, or what stands in its place."""
        if not isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.ImportFrom) and node.level):
            yield node
            return
        for alias in node.names:
            package = (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
            bound = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else package)
            if _is_there(package):
                yield ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), "names": [alias]}), node)
            else:
                target = "_" if bound == "*" else bound
                yield ast.copy_location(ast.parse(f"{target} = __missing_module__({package!r})").body[0], node)


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False
    except ValueError:  # as of __main__
        return True


# ---- Reading code ---------------------------------------------------------------------------------------------------

MODULES = (
    "_ctypes cffi ctypes ftplib gc http httpx mmap multiprocessing pickle posix ptrace pty requests resource signal "
    "socket ssl subprocess urllib"
)
NAMES = (
    "_exit _getframe __builtins__ __closure__ __del__ __dict__ __eq__ __globals__ __import__ __reduce__ __reduce_ex__ "
    "__setattr__ __subclasses__ __torch_function__ __torch_dispatch__ abort addaudithook cell_contents currentframe "
    "execv execve f_back f_globals f_locals fork forkpty get_objects get_referrers getppid gi_frame import_module kill "
    "killpg meta_path popen posix_spawn settrace setprofile system tb_frame"
)
UNUSUAL_MODULES, UNUSUAL_NAMES = frozenset(MODULES.split()), frozenset(NAMES.split())
UNUSUAL_CALLS = frozenset(("compile", "eval", "exec", "vars"))  # as methods they are usual: model.eval()
ATTRIBUTES = ("delattr", "getattr", "setattr")
UNUSUAL_TEXTS = ("/proc/", "/sys/", "gradebook", "hidden/", "/etc/")


def read_cell(source: str) -> dict[str, Any]:
    """Say what in a cell a teacher may want to look at, without running it."""
    tree = _with_magics(ast.parse(source))
    unusual = set()
    modules = {"torch", "math", "np", "numpy", "F", "nn", "plt"}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            paths = [alias.name for alias in node.names]
            module = getattr(node, "module", None) or ""
            names = [part for path in paths for part in path.split(".")]
            roots = [module] if module else paths
            unusual |= {root for root in (path.split(".")[0] for path in roots) if root in UNUSUAL_MODULES}
            if isinstance(node, ast.Import):
                modules |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name):
            names = [node.id]
            unusual |= {node.id} & UNUSUAL_CALLS
            unusual |= {f"{node.id} = ..."} if isinstance(node.ctx, ast.Store) and node.id == "check" else set()
        elif isinstance(node, ast.Attribute):
            names = [] if ast.unparse(node.value) == "get_ipython()" else [node.attr]  # what magics become
            if isinstance(node.ctx, ast.Store) and _root(node) in modules:
                unusual.add(f"{ast.unparse(node)} = ...")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            unusual |= {text for text in UNUSUAL_TEXTS if text in node.value}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ATTRIBUTES:
            computed = len(node.args) > 1 and not isinstance(node.args[1], ast.Constant)
            if node.args and _root(node.args[0]) in modules and (computed or node.func.id != "getattr"):
                unusual.add(f"{node.func.id}({ast.unparse(node.args[0])}, ...)")
        elif isinstance(node, ast.FunctionDef) and node.name in UNUSUAL_NAMES:
            unusual.add(node.name)
        unusual |= {name for name in names if name in UNUSUAL_NAMES}
    return {"unusual": sorted(unusual)[:20]}


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _with_magics(tree: ast.Module) -> ast.Module:
    """Put the body of a cell under a magic, which is a text by now, in place of the magic."""
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run_cell_magic":
            body = node.args[-1]
            if isinstance(body, ast.Constant) and isinstance(body.value, str):
                with contextlib.suppress(SyntaxError):
                    tree.body += ast.parse(body.value).body
    return tree


# ---- Running --------------------------------------------------------------------------------------------------------


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
        screen = self.screen = OutputCapture(settings["output_kb"] * 1024)

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

            def system(self, cmd: str) -> None:
                print("(programs do not run when you are graded)")

            def getoutput(self, cmd: str, *args: Any, **named: Any) -> Any:
                return []

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
        self.shell.system_raw = self.shell.system_piped = self.shell.system  # type: ignore[method-assign]
        for magic in ("pip", "conda", "mamba", "uv", "matplotlib"):  # figures are drawn inline, whatever is asked for
            self.shell.register_magic_function(noop, "line", magic)  # type: ignore[arg-type]
        self.shell.compile.get_code_name = lambda *args: f"<{self.cell}>"  # type: ignore[method-assign]
        self.shell.user_ns.update(check=noop, load=noop)  # the visible checks
        self.shell.ast_transformers.append(Imports())
        builtins.__missing_module__ = MissingModule  # type: ignore[attr-defined]
        self.cell = ""
        self.kept: dict[str, Any] = {}
        self.not_there = ImportBlocker()
        sys.meta_path.insert(0, self.not_there)
        sys.stdout = sys.stderr = io.TextIOWrapper(self.screen, "utf-8", errors="replace")
        sys.stdin = open(os.devnull)  # noqa: SIM115
        _draw_png()
        builtins.input = lambda prompt="": _no_input()
        warnings.filterwarnings("ignore", message="tqdm:disabling monitor")  # its monitor is a thread
        np.random.seed(0)  # noqa: NPY002  (a student's code may still draw from it)
        torch.manual_seed(0)
        random.seed(0)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked for."""
        handlers: dict[str, Callable[..., dict[str, Any]]] = {
            "read": self.read,
            "run": self.run,
            "take": self.take,
            "call": self.call,
        }
        rest = {key: value for key, value in request.items() if key not in ("do", "number")}
        return handlers[request["do"]](**rest)

    def read(self, source: str) -> dict[str, Any]:
        """Say what is in a cell."""
        try:
            return read_cell(self.shell.transform_cell(source))
        except SyntaxError as error:
            return {"error": self.told(error)}
        except Exception:  # such as a sum of a thousand terms, on which the reading of trees fails
            names = set(re.findall(r"\w+", source))
            unusual = [*names & (UNUSUAL_MODULES | UNUSUAL_NAMES), "what cannot be read as a tree"]
            return {"unusual": sorted(unusual)[-20:]}

    def run(self, cell: str, source: str, released: bool) -> dict[str, Any]:
        """Run a cell; say what it showed and what it raised."""
        self.cell = cell
        self.not_there.released = released
        try:
            result = self.shell.run_cell(source, store_history=False)
        finally:
            self.not_there.released = False
            if released:
                self.not_there.forget()
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        too_much = self.screen.asked > self.screen.limit or self.screen.left_out > 0
        error = result.error_before_exec or result.error_in_exec
        reply: dict[str, Any] = {"shown": self.screen.take(), "too_much": too_much}
        if error is not None:
            reply["error"] = self.told(error)
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
        """Call what was kept for a task; say what it returned, what it raised, and which arguments it changed."""
        import torch

        before = [_copy(x) for x in args]
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
            reply["error"] = self.told(error)
        finally:
            torch.set_default_dtype(default)
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        reply["too_much"] = self.screen.asked > self.screen.limit
        self.screen.clear()  # what a function prints while it is judged may name hidden inputs: nobody sees it
        reply["changed"] = {
            i: new for i, (old, new) in enumerate(zip(before, args, strict=True)) if not _same(old, new)
        }
        return reply

    def told(self, error: BaseException) -> dict[str, Any]:
        """Say what was raised, and in which lines of the student's code."""
        try:
            message = str(error)[:SPOKEN]
        except BaseException:
            message = ""
        lines, last = [], ""
        stub = False
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            stub = isinstance(error, NotImplementedError) and "NotImplementedError" in code.co_names
            if code.co_filename.startswith("<") and not code.co_filename.startswith("<frozen"):
                last = linecache.getline(code.co_filename, trace.tb_lineno).strip()[:200]
                if last:
                    lines.append(f"{code.co_filename[1:-1]}, line {trace.tb_lineno}: {last}")
            trace = trace.tb_next
        if isinstance(error, SyntaxError):
            lines = [f"{self.cell}, line {error.lineno}: {(error.text or '').strip()[:200]}"]
            message = str(error.msg)[:SPOKEN]
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


def _copy(x: Any) -> Any:
    import torch

    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    return type(x)(map(_copy, x)) if isinstance(x, list | tuple) else x


def _same(old: Any, new: Any) -> bool:
    import torch

    if isinstance(old, torch.Tensor):
        if old.shape != new.shape or old.dtype != new.dtype:
            return False
        return bool(((old == new.detach()) | ((old != old) & (new.detach() != new.detach()))).all())
    if isinstance(old, list | tuple):
        return len(old) == len(new) and all(map(_same, old, new))
    return True


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
    set_parent_death_signal(settings["parent"])
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)] + settings["packages"]
    spec = importlib.util.spec_from_file_location("protocol", Path(__file__).with_name("protocol.py"))
    assert spec is not None and spec.loader is not None
    protocol = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(protocol)
    os.chdir(settings["home"])
    sys.path.append(settings["home"])  # a notebook may write a module and import it
    worker = Worker(settings)
    limit(settings)
    done, threads, fault = [], 1, ""
    if sys.platform == "linux":
        threads = len(os.listdir("/proc/self/task"))
    try:
        if settings["landlock"]:
            landlock(**settings["landlock"])
            done.append("landlock")
        if sys.platform == "linux":
            seccomp()
            done.append("seccomp")
    except OSError as error:
        fault = str(error)
    ready = {"number": 0, "done": done, "fault": fault, "threads": threads, "can": probe_escapes()}
    _write(target, protocol.pack(ready))
    while True:
        header = _read(source, protocol.HEADER.size)
        request = protocol.unpack(header + _read(source, sum(protocol.lengths(header, 2**30))))
        try:
            reply = worker.answer(request)
            data = protocol.pack({**reply, "number": request["number"]}, strict=False)
        except BaseException as error:
            data = protocol.pack({"number": request["number"], "error": worker.told(error)})
        _write(target, data)


if __name__ == "__main__":
    main()
