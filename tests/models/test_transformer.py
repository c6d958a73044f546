"""Laws of the Transformer and of greedy decoding. The oracles: torch's own layers, and masks by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from oracles import assert_raises, draw, mistakes
from torch import nn
from torch.testing import assert_close

from attention_tutorial.models.decoding import greedy
from attention_tutorial.models.transformer import BEGIN, END, PAD, DecoderLayer, EncoderLayer, Transformer
from attention_tutorial.positions import sinusoidal_positions

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
BATCH, N, M, D_MODEL, HEADS, D_FF, SOURCE, TARGET = 2, 7, 5, 12, 3, 17, 11, 13
norms = pytest.mark.parametrize("norm_first", [True, False], ids=["norm first", "norm last"])
biases = pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])


def fill(module, generator):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(draw(generator, *parameter.shape) / math.sqrt(D_MODEL) * (2 if parameter.dim() > 1 else 1))
    return module.double().eval()


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def make(generator, **options):
    sizes = {"d_model": D_MODEL, "num_heads": HEADS, "d_ff": D_FF, "encoder_layers": 2, "decoder_layers": 2}
    return fill(Transformer(SOURCE, TARGET, **(sizes | options)), generator)


@pytest.fixture
def source():
    return torch.tensor([[3, 4, 5, 6, 7, 8, 9], [10, 3, 3, 4, 0, 0, 0]])


@pytest.fixture
def target_in():
    return torch.tensor([[1, 4, 5, 6, 7], [1, 12, 3, 0, 0]])


# ---- Layers against torch's own -------------------------------------------------------------------------------------


@norms
@biases
@pytest.mark.parametrize("batch_first", [True, False])
def test_an_encoder_layer_is_torch_s(generator, norm_first, bias, batch_first):
    options = {"dropout": 0.3, "norm_first": norm_first, "bias": bias, "layer_norm_eps": 1e-3}
    theirs = fill(nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, batch_first=batch_first, **options), generator)
    ours = EncoderLayer.from_torch(theirs)
    x = draw(generator, BATCH, N, D_MODEL)
    padded = torch.zeros(BATCH, N, dtype=torch.bool)
    padded[1, 4:] = True
    their_x = x if batch_first else x.transpose(0, 1)
    expected = theirs(their_x, src_key_padding_mask=padded)
    expected = expected if batch_first else expected.transpose(0, 1)
    output, weights = ours(x, ~padded[:, None, None])
    assert_close(output[~padded], expected[~padded], **TIGHT)
    assert weights.shape == (BATCH, HEADS, N, N)
    assert_close(ours(x, ~padded[:, None, None], need_weights=False)[0], output, **TIGHT)
    assert not ours.training
    assert count(ours) == count(theirs)


@norms
@biases
def test_a_decoder_layer_is_torch_s(generator, norm_first, bias):
    options = {"dropout": 0.3, "norm_first": norm_first, "bias": bias, "batch_first": True}
    theirs = fill(nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF, **options), generator)
    ours = DecoderLayer.from_torch(theirs)
    x, memory = draw(generator, BATCH, M, D_MODEL), draw(generator, BATCH, N, D_MODEL)
    padded = torch.zeros(BATCH, N, dtype=torch.bool)
    padded[0, 3:] = True
    closed = torch.ones(M, M, dtype=torch.bool).triu(1)
    expected = theirs(x, memory, tgt_mask=closed, memory_key_padding_mask=padded)
    output, written, read = ours(x, memory, cross_mask=~padded[:, None, None])
    assert_close(output, expected, **TIGHT)
    assert torch.equal(written == 0, closed.expand_as(written))
    assert torch.equal(read == 0, padded[:, None, None].expand_as(read))
    assert count(ours) == count(theirs)


def test_a_layer_keeps_the_dtype_and_is_a_copy():
    theirs = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, dtype=torch.float64)
    ours = EncoderLayer.from_torch(theirs)
    assert ours.training
    assert {p.dtype for p in ours.parameters()} == {torch.float64}
    before = ours.feed_forward.w_1.weight.clone()
    with torch.no_grad():
        theirs.linear1.weight.add_(1)
    assert torch.equal(ours.feed_forward.w_1.weight, before)


layers = pytest.mark.parametrize(
    ("ours", "theirs"), [(EncoderLayer, nn.TransformerEncoderLayer), (DecoderLayer, nn.TransformerDecoderLayer)]
)
RELUS = ["relu", torch.relu, F.relu_, nn.ReLU(), nn.ReLU(inplace=True), lambda x: x.clamp(min=0)]
OTHERS = ["gelu", nn.ReLU6(), nn.LeakyReLU(), nn.PReLU(6), nn.GLU(), nn.Softplus(), lambda x: x.relu() ** 2]


@layers
def test_an_activation_is_a_relu_if_it_does_what_a_relu_does(ours, theirs):
    for relu in RELUS:
        assert isinstance(ours.from_torch(theirs(4, 2, 6, activation=relu)), ours)
    for other in OTHERS:
        layer = theirs(4, 2, 6, activation=other)
        assert_raises(lambda layer=layer: ours.from_torch(layer), ValueError, "layer must have activation='relu'")


@layers
def test_a_layer_that_is_another_is_refused(ours, theirs):
    message = f"layer must be a torch.nn.{theirs.__name__}; got Linear"
    assert_raises(lambda: ours.from_torch(nn.Linear(2, 2)), TypeError, message)


# ---- The whole ------------------------------------------------------------------------------------------------------


@norms
def test_the_machine_is_its_parts_put_together(generator, source, target_in, norm_first):
    model = make(generator, norm_first=norm_first)
    logits, weights = model(source, target_in)
    real = (source != PAD)[:, None, None]

    def embed(table, ids):
        vectors = table.weight[ids] * math.sqrt(D_MODEL)
        return vectors + sinusoidal_positions(ids.size(1), D_MODEL, dtype=torch.float64)

    x = embed(model.source_embedding, source)
    for i, layer in enumerate(model.encoder):
        x, used = layer(x, real)
        assert_close(weights.encoder[i], used, **TIGHT)
    memory, y = model.encoder_norm(x), embed(model.target_embedding, target_in)
    for i, layer in enumerate(model.decoder):
        y, written, read = layer(y, memory, cross_mask=real)
        assert_close(weights.decoder[i], written, **TIGHT)
        assert_close(weights.cross[i], read, **TIGHT)
    assert_close(logits, model.readout(model.decoder_norm(y)), **TIGHT)
    assert isinstance(model.decoder_norm, nn.LayerNorm if norm_first else nn.Identity)


@norms
def test_without_weights_the_logits_are_the_same(generator, source, target_in, norm_first):
    model = make(generator, norm_first=norm_first)
    logits, weights = model(source, target_in)
    fast, none = model(source, target_in, need_weights=False)
    assert_close(fast, logits, **TIGHT)
    assert none == ((), (), ())
    assert [len(part) for part in weights] == [2, 2, 2]


def test_what_stands_under_padding_changes_nothing(generator, source, target_in):
    model = make(generator)
    logits, weights = model(source, target_in)
    longer = torch.cat([source, torch.zeros(BATCH, 3, dtype=torch.long)], dim=1)
    assert_close(model(longer, target_in)[0], logits, **TIGHT)
    alone, _ = model(source[1:, :4], target_in[1:])
    assert_close(alone, logits[1:], **TIGHT)
    assert weights.cross[0][1, :, :, 4:].eq(0).all()
    assert weights.encoder[1][1, :, :, 4:].eq(0).all()


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_an_edge_can_be_masked_in_all_layers(generator, source, target_in, part):
    model = make(generator)
    free, used = model(source, target_in)
    rows, columns = getattr(used, part)[0].shape[-2:]
    mask = torch.ones(rows, columns, dtype=torch.bool)
    mask[3, 1] = False
    logits, weights = model(source, target_in, **{f"{part}_mask": mask})
    for maps in getattr(weights, part):
        assert maps[:, :, 3, 1].eq(0).all()
        assert_close(maps[0].sum(-1), torch.ones(HEADS, rows, dtype=torch.float64))
    assert not torch.allclose(logits, free)
    as_float = torch.zeros(rows, columns, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    assert_close(model(source, target_in, **{f"{part}_mask": as_float})[0], logits, **TIGHT)


def test_masks_may_differ_between_heads_and_sentences(generator, source, target_in):
    model = make(generator)
    mask = torch.rand(BATCH, HEADS, M, N, generator=generator) < 0.7
    mask[..., 0] = True
    _, weights = model(source, target_in, cross_mask=mask)
    open_to = mask & (source != PAD)[:, None, None]
    assert torch.equal(weights.cross[1] > 0, open_to)
    _, weights = model(source, target_in, cross_mask=mask[:, 0])
    assert torch.equal(weights.cross[1] > 0, open_to[:, :1].expand_as(mask))


def test_embedded_tokens_have_the_size_of_positions():
    table = Transformer(SOURCE, TARGET, generator=torch.Generator().manual_seed(3)).source_embedding.weight
    assert table.std().item() * math.sqrt(64) == pytest.approx(1, abs=0.1)


@mistakes({
    TypeError: [
        (lambda m: m(torch.zeros(2, 3), torch.ones(2, 3).long()),
         "source must hold token ids of dtype torch.int64; got torch.float32"),
        (lambda m: greedy(nn.Linear(2, 2), torch.ones(1, 2).long()), "model must be a Transformer; got Linear"),
        (lambda m: Transformer(3, 4, d_model=8.0), "d_model must be an int; got float"),
        (lambda m: m(torch.ones(2, 3).long(), torch.ones(2, 3).long(), encoder_mask=5),
         "encoder_mask must be a torch.Tensor or None; got int"),
        (lambda m: greedy(m, [3]), "source must be a torch.Tensor of token ids; got list"),
    ],
    ValueError: [
        (lambda m: m(torch.ones(2, 3).long(), torch.ones(3).long()),
         "target_in must be (batch, m) with at least one position; got shape (3,)"),
        (lambda m: greedy(m, torch.ones(1, 2).long(), 0), "max_length must be at least 1; got 0"),
        (lambda m: Transformer(3, 2), "target_size must be at least 3; got 2"),
        (lambda m: Transformer(3, 4, d_model=7, num_heads=1), "d_model must be even, for sines and cosines; got 7"),
        (lambda m: m(torch.ones(2, 3).long(), torch.ones(1, 3).long()),
         "source and target_in need the same batch size (axis 0); got source (2, 3), target_in (1, 3)"),
        (lambda m: m(torch.ones(2, 3).long(), torch.ones(2, 3).long(), cross_mask=torch.ones(4, 4)),
         "cross_mask must fit the padding (batch, 1, 1, n); expected something that broadcasts with (2, 1, 1, 3), "
         "got (4, 4)"),
    ],
})  # fmt: skip
def test_a_mistake_gets_an_error_that_names_it(generator, call, error, message):
    model = make(generator)
    assert_raises(lambda: call(model), error, message)


# ---- Decoding -------------------------------------------------------------------------------------------------------


def log_prob(model, source, tokens):
    """The logarithm of the probability of a sentence, step by step, with nothing kept; padding ends it."""
    total, written = 0.0, [BEGIN]
    for token in tokens:
        if token == PAD:
            break
        logits, _ = model(source[None], torch.tensor([written]))
        allowed = [i for i in range(TARGET) if i not in (PAD, BEGIN)]
        total += (logits[0, -1, token] - logits[0, -1, allowed].logsumexp(0)).item()
        written.append(token)
    return total


@norms
def test_greedy_takes_the_likeliest_token_at_each_step(generator, source, norm_first):
    model = make(generator, norm_first=norm_first)
    output = greedy(model, source, 6)
    for row, ids in enumerate(source):
        written = [BEGIN]
        for _ in range(6):
            logits, _ = model(ids[None], torch.tensor([written]))
            written.append(max((i for i in range(TARGET) if i > 1), key=lambda i: logits[0, -1, i].item()))
            if written[-1] == END:
                break
        tokens = [token for token in output.tokens[row].tolist() if token != PAD]
        assert tokens == written[1:]
        assert output.log_probs[row].item() == pytest.approx(log_prob(model, ids, tokens))


@norms
def test_a_cache_changes_nothing_in_the_logits(generator, source, target_in, norm_first):
    model = make(generator, norm_first=norm_first)
    whole, weights = model(source, target_in)
    memory = model.encode(source)
    for sizes in ((1,) * M, (2, 3), (4, 1)):
        cache, done = model.init_cache(memory), 0
        for size in sizes:
            new = target_in[:, done : done + size]
            logits, written, read, cache = model.decode_step(new, memory, cache)
            done += size
            assert_close(logits, whole[:, done - size : done], **TIGHT)
            assert_close(read[1], weights.cross[1][:, :, done - size : done], **TIGHT)
            assert_close(written[1], weights.decoder[1][:, :, done - size : done, :done], **TIGHT)


def ending(generator, **options):
    """A model that ends its sentences now and then."""
    model = make(generator, **options)
    with torch.no_grad():
        model.readout.bias[END] += 1.5
    return model


def test_a_sentence_is_decoded_the_same_alone_and_in_a_batch():
    source, lengths = torch.tensor([[3, 4, 5, 6], [7, 3, 0, 0], [4, 4, 0, 0], [6, 5, 3, 0], [5, 0, 0, 0]]), set()
    for seed in range(6):
        model = ending(torch.Generator().manual_seed(seed))
        together = greedy(model, source, 8)
        for row, ids in enumerate(source):
            alone = greedy(model, ids[None, : int((ids != PAD).sum())], 8)
            tokens = [token for token in together.tokens[row].tolist() if token != PAD]
            assert [token for token in alone.tokens[0].tolist() if token != PAD] == tokens
            assert_close(together.log_probs[row], alone.log_probs[0], **TIGHT)
            lengths.add((seed, len(tokens)))
    assert len(lengths) > 6  # in one batch at least, some have ended while others go on


def test_writing_stops_when_all_have_ended_and_never_writes_padding_or_the_beginning(generator, source):
    model = make(generator)
    with torch.no_grad():
        model.readout.bias[[PAD, BEGIN]] += 50
    assert greedy(model, source, 6).tokens.min() >= END
    with torch.no_grad():
        model.readout.bias[END] += 60
    assert greedy(model, source, 30).tokens.tolist() == [[END], [END]]
