"""Laws of the attention modules. The oracles are loops, the functions they call, and torch's own module."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    BATCH,
    D_HIDDEN,
    D_K,
    D_Q,
    D_V,
    HEADS,
    M,
    N,
    assert_raises,
    draw,
    draw_bool,
    fill,
    loop_attention,
    mistakes,
)
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.testing import assert_close

from attention_tutorial import (
    AdditiveAttention,
    MultiHeadAttention,
    additive_attention,
    causal_mask,
    merge_heads,
    padding_mask,
    repeat_heads,
    scaled_dot_product_attention,
    split_heads,
)
from attention_tutorial.analysis.cost import largest_tensor_bytes
from attention_tutorial.positions import RotaryMultiHeadAttention

TIGHT = {"rtol": 1e-11, "atol": 1e-11}
D_MODEL, D_HEAD = 15, 5  # with three heads
both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "fused"])


def make(generator, device="cpu", *, bias=True, dtype=torch.float64, d_head=None):
    module = MultiHeadAttention(D_MODEL, HEADS, d_head, bias=bias, dtype=dtype, device=device)
    return fill(module, generator)


def inputs(generator, device="cpu", dtype=torch.float64):
    return (
        draw(generator, BATCH, M, D_MODEL, dtype=dtype, device=device),
        draw(generator, BATCH, N, D_MODEL, dtype=dtype, device=device),
        draw(generator, BATCH, N, D_MODEL, dtype=dtype, device=device),
    )


def by_head(module, query, key, value, mask=None, *, is_causal=False):
    """Multi-head attention one head and one batch element at a time, each head with its own rows of the matrices."""
    d, outputs, weights = module.d_head, [], []

    def project(linear, x, head=slice(None)):
        bias = 0.0 if linear.bias is None else linear.bias[head]
        return x @ linear.weight[head].T + bias

    for b in range(query.size(0)):
        heads, maps = [], []
        for h in range(module.num_heads):
            rows = slice(h * d, (h + 1) * d)
            q, k, v = (project(w, x[b], rows) for w, x in ((module.w_q, query), (module.w_k, key), (module.w_v, value)))
            allowed = None if mask is None else mask[b, h]
            output, a = loop_attention(q, k, v, allowed, is_causal=is_causal)
            heads.append(output)
            maps.append(a)
        outputs.append(project(module.w_o, torch.cat(heads, dim=-1)))
        weights.append(torch.stack(maps))
    return torch.stack(outputs), torch.stack(weights)


# Splitting and merging heads


def test_a_head_is_a_block_of_features(generator):
    x = draw(generator, BATCH, N, HEADS * D_HEAD)
    heads = split_heads(x, HEADS)
    assert heads.shape == (BATCH, HEADS, N, D_HEAD)
    for b, h, j, c in itertools.product(*map(range, heads.shape)):
        assert heads[b, h, j, c] == x[b, j, h * D_HEAD + c]


def test_merging_undoes_splitting(generator):
    x = draw(generator, BATCH, N, HEADS * D_HEAD)
    assert torch.equal(merge_heads(split_heads(x, HEADS)), x)
    assert torch.equal(
        split_heads(merge_heads(x.view(BATCH, N, HEADS, D_HEAD).transpose(1, 2)), HEADS)[:, 0], x[..., :5]
    )
    assert split_heads(x[:0], HEADS).shape == (0, HEADS, N, D_HEAD)
    assert split_heads(x[..., :0], HEADS).shape == (BATCH, HEADS, N, 0)


# Multi-head attention: values

MASKS = {
    "none": lambda g: None,
    "(m, n)": lambda g: draw_bool(g, M, N),
    "(batch, m, n)": lambda g: draw_bool(g, BATCH, M, N),
    "(batch, heads, m, n)": lambda g: draw_bool(g, BATCH, HEADS, M, N),
    "(1, heads, m, n)": lambda g: draw_bool(g, 1, HEADS, M, N),
    "padding": lambda g: padding_mask([3, 6], n=N),
    "nothing allowed": lambda g: padding_mask([0, 6], n=N),
    "(m, 1)": lambda g: draw_bool(g, M, 1),
    "(1, n)": lambda g: draw_bool(g, 1, N),
    "(1, m, n)": lambda g: draw_bool(g, 1, M, N),
    "(batch, 1, n)": lambda g: draw_bool(g, BATCH, 1, N),
    "float (m, n)": lambda g: draw(g, M, N),
    "float (batch, m, n)": lambda g: draw(g, BATCH, M, N),
    "float with -inf": lambda g: draw(g, BATCH, HEADS, M, N).masked_fill(~draw_bool(g, BATCH, HEADS, M, N), -math.inf),
    "float -inf rows": lambda g: draw(g, M, 1).masked_fill(~draw_bool(g, M, 1), -math.inf),
}
all_masks = pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS.keys())


def in_full(mask):
    """The mask with four axes, spelt out: three axes mean batch."""
    if mask is None:
        return None
    mask = mask[:, None] if mask.dim() == 3 else mask
    return mask.expand(BATCH, HEADS, M, N)


@all_masks
@pytest.mark.parametrize("is_causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_output_and_weights_agree_with_single_heads(make_mask, is_causal, bias, device, generator):
    module, tensors, mask = make(generator, device, bias=bias), inputs(generator, device), make_mask(generator)
    mask = mask if mask is None else mask.to(device)
    output, weights = module(*tensors, mask, is_causal=is_causal)
    plain = copy.deepcopy(module).cpu()
    expected = by_head(plain, *(x.cpu() for x in tensors), in_full(mask), is_causal=is_causal)
    assert_close(output.cpu(), expected[0], **TIGHT)
    assert_close(weights.cpu(), expected[1], **TIGHT)
    fused, nothing = module(*tensors, mask, is_causal=is_causal, need_weights=False)
    assert nothing is None
    assert_close(fused, output, **TIGHT)


def test_parameter_gradients_agree_with_torchs_module(generator):
    theirs = fill(nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, dtype=torch.float64), generator)
    ours = MultiHeadAttention.from_torch(theirs)
    tensors, upstream = inputs(generator), draw(generator, BATCH, M, D_MODEL)
    (theirs(*tensors)[0] * upstream).sum().backward()
    for need_weights in (True, False):
        ours.zero_grad()
        (ours(*tensors, need_weights=need_weights)[0] * upstream).sum().backward()
        for i, projection in enumerate((ours.w_q, ours.w_k, ours.w_v)):
            rows = slice(i * D_MODEL, (i + 1) * D_MODEL)
            assert_close(projection.weight.grad, theirs.in_proj_weight.grad[rows], **TIGHT)
            assert_close(projection.bias.grad, theirs.in_proj_bias.grad[rows], **TIGHT)
        assert_close(ours.w_o.weight.grad, theirs.out_proj.weight.grad, **TIGHT)
        assert_close(ours.w_o.bias.grad, theirs.out_proj.bias.grad, **TIGHT)


@both_paths
def test_three_axes_of_a_mask_mean_batch_also_where_batch_equals_heads(need_weights, generator):
    module, x = make(generator), draw(generator, HEADS, M, D_MODEL)  # as many batch elements as heads
    mask = draw_bool(generator, HEADS, M, M) | torch.eye(M, dtype=torch.bool)
    for given_mask in (mask, torch.zeros(HEADS, M, M).masked_fill(~mask, -math.inf)):
        output, weights = module(x, mask=given_mask, need_weights=need_weights)
        for b in range(HEADS):
            alone = module(x[b : b + 1], mask=given_mask[b], need_weights=need_weights)[0]
            assert_close(output[b : b + 1], alone, **TIGHT)
            if need_weights:
                assert torch.equal(weights[b] > 0, mask[b].expand(HEADS, M, M))


@both_paths
def test_left_out_key_and_value_mean_self_attention(need_weights, generator):
    module, (query, key, _) = make(generator), inputs(generator)

    def output(*args):
        return module(*args, need_weights=need_weights)[0]

    assert torch.equal(output(query), output(query, query, query))
    assert torch.equal(output(query, key), output(query, key, key))


@both_paths
def test_a_query_with_nothing_to_attend_to_gives_the_last_bias_and_no_gradient(need_weights, generator):
    module, (query, key, value) = make(generator), inputs(generator)
    query.requires_grad_()
    output = module(query, key, value, padding_mask([0, 6], n=N), need_weights=need_weights)[0]
    assert_close(output[0], module.w_o.bias.expand(M, D_MODEL), **TIGHT)
    gradient = torch.autograd.grad(output.square().sum(), query)[0]
    assert gradient.isfinite().all()
    assert not gradient[0].any()
    assert gradient[1].any(-1).all()


# Multi-head attention: sizes


def test_heads_need_not_divide_the_features():
    module = MultiHeadAttention(50, 8)
    assert module.d_head == 6
    assert module.w_q.weight.shape == module.w_o.weight.T.shape == (48, 50)


@given(d_model=st.integers(1, 9), num_heads=st.integers(1, 5), d_head=st.integers(1, 4), bias=st.booleans())
@settings(max_examples=25)
def test_any_sizes_agree_with_single_heads(d_model, num_heads, d_head, bias):
    generator = torch.Generator().manual_seed(d_model)
    module = fill(MultiHeadAttention(d_model, num_heads, d_head, bias=bias, dtype=torch.float64), generator)
    query, key = draw(generator, 2, 3, d_model), draw(generator, 2, 4, d_model)
    output, weights = module(query, key)
    expected_output, expected_weights = by_head(module, query, key, key)
    assert_close(output, expected_output, **TIGHT)
    assert_close(weights, expected_weights, **TIGHT)
    assert_close(module(query, key, need_weights=False)[0], output, **TIGHT)


def test_bias_is_a_bias_on_all_four_projections():
    with_bias = {name for name, _ in MultiHeadAttention(D_MODEL, HEADS, bias=True).named_parameters()}
    assert with_bias == {f"{w}.{kind}" for w in ("w_q", "w_k", "w_v", "w_o") for kind in ("weight", "bias")}
    without = {name for name, _ in MultiHeadAttention(D_MODEL, HEADS).named_parameters()}
    assert without == {f"{w}.weight" for w in ("w_q", "w_k", "w_v", "w_o")}


@both_paths
@pytest.mark.parametrize("sizes", [(BATCH, M, 0), (BATCH, 0, N), (0, M, N), (BATCH, 0, 0)])
def test_empty_axes_give_empty_axes(sizes, need_weights, generator):
    batch, m, n = sizes
    module = make(generator)
    query, key = torch.ones(batch, m, D_MODEL).double(), torch.ones(batch, n, D_MODEL).double()
    for is_causal in (False, True):
        output, weights = module(query, key, is_causal=is_causal, need_weights=need_weights)
        assert_close(output, module.w_o.bias.expand(batch, m, D_MODEL) if n == 0 else output)
        assert output.shape == (batch, m, D_MODEL)
        assert not need_weights or weights.shape == (batch, HEADS, m, n)


def test_first_weights_follow_glorot_and_biases_start_at_zero():
    torch.manual_seed(0)
    module = MultiHeadAttention(128, 4, bias=True)
    for projection in (module.w_q, module.w_k, module.w_v, module.w_o):
        bound = math.sqrt(6 / (128 + 128))
        assert projection.weight.abs().max() <= bound
        assert projection.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert not projection.bias.any()
    old = module.w_q.weight.clone()
    module.reset_parameters()
    assert not torch.equal(module.w_q.weight, old)


# Multi-head attention as a module like any other


def small_modules(generator):
    return [
        make(generator, d_head=4),
        fill(RotaryMultiHeadAttention(D_MODEL, HEADS, 4, dtype=torch.float64), generator),
        fill(AdditiveAttention(D_MODEL, D_MODEL, D_HIDDEN, dtype=torch.float64), generator),
    ]


def test_copies_pickles_and_state_dicts_give_the_same(generator, tmp_path):
    query, key, value = inputs(generator)
    for module in small_modules(generator):
        expected = module(query, key, value)[0]
        torch.save(module.state_dict(), tmp_path / "state.pt")
        other = copy.deepcopy(module)
        other.reset_parameters()
        assert not torch.equal(other(query, key, value)[0], expected)
        other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
            assert torch.equal(copied(query, key, value)[0], expected)
            assert repr(copied) == repr(module)
            shared = {p.data_ptr() for p in module.parameters()} & {p.data_ptr() for p in copied.parameters()}
            assert not shared


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # torch's, on its fused kernel
@both_paths
def test_gradients_of_each_example_by_vmap_equal_those_of_each_alone(need_weights, generator):
    module, x = make(generator), draw(generator, 3, M, D_MODEL)
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(parameters, x):
        options = {"is_causal": True, "need_weights": need_weights}
        return torch.func.functional_call(module, parameters, (x[None],), options)[0].square().sum()

    result = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for b in range(3):
        module.zero_grad()
        loss(dict(module.named_parameters()), x[b]).backward()
        for name, parameter in module.named_parameters():
            assert_close(result[name][b], parameter.grad, **TIGHT)


def test_modules_are_made_where_asked():
    for module in (
        MultiHeadAttention(4, 2, bias=True, device="meta", dtype=torch.bfloat16),
        AdditiveAttention(3, 4, 5, device="meta", dtype=torch.bfloat16),
    ):
        assert {(p.device.type, p.dtype) for p in module.parameters()} == {("meta", torch.bfloat16)}


def test_the_fused_path_makes_no_m_by_n_tensor_when_causal(device, generator):
    m = 263
    module = make(generator, device, dtype=torch.float32, d_head=8)  # on a GPU the kernels want multiples of 8
    x = draw(generator, 1, m, D_MODEL, device=device, dtype=torch.float32)
    for query in (x, x[:, -1:]):  # less than even a boolean mask
        assert largest_tensor_bytes(lambda query=query: module(query, x, is_causal=True, need_weights=False)) < m * m
    assert largest_tensor_bytes(lambda: module(x, is_causal=True)) == HEADS * 4 * m * m


def test_no_argument_is_changed_and_nothing_is_kept_from_a_forward_pass(generator):
    for module in small_modules(generator):
        arguments = (*inputs(generator), draw_bool(generator, M, N))
        before, attributes = [x.clone() for x in arguments], set(vars(module))
        module(*arguments)
        if isinstance(module, MultiHeadAttention):
            module(*arguments, is_causal=True, need_weights=False)
        assert all(torch.equal(a, b) for a, b in zip(arguments, before, strict=True))
        assert [x._version for x in arguments] == [0, 0, 0, 0]
        assert set(vars(module)) == attributes


# What stands in a projection's place


class LoRA(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base, self.down = base, nn.Linear(base.in_features, rank, bias=False, dtype=torch.float64)
        self.up = nn.Linear(rank, base.out_features, bias=False, dtype=torch.float64)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Quantized(nn.Module):
    """As torch's quantized layers are: `weight` is a method."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def weight(self):
        return self.linear.weight

    def forward(self, x):
        return self.linear(x)


def pruned(linear):
    """Its `weight` is no parameter: it stays what it was at the last call, here of another dtype."""
    prune.l1_unstructured(linear.float(), "weight", 0.3)
    return linear.double()


REPLACEMENTS = {
    "LoRA": LoRA,
    "identity": lambda linear: nn.Identity(),
    "sequence": lambda linear: nn.Sequential(linear, nn.Tanh()),
    "weight norm": parametrizations.weight_norm,
    "spectral norm": lambda linear: parametrizations.spectral_norm(linear).eval(),
    "pruned": pruned,
    "quantized": Quantized,
}


@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS.keys())
@pytest.mark.parametrize("name", ["w_q", "w_k", "w_v", "w_o"])
def test_a_projection_can_be_replaced(name, replace, generator):
    module, x = make(generator), draw(generator, BATCH, M, D_MODEL)
    setattr(module, name, replace(getattr(module, name)))
    q, k, v = (split_heads(w(x), HEADS) for w in (module.w_q, module.w_k, module.w_v))
    expected = module.w_o(merge_heads(scaled_dot_product_attention(q, k, v)[0]))
    assert_close(module(x)[0], expected, **TIGHT)


# From torch's module


def test_a_subclass_is_made_from_torch_as_a_subclass():
    class Ours(MultiHeadAttention):
        pass

    assert type(Ours.from_torch(nn.MultiheadAttention(4, 2))) is Ours


def test_one_head_for_one_is_left_as_it_is(generator):
    x = draw(generator, BATCH, 1, N, D_K)
    assert torch.equal(repeat_heads(x, 1), x)


# Additive attention as a module


def test_the_module_calls_the_function_with_its_parameters(generator):
    query, key = draw(generator, BATCH, HEADS, M, D_Q), draw(generator, BATCH, 1, N, D_K)
    value, mask = draw(generator, BATCH, HEADS, N, D_V), draw_bool(generator, M, N)
    module = fill(AdditiveAttention(D_Q, D_K, D_HIDDEN, dtype=torch.float64), generator)
    parameters = {"w_query": module.w_query, "w_key": module.w_key, "v": module.v}
    for actual, expected in (
        (module(query, key, value, mask), additive_attention(query, key, value, **parameters, mask=mask)),
        (module(query, key), additive_attention(query, key, key, **parameters)),
        (module(query, key, mask=mask), additive_attention(query, key, key, **parameters, mask=mask)),
    ):
        assert all(map(torch.equal, actual, expected))


def test_modules_tell_their_sizes():
    assert repr(AdditiveAttention(5, 4, 6)) == "AdditiveAttention(d_query=5, d_key=4, d_hidden=6)"
    assert "d_model=8, num_heads=2, d_head=4\n" in repr(MultiHeadAttention(8, 2))
    assert "d_model=8, num_heads=2, d_head=4, num_kv_heads=1\n" in repr(MultiHeadAttention(8, 2, num_kv_heads=1))
    started = AdditiveAttention(5, 4, 6).parameters()
    assert all(matrix.detach().std() > 0.05 for matrix in started), "or all keys get the same weight"
    assert {n: tuple(p.shape) for n, p in AdditiveAttention(5, 4, 6).named_parameters()} == {
        "w_query": (6, 5),
        "w_key": (6, 4),
        "v": (6,),
    }


# Wrong arguments

MODULE = MultiHeadAttention(15, 3)
X, Y = torch.zeros(2, 5, 15), torch.zeros(2, 7, 15)
KEPT = torch.zeros(2, 3, 7, 5), torch.zeros(2, 3, 7, 5)
NESTED = torch.nested.nested_tensor([X[0], Y[0]], layout=torch.jagged)
NOT_NESTED = (
    "must not be nested; pad it by torch.nested.to_padded_tensor, and hide the padding by a mask, padding_mask(lengths)"
)
MASK_RULE = (
    "mask must be (m, n), (batch, m, n) or (batch or 1, heads or 1, m, n), three axes meaning batch, "
    "with batch=2, heads=3, m=5, n=7; got"
)
ERRORS = {
    TypeError: [
        (lambda: MultiHeadAttention(8, 2, bias=1), "bias must be True or False; got int"),
        (lambda: MODULE(None), "query must be a torch.Tensor; got NoneType"),
        (lambda: MODULE(X.int()),
         "query must hold real floating-point numbers (float64, float32, bfloat16 or float16); got torch.int32"),
        (lambda: MODULE(X, np.zeros((2, 7, 15))), "key must be a torch.Tensor; got ndarray"),
        (lambda: MODULE(X.double()),
         "query and the module's weights must have the same dtype; got query torch.float64, the module's weights "
         "torch.float32"),
        (lambda: MODULE(X, Y.half()),
         "key and the module's weights must have the same dtype; got key torch.float16, the module's weights "
         "torch.float32"),
        (lambda: MODULE(X, mask=[[1]]), "mask must be a torch.Tensor or None; got list"),
        (lambda: MODULE(X, NESTED), f"key {NOT_NESTED}"),
        (lambda: MODULE(X, mask=NESTED), f"mask {NOT_NESTED}"),
        (lambda: split_heads(NESTED, 3), f"x {NOT_NESTED}"),
        (lambda: MODULE(X, mask=torch.ones(5, 5).int()),
         "mask must be boolean (True = may attend) or floating point (added to the scores); got torch.int32"),
        (lambda: MODULE(X, is_causal=None, need_weights=False), "is_causal must be True or False; got NoneType"),
        (lambda: MultiHeadAttention.from_torch(nn.Linear(2, 2)),
         "module must be a torch.nn.MultiheadAttention; got Linear"),
        (lambda: AdditiveAttention(5, 4.5, 6), "d_key must be an int; got float"),
        (lambda: AdditiveAttention(5, 4, 6).double()(torch.ones(3, 5), torch.ones(7, 4)),
         "query and w_query must have the same dtype; got query torch.float32, w_query torch.float64"),
        (lambda: MODULE.attend(X, [], KEPT[1]), "keys must be a torch.Tensor; got list"),
        (lambda: MODULE.attend(X, KEPT[0].double(), KEPT[1]),
         "query and keys must have the same dtype; got query torch.float32, keys torch.float64"),
        (lambda: MODULE.attend(X, *KEPT, need_weights=None), "need_weights must be True or False; got NoneType"),
        (lambda: repeat_heads([1], 2), "x must be a torch.Tensor; got list"),
        (lambda: split_heads([1], 2), "x must be a torch.Tensor; got list"),
        (lambda: merge_heads(None), "x must be a torch.Tensor; got NoneType"),
    ],
    ValueError: [
        (lambda: MultiHeadAttention(0, 1), "d_model must be at least 1; got 0"),
        (lambda: MultiHeadAttention(8, -2), "num_heads must be at least 1; got -2"),
        (lambda: MultiHeadAttention(3, 5),
         "num_heads must not exceed d_model unless d_head is given; got num_heads=5, d_model=3"),
        (lambda: MultiHeadAttention(8, 2, 0), "d_head must be at least 1; got 0"),
        (lambda: MODULE(X[0]), "query must be (batch, m, d_model) with d_model=15; got (5, 15)"),
        (lambda: MODULE(X, Y[..., :14]), "key must be (batch, n, d_model) with d_model=15; got (2, 7, 14)"),
        (lambda: MODULE(X, Y, Y[..., :1]), "value must be (batch, n, d_model) with d_model=15; got (2, 7, 1)"),
        (lambda: MODULE(X.to("meta")),
         "query and the module's weights must be on the same device; got query on meta, the module's weights on cpu"),
        (lambda: MODULE(X, torch.zeros(1, 7, 15)),
         "query, key and value need the same batch size (axis 0); got query (2, 5, 15), key (1, 7, 15), value (1, "
         "7, 15)"),
        (lambda: MODULE(X, Y, X),
         "key and value need the same number of positions n (axis 1); got key (2, 7, 15), value (2, 5, 15)"),
        (lambda: MODULE(X, value=Y), "value was given without key; give both, or neither for self-attention"),
        (lambda: MODULE(X, Y, mask=torch.ones(7)), f"{MASK_RULE} (7,)"),
        (lambda: MODULE(X, Y, mask=torch.ones(7, 5)), f"{MASK_RULE} (7, 5)"),
        (lambda: MODULE(X, Y, mask=torch.ones(3, 5, 7)), f"{MASK_RULE} (3, 5, 7)"),
        (lambda: MODULE(X, Y, mask=torch.ones(2, 2, 5, 7)), f"{MASK_RULE} (2, 2, 5, 7)"),
        (lambda: MODULE(X, Y, mask=torch.ones(1, 2, 3, 5, 7)), f"{MASK_RULE} (1, 2, 3, 5, 7)"),
        (lambda: MODULE(X, Y, mask=torch.ones(5, 7, device="meta")),
         "mask must be on the device of the query; expected cpu, got meta"),
        (lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, kdim=4)),
         "module must have kdim and vdim equal to embed_dim; expected 8, got kdim=4, vdim=8"),
        (lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, add_bias_kv=True)),
         "module must not use add_bias_kv or add_zero_attn"),
        (lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, add_zero_attn=True)),
         "module must not use add_bias_kv or add_zero_attn"),
        (lambda: AdditiveAttention(0, 4, 6), "d_query must be at least 1; got 0"),
        (lambda: AdditiveAttention(5, 4, -6), "d_hidden must be at least 1; got -6"),
        (lambda: AdditiveAttention(5, 4, 6)(torch.ones(3, 4), torch.ones(7, 4)),
         "w_query must have shape (d_hidden, d_q); expected (6, 4), got (6, 5)"),
        (lambda: MultiHeadAttention(8, 4, num_kv_heads=0), "num_kv_heads must be at least 1; got 0"),
        (lambda: MODULE.project(X, X[:1]),
         "key and value need the same batch size (axis 0); got key (2, 5, 15), value (1, 5, 15)"),
        (lambda: MODULE.attend(X[0], *KEPT), "query must be (batch, m, d_model) with d_model=15; got (5, 15)"),
        (lambda: repeat_heads(KEPT[0], 0), "num_heads must be at least 1; got 0"),
        (lambda: repeat_heads(X, 5),
         "x must be (batch, kv_heads, n, d_head), its heads dividing heads=5; got (2, 5, 15)"),
        (lambda: repeat_heads(KEPT[0], 7),
         "x must be (batch, kv_heads, n, d_head), its heads dividing heads=7; got (2, 3, 7, 5)"),
        (lambda: repeat_heads(KEPT[0][:, :0], 3),
         "x must be (batch, kv_heads, n, d_head), its heads dividing heads=3; got (2, 0, 7, 5)"),
        (lambda: split_heads(X, 4), "x must be (batch, n, heads * d_head) with heads=4; got (2, 5, 15)"),
        (lambda: split_heads(X[0], 3), "x must be (batch, n, heads * d_head) with heads=3; got (5, 15)"),
        (lambda: split_heads(X, 0), "num_heads must be at least 1; got 0"),
        (lambda: merge_heads(X), "x must be (batch, heads, n, d_head); got (2, 5, 15)"),
    ],
}  # fmt: skip


@mistakes(ERRORS)
def test_a_wrong_argument_is_named_with_the_rule_and_what_came(call, error, message):
    assert_raises(call, error, message)


def test_a_size_may_be_any_integer():
    assert MultiHeadAttention(np.int64(8), np.int32(2)).d_head == 4
    assert causal_mask(np.int64(2)).tolist() == [[True, False], [True, True]]
