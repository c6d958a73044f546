"""Keep what the networks of chapter 1 wrote, for the small widget that opens the chapter before anything is trained.

    python -m tools.record

reads the stored notebook, whose large widget holds the state of its trained networks, and writes
`attention_tutorial/widgets/recorded/bottleneck.json`. A test holds that the two agree. After a change of the networks:
`make notebooks`, this, and `make notebooks` once more, since the opening then shows the new letters.
"""

import json
from typing import Any

from bs4 import BeautifulSoup

from attention_tutorial.widgets import Bottleneck
from tools.book import ROOT, read

CHAPTER = ROOT / "notebooks" / "01_bottleneck.ipynb"
RECORD = ROOT / "attention_tutorial" / "widgets" / "recorded" / "bottleneck.json"


def stored_states() -> list[dict[str, Any]]:
    """Return the states of all bottleneck widgets in the outputs of the chapter."""
    outputs = [output for cell in read(CHAPTER).cells for output in cell.get("outputs", [])]
    pages = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    soups = [BeautifulSoup(page, "html.parser") for page in pages if 'data-widget="bottleneck"' in page]
    return [json.loads(str(element["data-state"])) for soup in soups for element in soup.select("[data-widget]")]


def record_of() -> dict[str, Any]:
    """Return the record of the networks that the large widget of the chapter shows."""
    (state,) = [state for state in stored_states() if not state["compact"]]
    return Bottleneck._showing(**state).record()


if __name__ == "__main__":
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record_of(), ensure_ascii=False) + "\n", encoding="utf-8")
