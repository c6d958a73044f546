"""Laws of the check of an attention of one's own: silent on sound code, and a fault gets its name."""

import ast
import contextlib
import functools
import itertools
import json
import math
import re
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attention_tutorial import MultiHeadAttention, scaled_dot_product_attention
from attention_tutorial.exercises import chapter02, chapter04, chapter05
from attention_tutorial.exercises.recognise import Heads, recognise
from attention_tutorial.masks import causal_mask, sliding_window_mask
from attention_tutorial.positions import RotaryMultiHeadAttention, apply_rotary
from attention_tutorial.testing import BrokenLaws, check_attention, check_layer
from attention_tutorial.testing.__main__ import main
from tools.book import ROOT, chapters

PAGE = (ROOT / "book" / "examine.md").read_text(encoding="utf-8")


def drawn(kind, *arguments, **named):
    torch.manual_seed(0)
    return kind(*arguments, **named)


def findings(check, *arguments, **conventions):
    """What a check finds, as {law: mistake}."""
    try:
        check(*arguments, **conventions)
    except BrokenLaws as broken:
        return {found.law: found.mistake for found in broken.findings}
    return {}


sdpa = F.scaled_dot_product_attention


# ---- Sound code, under its conventions ------------------------------------------------------------------------------

functions = {
    "torch's function": (sdpa, {}),
    "its masks are added": (sdpa, {"mask": "added", "mask_axes": "m n"}),
    "ours": (scaled_dot_product_attention, {"returns_weights": True, "mask_axes": "batch 1 m n"}),
    "ours, of words alone": (
        scaled_dot_product_attention, {"returns_weights": True, "axes": "n d", "mask_axes": "m n"}
    ),
    "True is masked": (lambda q, k, v, m: sdpa(q, k, v, None if m is None else ~m), {"mask": "masked"}),
    "causal by itself": (functools.partial(sdpa, is_causal=True), {"mask": None, "causal": True, "cross": False}),
    "lower right": (lambda q, k, v: sdpa(q, k, v, causal_mask(q.size(-2), k.size(-2))), {"mask": None, "causal": True}),
    "a window": (
        lambda q, k, v: sdpa(q, k, v, sliding_window_mask(q.size(-2), k.size(-2), 3)),
        {"mask": None, "causal": functools.partial(sliding_window_mask, window=3)},
    ),
    "heads third": (
        lambda *qkv: sdpa(*(x.transpose(1, 2) for x in qkv)).transpose(1, 2), {"mask": None, "axes": "batch n heads d"}
    ),
    "own scale": (lambda q, k, v: sdpa(q, k, v, scale=1 / q.size(-1)), {"mask": None, "scale": lambda d: 1 / d}),
    "softmax in 32 bits": (
        lambda q, k, v: (q @ k.mT / q.size(-1) ** 0.5).float().softmax(-1).to(q.dtype) @ v, {"mask": None}
    ),
}  # fmt: skip
OF_HEADS = {
    "num_heads": 3, "projections": "w_q w_k w_v w_o", "call": lambda layer, x, *mask: layer(x, mask=(*mask, None)[0])[0]
}  # fmt: skip
OF_TORCH = {"mask": "masked", "empty_rows": False, "returns_weights": True}
BY_WORDS = OF_TORCH | {"mask_axes": "m n", "call": lambda layer, x, mask: layer(x, x, x, attn_mask=mask)}
BY_TEXT = OF_TORCH | {"mask_axes": "batch n", "call": lambda layer, x, mask: layer(x, x, x, key_padding_mask=mask)}
layers = {
    "ours": (MultiHeadAttention, (12, 3), {}, OF_HEADS | {"mask": "allowed"}),
    "keys shared": (MultiHeadAttention, (12, 6), {"num_kv_heads": 2}, OF_HEADS | {"num_heads": 6}),
    "rotary": (RotaryMultiHeadAttention, (12, 3), {}, OF_HEADS | {"positions": True}),
    "torch's module": (nn.MultiheadAttention, (12, 3), {"dropout": 0.1, "batch_first": True}, BY_WORDS),
    "torch's module, batch second": (nn.MultiheadAttention, (12, 3), {}, BY_TEXT | {"axes": "n batch d"}),
    "torch's layer": (
        nn.TransformerEncoderLayer, (12, 3, 16), {"batch_first": True},
        {"mask": "masked", "mask_axes": "m n", "empty_rows": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("function", "conventions"), functions.values(), ids=list(functions))
def test_no_law_is_broken_by_a_sound_function(function, conventions):
    assert findings(check_attention, function, **conventions) == {}


@pytest.mark.parametrize(("kind", "sizes", "options", "conventions"), layers.values(), ids=list(layers))
def test_no_law_is_broken_by_a_sound_layer_and_it_stays_as_it_was(kind, sizes, options, conventions):
    layer = drawn(kind, *sizes, **options)
    before = {name: weight.clone() for name, weight in layer.state_dict().items()}
    assert findings(check_layer, layer, 12, **conventions) == {}
    assert layer.training and all(torch.equal(before[name], weight) for name, weight in layer.state_dict().items())
    assert not any(module._forward_hooks for module in layer.modules())


def test_torchs_module_gives_nan_in_empty_rows():
    layer, call = (
        drawn(nn.MultiheadAttention, 12, 3, batch_first=True),
        lambda layer, x, m: layer(x, x, x, attn_mask=m)[0],
    )
    found = findings(check_layer, layer, 12, mask="masked", mask_axes="m n", call=call, half=False)
    assert found == {"empty rows": 11, "gradients": 11}


# ---- The patients of the clinic, as chapter 5b writes them ----------------------------------------------------------


@functools.cache
def clinic():
    """Run the cells of the clinic that define its patients."""
    names = {"math": math, "torch": torch, "nn": nn}
    exec("from attention_tutorial import *", names)
    notebook = json.loads((ROOT / "notebooks" / "05b_clinic.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and re.search(r"^class ", source, re.MULTILINE) and "repaired_" not in source:
            exec(source, names)
    return names


class Patient(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.package, self.kind = drawn(MultiHeadAttention, 12, 3), kind

    def forward(self, x, mask):
        return self.kind(self.package)(x, mask)


NAMED = {
    "Healthy": {},
    "WidthOfTheModel": {"divisor": 1},
    "NoScale": {"divisor": 2},
    "OverQueries": {"future": 5, "padding": 5},
    "SplitByView": {"heads": 9, "order": 9, "future": 9, "padding": 9},
    "MergeByView": {"heads": 9, "order": 9, "future": 9, "padding": 9, "empty rows": 9},
    "ZeroAfter": {"future": 6, "padding": 6},
    "Finite": {"empty rows": 13, "half precision": 13},
    "MinusInfinityAlone": {"empty rows": 11, "gradients": 11},
    "BooleanAdded": {"future": 8, "padding": 8, "empty rows": 8},
    "OneTooFar": {"future": 14},
}
PLACED = {"ByPlace": {}, "ByBatch": {"order": None, "texts": None}}  # with positions in front


@pytest.mark.parametrize("name", NAMED)
def test_a_patient_of_the_clinic_gets_the_name_of_its_fault(name):
    found = findings(
        check_layer, Patient(clinic()[name]), 12, num_heads=3, mask="allowed", mask_axes="m n",
        projections=" ".join(f"package.w_{part}" for part in "qkvo"),
    )  # fmt: skip
    found.pop("agreement", None)
    found.pop("large scores", None)  # of a mask that is wrong anyway
    assert found == NAMED[name]


def test_all_patients_of_the_clinic_are_examined():
    kinds = clinic()["Healthy"].__subclasses__()
    assert {"Healthy", *(kind.__name__ for kind in kinds)} == {*NAMED, *PLACED}


def test_the_class_found_online_has_its_three_defects():
    layer = drawn(clinic()["FoundOnline"], 12, 3)
    found = findings(
        check_layer, layer, 12, num_heads=3, projections="queries keys values out", mask="allowed",
        returns_weights=True, mask_axes="batch 1 m n",
    )  # fmt: skip
    assert found == {"divisor": 1, "heads": None, "agreement": None, "empty rows": 13, "half precision": 13}


@pytest.mark.parametrize("name", PLACED)
def test_positions_along_the_batch_are_found(name):
    layer = Patient(clinic()[name])
    assert findings(check_layer, layer, 12, mask="allowed", mask_axes="m n", positions=True) == PLACED[name]


# ---- The wrong answers of the exercises that are attentions ---------------------------------------------------------


def softmax_in(answer):
    """An attention around an answer that makes weights of scores."""

    def attend(query, key, value, mask):
        everything = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool)
        return answer(query @ key.mT / math.sqrt(key.size(-1)), everything if mask is None else mask) @ value

    return attend


@pytest.mark.parametrize("wrong", chapter05.SURVIVING_SOFTMAX.wrong_answers, ids=lambda wrong: wrong.message[:50])
def test_a_wrong_softmax_gets_its_name(wrong):
    mistakes = set(findings(check_attention, softmax_in(wrong.answer)).values())
    asked = (
        wrong.message == chapter05.OUTSHONE or "0 times infinity" in wrong.message
    )  # the numbers do not tell the cause
    assert mistakes == {None} if asked else mistakes & {wrong.mistake, *([] if wrong.mistake else mistakes)}


@pytest.mark.parametrize(
    "wrong",
    [*chapter02.MANY_QUERIES.wrong_answers, *chapter02.DEBUG_THE_BATCH.wrong_answers[2:]],
    ids=lambda wrong: wrong.message[:50],
)
def test_a_wrong_attention_gets_its_name(wrong):
    axes = "n d" if wrong in chapter02.MANY_QUERIES.wrong_answers else "batch heads n d"
    found = findings(check_attention, wrong.answer, mask=None, axes=axes)
    assert found and (wrong.mistake is None or wrong.mistake in found.values())


def steps(exercise, wrong, case):
    """What is recognised in a wrong answer with several heads: the mistakes of its steps, and its divisor."""
    x, w_q, w_k, w_v, w_o, h, *mask = case.inputs
    eye = torch.eye(len(w_o), dtype=torch.float64)
    output = wrong.answer(x, w_q, w_k, w_v, eye, h, *mask)
    if exercise is chapter04.MULTI_HEAD:
        x, output = x[None], output[0][None]
    allowed = mask[0][:, None] if mask else torch.ones(x.size(1), x.size(1), dtype=torch.bool).expand(1, 1, -1, -1)
    d_head = w_q.size(1) // h
    reading = recognise(Heads(x @ w_q, x @ w_k, x @ w_v, output, d_head), allowed, d_head**-0.5)
    if reading is None:
        return None
    found = {step.mistake for step in (reading.heads, reading.roles, reading.weighing) if step.words}
    return found, round(1 / reading.factor**2, 3)


def test_two_faults_at_once_are_recognised():
    exercise = chapter04.DEBUG_THE_HEADS
    batch, n, d_model, h, d_head = 2, 5, 13, 2, 3
    case = chapter04._case_to_debug(batch, n, d_model, h, d_head)
    named = [steps(exercise, wrong, case) for wrong in exercise.wrong_answers]
    split, scale, mask = {9}, d_model, {6}
    assert named[:7] == [
        (split, d_head), (set(), scale), (mask, d_head), (split, scale), (split | mask, d_head), (mask, scale),
        (split | mask, scale),
    ]  # fmt: skip


MULTI_HEAD = {
    wrong.message[:40]: wrong for wrong in chapter04.MULTI_HEAD.wrong_answers if wrong.mistake not in (None, 15)
}


@pytest.mark.parametrize("wrong", MULTI_HEAD.values(), ids=list(MULTI_HEAD))
def test_a_fault_of_several_heads_is_recognised(wrong):
    case = chapter04._projected(5, 11, 3, 2)
    found, squared_divisor = steps(chapter04.MULTI_HEAD, wrong, case)
    divisors = {1: [11], 2: [1, 9], 3: [4], 4: [1 / 11], 5: [1], 9: [2]}[wrong.mistake]  # squared
    assert found == ({wrong.mistake} & {5, 9})
    assert any(squared_divisor == pytest.approx(each, rel=1e-2) for each in divisors)


# ---- What a function can get wrong besides ---------------------------------------------------------------------------


def blockwise(query, key, value, rescale):
    """A softmax over blocks of two keys; what was summed before a new largest score must be rescaled."""
    top, total, output = torch.tensor(-math.inf), torch.zeros(()), torch.zeros(())
    for keys, values in zip(key.split(2, -2), value.split(2, -2), strict=True):
        scores = query @ keys.mT / query.size(-1) ** 0.5
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        old, new = (top - higher).exp() if rescale else 1, (scores - higher).exp()
        top, total, output = (
            higher,
            total * (top - higher).exp() + new.sum(-1, keepdim=True),
            output * old + new @ values,
        )
    return output / total


def masked_by(change):
    return lambda q, k, v, mask: softmax_in(chapter05.SURVIVING_SOFTMAX.right)(
        q, k, v, None if mask is None else change(mask)
    )


faulty = {
    "blocks": (functools.partial(blockwise, rescale=True), None, {}),
    "blocks, not rescaled": (functools.partial(blockwise, rescale=False), None, {"rows": None}),
    "columns made one": (
        lambda q, k, v: (w := (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)) / w.sum(-2, keepdim=True) @ v, None,
        {"rows": None},
    ),
    "mask transposed": (masked_by(lambda mask: mask.mT), "allowed", {"future": None, "padding": 12}),
    "mask without effect": (masked_by(lambda mask: mask | True), "allowed", {"future": 14, "padding": None}),
    "keys cut": (lambda q, k, v: sdpa(q, k[..., : q.size(-2), :], v[..., : q.size(-2), :]), None, {"lengths": None}),
    "dropout in evaluation": (lambda q, k, v: sdpa(q, k, v, dropout_p=0.5), None, {"output": None}),
    "mask lost in training": (
        lambda q, k, v, mask: sdpa(q, k, v, None if torch.is_grad_enabled() else mask), "allowed", {"evaluation": 14}
    ),
    "without gradients": (lambda q, k, v: sdpa(q.detach(), k.detach(), v.detach()), None, {"gradients": None}),
}  # fmt: skip


@pytest.mark.parametrize(("function", "mask", "laws"), faulty.values(), ids=list(faulty))
def test_what_a_function_gets_wrong_is_found(function, mask, laws):
    found = findings(check_attention, function, mask=mask)
    assert bool(found) == bool(laws) and found | laws == found


def scaled(q, k):
    return q @ k.mT / q.size(-1) ** 0.5


recognised = {
    "the keys are averaged, not the values": lambda q, k, v: scaled(q, k).softmax(-1) @ k,
    "queries and keys are swapped": lambda q, k, v: scaled(k, q).softmax(-1) @ v,
    "the queries serve as keys": lambda q, k, v: scaled(q, q).softmax(-1) @ v,
    "runs over the heads": lambda q, k, v: scaled(q, k).softmax(1) @ v,
    "runs over the texts of the batch": lambda q, k, v: scaled(q, k).softmax(0) @ v,
    "the whole matrix at once": lambda q, k, v: scaled(q, k).flatten(2).softmax(-1).view_as(q @ k.mT) @ v,
    "the softmax is taken twice": lambda q, k, v: scaled(q, k).softmax(-1).softmax(-1) @ v,
    "the scores themselves are the weights": lambda q, k, v: scaled(q, k) @ v,
    "the output is not rescaled": functools.partial(blockwise, rescale=False),
    "at each word the heads look at one another": lambda *qkv: sdpa(*(x.transpose(1, 2) for x in qkv)).transpose(1, 2),
    "none of the mistakes that this check tries": lambda q, k, v: scaled(q, k).softmax(-1) @ (2 * v.roll(1, -1)),
    "scores are divided by their sum": lambda q, k, v: (s := scaled(q, k)) / s.sum(-1, keepdim=True) @ v,
}


@pytest.mark.parametrize("words", recognised)
def test_a_wrong_step_gets_its_words(words):
    with pytest.raises(BrokenLaws) as caught:
        check_attention(recognised[words], mask=None)
    assert any(words in found.message for found in caught.value.findings)


def test_heads_repeated_in_turn_get_their_words():
    class Shared(MultiHeadAttention):
        def forward(self, x):
            q, k, v = (w(x).unflatten(-1, (-1, 2)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
            return self.w_o(sdpa(q, k.repeat(1, 3, 1, 1), v.repeat(1, 3, 1, 1)).transpose(1, 2).flatten(2))

    layer = drawn(Shared, 12, 6, num_kv_heads=2)
    assert findings(check_layer, layer, 12, num_heads=6, projections="w_q w_k w_v w_o") == {
        "heads": 10,
        "agreement": 10,
    }


# ---- What only a layer can get wrong --------------------------------------------------------------------------------


def of_three(forward, *, axis=-1, **parts):
    """A layer of three heads with a forward of its own."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out, self.start = nn.Linear(12, 36), nn.Linear(12, 12), nn.Parameter(torch.zeros(12, 12))
            self.drop = nn.Dropout(0.3)

        def attend(self, x, **options):
            q, k, v = (part.unflatten(-1, (3, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).flatten(2)

    Layer.forward = forward
    return drawn(Layer)


QKV = {"num_heads": 3, "projections": "qkv out"}
alone = {
    "sound": (lambda self, x: self.out(self.attend(x)), QKV, set()),
    "never called": (lambda self, x: self.attend(x), QKV, {"divisor", "heads", "agreement"}),
    "dropout": (lambda self, x: F.dropout(self.out(self.attend(x)), 0.3), QKV, {"output"}),
    "mask lost": (
        lambda self, x: self.drop(self.out(self.attend(x, is_causal=self.training))), QKV | {"causal": True},
        {"agreement", "future", "evaluation"},
    ),
    "low, not hidden": (
        lambda self, x: self.out(self.attend(x, attn_mask=-30 * torch.ones(len(x[0]), len(x[0])).triu(1).to(x.dtype))),
        QKV | {"causal": True}, {"large scores"},
    ),
    "words first": (
        lambda self, x: self.out(self.attend(x.transpose(0, 1)).transpose(0, 1).flatten(0, 1)).view_as(x),
        QKV | {"axes": "n batch d"}, set(),
    ),
    "zeros, which show nothing": (
        lambda self, x: F.linear(self.out(self.attend(x, is_causal=True)), self.start), QKV | {"causal": True}, set(),
    ),
    "a gradient alone": (
        lambda self, x: self.out(self.attend(x, is_causal=True)) + x.flip(1) - x.flip(1).detach(),
        QKV | {"causal": True}, {"future", "gradients"},
    ),
    "along the batch": (lambda self, x: self.out(self.attend(x.transpose(0, 1)).transpose(0, 1)), {}, {"texts"}),
    "detached": (lambda self, x: self.out(self.attend(x.detach())) + x, QKV, {"gradients"}),
    "a tuple": (lambda self, x: (self.out(x), None), {}, {"output"}),
}  # fmt: skip


@pytest.mark.parametrize(("forward", "conventions", "laws"), alone.values(), ids=list(alone))
def test_what_a_layer_alone_can_get_wrong_is_found(forward, conventions, laws):
    assert set(findings(check_layer, of_three(forward), 12, **conventions)) == laws


def through(change):
    """A layer that changes its mask before it uses it, and gives zeros where no key is left."""

    def forward(self, x, mask):
        seen = torch.ones(len(x), x.size(1), x.size(1), dtype=torch.bool) if mask is None else change(mask)
        some = seen.any(-1, keepdim=True)
        return self.out(self.attend(x, attn_mask=(seen | ~some)[:, None]) * some)

    return forward


masks = {
    "sound": (lambda mask: mask, {}),
    "read the wrong way round": (lambda mask: ~mask, {"future": 7, "padding": 7}),
    "the mask has no effect": (lambda mask: mask | True, {"future": 14, "padding": None}),
    "hides words as queries": (lambda mask: mask.mT, {"padding": 12}),
    "one diagonal too wide": (lambda mask: mask.roll(-1, -2) | mask, {"future": 14}),
    "hides more than it should": (lambda mask: mask.roll(1, -1) & mask, {"padding": None}),
    "masked keys keep some weight": (lambda mask: mask.roll(1, -1), {"padding": None}),
}


@pytest.mark.parametrize(
    ("message", "change", "laws"), [(name, *rest) for name, rest in masks.items()], ids=list(masks)
)
def test_what_a_layer_does_to_a_mask_is_told_without_its_projections(message, change, laws):
    with contextlib.nullcontext() if not laws else pytest.raises(BrokenLaws) as caught:
        check_layer(of_three(through(change)), 12, mask="allowed", half=False, empty_rows=False)
    for law, mistake in laws.items():
        (found,) = [found for found in caught.value.findings if found.law == law]
        assert (found.mistake, message in found.message) == (mistake, True)


def test_a_layer_that_changes_its_input_is_told():
    with pytest.raises(BrokenLaws, match="it changes its arguments"):
        check_layer(of_three(lambda self, x: self.out(self.attend(x.mul_(2)))), 12)


def test_a_mask_that_does_not_meet_the_heads_is_told():
    layer = of_three(lambda self, x, mask: self.attend(x, attn_mask=mask))
    with pytest.raises(BrokenLaws, match=r"Write mask\[:, None\]"):
        check_layer(layer, 12, mask="allowed")


def test_a_triangle_turned_round_is_told_without_projections():
    layer = of_three(lambda self, x: self.attend(x, attn_mask=torch.ones(len(x[0]), len(x[0])).triu().bool()))
    with pytest.raises(BrokenLaws, match=r"the future in place of the past"):
        check_layer(layer, 12, causal=True)


# ---- What the check does itself is nobody's fault, and what it was not told has a flag -------------------------------


def built(change=lambda layer, q, k, v: (q, k, v), weigh=lambda scores: scores.softmax(-1), p=0):
    """A forward from a change of queries, keys and values (batch, 3, n, 4), weights of scores, and dropout."""

    def forward(layer, x):
        q, k, v = (part.unflatten(-1, (3, -1)).transpose(1, 2) for part in layer.qkv(x).chunk(3, -1))
        q, k, v = change(layer, q, k, v)
        layer.weights = weigh(scaled(q, k))  # it keeps them, as many layers do
        return F.dropout(layer.out((layer.weights @ v).transpose(1, 2).flatten(2)), p, layer.training)

    return forward


def rotary(axis):
    return lambda layer, q, k, v: (*(apply_rotary(x.transpose(axis, 2)).transpose(axis, 2) for x in (q, k)), v)


def within(mask, slope=0):
    """The softmax under a mask of (m, n), of scores that fall with the distance, as in ALiBi."""

    def weigh(scores):
        places = torch.arange(scores.size(-1), dtype=scores.dtype)
        scores = scores + slope * (places - places[:, None])
        return scores.masked_fill(~mask(scores.size(-2), scores.size(-1)), -torch.inf).softmax(-1)

    return weigh


def zeros_at_padding(layer, x, mask):
    y = layer.out(layer.attend(x, attn_mask=None if mask is None else mask[:, None, None]))
    return y if layer.training or mask is None else y * mask[..., None]


def shifted(layer, x):
    return layer.out(layer.attend(x + layer.phases.imag[: x.size(1), None].to(x)))


def prepared(forward, *, small=False, kept=False):
    layer = of_three(forward)
    layer.q_norm, layer.k_norm, layer.same = nn.RMSNorm(4), nn.RMSNorm(4), nn.Identity()
    layer.register_buffer("phases", torch.polar(torch.ones(8), torch.arange(8.0)))
    for weight in layer.parameters() if small else ():
        weight.data *= 0.05
    if kept:
        layer.qkv.register_forward_hook(lambda module, inputs, output: setattr(module, "kept", [{"output": output}]))
        layer(torch.ones(2, 4, 12))
    return layer


def normalised(layer, q, k, v):
    return layer.q_norm(q), layer.k_norm(k), layer.same(v)


def dealt_values(layer, q, k, v):
    return q, k, v.transpose(1, 2).flatten(2).unflatten(-1, (4, 3)).permute(0, 3, 1, 2)


triangle, window = within(causal_mask), within(functools.partial(sliding_window_mask, window=3))
CAUSAL, PLACES, BY_NORMS = {"causal": True}, {"positions": True}, QKV | {"projections": "q_norm k_norm same out"}
PADDED = {"mask": "allowed", "mask_axes": "batch n", "empty_rows": False, "half": False}
said = {
    "used once": (prepared(built(), kept=True), QKV, None),
    "complex buffers": (prepared(shifted), PLACES, None),
    "zeros at padding, in evaluation": (prepared(zeros_at_padding), PADDED, None),
    "rotary": (prepared(built(rotary(2), triangle), small=True), PLACES | CAUSAL, None),
    "rotary, both ways": (prepared(built(rotary(2)), small=True), PLACES, None),
    "distances": (prepared(built(weigh=within(causal_mask, 0.5)), small=True), PLACES | CAUSAL, None),
    "normalised": (prepared(built(normalised)), BY_NORMS, None),
    "rotary over heads": (prepared(built(rotary(1), triangle)), PLACES | CAUSAL, "words have no order"),
    "rotary over heads, both ways": (prepared(built(rotary(1))), PLACES, "words have no order"),
    "no positions": (prepared(built(weigh=triangle)), PLACES | CAUSAL, "words have no order"),
    "values dealt": (prepared(built(dealt_values)), QKV, r"the features of values are split as \(d h\)"),
    "over heads": (prepared(built(weigh=lambda scores: scores.softmax(1))), QKV, "softmax runs over the heads"),
    "zeros after": (
        prepared(built(weigh=lambda s: s.softmax(-1).tril())), CAUSAL, "not treated alike: .* after the softmax, or"
    ),
    "one too wide": (
        prepared(built(weigh=within(lambda m, n: sliding_window_mask(m, n + 1, 3)[:, :n]))), CAUSAL, "one of the future"
    ),
    "causal": (prepared(built(weigh=triangle)), {}, "Then say causal=True"),
    "causal, and a mask": (
        prepared(lambda layer, x, mask: layer.out(layer.attend(x, attn_mask=causal_mask(x.size(1)) & (
            torch.tensor(True) if mask is None else mask[:, None, None])))), PADDED | PLACES, "Then say causal=True"
    ),
    "window": (prepared(built(weigh=window)), CAUSAL, "causal=lambda m, n: sliding_window_mask"),
    "positions": (prepared(built(rotary(2), triangle)), QKV | CAUSAL, "say positions=True"),
    "num_heads": (prepared(built()), QKV | {"num_heads": 2}, "does with num_heads=3"),
    "d_model": (prepared(built()), {"d_model": 8}, "d_model=8"),
    "projections": (prepared(built()), QKV | {"projections": "out qkv out"}, "do projections name those of queries"),
    "mask_axes": (prepared(zeros_at_padding), PADDED | {"mask_axes": "m n"}, "mask_axes='m n' wrong"),
    "axes": (nn.MultiheadAttention(12, 3), {"call": lambda layer, x: layer(x, x, x)[0]}, "axes='n batch d'"),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "conventions", "message"), said.values(), ids=list(said))
def test_a_sound_layer_is_not_blamed_and_a_fault_or_a_forgotten_flag_is_named(layer, conventions, message):
    with pytest.raises(BrokenLaws) if message else contextlib.nullcontext() as caught:
        check_layer(layer, **{"d_model": 12} | conventions)
    assert not message or any(re.search(message, str(found)) for found in caught.value.findings)


@pytest.mark.parametrize("seed", range(12))
def test_dropout_that_is_a_number_is_no_fault(seed):
    for p in (0.1, 0.001):
        torch.manual_seed(seed)
        assert findings(check_layer, of_three(built(p=p)), 12, **QKV) == {}


impossible = {
    "a lock": (lambda layer: vars(layer).update(lock=threading.Lock()), "could not make it: TypeError: cannot pickle"),
    "lazy": (lambda layer: vars(layer)["_modules"].update(qkv=nn.LazyLinear(36)), "lazy modules, .*: call it once"),
    "no numbers": (lambda layer: layer.to("meta"), "could not move that copy to the CPU and to torch.float64"),
    "quantized": (
        lambda layer: torch.ao.quantization.quantize_dynamic(layer, {nn.Linear}),
        "computes in float64 on the CPU, and there your code raised .* As it is, it runs: .* before it is quantized",
    ),
    "a function of it": (lambda layer: lambda x: layer(x), "As it is, it runs: hand over the layer itself"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*quantized tensor creation")
@pytest.mark.parametrize(("change", "message"), impossible.values(), ids=list(impossible))
def test_what_the_check_cannot_do_is_not_a_broken_law(change, message):
    layer = of_three(built())
    with pytest.raises(RuntimeError, match=message):
        check_layer(change(layer) or layer, 12)


@pytest.mark.parametrize("fill", [-30.0, -1e4, -3e4, -1e9])
def test_a_fill_is_told_by_what_it_gives(fill):
    filled, added = (
        softmax_in(lambda scores, mask: scores.masked_fill(~mask, fill).softmax(-1)),
        softmax_in(lambda scores, mask: (scores + torch.where(mask, 0.0, fill)).softmax(-1)),
    )
    for function, told in ((filled, "got equal weights"), (added, "in a row that may see no key nothing is hidden")):
        with pytest.raises(BrokenLaws, match="if no query is ever without a key, say empty_rows=False") as caught:
            check_attention(function, half=False)
        assert told in caught.value.findings[0].message and caught.value.findings[0].mistake == 13


def test_a_triangle_aligned_upper_left_is_found_and_a_forgotten_one_has_a_flag():
    for named, message in ((CAUSAL, "aligned upper left.*cross=False"), ({}, "yours does with causal=True")):
        with pytest.raises(BrokenLaws) as caught:
            check_attention(functools.partial(sdpa, is_causal=True), mask=None, **named)
        assert re.search(message, str(caught.value.findings[0]), re.DOTALL)


# ---- The forms ------------------------------------------------------------------------------------------------------


def no_root(query, key, value):
    return (query @ key.mT).softmax(dim=-1) @ value


def test_a_divisor_is_told_to_three_digits_on_the_smallest_input():
    for divisor in (1.0, 1.234, 9.87):
        with pytest.raises(BrokenLaws) as caught:
            check_attention(lambda q, k, v, divisor=divisor: (q @ k.mT / divisor).softmax(-1) @ v, mask=None)
        found = caught.value.findings[0]
        assert f"divided by {divisor:.3g}" in found.message and "expected 2 (√d_k)" in found.message
        assert found.example["query"].shape[:3] == (1, 1, 2) and "expected" in found.place


@pytest.mark.parametrize(("factor", "told"), [(-0.5, "the sign of the scores is turned"), (0, "the same weight")])
def test_scores_that_are_turned_or_left_out_are_told(factor, told):
    with pytest.raises(BrokenLaws, match=told):
        check_attention(lambda q, k, v: (factor * q @ k.mT).softmax(-1) @ v, mask=None)


def test_laws_are_asked_one_by_one():
    laws = {str(law): law for law in check_attention(no_root, mask=None, collect=True)}
    laws.pop("rows")()
    with pytest.raises(BrokenLaws, match="they are not scaled"):
        laws["divisor"]()


def test_the_page_lists_the_laws_and_their_sections_exist():
    asked = [
        *check_attention(F.scaled_dot_product_attention, collect=True),
        *check_layer(of_three(alone["sound"][0]), 12, **QKV, collect=True),
    ]
    listed = dict(re.findall(r"^\| ([a-z ]+) \| .*\? .*?\| ([\da-z.]+) \|$|", PAGE, re.MULTILINE))
    listed.pop("", None)
    assert {law.name: law.section for law in asked} == listed
    headings = {
        match[1] for path in chapters() for match in re.finditer(r'"## (\w+\.\d+) ', path.read_text(encoding="utf-8"))
    }
    assert set(listed.values()) <= headings


def blocks():
    """The page's code, and what it says that each piece prints."""
    fences = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    pairs = [
        (code, said if after == "text" else "")
        for (kind, code), (after, said) in itertools.pairwise([*fences, ("", "")])
        if kind == "python"
    ]
    assert len(pairs) == 5 and sum(bool(said) for _, said in pairs) == PAGE.count("```text") == 4
    return pairs


def test_what_the_page_says_is_what_its_code_says():
    names = {}
    for code, said in blocks():
        *statements, last = ast.parse(code).body
        exec(compile(ast.Module(statements, []), "page", "exec"), names)
        if not said:
            continue
        try:
            shown = repr(eval(compile(ast.Expression(last.value), "page", "eval"), names))
        except BrokenLaws as broken:
            shown = str(broken)
        assert shown == said.rstrip("\n")


def test_the_command_says_the_same(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_own_attention.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def no_root(q, k, v):\n    return (q @ k.mT).softmax(-1) @ v\n"
        "layer, lazy = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), nn.LazyLinear(8)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["my_own_attention:no_root", "mask=None"]) == 1
    assert "your scores are 2 times too large" in capsys.readouterr().out
    assert main(["my_own_attention:layer", "d_model=8", "half=False"]) == 0
    assert capsys.readouterr().out.startswith("6 laws hold: output, order, texts")
    assert main(["my_own_attention:lazy", "d_model=8"]) == 2
    assert capsys.readouterr().err.startswith("layer has lazy modules")
    assert main(["my_own_attention:missing"]) == 2
    assert capsys.readouterr().err.startswith("usage: python -m attention_tutorial.testing module:object")


@pytest.mark.parametrize(
    ("check", "named", "message"),
    [
        (check_attention, {"mask": "blocked"}, r"mask must be 'allowed', 'masked', 'added' or None; got 'blocked'"),
        (check_attention, {"axes": "batch d"}, r"axes must be some of 'batch heads n d', with 'n d'; got 'batch d'"),
        (check_layer, {"d_model": 12, "axes": "n heads d"}, r"axes must be some of 'batch n d'"),
        (
            check_layer,
            {"d_model": 12, "mask_axes": "b n"},
            r"mask_axes must be some of 'batch heads 1 m n', with 'n'; got",
        ),
        (check_layer, {"d_model": 12, "projections": "q k"}, r"expected some of qkv, out, drop; got 'q k'"),
        (check_layer, {"d_model": 0}, r"d_model must be at least 1; got 0"),
        (check_layer, {"d_model": 12, "num_heads": 0}, r"num_heads must be at least 1; got 0"),
    ],
)
def test_a_wrong_convention_is_named(check, named, message):
    with pytest.raises(ValueError, match=message):
        check(of_three(alone["sound"][0]), **named)


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        (check_attention, (3,), "attention must be callable; got int"),
        (check_layer, ("layer", 12), "layer must be callable; got str"),
    ],
)
def test_what_cannot_be_called_is_named(check, arguments, message):
    with pytest.raises(TypeError, match=message):
        check(*arguments)
    with pytest.raises(TypeError, match="causal must be True or False; got str"):
        check_attention(no_root, causal="yes")
