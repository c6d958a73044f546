"""Right and wrong answers to the exercises of chapter 7."""

import torch
import torch.nn.functional as F
from sacrebleu.metrics import CHRF

from attention_tutorial.analysis.agreement import close
from attention_tutorial.data.copying import shift_right
from attention_tutorial.data.translation import draw_sentences, encode_english, encode_italian
from attention_tutorial.models.patients import exchange

from . import Wrong


def in_place(target, begin):
    ids = target.clone()
    ids[:, 1:] = target[:, :-1]
    ids[:, 0] = begin
    return ids


def by_lists(written, asked):
    def cut(row):
        return row[: row.index(2) + 1] if 2 in row else row

    pairs = zip(written.tolist(), asked.tolist(), strict=True)
    return sum(cut(a) == cut(b) for a, b in pairs) / len(written)


def as_tensor(written, asked):
    return torch.tensor(by_lists(written, asked))


def cross(x, memory, w_q, w_k):
    return torch.softmax(torch.einsum("bmk,bnk->bmn", x @ w_q, memory @ w_k) * w_q.size(1) ** -0.5, -1)


def edge_in_a_loop(rows, columns, m, n):
    mask = torch.ones(len(rows), m, n, dtype=torch.bool)
    for b, (i, j) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        if j >= 0:
            mask[b, i, j] = False
    return mask


def by_slices(written, asked, careful=True):
    written, asked = ("".join(text.split()) for text in (written, asked))
    precision, recall = [], []
    for order in range(1, 1 + min(6, len(written), len(asked))):
        ours, theirs = ([text[i:][:order] for i in range(len(text) + 1 - order)] for text in (written, asked))
        both = sum(min(ours.count(piece), theirs.count(piece)) for piece in set(ours))
        precision.append(both / len(ours))
        recall.append(both / len(theirs))
    p, r = (sum(each) / len(each) for each in (precision, recall))
    return 0.0 if careful and not p else 100 * 5 * p * r / (4 * p + r)


def by_weights(patient, factor=None):
    drawn = draw_sentences(20, generator=torch.Generator().manual_seed(8))
    source, target = encode_english([s.english for s in drawn]), encode_italian([s.italian for s in drawn])
    read = patient.reads(target, 1)
    logits, weights = patient.network(source, read)
    if any((w * (source == 0)[:, None, None]).sum() > 0 for w in (*weights.encoder, *weights.cross)):
        return "padding open"
    if any(w.triu(1).sum() > 0 for w in weights.decoder):
        return "mask too far"
    if read.equal(target):
        return "no shift"
    if any(name.endswith("w_o") and not hasattr(part, "weight") for name, part in patient.network.named_modules()):
        return "W^O missing"
    loss = F.cross_entropy(logits.transpose(1, 2), target, ignore_index=0)
    before = patient.losses[-10:].mean()
    worst = before * factor if factor else before + 0.4
    return "keys and values exchanged" if loss > worst else "healthy"


def by_treatment(patient):
    """Exchange keys and values back, look, and leave it so."""
    found = by_weights(patient, factor=torch.inf)
    if found != "healthy":
        return found
    drawn = draw_sentences(40, generator=torch.Generator().manual_seed(8))
    source, target = encode_english([s.english for s in drawn]), encode_italian([s.italian for s in drawn])

    def loss():
        return F.cross_entropy(patient.step(source, target).transpose(1, 2), target, ignore_index=0)

    before = loss()
    exchange(patient.network)
    return "keys and values exchanged" if loss() < before - 0.4 else "healthy"


RIGHT = {
    "decoder_input": {
        "the package's": shift_right,
        "in place": in_place,
        "padded": lambda target, begin: F.pad(target[:, :-1], (1, 0), value=begin),
    },
    "cached_numbers": {
        "two parts": lambda layers, d, n, m: layers * (2 * n * d + 2 * m * d),
        "tensor": lambda layers, d, n, m: torch.tensor(2 * layers * d * (n + m)),
    },
    "cross_weights": {"einsum": cross, "float32": lambda *inputs: cross(*(x.float() for x in inputs))},
    "feed_forward_step": {
        "by hand": lambda x, a, b: x
        + ((x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() @ a).clamp(min=0) @ b,
        "float32": lambda x, a, b: (x + F.relu(F.layer_norm(x, (x.size(-1),)) @ a) @ b).float(),
    },
    "share_right": {"lists": by_lists, "tensor": as_tensor},
    "closed_edge": {"the package's": close, "loop": edge_in_a_loop},
    "chrf_by_hand": {
        "sacrebleu's": lambda written, asked: CHRF().sentence_score(written, [asked]).score,
        "slices": by_slices,
    },
    "doctor": {
        "weights": by_weights,
        "a ratio of losses": lambda patient: by_weights(patient, 1.2),
        "a treatment that is not undone": by_treatment,
    },
}  # fmt: skip

WRONG = [
    Wrong("decoder_input", "it is not the right result", lambda target, begin: torch.full_like(target, begin)),
    Wrong("cached_numbers", "it is not the right result", lambda layers, d, n, m: 7),
    Wrong("cross_weights", "sum", lambda x, memory, w_q, w_k: 2 * cross(x, memory, w_q, w_k)),
    Wrong("feed_forward_step", "it is not the right result", lambda x, a, b: x),
    Wrong("share_right", "it is not the right result", lambda written, asked: 0.123),
    Wrong(
        "closed_edge", "cells are not right", lambda rows, columns, m, n: torch.ones(len(rows), m, n, dtype=torch.bool)
    ),
    Wrong("chrf_by_hand", "it is not the right result", lambda written, asked: 12.5),
    Wrong("chrf_by_hand", "raised ZeroDivisionError", lambda written, asked: by_slices(written, asked, careful=False)),
    Wrong(
        "chrf_by_hand",
        "right, but not where two texts have nothing in common",
        lambda written, asked: max(by_slices(written, asked), 1.0),
    ),
    Wrong("doctor", "it says 'padding open' of", lambda patient: "padding open"),
    Wrong("doctor", "return one of 'healthy', 'no shift'", lambda patient: "ill"),
    Wrong("doctor", "got 'patient 0'", lambda patient: patient.name),
]
