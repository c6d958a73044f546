"""Right and wrong answers to the exercises of chapter 7."""

import torch
import torch.nn.functional as F
from sacrebleu.metrics import CHRF
from torch import nn

from attention_tutorial.analysis.gender_agreement import close
from attention_tutorial.data.translation import draw_sentences, encode_english, encode_italian

from . import Answers, Wrong


def by_lists(written, asked):
    def cut(row):
        return row[: row.index(2) + 1] if 2 in row else row

    pairs = zip(written.tolist(), asked.tolist(), strict=True)
    return sum(cut(a) == cut(b) for a, b in pairs) / len(written)


def while_loop(logits_of, longest):
    written = torch.tensor([1])
    while len(written) <= longest and (written[-1] != 2 or len(written) == 1):
        written = torch.cat([written, logits_of(written).argmax()[None]])
    return written


def recursively(logits_of, longest, written=(1,)):
    if longest == 0 or written[-1] == 2:
        return list(written)
    best = max(range(7), key=lambda i: logits_of(written)[i])
    return recursively(logits_of, longest - 1, (*written, best))


def by_modules(d, wide, layers, english, italian):
    reading = nn.TransformerEncoderLayer(d, 1, wide)
    writing = nn.TransformerDecoderLayer(d, 1, wide)
    parts = [nn.Embedding(english + italian, d), *[reading, writing] * layers, nn.LayerNorm(d), nn.LayerNorm(d)]
    return sum(p.numel() for part in (*parts, nn.Linear(d, italian)) for p in part.parameters())


def smoothed_by_distribution(logits, target, epsilon):
    wanted = (1 - epsilon) * F.one_hot(target, logits.size(-1)) + epsilon / logits.size(-1)
    losses = -(wanted * torch.log_softmax(logits, dim=-1)).sum(dim=-1)
    return losses[target != 0].mean()


def smoothed_by_targets(logits, target, epsilon):
    real = target != 0
    wanted = (1 - epsilon) * F.one_hot(target[real], logits.size(-1)) + epsilon / logits.size(-1)
    return F.cross_entropy(logits[real], wanted)


def beams_by_rows(logits_of, width, longest):
    ended, going = [], [(0.0, [1])]
    for _ in range(longest):
        new = []
        for score, ids in going:
            p = torch.softmax(torch.as_tensor(logits_of(ids)), dim=-1)
            new += [(score + p[i].log().item(), [*ids, i]) for i in range(len(p))]
        best = sorted(ended + new, reverse=True)[:width]
        ended = [beam for beam in best if beam[1][-1] == 2]
        going = [beam for beam in best if beam[1][-1] != 2]
    return max(ended + going)[1]


def edge_in_a_loop(rows, columns, m, n):
    edges = list(zip(rows.tolist(), columns.tolist(), strict=True))
    return torch.tensor([[[edge != (i, j) for j in range(n)] for i in range(m)] for edge in edges])


def by_slices(written, asked):
    written, asked = ("".join(text.split()) for text in (written, asked))
    shares = []
    for order in range(1, 1 + min(6, len(written), len(asked))):
        ours, theirs = ([text[i:][:order] for i in range(len(text) + 1 - order)] for text in (written, asked))
        both = sum(min(ours.count(piece), theirs.count(piece)) for piece in set(ours))
        shares.append((both / len(ours), both / len(theirs)))
    p, r = torch.tensor(shares, dtype=torch.float64).mean(dim=0).tolist()
    return 0.0 if not p else 100 * 5 * p * r / (4 * p + r)


def by_weights(patient, factor=1.0, more=0.4):
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
    return "keys and values exchanged" if loss > factor * before + more else "healthy"


BANK = {
    "norm_last": Answers(
        right={
            "in two lines": lambda x, norm, f: norm(sum([f(x), x])),
            "float32": lambda x, norm, f: norm(x + f(x)).float(),
        }
    ),
    "writes_greedily": Answers(right={"while": while_loop, "recursion": recursively}),
    "machine_size": Answers(right={"modules": by_modules, "tensor": lambda *sizes: torch.tensor(by_modules(*sizes))}),
    "smoothed_loss": Answers(
        right={"the distribution": smoothed_by_distribution, "probabilities as targets": smoothed_by_targets},
        wrong=[
            Wrong(
                "that is PyTorch's option `label_smoothing`",
                lambda logits, target, epsilon: F.cross_entropy(
                    logits.flatten(0, 1), target.flatten(), ignore_index=0, label_smoothing=epsilon
                ),
            ),
            Wrong(
                "that is PyTorch's option `label_smoothing`",
                lambda logits, target, epsilon: nn.CrossEntropyLoss(ignore_index=0, label_smoothing=epsilon)(
                    logits.transpose(1, 2), target
                ),
            ),
        ],
    ),
    "writes_with_beams": Answers(
        right={"rows": beams_by_rows, "tensor": lambda *inputs: torch.tensor(beams_by_rows(*inputs))}
    ),
    "share_right": Answers(right={"lists": by_lists, "tensor": lambda *inputs: torch.tensor(by_lists(*inputs))}),
    "closed_edge": Answers(
        right={"the package's": close, "loop": edge_in_a_loop},
    ),
    "chrf_by_hand": Answers(
        right={
            "sacrebleu's": lambda written, asked: CHRF().sentence_score(written, [asked]).score,
            "slices": by_slices,
        },
        wrong=[
            Wrong(
                "right, but not where two texts have nothing in common",
                lambda written, asked: max(by_slices(written, asked), 1.0),
            )
        ],
    ),
    "doctor": Answers(
        right={"weights": by_weights, "a ratio of losses": lambda patient: by_weights(patient, 1.2, 0)},
        wrong=[
            Wrong("return one of 'healthy', 'no shift'", lambda patient: "ill"),
            Wrong("got 'patient 0'", lambda patient: patient.name),
        ],
    ),
}
