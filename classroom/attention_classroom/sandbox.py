"""Where a student's code runs: a fresh process without rights, in the strongest sandbox that this machine has.

``strongest()`` tries the sandboxes and returns the first that works; it raises `NoSandbox` where none does. A sandbox
starts children; a `Child` is asked, within a time, and killed. A child that is not confined as its sandbox promises is
never given any code: `Sandbox.start` raises.
"""

import contextlib
import functools
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from . import protocol
from .confinement import landlock_version
from .course import Limits

__all__ = [
    "FOLDERS",
    "MASTERS",
    "SANDBOXES",
    "Child",
    "Died",
    "Limits",
    "NoSandbox",
    "Sandbox",
    "TooLong",
    "choose",
    "needed_files",
    "strongest",
]

HERE = Path(__file__).parent
CHILD = HERE / "worker.py"
OF_CHILD = (CHILD, *(HERE / f"{name}.py" for name in ("confinement", "protocol")))
PACKAGES = ("attention_classroom", "attention_tutorial")  # their functions are answers, or judge them
FOLDERS = {name: Path(str(import_module(name).__file__)).parent for name in PACKAGES}
MASTERS = HERE.with_name("masters")  # of the book's assignments: in the repository, and in no wheel
LEFT_OUT = ("widgets", "__pycache__")  # have no part in grading
PICTURES = 20  # of one cell
MESSAGE = 64 * 2**20  # bytes of one answer
TAIL = 2000  # bytes of what a child says outside the wire, kept to tell how it ended
LEAST = 1024  # bytes that any file or folder counts for
LONGEST_PATH = 2000  # characters; the system sees no more than 4096
LOOKS_EVERY = 0.2  # seconds between two looks at a folder without a limit of its own
HOMES = "attention-classroom-"  # folders of children without a disk of their own; the grader's process id follows


class NoSandbox(RuntimeError):
    """No sandbox starts here, or one does not confine as it should. Nothing was run and nothing is graded."""


class TooLong(Exception):
    """A child did not answer in time. It is dead."""


class Died(Exception):
    """A child ended, or said what is no answer; of what kind that is, flags say. It is dead."""

    def __init__(self, words: str, kind: str = "crash") -> None:
        super().__init__(words)
        self.kind = kind


@dataclass(frozen=True)
class Sandbox:
    """A way to confine a child."""

    name: str
    words: str  # what it keeps from a student's code

    def start(self, limits: Limits | None = None, *, private: Sequence[Path] = ()) -> "Child":
        """Start a child, confined and ready, that cannot read these private files and folders.

        Raises:
            NoSandbox: if it does not start, or is not confined as this sandbox promises.
        """
        _check_private(self, [*private, *filter(Path.is_dir, [MASTERS])])
        child = Child(self, limits or Limits())
        try:
            child.wait_until_ready()
        except BaseException:
            child.close()
            raise
        return child


SANDBOXES = {
    "bubblewrap": Sandbox(
        "bubblewrap",
        "namespaces of its own (bubblewrap) and a filter of system calls (seccomp): no network, no other processes, "
        "no files but Python's own, a disk of its own in memory",
    ),
    "landlock": Sandbox(
        "landlock",
        "a filter of files (Landlock) and of system calls (seccomp): no network, no processes, no contents of files "
        "but Python's own",
    ),
    "limits": Sandbox(
        "limits", "limits of time, memory and output only: it can read what you can read, and send it away"
    ),
}


def needed_files() -> dict[str, Path]:
    """Return the files of both packages that grading needs.

    Returns:
        The paths by their names, such as ``attention_classroom/protocol.py``, in the order of these.
    """
    files = {
        f"{package}/{path.relative_to(folder).as_posix()}": path
        for package, folder in FOLDERS.items()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {name: files[name] for name in sorted(files) if not any(f"/{part}/" in name for part in LEFT_OUT)}


# ---- What a child may see --------------------------------------------------------------------------------------------


@functools.cache
def _packages() -> tuple[str, ...]:
    """Return the folders of installed packages, without those of projects that are worked on."""
    folders = (path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    return tuple(path for path in folders if Path(path).is_dir())


@functools.cache
def _python() -> tuple[str, tuple[str, ...]]:
    """Return this Python's program and what it reads, besides packages."""
    program = os.path.realpath(sys.executable)
    paths = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), program}
    library, base = sysconfig.get_config_var("LIBDIR"), Path(sys.base_prefix)
    # Libraries beside the interpreter (conda puts its own there), by name: its folder may hold anything.
    for folder in {Path(library) if library else base / "lib", base / "lib"}:
        if folder.is_dir() and not str(folder).startswith("/usr"):
            paths |= {str(path) for path in folder.iterdir() if ".so" in path.name}
    return program, tuple(sorted(path for path in paths if path and Path(path).exists()))


SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/share/zoneinfo", "/usr/share/fonts", "/usr/local/lib")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/fonts")
LINKS = ("/lib", "/lib64", "/lib32")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def _readable() -> list[str]:
    """Return all that a child may read, in the order in which it can be mounted."""
    _, own = _python()
    links = [path for path in LINKS if Path(path).is_dir() and not Path(path).is_symlink()]
    return [path for path in (*SYSTEM, *links, *SYSTEM_FILES, *own, *_packages()) if Path(path).exists()]


def _hidden() -> list[Path]:
    """Return where our packages lie inside what a child may read."""
    return [path for folder in _packages() for name in PACKAGES if (path := Path(folder, name)).exists()]


def _check_private(sandbox: Sandbox, private: Sequence[Path]) -> None:
    if sandbox.name == "limits":
        return
    for path in private:
        for open_to_all in _readable():
            if Path(path).resolve().is_relative_to(Path(open_to_all).resolve()):
                raise NoSandbox(f"{path} lies in {open_to_all}, which a student's code can read; move it elsewhere")


@functools.cache
def _fonts() -> Path | None:
    """Return matplotlib's list of fonts, which takes seconds to make; None where it cannot be stored."""
    import matplotlib.font_manager  # makes it where it is not there

    lists = Path(matplotlib.get_cachedir()).glob("fontlist-v*.json")
    return max(lists, key=lambda path: path.stat().st_mtime, default=None)


ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")}


def _environment(home: str) -> dict[str, str]:
    """Return all of a child's environment. Nothing of the grader's is in it."""
    return {
        **ONE_THREAD,
        "OMP_THREAD_LIMIT": "1",
        "TORCHDYNAMO_DISABLE": "1",  # torch.compile calls a compiler, and there is none: functions run as they are
        "HOME": home,
        "TMPDIR": home,
        "IPYTHONDIR": f"{home}/ipython",
        "MPLCONFIGDIR": f"{home}/matplotlib",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


# ---- A child ---------------------------------------------------------------------------------------------------------


class Child:
    """A process that runs a student's code. It is asked one thing at a time and killed when it does not answer."""

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self.sandbox, self.limits = sandbox, limits
        self.number = 0
        self.tail = b""
        self._got = bytearray()
        self._home: str | None = None
        try:
            command, environment = self._command()
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._clean()
            raise NoSandbox(f"{sandbox.name} does not start: {error}") from error
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._in, self._out, self._err = (pipe.fileno() for pipe in self._pipes)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    # -- starting

    def _settings(self, home: str) -> dict[str, Any]:
        packages, hidden = _packages(), _hidden()
        wants_landlock = {"bubblewrap": landlock_version() > 0, "landlock": True, "limits": False}[self.sandbox.name]
        entries = [str(entry) for folder in packages for entry in Path(folder).iterdir() if entry not in hidden]
        readable = [path for path in _readable() if path not in packages] + entries + ["/dev/urandom", "/dev/zero"]
        rights = {"readable": readable, "listable": packages, "writable": [home, "/dev/null"]}
        return {
            **asdict(self.limits),
            "total_s": self.limits.total_s + self.limits.start_s,
            "parent": 0 if self.sandbox.name == "bubblewrap" else os.getpid(),
            "packages": packages,
            "blocked": PACKAGES,
            "pictures": PICTURES,
            "landlock": rights if wants_landlock else None,
            "home": home,
        }

    def _command(self) -> tuple[list[str], dict[str, str]]:
        program, _ = _python()
        if self.sandbox.name == "bubblewrap":
            home, file = "/box", "/run/classroom/worker.py"  # not /tmp: Python may be installed there
            wrap = self._bubblewrap(home)
        else:
            home = self._home = tempfile.mkdtemp(prefix=f"{HOMES}{os.getpid()}-")
            file, wrap = str(CHILD), []
            fonts = _fonts()
            if fonts:
                Path(home, "matplotlib").mkdir()
                shutil.copy(fonts, Path(home, "matplotlib", fonts.name))
        command = [program, "-S", "-s", "-P", file, json.dumps(self._settings(home))]
        environment = _environment(home)
        if not wrap:
            return command, environment
        for name, value in environment.items():
            wrap += ["--setenv", name, value]
        return [*wrap, *command], {}  # bubblewrap's own environment can be read inside

    def _bubblewrap(self, home: str) -> list[str]:
        program = shutil.which("bwrap")
        if program is None:
            raise NoSandbox("bubblewrap is not installed (apt install bubblewrap)")
        command = [program, "--unshare-all", "--die-with-parent", "--as-pid-1", "--new-session", "--clearenv"]
        command += ["--uid", "65534", "--gid", "65534", "--hostname", "classroom", "--cap-drop", "ALL"]
        for path in LINKS:
            if Path(path).is_symlink():
                command += ["--symlink", os.readlink(path), path]
        for path in _readable():
            command += ["--ro-bind", path, path]
        for hidden in _hidden():
            command += ["--size", "4096", "--tmpfs", str(hidden), "--remount-ro", str(hidden)]
        for device in DEVICES:
            command += ["--dev-bind", device, device]
        size = str(self.limits.files_mb * 2**20)
        command += ["--proc", "/proc", "--size", size, "--tmpfs", home, "--chdir", home]
        fonts = _fonts()
        if fonts:
            command += ["--ro-bind", str(fonts), f"{home}/matplotlib/{fonts.name}"]
        for file in OF_CHILD:
            command += ["--ro-bind", str(file), f"/run/classroom/{file.name}"]
        return [*command, "--remount-ro", "/"]

    def wait_until_ready(self) -> None:
        """Wait until the child is ready, and see that it is confined.

        Raises:
            NoSandbox: if it is not.
        """
        try:
            ready = self._receive(b"", time.monotonic() + self.limits.start_s)
        except TooLong as error:
            raise NoSandbox(f"{self.sandbox.name}: not ready after {self.limits.start_s:g} seconds") from error
        except Died as error:
            raise NoSandbox(f"{self.sandbox.name} does not start: {error}") from error
        self.tail = b""  # what libraries say while they are imported
        if self.sandbox.name == "limits":
            return
        wanted = {"seccomp"} | ({"landlock"} if self.sandbox.name == "landlock" else set())
        missing = wanted - set(ready["done"])
        if missing or ready["can"] or (ready["threads"] != 1 and self.sandbox.name == "landlock"):
            reasons = [ready["fault"]] if ready["fault"] else []
            reasons += [f"it still has {right}" for right in ready["can"]]
            reasons += [f"{ready['threads']} threads"] if ready["threads"] != 1 else []
            raise NoSandbox(f"{self.sandbox.name} does not confine: {'; '.join(reasons) or 'no reason given'}")

    # -- requests

    def request(self, do: str, seconds: float, **rest: Any) -> Mapping[str, Any]:
        """Have something done.

        Returns:
            The answer. Whoever wrote the student's code may have written it.

        Raises:
            TooLong: if it does not come in time. The child is dead then.
            Died: if none will come. The child is dead then.
        """
        self.number += 1
        request = protocol.pack({"do": do, "number": self.number, **rest})
        reply = self._receive(request, time.monotonic() + seconds)
        if type(reply) is not dict or type(reply.get("number")) is not int or reply["number"] != self.number:
            raise self._dead("it answered what was not asked", "broken")
        return reply

    def _receive(self, request: bytes, until: float) -> Any:
        """Send a request, wait for an answer, and drain what else the child says."""
        if self._got:
            raise self._dead("it spoke without being asked", "broken")
        left = memoryview(request)
        with selectors.DefaultSelector() as ready:
            ready.register(self._out, selectors.EVENT_READ)
            ready.register(self._err, selectors.EVENT_READ)
            if left:
                ready.register(self._in, selectors.EVENT_WRITE)
            while True:
                remaining = until - time.monotonic()
                if remaining <= 0:
                    self.close()
                    raise TooLong
                events = ready.select(min(remaining, LOOKS_EVERY))
                self._look_at_disk()
                for key, _ in events:
                    if key.fd == self._in:
                        left = self._send(left)
                        if not left:
                            ready.unregister(self._in)
                        continue
                    try:
                        data = os.read(key.fd, 2**18)
                    except BlockingIOError:  # a child may open its own pipes again, and empty them
                        continue
                    if key.fd == self._err:
                        self.tail = (self.tail + data)[-TAIL:]
                        if not data:
                            ready.unregister(self._err)
                    elif not data:
                        raise self._dead()
                    else:
                        self._got += data
                message = self._message()
                if message is not None and not left:
                    return message

    def _send(self, left: memoryview) -> memoryview:
        try:
            return left[os.write(self._in, left) :]
        except BlockingIOError:
            return left
        except OSError as error:
            raise self._dead() from error

    def _message(self) -> Any:
        """Return a whole message, if there is one."""
        if len(self._got) < protocol.HEADER.size:
            return None
        try:
            size = protocol.HEADER.size + sum(protocol.lengths(bytes(self._got[: protocol.HEADER.size]), MESSAGE))
            if len(self._got) < size:
                return None
            message = bytes(self._got[:size])
            del self._got[:size]
            return protocol.unpack(message)
        except protocol.ProtocolError as error:
            raise self._dead(f"what it answered is no plain data ({error})", "broken") from error

    # -- ending

    def _dead(self, words: str = "", kind: str = "crash") -> Died:
        """Kill the child; say how it ended."""
        if not words:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
            code = self.process.poll()
            if code is not None and code > 128 and self.sandbox.name == "bubblewrap":
                code = 128 - code  # as bubblewrap tells of signals
            if code is None:
                words = "it closed its pipes"
            elif code < 0:
                with contextlib.suppress(ValueError):
                    words = f"it was ended by {signal.Signals(-code).name}"
                words = words or f"it was ended by signal {-code}"
            else:
                words = f"it ended with exit status {code}"
            with contextlib.suppress(OSError):
                self.tail = (self.tail + os.read(self._err, 2**18))[-TAIL:]
            last = self.tail.decode("utf-8", "replace").strip().splitlines()[-1:]
            if last:
                spoken = "".join(c if c.isprintable() else "�" for c in last[0][:300])
                words += f"; its last words: {spoken}"
            if b"MemoryError" in self.tail or b"bad_alloc" in self.tail or b"allocate memory" in self.tail:
                kind = "memory"
        self.close()
        return Died(words, kind)

    def _look_at_disk(self) -> None:
        """Where the child's disk has no limit of its own, be one."""
        if self._home is None:
            return
        size = 0
        for folder, _, files in os.walk(self._home):
            size += LEAST * (len(files) + 1)
            if len(folder) > LONGEST_PATH:  # what lies deeper cannot be seen from here
                raise self._dead("it made folders in folders without end", "files")
            for file in files:
                with contextlib.suppress(OSError):
                    size += max(0, os.lstat(os.path.join(folder, file)).st_blocks * 512 - LEAST)
        if size > (self.limits.files_mb + 8) * 2**20:  # the list of fonts lies there too
            raise self._dead(f"it wrote more than {self.limits.files_mb} MB of files", "files")

    def close(self) -> None:
        """Kill the child and all that is with it."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        self._clean()

    def _clean(self) -> None:
        if self._home is not None:
            _remove(self._home)
            self._home = None

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sweep() -> None:
    """Remove the folders of children whose grader was killed before it could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{HOMES}*"):
        owner = folder.name.removeprefix(HOMES).split("-")[0]
        if owner.isdecimal() and not _lives(int(owner)):
            _remove(folder)


def _remove(folder: str | Path) -> None:
    """Remove a folder and all that is in it, however deep: deeper than Python's own functions go."""
    subprocess.run(["rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


# ---- Choosing --------------------------------------------------------------------------------------------------------


@functools.cache
def why_not(sandbox: Sandbox) -> str:
    """Start a sandbox's child once; return why it does not work, or nothing."""
    if sys.platform != "linux":
        return "only Linux has it; on Windows, use WSL 2"
    if sandbox.name == "landlock" and landlock_version() < 1:
        return "this kernel has no Landlock (Linux 5.13 and later have it, where it is switched on)"
    try:
        sandbox.start(Limits()).close()
    except NoSandbox as error:
        return str(error)
    return ""


@functools.cache
def strongest() -> Sandbox:
    """Return the strongest sandbox that works here, or raise `NoSandbox`: plain limits are for who asks for them."""
    reasons = []
    for name in ("bubblewrap", "landlock"):
        fault = why_not(SANDBOXES[name])
        if not fault:
            return SANDBOXES[name]
        reasons.append(f"{name}: {fault}")
    raise NoSandbox(
        f"no sandbox works on this machine ({'; '.join(reasons)}). To grade all the same, with limits of time, memory "
        "and output only, say --unsafe: students' code can then read and send away what you can read"
    )


def choose(*, unsafe: bool) -> Sandbox:
    """Return the strongest sandbox that works here, or plain limits where none does and ``unsafe`` asks for them."""
    try:
        return strongest()
    except NoSandbox:
        if not unsafe:
            raise
        if sys.platform == "win32":
            raise NoSandbox("Windows has no such limits; use WSL 2") from None
        return SANDBOXES["limits"]
