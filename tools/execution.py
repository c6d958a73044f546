"""Execute a notebook as this book does, and compare what it printed.

The same code gives the same outputs: the kernel runs on the CPU in a fixed environment, nothing that depends on the
time or the machine is stored, and cell ids are kept.
"""

import base64
import contextlib
import copy
import hashlib
import io
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import nbformat
import numpy as np
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager
from nbval.plugin import get_sanitize_patterns
from PIL import Image, UnidentifiedImageError

from tools import folds
from tools.book import SANITISING

KERNEL_ENVIRONMENT = {
    "IPYKERNEL_CELL_NAME": "cell",  # else a cell's file name holds the process number
    "ATTENTION_TUTORIAL_PROGRESS": "0",  # progress bars print to outputs
    "ATTENTION_TUTORIAL_WIDGETS": "static",  # the messages of a live widget hold random ids
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # another backend would store no figures
    "OMP_WAIT_POLICY": "passive",  # spinning threads make small models slow on a busy machine
    # glibc keeps the memory of a large tensor for the next one: to map and clear it anew costs half of some cells.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
# The stored outputs are made on the CPU; the tests may compare them on other devices.
REFERENCE_ENVIRONMENT = {
    "ATTENTION_TUTORIAL_DEVICE": "cpu",
    "ATTENTION_TUTORIAL_FIGURES": "finished",
    "PYTHONHASHSEED": "0",
}

NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},  # no version: it would differ by machine
}
KEPT_CELL_METADATA = ("attention_tutorial", "mystnb", "nbgrader", "tags")
PICTURE, DRAWN = "image/png", "image/svg+xml"
LARGEST_DRAWING = 300_000  # letters; a picture of thousands of points is lighter as pixels
FLOATS = re.compile(r"f32:([A-Za-z0-9+/]*=*)")
VALID_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class CellFailed(Exception):
    """A cell raised, ran out of time or took the kernel down; the message says which cell and why."""


@contextlib.contextmanager
def kernel_environment() -> Iterator[dict[str, str]]:
    """Yield what every kernel of this book runs with, here and under the tests (conftest.py).

    No settings, start-up files or history of the person who runs it are read.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:  # a kernel that ends may still write there
        yield KERNEL_ENVIRONMENT | {"IPYTHONDIR": empty}


def render(notebook: NotebookNode) -> str:
    """Return the file's text, as Jupyter itself writes it."""
    nbformat.validate(notebook)
    return nbformat.v4.writes(notebook) + "\n"


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Drop, in place, everything that depends on the editor, the time or the machine; fold what the tags say.

    Each cell gets one lasting id.
    """
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    seen: set[str] = set()
    for cell in notebook.cells:
        cell.metadata = {key: cell.metadata[key] for key in KEPT_CELL_METADATA if key in cell.metadata}
        if cell.cell_type == "code":
            folds.fold(cell)
        cell.id = _cell_id(cell, seen)
        seen.add(cell.id)
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if DRAWN in data:
                data[DRAWN] = lighter(data[DRAWN])
                if len(data[DRAWN]) > LARGEST_DRAWING:
                    del data[DRAWN]
            if PICTURE in data:
                data[PICTURE] = packed(data[PICTURE])
            for kind in {PICTURE, DRAWN} & set(data if alt else ()):
                output.metadata[kind] = {"alt": alt}  # where nbconvert and others look for it
            if output.output_type == "error":
                # The frames name files of this machine. What a reader needs, and nbval compares, is the last line.
                output.traceback = [f"{output.ename}: {output.evalue}"]
    return notebook


def packed(picture: str) -> str:
    """Return a PNG, in base64, with its 256 nearest colours, where that is smaller: a third of the bytes."""
    try:
        opened = Image.open(io.BytesIO(base64.b64decode(picture)))
    except UnidentifiedImageError:
        return picture
    if opened.mode == "P":  # already so
        return picture
    small = io.BytesIO()
    opened.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return min(picture, base64.b64encode(small.getvalue()).decode("ascii"), key=len)


def lighter(drawing: str) -> str:
    """Return an SVG of matplotlib on one line, to a hundredth of a point, without its date, comments and unused names.

    Example:
        >>> lighter('<g id="a">\\n <!-- cat -->\\n <path d="M 1.2345 2 \\nL 3 4 \\n"/>\\n</g>')
        '<g><path d="M 1.23 2 L 3 4"/></g>'
    """
    drawing = re.sub(r"<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"\s+", " ", drawing).replace("> <", "><").replace(' "', '"').strip()
    named = set(re.findall(r"#([\w.-]+)", drawing))
    drawing = re.sub(r' id="([\w.-]+)"', lambda found: found[0] if found[1] in named else "", drawing)
    places = r'\b(?:d|x|y|x1|y1|x2|y2|cx|cy|points)="[^"]*"|\btranslate\([^)]*\)'
    return re.sub(places, lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), drawing)


def _cell_id(cell: NotebookNode, taken: set[str]) -> str:
    own = cell.get("id", "")
    if VALID_CELL_ID.fullmatch(own) and own not in taken:
        return own
    base = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
    candidates = [base] + [f"{base}-{number}" for number in range(2, len(taken) + 3)]
    return next(candidate for candidate in candidates if candidate not in taken)


def execute(notebook: NotebookNode, folder: Path, variables: Mapping[str, str] = MappingProxyType({})) -> None:
    """Run all cells in `folder`, replacing their outputs in place; `variables` are added to the environment.

    Raises:
        CellFailed: at the first cell that fails without being tagged `raises-exception`.
    """
    current = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    # nbval's own kernel of this very environment: whatever "python3" kernels a person has installed, none is asked.
    manager = AsyncKernelManager(kernel_name=CURRENT_ENV_KERNEL_NAME, kernel_spec_manager=NbvalKernelspecManager())
    client = NotebookClient(
        notebook,
        km=manager,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],  # its warnings about transports mean nothing here
        on_cell_start=lambda cell, cell_index: current.update(cell=cell, index=cell_index),
    )
    with kernel_environment() as environment:
        try:
            client.execute(env={**os.environ, **environment, **REFERENCE_ENVIRONMENT, **variables}, cleanup_kc=True)
        except CellExecutionError as error:
            raise CellFailed(_where(current, notebook) + f"{error.ename}: {error.evalue}") from error
        except (CellTimeoutError, DeadKernelError) as error:
            raise CellFailed(_where(current, notebook) + str(error)) from error


def _where(current: dict, notebook: NotebookNode) -> str:
    number = sum(cell.cell_type == "code" for cell in notebook.cells[: current["index"] + 1])
    source = "\n".join("    " + line for line in current["cell"].source.splitlines())
    return f"code cell {number} (id {current['cell'].id}) failed:\n\n{source}\n\n"


def snap_floats(fresh: str, stored: str) -> str:
    """Return the fresh text with the stored one's measured floats, where they are the same to 1e-6.

    A widget holds measured numbers as "f32:" and base64 (`attention_tutorial.widgets`), in which a last digit that
    differs between machines would show as other letters.
    """
    floats = [np.frombuffer(base64.b64decode(packed), "<f4") for packed in FLOATS.findall(fresh)]
    wanted = [np.frombuffer(base64.b64decode(packed), "<f4") for packed in FLOATS.findall(stored)]
    if [array.shape for array in floats] != [array.shape for array in wanted]:
        return fresh
    if not all(np.allclose(*pair, rtol=1e-6, atol=1e-6, equal_nan=True) for pair in zip(floats, wanted, strict=True)):
        return fresh
    old = iter(FLOATS.findall(stored))
    return FLOATS.sub(lambda _: f"f32:{next(old)}", fresh)


def snap_outputs(fresh: list[NotebookNode], stored: list[NotebookNode]) -> None:
    """Put a cell's stored measured floats, where they agree, in place of the fresh ones."""
    for new, old in zip(fresh, stored, strict=False):
        if "text/html" in new.get("data", {}) and "text/html" in old.get("data", {}):
            new["data"]["text/html"] = snap_floats(new["data"]["text/html"], old["data"]["text/html"])


def without_what_varies(notebook: NotebookNode) -> str:
    """Return the file's text less what differs between two runs of the same code: what the tests overlook as well."""
    notebook = copy.deepcopy(notebook)
    rules = get_sanitize_patterns(SANITISING.read_text())
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if cell.metadata.get("attention_tutorial", {}).get("measures_time"):
                data.pop(PICTURE, None)
                data.pop(DRAWN, None)
            varies = any(re.search(regex, data.get("text/plain", "")) for regex, _ in rules)
            for record in output.get("metadata", {}).values():  # a claim's repeats the digits
                for field in ["unrounded", *["measured"] * varies]:
                    record.pop(field, None)
    text = render(notebook)
    for regex, replacement in rules:
        text = re.sub(regex, replacement, text)
    return text
