"""The names that the page of names gives for PyTorch are names that PyTorch has."""

import inspect
import re

import torch.nn.functional as F
from torch import nn

from tools.book import ROOT

CALLS = [
    *(nn.MultiheadAttention, nn.Transformer, nn.TransformerEncoderLayer, nn.TransformerEncoder),
    *(nn.MultiheadAttention.forward, nn.TransformerEncoder.forward, nn.TransformerEncoderLayer.forward),
    *(nn.TransformerDecoderLayer.forward, F.cross_entropy),
]


def test_pytorchs_names_are_arguments_or_attributes_of_its_attention():
    known = {name for call in CALLS for name in inspect.signature(call).parameters}
    known |= set(re.findall(r"(\w+)=", F.scaled_dot_product_attention.__doc__.partition("->")[0]))
    known |= {*dir(nn.MultiheadAttention(4, 2)), *dir(nn.MultiheadAttention(4, 2, kdim=3)), *dir(nn.Transformer)}
    rows = re.findall(r"^\| [^|-].*\|$", (ROOT / "book" / "names.md").read_text("utf-8"), re.MULTILINE)
    columns = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    names = {name for cells in columns for name in re.findall(r"`(\w+)`", cells[1])}
    assert len(names) > 25 and not names - known
