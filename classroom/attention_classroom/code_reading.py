"""What in a cell a teacher may want to look at, found without running it.

The worker loads this file by its path, in a process where the package is not there: it imports nothing of the package.
"""

import ast
import contextlib

__all__ = ["UNUSUAL_MODULES", "UNUSUAL_NAMES", "unusual_in"]

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
UNUSUAL_TEXTS = ("/proc/", "/sys/", "marks/", "hidden/", "/etc/")


def unusual_in(source: str) -> list[str]:
    """Name what a cell uses that an answer has no need of."""
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
    return sorted(unusual)[:20]


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
