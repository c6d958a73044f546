"""Keep what models computed, for widgets that show it before anything is trained or loaded.

    python -m tools.record

reads the stored notebook of chapter 1, whose large widget holds the state of its trained networks, and writes
`attention_tutorial/widgets/recorded/bottleneck.json`. A test holds that the two agree. After a change of the networks:
`make notebooks`, this, and `make notebooks` once more, since the opening then shows the new letters. It also reads some
sentences with chapter 10's encoder, whose weights must be installed, and writes `encoder.json` beside it.
"""

import json
from pathlib import Path
from typing import Any

import torch
from bs4 import BeautifulSoup

from attention_tutorial.models.encoder import load_encoder
from attention_tutorial.widgets import Bottleneck
from attention_tutorial.widgets.encoder import READY, record_sentences
from tools.book import ROOT, read

CHAPTER = ROOT / "notebooks" / "01_bottleneck.ipynb"
RECORDED = ROOT / "attention_tutorial" / "widgets" / "recorded"


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


def write(path: Path, record: Any) -> None:
    """Write a record on one line."""
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(RECORDED / "bottleneck.json", record_of())
    write(RECORDED / "encoder.json", record_sentences(load_encoder(dtype=torch.float64), READY, "bank"))
