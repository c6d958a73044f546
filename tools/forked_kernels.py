"""Kernels for the tests, which are forked from a process that has imported PyTorch, so that none of them has to.

Each is a process of its own, with the arguments, environment and folder that Jupyter gave it. What was imported ahead
is other people's libraries alone, and nothing that registers itself with a running kernel, as matplotlib.pyplot does.
"""

import contextlib
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping

# What libraries read as they start: a kernel that shall have it otherwise is started as Jupyter starts it.
READ_AHEAD = ("PYTHON", "LD_", "MALLOC_", "OMP_", "MKL_", "ATEN_", "DNNL_", "ONEDNN_", "TORCH", "TRITON_", "NPY_")
AHEAD = (
    "torch",
    "torch._dynamo",  # which torch imports with the first optimizer
    "numpy",
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_agg",
    "matplotlib.projections",
)


class ForkedKernel:
    """What Jupyter needs of a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, server: subprocess.Popen, order: dict) -> None:
        self.server, self.returncode = server, None
        self.pid: int = self.ask(order)

    def ask(self, order):
        print(json.dumps(order), file=self.server.stdin, flush=True)
        return json.loads(self.server.stdout.readline())

    def poll(self):
        if self.returncode is None:
            self.returncode = self.ask({"poll": self.pid})
        return self.returncode

    wait = poll  # Jupyter waits for a process that has ended

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


def read_ahead(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that libraries read when they are imported.

    Example:
        >>> read_ahead({"OMP_NUM_THREADS": "1", "HOME": "/root"})
        {'OMP_NUM_THREADS': '1'}
    """
    return {name: value for name, value in environment.items() if name.startswith(READ_AHEAD)}


@contextlib.contextmanager
def forked_kernels() -> Iterator[None]:
    """Have Jupyter fork kernels in this process, on Linux; elsewhere, libraries do not bear to be forked."""
    from jupyter_client.provisioning import local_provisioner

    launch, servers = local_provisioner.launch_kernel, []

    def fork(cmd, *, cwd=None, env, **options):
        at = cmd.index("-m")
        if cmd[0] != sys.executable or read_ahead(env) != read_ahead(os.environ):
            return launch(cmd, cwd=cwd, env=env, **options)
        if not servers:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            servers.append(subprocess.Popen([*cmd[:at], __file__], env=env, text=True, **pipes))
        return ForkedKernel(servers[0], {"arguments": cmd[at + 1 :], "cwd": cwd, "env": env})

    if sys.platform == "linux":
        local_provisioner.launch_kernel = fork
    try:
        yield
    finally:
        local_provisioner.launch_kernel = launch
        for server in servers:
            server.communicate()  # it ends with its input


def serve() -> None:
    """Fork a kernel for each order in the input, and become it; answer with its process id, or how it ended."""
    del sys.path[0]  # where this file is
    for name in AHEAD:
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        if "poll" in order:
            ended, status = os.waitpid(order["poll"], os.WNOHANG)
            print(os.waitstatus_to_exitcode(status) if ended else "null", flush=True)
        elif pid := os.fork():
            os.setpgid(pid, pid)  # signals go to it and to what it starts
            print(pid, flush=True)
        else:
            break
    else:
        return
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.environ.clear()
    os.environ.update(order["env"] | {"JPY_PARENT_PID": str(os.getppid())})  # it ends when the server does
    os.chdir(order["cwd"] or ".")
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    module, *arguments = order["arguments"]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve()
