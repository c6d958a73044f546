"""Laws of the recurrent networks and of the encoder-decoder.

The oracles are loops over single numbers and torch's own modules.
"""

import copy
import math
import pickle

import pytest
import torch
from oracles import assert_raises, loop_softmax, mistakes
from torch import nn

from attention_tutorial.models.seq2seq import ATTENTION_KINDS, GRU, RNN, Seq2Seq

# Every axis has its own size, so that a transposed axis cannot hide.
BATCH, N, M, VOCAB, D_EMBEDDING, D_HIDDEN, D_ATTENTION = 2, 5, 3, 11, 7, 13, 17


def make(attention, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    sizes = {"d_embedding": D_EMBEDDING, "d_hidden": D_HIDDEN, "d_attention": D_ATTENTION}
    return Seq2Seq(VOCAB, **sizes, attention=attention, generator=generator).to(dtype)


def draw(generator, n=N, m=M, batch=BATCH):
    source = torch.randint(1, VOCAB, (batch, n), generator=generator)
    target_in = torch.randint(0, VOCAB, (batch, m), generator=generator)
    return source, target_in


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def gru_by_hand(net, inputs, state):
    """One sequence, one number at a time, from the formula of Cho et al."""
    w, u, b, d = net.w.tolist(), net.u.tolist(), net.b.tolist(), len(state)
    states = []
    for x in inputs:
        r = [sigmoid(dot(w[k], x) + dot(u[k], state) + b[k]) for k in range(d)]
        z = [sigmoid(dot(w[d + k], x) + dot(u[d + k], state) + b[d + k]) for k in range(d)]
        new = [math.tanh(dot(w[2 * d + k], x) + r[k] * dot(u[2 * d + k], state) + b[2 * d + k]) for k in range(d)]
        state = [(1 - z[k]) * new[k] + z[k] * state[k] for k in range(d)]
        states.append(state)
    return states


def forward_by_hand(model, source, target_in, open_edges=None):
    """The whole model for one sequence, step by step; returns nested lists of logits and weights."""
    table = model.embedding.weight.tolist()
    h = gru_by_hand(model.encoder, [table[t] for t in source], [0.0] * D_HIDDEN)
    all_logits, all_weights, s = [], [], h[-1]
    for i, token in enumerate(target_in):
        (s,) = gru_by_hand(model.decoder, [table[token]], s)
        if model.attention == "none":
            context, weights = h[-1], None
        else:
            if model.attention == "dot":
                scores = [dot(s, h_j) for h_j in h]
            else:
                w, u, v = (p.tolist() for p in (model.score.w_query, model.score.w_key, model.score.v))
                scores = [
                    math.fsum(v[k] * math.tanh(dot(w[k], s) + dot(u[k], h_j)) for k in range(D_ATTENTION)) for h_j in h
                ]
            if open_edges is not None:
                scores = [score if is_open else -math.inf for score, is_open in zip(scores, open_edges[i], strict=True)]
            weights = loop_softmax(scores)
            context = [math.fsum(a * h_j[k] for a, h_j in zip(weights, h, strict=True)) for k in range(D_HIDDEN)]
        w_out, b_out = model.readout.weight.tolist(), model.readout.bias.tolist()
        all_logits.append([dot(row, s + context) + b for row, b in zip(w_out, b_out, strict=True)])
        all_weights.append(weights)
    return all_logits, all_weights


# Recurrent networks


@pytest.mark.parametrize("kind", [RNN, GRU])
def test_recurrent_network_agrees_with_torch(kind, generator):
    ours = kind(D_EMBEDDING, D_HIDDEN, generator=generator).double()
    theirs = getattr(nn, kind.__name__)(D_EMBEDDING, D_HIDDEN, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.w)
        theirs.weight_hh_l0.copy_(ours.u)
        theirs.bias_ih_l0.copy_(ours.b)
        theirs.bias_hh_l0.zero_()
    x = torch.rand(BATCH, N, D_EMBEDDING, generator=generator, dtype=torch.float64)
    state = torch.rand(BATCH, D_HIDDEN, generator=generator, dtype=torch.float64)
    for first in (None, state):
        states, last = ours(x, first)
        expected, expected_last = theirs(x, None if first is None else first[None])
        torch.testing.assert_close(states, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(last, expected_last[0], rtol=0, atol=1e-12)


# The encoder-decoder


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_forward_agrees_with_loop_over_numbers(kind, masked, generator):
    model = make(kind)
    source, target_in = draw(generator)
    masked = masked and kind != "none"
    mask = torch.rand(BATCH, M, N, generator=generator) < (0.6 if masked else 2)
    mask[..., 0] = True
    logits, weights = model(source, target_in, mask if masked else None)
    assert logits.shape == (BATCH, M, VOCAB)
    for b in range(BATCH):
        expected, expected_weights = forward_by_hand(model, source[b].tolist(), target_in[b].tolist(), mask[b].tolist())
        torch.testing.assert_close(logits[b], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
        if kind != "none":
            expected_weights = torch.tensor(expected_weights, dtype=torch.float64)
            torch.testing.assert_close(weights[b], expected_weights, rtol=0, atol=1e-12)
    assert (weights is None) == (kind == "none")


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_generate_equals_the_loop(kind, generator):
    model = make(kind)
    source, _ = draw(generator, batch=4)
    tokens, weights = model.generate(source, 6)
    for b in range(4):
        written, rows = [0], []
        for i in range(6):
            logits, all_rows = forward_by_hand(model, source[b].tolist(), written)
            rows.append(all_rows[i])
            written.append(max(range(VOCAB), key=logits[i].__getitem__))
        assert tokens[b].tolist() == written[1:]
        if kind != "none":
            torch.testing.assert_close(weights[b], torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (weights is None) == (kind == "none")


def test_the_switch_adds_only_the_scores_parameters():
    sizes = {kind: sum(p.numel() for p in make(kind).parameters()) for kind in ATTENTION_KINDS}
    assert sizes["none"] == sizes["dot"]
    assert sizes["additive"] - sizes["dot"] == 2 * D_ATTENTION * D_HIDDEN + D_ATTENTION


def test_first_weights_stay_within_their_bounds():
    model = make("additive")
    for parameter, bound in (
        (model.embedding.weight, math.sqrt(3)),
        (model.encoder.w, 1 / math.sqrt(D_HIDDEN)),
        (model.decoder.u, 1 / math.sqrt(D_HIDDEN)),
        (model.score.v, 1 / math.sqrt(D_HIDDEN)),
        (model.readout.weight, 1 / math.sqrt(2 * D_HIDDEN)),
    ):
        assert 0.75 * bound < parameter.abs().max() <= bound


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_behaves_like_any_torch_module(kind, generator, device):
    model = make(kind).to(device)
    source, target_in = (ids.to(device) for ids in draw(generator))
    expected = model(source, target_in)[0]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(source, target_in)[0], expected)
    other = make(kind, seed=9).to(device)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(source, target_in)[0], expected)
    assert f"attention='{kind}'" in repr(model)
    expected.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_arguments_are_not_changed(generator):
    model = make("additive")
    source, target_in = draw(generator)
    mask = torch.ones(M, N, dtype=torch.bool)
    before = source.clone(), target_in.clone(), mask.clone()
    model(source, target_in, mask)
    model.generate(source, M)
    assert all(torch.equal(a, b) for a, b in zip(before, (source, target_in, mask), strict=True))


# What goes in wrong comes out as a message that says what


IDS = torch.ones(BATCH, N, dtype=torch.long)
MISTAKES = {
    TypeError: [
        (lambda: Seq2Seq(11.0), "vocab_size must be an int; got float"),
        (lambda: Seq2Seq(11, d_embedding=True), "d_embedding must be an int; got bool"),
        (lambda: Seq2Seq(11, attention=None), "attention must be a str; got NoneType"),
        (lambda: GRU(3, "4"), "d_hidden must be an int; got str"),
        (lambda: make("dot")([1, 2], IDS), "source must be a torch.Tensor of token ids; got list"),
        (lambda: make("dot")(IDS.int(), IDS), "source must hold token ids of dtype torch.int64; got torch.int32"),
        (lambda: make("dot").generate(IDS, 2.0), "num_steps must be an int; got float"),
        (lambda: RNN(3, 4)(torch.zeros(2, 5, 3).double()),
         "inputs and the module's weights must have the same dtype; got inputs torch.float64, the module's weights "
         "torch.float32"),
    ],
    ValueError: [
        (lambda: Seq2Seq(0), "vocab_size must be at least 1; got 0"),
        (lambda: Seq2Seq(11, attention="luong"), "attention must be one of 'none', 'additive', 'dot'; got 'luong'"),
        (lambda: make("dot")(IDS[0], IDS), "source must be (batch, n) with at least one position; got shape (5,)"),
        (lambda: make("dot")(IDS, IDS[:, :0]),
         "target_in must be (batch, m) with at least one position; got shape (2, 0)"),
        (lambda: make("none")(IDS, IDS[:1]),
         "source and target_in need the same batch size (axis 0); got source 2, target_in 1"),
        (lambda: make("none")(IDS, IDS, torch.ones(N, N, dtype=torch.bool)),
         "mask needs attention to act on; expected None with attention='none', got a mask"),
        (lambda: make("dot")(IDS, IDS[:, :3], torch.ones(5, 3, dtype=torch.bool)),
         "mask must broadcast to the scores (..., m, n); expected something that broadcasts to (2, 3, 5), got (5, 3)"),
        (lambda: make("dot").generate(IDS, 0), "num_steps must be at least 1; got 0"),
        (lambda: GRU(3, 4)(torch.zeros(2, 5, 7)),
         "inputs must be (batch, n, d_input) with at least one position and d_input=3; got shape (2, 5, 7)"),
        (lambda: RNN(3, 4)(torch.zeros(2, 0, 3)),
         "inputs must be (batch, n, d_input) with at least one position and d_input=3; got shape (2, 0, 3)"),
        (lambda: RNN(3, 4)(torch.zeros(2, 5, 3), torch.zeros(4)),
         "state must have shape (batch, d_hidden); expected (2, 4), got (4,)"),
    ],
}  # fmt: skip


@mistakes(MISTAKES)
def test_mistakes_are_named(call, error, message):
    assert_raises(call, error, message)
