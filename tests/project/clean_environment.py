"""An environment without this book's package, made of the one that runs the tests; and the package as it is published.

Nothing is downloaded: what the tests run with is linked into the new environment, torch and pip included.
"""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from tools.book import copy_of_the_working_tree


def make_environment(folder):
    """Make a virtual environment that has all that this one has, less this project; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    code = "import json, sysconfig; print(json.dumps(sysconfig.get_path('purelib')))"
    packages = Path(json.loads(subprocess.check_output([python, "-I", "-c", code])))
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(place).iterdir():
            if not re.search("attention_(classroom|tutorial)", entry.name) and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    return python


def pip(python, *arguments):
    """Run pip for an environment, without a network."""
    command = [python, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True)


def build(folder, *options, project=""):
    """Build the source archive, and the wheel from it, as `make dist` does; return their paths by suffix."""
    tree = copy_of_the_working_tree(folder / "tree") / project
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", folder / "dist", tree]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.suffix: path for path in (folder / "dist").iterdir()}
