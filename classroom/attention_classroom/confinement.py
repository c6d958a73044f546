"""Taking a process its rights away, for good: to files (Landlock), system calls (seccomp), memory and time.

The worker loads this file by its path, in a process where the package is not there: it imports nothing of the package.
"""

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["landlock", "landlock_version", "limit", "probe_escapes", "seccomp", "set_parent_death_signal"]

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
