"""A real JupyterLab or Notebook 7, with the settings that it comes with, and a notebook that is open there.

Nothing of the person who runs this is read or written. What a reader would choose from a menu goes through the front
end's own commands; what a reader sees is asked of the page.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.book import chapters
from tools.browser import PATIENCE

FRONT_ENDS = {"lab": ("jupyterlab", "lab/tree"), "notebook": ("notebook", "notebooks")}
START = 300  # seconds: they end what hangs

# What every function in the page has: the panel of the notebook, its code cells, and a way to wait for the next frame.
HERE = """
const panel = jupyterapp.shell.currentWidget;
const cells = panel.content.widgets.filter((cell) => cell.model.type === "code");
const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
"""
IN_PLACE = "return cells.length > 0 && panel.content.widgets.every((cell) => cell.isAttached)"
IDLE = "return panel.sessionContext.session?.kernel?.status === 'idle'"
CELLS = """return cells.map((cell) => {
    const outputs = [...cell.node.querySelectorAll(".jp-OutputArea-output")];
    return {
        id: cell.model.id,
        tags: cell.model.sharedModel.metadata.tags ?? [],
        source: cell.model.sharedModel.source,
        executed: cell.model.executionCount !== null,
        failed: cell.model.sharedModel.outputs.some((output) => output.output_type === "error"),
        code: cell.node.querySelector(".jp-InputArea")?.checkVisibility() ?? false,
        output: outputs.some((output) => output.checkVisibility()),
        text: outputs.map((output) => output.textContent).join("\\n"),
        widget: outputs.some((output) => output.querySelector("[data-widget]")),
    };
})"""
# Each has come up or failed: the book's own, and ipywidgets'.
WIDGETS_ARE_UP = """
const node = panel.content.node;
return !node.querySelector("[data-mounted=loading]") && !node.textContent.includes("Loading widget...")
"""
TOO_WIDE = """return (async () => {
    const faults = [];
    for (const output of panel.content.node.querySelectorAll(".jp-OutputArea-output")) {
        if (!output.checkVisibility()) continue;
        output.scrollIntoView(); // a widget that nobody sees keeps the width that it had
        const wide = () => output.scrollWidth > output.clientWidth + 1;
        for (let frames = 0; wide() && frames < 20; frames++) await frame();
        if (wide()) faults.push(`${output.scrollWidth} in ${output.clientWidth}: ${output.textContent.slice(0, 60)}`);
    }
    return faults;
})()"""


@contextmanager
def jupyter(front_end: str, folder: Path) -> Iterator[str]:
    """Start a front end, "lab" or "notebook", on copies of all notebooks in a new folder; yield where they are.

    Example:
        with jupyter("lab", tmp_path / "lab") as address, chromium() as browser:
            notebook = Notebook(browser.new_page(), address, "02_scaled_dot_product")
            notebook.run_all()
    """
    work, settings, runtime = (folder / name for name in ("notebooks", "settings", "runtime"))
    work.mkdir(parents=True)
    for chapter in chapters():
        shutil.copy(chapter, work)
    module, place = FRONT_ENDS[front_end]
    server = {
        "ServerApp": {
            "ip": "127.0.0.1",
            "port": 0,
            "open_browser": False,
            "allow_root": True,
            "root_dir": str(work),
        },
        "IdentityProvider": {"token": ""},
        "LabApp": {"news_url": None},
    }
    page = {"exposeAppInBrowser": True}
    quiet = {"fetchNews": "false"}  # else it asks whether it may
    for name, text in {
        "jupyter_server_config.json": server,
        "labconfig/page_config.json": page,
        "lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings": quiet,
    }.items():
        (settings / name).parent.mkdir(parents=True, exist_ok=True)
        (settings / name).write_text(json.dumps(text), encoding="utf-8")
    ours = ("ATTENTION_TUTORIAL_", "IPYKERNEL_", "JUPYTER", "MPLBACKEND")  # conftest.py sets some, for nbval's kernels
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "JUPYTER_CONFIG_DIR": str(settings),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "IPYTHONDIR": str(folder / "ipython"),
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", module], env=environment, stdout=log, stderr=log)
        try:
            end = time.monotonic() + START
            while not (started := list(runtime.glob("jpserver-*.json"))) or not started[0].read_text():
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{module} did not start: {(folder / 'log').read_text()}")
                time.sleep(0.05)
            yield json.loads(started[0].read_text())["url"] + place
        finally:
            process.terminate()  # it ends its kernels, too
            process.wait()


class Notebook:
    """A notebook that is open in a front end, with all its cells in place."""

    def __init__(self, page, address: str, name: str) -> None:
        self.page, self.address = page, f"{address}/{name}.ipynb?reset"  # without what was open before
        self.open()

    def open(self) -> None:
        """Go to the notebook's address, and wait until its cells are there and its kernel is ready."""
        self.page.goto(self.address)
        self.page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.sessionContext")
        self.ask("return Promise.all([panel.context.ready, panel.revealed, panel.sessionContext.ready])")
        self.until(IN_PLACE)

    def ask(self, body: str, given: Any = None) -> Any:
        """Return what a function in the page returns; it may name what HERE has, and `given`."""
        return self.page.evaluate(f"async (given) => {{ {HERE} {body} }}", given)

    def until(self, body: str, given: Any = None) -> None:
        """Wait until a function in the page returns what is true."""
        self.page.wait_for_function(f"(given) => {{ {HERE} {body} }}", arg=given, timeout=PATIENCE)

    def command(self, name: str, **arguments: Any) -> None:
        """Run a command of the front end, and wait until it is done."""
        self.ask("await jupyterapp.commands.execute(...given)", [name, arguments])

    def cells(self) -> list[dict[str, Any]]:
        """Return the code cells as they are: source and tags, what they say, and whether that is in sight."""
        return self.ask(CELLS)

    def cell(self, name: str) -> dict[str, Any]:
        """Return one cell, by its id."""
        return next(cell for cell in self.cells() if cell["id"] == name)

    def run_all(self) -> None:
        """Run all cells from top to bottom, and wait for the last."""
        self.until(IDLE)
        self.command("notebook:run-all-cells")
        self.until(WIDGETS_ARE_UP)

    def show(self, name: str):
        """Scroll to a cell; return its place in the page."""
        where = "cells.find((cell) => cell.model.id === given)"
        place = self.ask(
            f"const cell = {where}; cell.node.scrollIntoView(); return panel.content.widgets.indexOf(cell)", name
        )
        return self.page.locator(f".jp-Notebook-cell[data-windowed-list-index='{place}']")

    def write(self, name: str, source: str) -> str:
        """Type a source into the editor of a cell, run it from the keyboard, and return what it says."""
        count = "cells.find((cell) => cell.model.id === given.name).model.executionCount"
        before = self.ask(f"return {count}", {"name": name})
        self.show(name).locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Control+Enter")
        self.until(f"return ![null, given.before].includes({count})", {"name": name, "before": before})
        return self.cell(name)["text"]

    def too_wide(self, width: int) -> list[str]:
        """Give the screen a width; list the outputs that are then wider than their cell."""
        self.page.set_viewport_size({"width": width, "height": 900})
        return self.ask(TOO_WIDE)

    def open_again(self) -> None:
        """Save it, shut its kernel down and open the file again, as on the next day."""
        self.command("docmanager:save")
        self.ask("await panel.sessionContext.shutdown()")
        self.page.goto("about:blank")
        self.open()
        self.until(IDLE)
        self.until(WIDGETS_ARE_UP)
