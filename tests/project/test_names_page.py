"""The names that the page of names gives for PyTorch are names that PyTorch has."""

import inspect
import re

import pytest
import torch
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


def test_pytorchs_messages_are_those_that_the_page_quotes():
    page = " ".join((ROOT / "book" / "names.md").read_text("utf-8").split())
    narrow, wide = torch.zeros(2, 5, 12), torch.zeros(2, 7, 20)
    assert nn.MultiheadAttention(12, 3, kdim=20, vdim=20, batch_first=True)(narrow, wide, wide)[1].shape == (2, 5, 7)
    with pytest.raises(RuntimeError) as unlike:
        nn.MultiheadAttention(12, 3, batch_first=True)(narrow, wide, wide)
    turned = narrow.transpose(1, 2)
    with pytest.raises(RuntimeError) as apart:
        turned.view(2, -1)
    assert turned.contiguous().view(2, -1).shape == turned.reshape(2, -1).shape
    for error in (unlike, apart):
        assert f"`{str(error.value).split(' (')[0]}`" in page
    assert nn.MultiheadAttention(12, 3).in_proj_bias is not None
    machine = nn.Transformer(4, 2, 1, 1, norm_first=False, batch_first=True)
    assert isinstance(machine.encoder.norm, nn.LayerNorm) and isinstance(machine.decoder.norm, nn.LayerNorm)
