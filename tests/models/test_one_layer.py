"""Laws of the one layer that is trained; tests/widgets/test_laboratory_engine.py holds the page's to it."""

import pytest
import torch
from oracles import assert_raises

from attention_tutorial.data.synthetic import SYNTHETIC_TASKS
from attention_tutorial.layers import MultiHeadAttention
from attention_tutorial.models.one_layer import OneLayer, evaluate_one_layer, train_one_layer, write_on


def sequences(name, size=5):
    task = SYNTHETIC_TASKS[name]
    generator = torch.Generator().manual_seed(0)
    return task.make(torch.rand(size, task.draws, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_multi_head_attention_between_an_embedding_and_a_read_out(causal):
    model = OneLayer("two_look_ups", heads=2, d_head=5, positions="learned", causal=causal, seed=3)
    layer = MultiHeadAttention(32, 2, 5, dtype=torch.float64)
    layer.w_o = torch.nn.Linear(10, 36, bias=False, dtype=torch.float64)
    with torch.no_grad():
        for theirs, ours in [("w_q", model.w_q), ("w_k", model.w_k), ("w_v", model.w_v), ("w_o", model.w_o)]:
            getattr(layer, theirs).weight.copy_(ours.T)
    ids, _ = sequences("two_look_ups")
    logits, weights = model(ids)
    expected = layer(model.embedding[ids] + model.positions, is_causal=causal)
    torch.testing.assert_close(logits, expected[0])
    torch.testing.assert_close(weights, expected[1])


@pytest.mark.parametrize(("divisor", "number"), [("one", 1.0), ("root", 3.0), ("width", 9.0)])
def test_scores_are_divided_by_what_is_said(divisor, number):
    model = OneLayer("look_up", d_head=9, divisor=divisor)
    ids, _ = sequences("look_up")
    x = model.embedding[ids]
    scores = (x @ model.w_q) @ (x @ model.w_k).mT / number
    torch.testing.assert_close(model(ids)[1][:, 0], scores.softmax(-1))


def test_a_switch_leaves_the_rest_of_the_start_as_it_was():
    usual = OneLayer("bites", heads=1, d_head=8)
    for other in (
        OneLayer("bites", d_head=8, positions="learned", causal=True, divisor="one"),
        OneLayer("bites", heads=2, d_head=4),
        OneLayer("bites", heads=2, d_head=32),
    ):
        assert other.embedding.equal(usual.embedding)
        assert other.w_q[:, :8].equal(usual.w_q)
    assert not OneLayer("bites", seed=1).embedding.equal(usual.embedding)
    assert not usual.w_q.equal(usual.w_k)


def test_positions_are_added_and_only_learned_ones_learn():
    assert OneLayer("bites").positions.abs().max() == 0
    assert OneLayer("bites", positions="sines").positions[1, :2].tolist() == pytest.approx([0.8415, 0.5403], abs=1e-4)
    learning = {
        kind: len(list(OneLayer("bites", positions=kind).parameters())) for kind in ("none", "sines", "learned")
    }
    assert learning == {"none": 5, "sines": 5, "learned": 6}


def test_it_learns_the_same_whatever_the_default_type():
    torch.set_default_dtype(torch.float32)
    first = train_one_layer("bites", steps=3)
    torch.set_default_dtype(torch.float64)
    try:
        again = train_one_layer("bites", steps=3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert first.loss.equal(again.loss) and first.loss.dtype == torch.float64


def test_what_is_measured_is_measured_before_the_step():
    model = OneLayer("bites", seed=5)
    one, two = (train_one_layer("bites", seed=5, steps=steps) for steps in (1, 2))
    assert [len(part) for part in two[1:]] == [2, 2, 2]
    assert two.loss[0] == one.loss[0] and not two.model.w_q.equal(one.model.w_q)
    moved = (one.model.w_q - model.w_q).detach().abs().max().item()
    assert moved == pytest.approx(0.01, rel=1e-3)  # Adam's first step is the rate


def test_who_bites_whom_needs_positions():
    without, learned = (
        evaluate_one_layer(train_one_layer("bites", steps=200, positions=positions).model)
        for positions in ("none", "learned")
    )
    assert without[1] < 0.6 and learned[1] > 0.95


def test_without_the_mask_a_loss_is_too_good_and_the_writing_bad():
    prompt = sequences("write_on", 50)[0]
    written = {}
    for causal in (True, False):
        model, loss, *_ = train_one_layer("write_on", steps=200, positions="sines", causal=causal, seed=1)
        written[causal] = loss[-1], (write_on(model, prompt[:, :3], 9) == prompt[:, 3:]).double().mean()
    assert written[True][0] > 0.37 > 0.05 > written[False][0]  # two of eleven letters are unknowable: 2 ln(8) / 11
    assert written[True][1] > 0.9 and written[False][1] < 0.3


def test_what_is_written_depends_on_the_last_letters_alone():
    model = OneLayer("write_on", causal=True, positions="learned")
    text = torch.arange(20)[None] % 8
    assert write_on(model, text, 5).equal(write_on(model, text[:, -12:], 5))
    assert write_on(model, text, 0).shape == (1, 0)


def test_what_it_cannot_do_is_said():
    kinds = ", ".join(SYNTHETIC_TASKS)
    assert_raises(lambda: OneLayer("copy"), ValueError, f"task must be one of {kinds}; got 'copy'")
    assert_raises(lambda: OneLayer("bites", divisor=8), ValueError, "divisor must be one of one, root, width; got 8")
    message = "positions must be one of none, sines, learned; got 'rotary'"
    assert_raises(lambda: OneLayer("bites", positions="rotary"), ValueError, message)
    assert_raises(lambda: OneLayer("bites", heads=0), ValueError, "heads must be at least 1; got 0")
    assert_raises(lambda: OneLayer("bites", d_head=2.0), TypeError, "d_head must be an int; got float")
    assert_raises(lambda: train_one_layer("bites", steps=0), ValueError, "steps must be at least 1; got 0")
    assert_raises(lambda: train_one_layer("bites", rate=0.0), ValueError, "rate must be above 0; got 0.0")
