"""Run a program of js/ with the Node that comes with Playwright: `python -m tools.node build.mjs`.

So the widgets can be built and tested where nobody has installed Node.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

JS = Path(__file__).parents[1] / "js"


def node() -> str:
    """Return the path of Playwright's Node, or of the one on the path; raise where there is none."""
    playwright = importlib.util.find_spec("playwright")
    own = Path(str(playwright.origin)).parent / "driver" if playwright else Path()
    for path in (own / "node", own / "node.exe", shutil.which("node")):
        if path and Path(path).is_file():
            return str(path)
    raise FileNotFoundError("no Node: neither Playwright (pip install playwright) nor a program `node` was found")


if __name__ == "__main__":
    sys.exit(subprocess.run([node(), *sys.argv[1:]], cwd=JS).returncode)
