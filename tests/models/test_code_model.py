"""Laws of the code model: attention with distances, a stream that heads add to, and the trained file."""

import copy
import io
import itertools
import json
import math
from collections import Counter
from importlib import resources

import pytest
import torch
import torch.nn.functional as F
from oracles import BATCH, HEADS, N, assert_raises, draw, fill, loop_softmax, mistakes

from attention_tutorial import causal_mask, scaled_dot_product_attention
from attention_tutorial.analysis.head_jobs import JOBS, copy_score
from attention_tutorial.data.byte_pairs import BEGIN, BytePairs
from attention_tutorial.layers import merge_heads, split_heads
from attention_tutorial.models.code_model import (
    CodeModel,
    DistanceAttention,
    ModelOutput,
    code_model_record,
    held_out_files,
    load_code_model,
    pack_code_model,
    unpack_code_model,
)

D_HEAD, CONTEXT = 5, 11
D_MODEL = HEADS * D_HEAD
EVERY_HEAD = [(layer, head) for layer in (1, 2) for head in range(1, HEADS + 1)]


@pytest.fixture
def attention(generator):
    return fill(DistanceAttention(D_MODEL, HEADS, CONTEXT).double(), generator, 1.0)


@pytest.fixture
def model(generator):
    """An untrained model whose numbers are large enough for every part to count."""
    tokens = BytePairs([(b"e", b"r"), (b"o", b"r")])
    return fill(CodeModel(tokens, d_model=D_MODEL, num_heads=HEADS, context=CONTEXT).double().eval(), generator)


@pytest.fixture(scope="module")
def shipped():
    return load_code_model()


def some_ids(model, generator):
    return torch.randint(len(model.tokens), (BATCH, N), generator=generator)


# ---- A layer --------------------------------------------------------------------------------------------------------


def test_weights_are_those_of_a_loop_by_hand(attention, generator):
    x = draw(generator, BATCH, N, D_MODEL)
    _, weights = attention(x)
    q, k = (F.linear(x, layer.weight).tolist() for layer in (attention.w_q, attention.w_k))
    distance = attention.distance.tolist()
    for b, head, i in itertools.product(range(BATCH), range(HEADS), range(N)):
        own = range(head * D_HEAD, (head + 1) * D_HEAD)
        row = [
            math.fsum(q[b][i][c] * k[b][j][c] for c in own) / math.sqrt(D_HEAD) + distance[head][i - j]
            for j in range(i + 1)
        ]
        expected = loop_softmax(row) + [0.0] * (N - 1 - i)
        torch.testing.assert_close(weights[b, head, i], torch.tensor(expected, dtype=torch.float64))


def test_distances_are_a_float_mask_and_heads_add_up_to_the_merged_heads(attention, generator):
    x = draw(generator, BATCH, N, D_MODEL)
    added, weights = attention(x)
    query, key, value = (split_heads(layer(x), HEADS) for layer in (attention.w_q, attention.w_k, attention.w_v))
    back = torch.arange(N)[:, None] - torch.arange(N)
    mask = attention.distance[:, back.clamp(min=0)].masked_fill(~causal_mask(N), -math.inf)
    output, expected = scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(added.sum(dim=1), attention.w_o(merge_heads(output)))


def test_queries_and_keys_may_come_from_two_inputs(attention, generator):
    x, y = draw(generator, 2, BATCH, N, D_MODEL)
    first, second = attention.weights(x, y), attention.weights(y, x)
    assert attention.weights(x, x).equal(attention(x)[1]) and not first.allclose(second)
    again = attention.weights(x, torch.cat([y[:, :-1], x[:, -1:]], dim=1))
    assert again[:, :, :-1].allclose(first[:, :, :-1]), "the last key counts for the last query alone"


# ---- A model --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(N))
def test_no_place_depends_on_a_later_token(model, generator, place):
    x = draw(generator, 1, N, D_MODEL).requires_grad_()
    model.embedding.forward = lambda ids: x  # the stream's start, for gradients to reach
    model(torch.zeros(1, N, dtype=torch.long)).logits[0, place].square().sum().backward()
    reached = x.grad[0].abs().sum(dim=1) > 0
    assert reached.tolist() == [at <= place for at in range(N)]


def test_logits_are_the_stream_of_the_parts_that_are_left(model, generator):
    """Layer by layer from the formula; a head that is taken away adds nothing, and all that follows sees it."""
    ids = some_ids(model, generator)
    for without in ((), [(1, 2)], [(2, 3)], [(1, 1), (2, 1), (2, 2)], EVERY_HEAD):
        x = F.embedding(ids, model.embedding.weight)
        for number, (norm, layer) in enumerate(zip(model.norms, model.layers, strict=True), start=1):
            seen = F.layer_norm(x, (D_MODEL,), norm.weight, norm.bias)
            mixed = layer.weights(seen, seen) @ split_heads(layer.w_v(seen), HEADS)
            for h in range(HEADS):
                if (number, h + 1) in without:
                    mixed[:, h] = 0
            x = x + layer.w_o(merge_heads(mixed))
        x = F.layer_norm(x, (D_MODEL,), model.last_norm.weight, model.last_norm.bias)
        torch.testing.assert_close(model(ids, without).logits, F.linear(x, model.embedding.weight))


def test_what_heads_would_add_is_told_of_those_that_are_taken_away_too(model, generator):
    ids = some_ids(model, generator)
    whole, less = model(ids), model(ids, without=[(1, 2), (2, 1)])
    assert [part.shape for part in whole.added] == [(BATCH, HEADS, N, D_MODEL)] * 2
    assert [part.shape for part in whole.weights] == [(BATCH, HEADS, N, N)] * 2
    assert less.added[0].equal(whole.added[0]) and less.weights[0].equal(whole.weights[0])
    assert less.added[1][:, 0].any() and not less.added[1].allclose(whole.added[1])


def test_a_copy_and_a_saved_model_compute_the_same(model, generator):
    ids, file = some_ids(model, generator), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert other(ids).logits.equal(model(ids).logits)


# ---- Writing --------------------------------------------------------------------------------------------------------


def test_the_first_of_one_is_the_most_likely_token_every_time(model):
    text, ids = "", [BEGIN, *model.tokens.encode("never")]
    for _ in range(CONTEXT + 4):  # longer than the context: the model then sees its last tokens after the beginning
        recent = ids if len(ids) <= CONTEXT else [BEGIN, *ids[-(CONTEXT - 1) :]]
        ids.append(int(model(torch.tensor([recent])).logits[0, -1].argmax()))
    text = model.tokens.decode(ids[1 + len(model.tokens.encode("never")) :])
    assert model.write("never", CONTEXT + 4, top_k=1, temperature=7.0) == text
    assert model.write("never", 0) == ""


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_colder_it_writes_the_likelier_every_token_is(shipped, dtype):
    model = copy.deepcopy(shipped).to(dtype)
    texts = {model.write("    def __init__(", 2, temperature=cold) for cold in (1e-6, 1e-37, 1e-39, 1e-46, 5e-324)}
    assert texts == {"self, "}


def test_with_a_context_of_one_a_model_sees_the_beginning_alone(generator):
    model = fill(CodeModel(BytePairs([]), d_model=D_MODEL, num_heads=HEADS, context=1), generator)
    best = int(model(torch.tensor([[BEGIN]])).logits[0, -1].argmax())
    assert model.write("never", 3, top_k=1) == model.write("", 3, top_k=1) == model.tokens.decode([best] * 3)


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.5, None), (1.5, 4)])
def test_draws_have_the_probabilities_of_the_formula(temperature, top_k, generator):
    """1,500 draws of one token: each share is within 4.5 standard errors of softmax(logits / T) over the largest."""
    model = CodeModel(BytePairs([]), d_model=8, num_heads=2, context=9)
    logits = torch.full((257,), -99.0)
    logits[66:72] = 4 * torch.randn(6, generator=generator)
    model.forward = lambda ids, without=(): ModelOutput(logits[None, None], (), ())
    draws = Counter(model.write("", 1, temperature=temperature, top_k=top_k, generator=generator) for _ in range(1500))
    allowed = logits >= logits.topk(top_k or 257).values[-1]
    for i, p in enumerate((logits / temperature).where(allowed, -torch.inf).softmax(dim=0).tolist()):
        assert abs(draws[model.tokens.text(i)] / 1500 - p) <= 4.5 * math.sqrt(p * (1 - p) / 1500) + 1e-9
    assert sum(draws.values()) == 1500


def test_the_same_generator_writes_the_same_and_heads_that_are_off_do_not_write(model):
    def write(seed, **options):
        return model.write("no", 20, generator=torch.Generator().manual_seed(seed), **options)

    assert write(1) == write(1) != write(2)
    ids = [BEGIN, *model.tokens.encode("no")]
    for _ in range(4):
        ids.append(int(model(torch.tensor([ids]), without=EVERY_HEAD).logits[0, -1].argmax()))
    assert model.write("no", 4, top_k=1, without=EVERY_HEAD) == model.tokens.decode(ids[3:])


# ---- The file -------------------------------------------------------------------------------------------------------


def test_a_packed_model_is_the_same_but_for_half_precision(model):
    again = unpack_code_model(json.loads(json.dumps(pack_code_model(model))), torch.float64)
    assert again.tokens.merges == model.tokens.merges and again.context == CONTEXT and not again.training
    for name, tensor in model.state_dict().items():
        assert again.state_dict()[name].equal(tensor.half().double()), name
    assert pack_code_model(again) == pack_code_model(model)


def test_the_shipped_file_is_small_and_complete(shipped):
    path = resources.files("attention_tutorial.models").joinpath("trained", "code_model.json")
    assert path.stat().st_size < 1_200_000
    record = {name: part for name, part in code_model_record().items() if name != "origin"}
    assert pack_code_model(load_code_model(torch.float64)) == record
    assert all(parameter.dtype == torch.get_default_dtype() for parameter in shipped.parameters())
    assert len(shipped.tokens) == 1024 and len(shipped.layers) == 2 and not shipped.training


@torch.no_grad()
def test_the_shipped_model_predicts_code_that_it_never_saw(shipped):
    """In bits per byte, tokens with half a context before them; gzip needs 2.1 on such files."""
    rows, half = [], shipped.context // 2
    for text in held_out_files().values():
        ids = shipped.tokens.encode(text)
        rows += [[BEGIN, *ids[at : at + shipped.context]] for at in range(0, len(ids) - shipped.context, 2048)]
    ids = torch.tensor(rows)
    loss = F.cross_entropy(shipped(ids[:, :-1]).logits.transpose(1, 2), ids[:, 1:], reduction="none")[:, -half:]
    size = sum(len(shipped.tokens.contents[i]) for row in rows for i in row[-half:])
    assert 1.0 < float(loss.sum()) / math.log(2) / size < 1.9


def test_the_shipped_model_copies_and_not_without_its_head(shipped, generator):
    score = copy_score(shipped, 8, 64, generator)
    assert score.target.max() > JOBS["copy"][1] and score.target.max() > 2 * score.decoy.max()
    text = "def frobnicate(wug, blicket):\n    return frobnicate(w"
    assert shipped.write(text, 2, top_k=1) == "ug"
    assert shipped.write(text, 2, top_k=1, without=[score.best()]) != "ug"


TINY = CodeModel(BytePairs([]), d_model=8, num_heads=2, context=9)


@mistakes({
    TypeError: [
        (lambda: CodeModel("tokens"), "tokens must be a BytePairs; got str"),
        (lambda: CodeModel(BytePairs([]), num_layers=2.0), "num_layers must be an int; got float"),
        (lambda: TINY.encode(5), "text must be a str; got int"),
        (lambda: TINY([1]), "ids must be a torch.Tensor of token ids; got list"),
        (lambda: TINY(torch.ones(1, 2)), "ids must hold token ids of dtype torch.int64; got torch.float32"),
        (lambda: TINY.write("a", 2.5), "length must be an int; got float"),
        (lambda: pack_code_model("model"), "model must be a CodeModel; got str"),
    ],
    ValueError: [
        (lambda: CodeModel(BytePairs([]), num_heads=3), "num_heads must divide d_model=128; got 3"),
        (lambda: CodeModel(BytePairs([]), num_layers=0), "num_layers must be at least 1; got 0"),
        (lambda: DistanceAttention(8, 2, 0), "context must be at least 1; got 0"),
        (lambda: DistanceAttention(8, 2, 4)(torch.zeros(1, 5, 8)), "x must have at most 4 positions; got (1, 5, 8)"),
        (lambda: TINY.encode("a" * 9), "text must have at most 8 tokens; got 9"),
        (lambda: TINY(torch.zeros(1, 10, dtype=torch.long)), "ids must be (batch, n) with n at most 9; got (1, 10)"),
        (lambda: TINY(TINY.encode("a"), without=[(1, 0)]),
         "without must hold (layer, head) from (1, 1) to (2, 2); got (1, 0)"),
        (lambda: TINY.write("a", without=(2, 1)), "without must hold (layer, head) from (1, 1) to (2, 2); got 2"),
        (lambda: TINY.write("a", temperature=0.0), "temperature must be above 0; got 0.0"),
        (lambda: TINY.write("a", top_k=0), "top_k must be at least 1; got 0"),
    ],
})  # fmt: skip
def test_a_mistake_is_explained(call, error, message):
    assert_raises(call, error, message)
