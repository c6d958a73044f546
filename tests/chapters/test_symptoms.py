"""Each test on the page "My model misbehaves" passes on a sound model and fails on one that has the fault."""

import contextlib
import copy
import math
import re

import pytest
import torch
import torch.nn.functional as F
from core.pretended_device import PretendedDevice
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention

from attention_tutorial import MultiHeadAttention, causal_mask, padding_mask, scaled_dot_product_attention
from attention_tutorial.exercises import MISTAKES, SYMPTOMS
from attention_tutorial.models.encoder import Encoder, WordPieces
from attention_tutorial.models.faulty import train_faulty
from attention_tutorial.models.transformer import Transformer
from attention_tutorial.positions import RotaryMultiHeadAttention
from tools.book import ROOT

PAGE = (ROOT / "book" / "symptoms.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
TESTS = [
    pytest.param(section.splitlines()[0], number, code, id=f"{section.splitlines()[0]} {number}")
    for section in SECTIONS
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
]
PAD, IDS, D = 0, 11, 8


class Dropped(nn.Module):
    """A model with dropout; for which `eval()` was not called."""

    def __init__(self, model):
        super().__init__()
        self.model, self.dropout = model, nn.Dropout(0.3)

    def forward(self, *ids):
        return self.dropout(self.model(*ids))


class Logits(nn.Module):
    """A translator that returns its logits alone."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, source, target_in, **others):
        return self.network(source, target_in, **others)[0]


class Layer(nn.Module):
    """Self-attention of several heads, with a fault or without."""

    def __init__(self, attention, fault=""):
        super().__init__()
        self.attention, self.fault = attention, fault

    def forward(self, x, need_weights=True):
        if self.fault == "loop":
            return torch.cat([self.attention(x[:, i : i + 1], x, x)[0] for i in range(x.size(1))], dim=1)
        if self.fault == "scrambled":
            q, k, v = (x @ w.weight.mT for w in (self.attention.w_q, self.attention.w_k, self.attention.w_v))
            cut = (x.size(0), self.attention.num_heads, x.size(1), -1)
            output = scaled_dot_product_attention(*(part.reshape(cut) for part in (q, k, v)))[0]
            return output.transpose(1, 2).reshape(x.shape) @ self.attention.w_o.weight.mT, None
        return self.attention(x, need_weights=need_weights or self.fault == "keeps")


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


def translator(seed=0):
    network = Transformer(IDS, IDS, d_model=D, num_heads=2, d_ff=16, generator=drawn(seed)).double()
    return Logits(network).eval()


def train(model, parameters=None):
    """Return a training step on one batch."""
    optimiser = torch.optim.Adam(model.parameters() if parameters is None else parameters, lr=0.02)

    def step(model, batch):
        optimiser.zero_grad()
        loss_of(model, batch).backward()
        optimiser.step()

    return step


def loss_of(model, batch):
    source, target_in, labels = batch
    return F.cross_entropy(model(source, target_in).flatten(0, 1), labels.flatten())


class Blind(Logits):
    """A translator whose source is masked where it should be seen."""

    def forward(self, source, target_in):
        return super().forward(torch.full_like(source, 3), target_in)


class Elsewhere(Logits):
    """A translator that computes something else where it is not on the CPU."""

    def forward(self, source, target_in):
        return super().forward(source, target_in) * (1.1 if source.device.type == "cuda" else 1)


class LeaksInHalf(Logits):
    """A translator whose causal mask a kernel ignores in half precision."""

    def forward(self, source, target_in):
        logits = super().forward(source, target_in)
        return logits if logits.dtype == torch.float32 else logits + target_in[:, -1:, None]


class Pooled(nn.Module):
    """The mean over an encoder's rows: over those of words, or over those of padding too."""

    def __init__(self, masked=True):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.masked = nn.Embedding(IDS, D), masked
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 16, dropout=0.0, batch_first=True), 2)

    def forward(self, texts):
        rows, real = self.encoder(self.table(texts), src_key_padding_mask=texts == PAD), (texts != PAD)[..., None]
        return (rows * real).sum(dim=1) / real.sum(dim=1) if self.masked else rows.mean(dim=1)


class Short(Logits):
    """A translator that was trained on four positions, and guesses wildly beyond."""

    def forward(self, source, target_in):
        logits = super().forward(source, target_in)
        return torch.cat([logits[:, :4], 20 * torch.randn(logits[:, 4:].shape, generator=drawn())], dim=1)


class Frequencies(Logits):
    """A translator that has learned how often each id occurs, and nothing else."""

    def forward(self, source, target_in):
        logits = super().forward(source, target_in)
        counts = torch.bincount(sound()["labels"].flatten(), minlength=IDS)
        return counts.double().clamp(min=1e-9).log().expand_as(logits)


class Sure(Logits):
    """A translator that starts with logits that are far too large."""

    def forward(self, source, target_in):
        return 50 * super().forward(source, target_in)


class Flagged(Logits):
    """A translator that gives a mask and the causal flag together, with dropout in training."""

    def forward(self, source, target_in):
        x, seen = torch.ones(1, 1, 3, D), torch.ones(3, 3, dtype=torch.bool)
        dropped = 0.1 if self.training else 0.0
        F.scaled_dot_product_attention(x, x, x, attn_mask=seen, is_causal=True, dropout_p=dropped)
        return super().forward(source, target_in)


class Half(nn.Module):
    """A translator whose readout is cut off from the loss."""

    def __init__(self, model):
        super().__init__()
        self.model, self.unused = model, nn.Linear(2, 2)

    def forward(self, *ids):
        return self.model(*ids)


def faulty(name):
    (patient,) = train_faulty(name, seeds=(1,), steps=2, batch_size=4, d_model=D, num_heads=2)
    return Logits(patient.network.double()).eval()


def embedder(masked=True):
    """Return a function that embeds texts, as the mean over their pieces."""
    torch.manual_seed(0)
    pieces = WordPieces([*WordPieces.SPECIAL, *"abcdef"])
    model = Encoder(pieces, d_model=D, num_heads=2, num_layers=2, d_ff=16, context=9).double().eval()

    def embed(ids):
        real = ids != PAD
        x = model(ids, real[:, None, None] if masked else None).states[-1]
        return (x * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)

    return embed


def ids(*shape, seed=5):
    return torch.randint(3, IDS, shape, generator=drawn(seed))


def sound():
    """Return the names of the page for a model without a fault."""
    torch.manual_seed(0)
    source, target = ids(4, 7), ids(4, 6, seed=6)
    model = translator()
    attention = MultiHeadAttention(D, 2).double()
    labels = torch.cat([target[:, 1:], torch.full((4, 1), 2)], dim=1)
    padded = labels.index_fill(1, torch.tensor([4, 5]), PAD)
    fresh = translator(1).train()
    return {
        "torch": torch, "F": F, "PAD": PAD, "d_model": D, "heads": 2, "vocabulary": IDS,
        "trained": 4, "serve": model, "model": model, "source": source, "target_in": target, "labels": labels,
        "batch": (source, target, labels), "loss_of": loss_of, "train_step": train(model),
        "mask": causal_mask(6) & padding_mask(torch.tensor([6, 3]), n=6), "scores": torch.randn(4, 6, 6),
        "logits": fresh(source, target).detach(), "padded_labels": padded,
        "loss_fn": lambda logits, labels: F.cross_entropy(logits.mT, labels, ignore_index=PAD),
        "attention": Layer(attention), "x": torch.randn(2, 5, D, dtype=torch.float64, generator=drawn(3)),
        "attention_from": lambda theirs: Layer(MultiHeadAttention.from_torch(theirs)),
        "layer": Layer(MultiHeadAttention(D, 2)),
        "device": "cuda", "dtype": torch.bfloat16, "embedder": Pooled(),
        "embed": embedder(), "texts": torch.tensor([[3, 4, 5, 6, 7], [8, 9, PAD, PAD, PAD]]),
    }  # fmt: skip


def alike(attention):
    with torch.no_grad():
        for w in (attention.w_q, attention.w_k):
            w.weight[D // 2 :] = w.weight[: D // 2]
    return Layer(attention)


def even(attention):
    with torch.no_grad():
        attention.w_q.weight.zero_()
    return Layer(attention)


def spoilt(heading, number):
    """Return what differs from `sound` in a model that has the fault of a section."""
    names = sound()
    return {
        ("Before anything else: are the results repeatable?", 0): lambda: {"model": Dropped(translator()).train()},
        ("Before anything else: can it learn one batch by heart?", 0): lambda: {
            "train_step": train(names["model"], translator(2).parameters())
        },
        ("The first loss is far above ln V", 0): lambda: {"model": Sure(names["model"].network)},
        ("The loss does not fall", 0): lambda: {"model": Half(translator())},
        ("The loss does not fall", 1): lambda: {"logits": names["logits"].softmax(dim=-1)},
        ("It writes one frequent word everywhere", 0): lambda: {"model": Frequencies(names["model"].network)},
        ("The loss is NaN", 0): lambda: {"mask": causal_mask(6) & padding_mask(torch.tensor([6, 0]), n=6)},
        ("The loss is NaN", 1): lambda: {"scores": (400 * torch.ones(4, 4)).half() @ (400 * torch.ones(4, 4)).half()},
        ("The loss is NaN", 2): lambda: {"labels": torch.full_like(names["labels"], PAD)},
        ("The loss is too good", 0): lambda: {"model": faulty("mask too far")},
        ("The loss is too good", 1): lambda: {"labels": names["target_in"]},
        ("It works in training, but repeats a word or writes nonsense", 0): lambda: {"model": faulty("mask too far")},
        ("A mask is lost at inference, and nobody notices", 0): lambda: {"serve": faulty("mask too far")},
        ("It raises an error in training, but not in eval()", 0): lambda: {"model": Flagged(names["model"].network)},
        ("It stops at once", 0): lambda: {
            "labels": names["padded_labels"],
            "loss_fn": lambda logits, labels: F.cross_entropy(logits.mT, labels),
        },
        ("The output is the same for every input", 0): lambda: {"model": Blind(names["model"].network)},
        ("Results are worse in batches", 0): lambda: {"model": faulty("padding open")},
        ("It fails on long texts", 0): lambda: {"model": Short(names["model"].network)},
        ("It differs from PyTorch", 0): lambda: {
            "attention_from": lambda theirs: Layer(MultiHeadAttention.from_torch(theirs), "scrambled")
        },
        ("My embedding of a text differs from the reference", 0): lambda: {"embed": embedder(masked=False)},
        ("I cannot get the attention weights", 0): lambda: {
            "attention": lambda x: names["attention"](x, need_weights=False)
        },
        ("My attention weights are all equal, or the same for every query", 0): lambda: {
            "attention": even(copy.deepcopy(names["attention"].attention))
        },
        ("All heads look alike", 0): lambda: {"attention": alike(copy.deepcopy(names["attention"].attention))},
        ("It differs between train() and eval()", 0): lambda: {"embedder": Pooled(masked=False)},
        ("It differs on a GPU or a Mac", 0): lambda: {"model": Elsewhere(names["model"].network)},
        ("It differs on a GPU or a Mac", 1): lambda: {"model": LeaksInHalf(names["model"].network)},
        ("It runs out of memory", 0): lambda: {"attention": Layer(names["attention"].attention, "keeps")},
        ("It is slower than expected", 0): lambda: {"layer": Layer(MultiHeadAttention(D, 2), "loop")},
    }[heading, number]()


def run(heading, code, names):
    """Run a test of the page; on a pretended device, which has no float64, where it asks for one."""
    with PretendedDevice() if "GPU" in heading else contextlib.nullcontext():
        if "GPU" in heading:
            names["model"].float()
        exec(code, names)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("heading", "number", "code"), TESTS)
def test_a_sound_model_passes(heading, number, code):
    names = sound()
    if heading.startswith("It stops"):
        names["labels"] = names["padded_labels"]
    if heading.startswith("It writes one"):
        for _ in range(60):
            names["train_step"](names["model"], names["batch"])
    run(heading, code, names)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("heading", "number", "code"), TESTS)
def test_a_model_with_the_fault_fails(heading, number, code):
    names = sound() | spoilt(heading, number)
    with pytest.raises(AssertionError):
        run(heading, code, names)


def test_what_the_page_says_of_pytorch_holds():
    assert not torch.backends.cuda.matmul.allow_tf32
    x, may = torch.randn(2, 3, D), torch.ones(3, 3, dtype=torch.bool).tril(-1)  # the first row is empty
    assert not F.scaled_dot_product_attention(x, x, x, attn_mask=may)[:, 0].any()
    output, _ = torch.nn.MultiheadAttention(D, 2, batch_first=True)(x, x, x, attn_mask=~may)
    assert output[:, 0].isnan().all()
    with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Half without overflow"):
        x.half().masked_fill(x > 0, -1e9)
    layer = nn.TransformerEncoderLayer(D, 2, batch_first=True, norm_first=True).eval()
    seen = []
    layer.self_attn.register_forward_hook(lambda module, read, made: seen.extend([read[0], made[1]]))
    layer(x)
    assert seen[1] is None and torch.equal(seen[0], layer.norm1(x))
    assert layer.self_attn(*3 * [layer.norm1(x)])[1].shape == (2, 3, 3)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_fast_path_returns_zeros_at_padding_and_the_same_words():
    encoder, x = Pooled().encoder, torch.randn(2, 5, D, generator=drawn())
    padding = torch.arange(5) >= torch.tensor([[5], [3]])
    without = nn.TransformerEncoder(encoder.layers[0], 2, enable_nested_tensor=False).eval()
    without.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        learns, works = (encoder.train(mode)(x, src_key_padding_mask=padding) for mode in (True, False))
        slow = without(x, src_key_padding_mask=padding)
    assert not works[padding].any() and learns[padding].all()
    torch.testing.assert_close(learns[~padding], works[~padding])
    torch.testing.assert_close(slow, learns)


@torch.no_grad()
def test_a_cache_in_few_bits_differs_by_rounding_alone():
    said = dict(zip((torch.bfloat16, torch.float32, torch.float64), (4e-3, 1e-6, 2e-15), strict=True))
    for dtype, most in said.items():
        differences = []
        for seed in range(60):
            torch.manual_seed(seed)
            layer, x = RotaryMultiHeadAttention(64, 4).to(dtype), torch.randn(2, 24, 64).to(dtype)
            kept, alone = [], []
            for t in range(24):
                kept.append(layer.project(x[:, t : t + 1], start=t))
                keys, values = (torch.cat(parts, dim=2) for parts in zip(*kept, strict=True))
                alone.append(layer.attend(x[:, t : t + 1], keys, values)[0])
            differences.append((torch.cat(alone, dim=1) - layer(x, is_causal=True)[0]).abs().max().item())
        assert most / 10 < max(differences) < 4 * most
        assert f"{most:.0e}".replace("e-0", "e-") in PAGE


# ---- Error messages, word for word ----------------------------------------------------------------------------------


def modified_in_place():
    weights = torch.randn(3, 3, requires_grad=True).softmax(dim=-1)
    weights.masked_fill_(torch.eye(3) > 0, 0.0)
    weights.sum().backward()


def with_kernel(kernel, **options):
    with sdpa_kernel(kernel):
        F.scaled_dot_product_attention(HEADS_OF_8, HEADS_OF_8, HEADS_OF_8, **options)


X, HEADS_OF_8 = torch.zeros(4, 8, 16), torch.zeros(2, 8, 4, 16)
INTEGERS, ALL = torch.ones(4, 8, dtype=torch.long), torch.ones(4, 4, dtype=torch.bool)
MHA = nn.MultiheadAttention(16, 2, batch_first=True)
RAISE = [
    lambda: MHA(X, X, X, attn_mask=INTEGERS == 0),
    lambda: MHA(X, X, X, attn_mask=torch.zeros(4, 8, 8)),
    lambda: F.scaled_dot_product_attention(HEADS_OF_8, HEADS_OF_8, HEADS_OF_8, attn_mask=INTEGERS[:, :4]),
    lambda: MHA(X, X, X, key_padding_mask=INTEGERS),
    lambda: F.scaled_dot_product_attention(HEADS_OF_8, HEADS_OF_8[:, :2], HEADS_OF_8[:, :2]),
    lambda: with_kernel(SDPBackend.MATH, attn_mask=ALL, is_causal=True),
    lambda: MHA(X, X, X, is_causal=True),
    lambda: X.half().masked_fill(X == 0, -1e9),
    lambda: nn.MultiheadAttention(10, 3),
    lambda: nn.Linear(16, 4)(X.double()),
    lambda: with_kernel(SDPBackend.FLASH_ATTENTION, dropout_p=0.1),
    lambda: with_kernel(SDPBackend.CUDNN_ATTENTION),
    lambda: nn.Embedding(5, 4)(torch.tensor([5])),
    modified_in_place,
    lambda: copy.deepcopy(2 * torch.ones(3, requires_grad=True)),
    lambda: flex_attention(HEADS_OF_8.clone().requires_grad_(), HEADS_OF_8, HEADS_OF_8),
]
ROWS = re.findall(r"^\| `(.+)` \| (.+) \| .+ \|$", PAGE.partition("## Error messages")[2], re.MULTILINE)


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="other versions say it in other words")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_the_messages_are_those_of_pytorch_word_for_word():
    said = [message for message, cause in ROWS if "https://" not in cause]
    assert len(said) == len(RAISE) and len(ROWS) >= 15
    for message, fail in zip(said, RAISE, strict=True):
        with pytest.raises((RuntimeError, AssertionError, IndexError, NotImplementedError)) as caught:
            fail()
        assert message in " ".join(str(caught.value).split())


def test_what_the_page_says_of_losses_holds():
    """A softmax before the loss leaves 1.46 for 10 ids; a shared table starts too sure; an ignored EOS is lost."""
    logits, eos = torch.zeros(2, IDS, requires_grad=True), 2
    F.cross_entropy(logits, torch.tensor([3, eos]), ignore_index=eos).backward()
    assert (logits.grad[:, eos] >= 0).all() and logits.grad[0, eos] > 0, "no step makes the end token likelier"
    perfect = F.one_hot(torch.arange(10), 10).double()
    assert F.cross_entropy(perfect, torch.arange(10)).item() == pytest.approx(math.log(math.e + 9) - 1)
    assert math.log(math.e + 9) - 1 == pytest.approx(1.46, abs=0.005)
    scores = torch.randn(9, 10, generator=drawn())
    once, twice = (F.cross_entropy(x, torch.arange(9)) for x in (scores, scores.log_softmax(dim=-1)))
    assert once.item() == pytest.approx(twice.item())
    torch.manual_seed(0)
    x = F.layer_norm(torch.randn(50, 64), (64,))
    assert (x @ nn.Embedding(1000, 64).weight.mT).std().item() == pytest.approx(8, rel=0.1)


def test_the_page_has_a_test_for_each_symptom():
    assert len(TESTS) >= len(SECTIONS) >= 14


def test_a_common_mistake_leads_to_a_symptom_of_the_page():
    assert set(SYMPTOMS) <= set(MISTAKES)
    assert set(SYMPTOMS.values()) <= {section.splitlines()[0] for section in SECTIONS}
