"""The package beside what engineers know: torch's function and module, and torch's transforms.

Laws of attention itself are in test_functional.py and test_layers.py; here the same numbers go through another's code.
"""

import pytest
import torch
import torch.nn.functional as F
from oracles import BATCH, HEADS, M, draw, fill
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from attention_tutorial import (
    AdditiveAttention,
    MultiHeadAttention,
    causal_mask,
    combine_masks,
    masked_softmax,
    padding_mask,
    scaled_dot_product_attention,
    to_torch_mha_mask,
)
from attention_tutorial.positions import RotaryMultiHeadAttention

D_MODEL = 24  # with three heads of eight features
TIGHT = {"rtol": 1e-11, "atol": 1e-11}
# Of one rounding in each dtype; gradients and whole modules round some times more.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "fused"])
causal_or_not = pytest.mark.parametrize("is_causal", [False, True], ids=["", "causal"])
multi_head = pytest.mark.parametrize("kind", [MultiHeadAttention, RotaryMultiHeadAttention])


def close(actual, expected, dtype, times=1):
    assert actual.dtype == dtype
    tolerance = times * TOLERANCE[dtype]
    assert_close(actual, expected.to(dtype), rtol=tolerance, atol=tolerance)


# Torch's module


def torchs_module(generator, dtype, device, *, bias):
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, bias=bias, batch_first=True, dtype=dtype, device=device)
    return fill(theirs, generator, 0.2)


MODULE_MASKS = {
    "none": lambda g: (None, {}),
    "key_padding_mask": lambda g: (
        padding_mask([3, M], n=M),
        {"key_padding_mask": to_torch_mha_mask(padding_mask([3, M], n=M))[:, 0, 0]},
    ),
    "attn_mask (m, n)": lambda g: (causal_mask(M), {"attn_mask": to_torch_mha_mask(causal_mask(M))}),
    "is_causal": lambda g: (causal_mask(M), {"attn_mask": to_torch_mha_mask(causal_mask(M)), "is_causal": True}),
    "both": lambda g: (
        combine_masks(causal_mask(M), padding_mask([3, M], n=M)),
        {
            "attn_mask": to_torch_mha_mask(causal_mask(M)),
            "key_padding_mask": to_torch_mha_mask(padding_mask([3, M], n=M))[:, 0, 0],
        },
    ),
}


@every_dtype
@pytest.mark.parametrize("make", MODULE_MASKS.values(), ids=MODULE_MASKS.keys())
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_values_weights_and_gradients_are_those_of_torchs_module(make, dtype, bias, device, generator):
    theirs = torchs_module(generator, dtype, device, bias=bias)
    ours = MultiHeadAttention.from_torch(theirs)
    x = draw(generator, BATCH, M, D_MODEL, dtype=dtype, device=device).requires_grad_()
    upstream = draw(generator, BATCH, M, D_MODEL, dtype=dtype, device=device)
    mask, options = make(generator)
    mask = mask if mask is None else mask.to(device)
    options = {name: o.to(device) if isinstance(o, torch.Tensor) else o for name, o in options.items()}
    expected, expected_weights = theirs(x, x, x, average_attn_weights=False, **options)
    averaged = theirs(x, x, x, average_attn_weights=True, **options)[1]
    expected_gradient = torch.autograd.grad(expected, x, upstream)[0]
    for need_weights in (True, False):
        output, weights = ours(x, mask=mask, need_weights=need_weights)
        close(output, expected, dtype, times=2)
        close(torch.autograd.grad(output, x, upstream)[0], expected_gradient, dtype, times=4)
        if need_weights:
            close(weights, expected_weights, dtype)
            close(weights.mean(dim=1), averaged, dtype)
    theirs.eval()  # torch's own fast path
    with torch.no_grad():
        close(ours(x, mask=mask, need_weights=False)[0], theirs(x, x, x, need_weights=False, **options)[0], dtype, 2)


# Scores out of range


def test_a_score_that_overflows_on_the_way_is_not_rescued_and_spreads_to_no_other_row():
    # the score is 0, but its two products are beyond float32: plus and minus infinity
    query, key = torch.tensor([[3e19, 3e19], [1.0, 0.0]]), torch.tensor([[3e19, -3e19], [0.0, 0.0]])
    value = torch.tensor([[1.0, 2.0], [5.0, 6.0]])
    output, weights = scaled_dot_product_attention(query, key, value)
    assert output[0].isnan().all()
    assert weights[0].isnan().all()
    assert output[1].tolist() == [1.0, 2.0]
    with sdpa_kernel(SDPBackend.MATH):  # so says torch's own arithmetic
        theirs = F.scaled_dot_product_attention(query, key, value)
    assert theirs.isnan().tolist() == output.isnan().tolist()
    # wider numbers hold it, or a factor on the way
    exact = scaled_dot_product_attention(query.double(), key.double(), value.double())[0]
    assert exact[0].tolist() == [3.0, 4.0]
    assert_close(scaled_dot_product_attention(query, key, value, scale=1e-3)[0][0], torch.tensor([3.0, 4.0]))


def test_a_boolean_mask_hides_what_overflows_and_its_gradient():
    query, key = torch.tensor([[3e19, 3e19]], requires_grad=True), torch.tensor([[3e19, -3e19], [0.0, 0.0]])
    value = torch.tensor([[1.0, 2.0], [5.0, 6.0]])
    output, weights = scaled_dot_product_attention(query, key, value, torch.tensor([False, True]))
    assert output.tolist() == [[5.0, 6.0]]
    assert weights.tolist() == [[0.0, 1.0]]
    assert not torch.autograd.grad(output.sum(), query)[0].any()
    scores = torch.tensor([[torch.nan, torch.inf, 1.0]])
    assert masked_softmax(scores, torch.tensor([False, False, True])).tolist() == [[0.0, 0.0, 1.0]]


# Compiled, exported, transformed, copied


def small(kind, generator, dtype=torch.float32):
    return fill(kind(D_MODEL, HEADS, bias=True, dtype=dtype), generator, 0.2)


def batch_of(generator, n):
    return draw(generator, BATCH, n, D_MODEL, dtype=torch.float32).requires_grad_(), padding_mask([2, n], n=n)


def test_a_module_compiles_whole_for_any_length_with_its_gradients(generator):
    module = small(RotaryMultiHeadAttention, generator)
    torch.compiler.reset()
    fast = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    parameters = list(module.parameters())
    for n in (5, 12):
        x, mask = batch_of(generator, n)
        actual, expected = (f(x, mask=mask, is_causal=True, need_weights=False)[0] for f in (fast, module))
        assert_close(actual, expected)
        upstream = draw(generator, *actual.shape, dtype=actual.dtype)
        for f, e in zip(
            torch.autograd.grad(actual, [x, *parameters], upstream),
            torch.autograd.grad(expected, [x, *parameters], upstream),
            strict=True,
        ):
            assert_close(f, e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "strict", "need_weights"), [(MultiHeadAttention, True, True), (RotaryMultiHeadAttention, False, False)]
)
def test_an_exported_module_takes_any_batch_and_length(kind, strict, need_weights, generator):
    class Calling(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small(kind, generator)

        def forward(self, x, mask):
            return self.inner(x, mask=mask, is_causal=True, need_weights=need_weights)[0]

    calling, (batch, n) = Calling(), (torch.export.Dim("batch"), torch.export.Dim("n", min=2))
    sizes = ({0: batch, 1: n}, {0: batch, 3: n})
    exported = torch.export.export(calling, batch_of(generator, 6), dynamic_shapes=sizes, strict=strict).module()
    for lengths in ([1, 3, 0], [9]):
        n = max(lengths)
        x = draw(generator, len(lengths), n, D_MODEL, dtype=torch.float32)
        mask = padding_mask(lengths, n=n)
        assert_close(exported(x, mask), calling(x, mask))


@multi_head
@causal_or_not
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own, in jacfwd
def test_a_modules_derivatives_agree_forwards_backwards_and_twice(kind, is_causal, generator):
    module = small(kind, generator, torch.float64)
    x, mask = draw(generator, 1, 3, D_MODEL), padding_mask([2], n=3)

    def run(x):
        return module(x, mask=mask, is_causal=is_causal)[0].square().sum(dim=(1, 2))

    tangent = draw(generator, *x.shape)
    backward = torch.func.jacrev(run)(x)
    assert_close(torch.func.jacfwd(run)(x), backward, **TIGHT)
    assert_close(torch.func.jvp(run, (x,), (tangent,))[1], (backward * tangent).flatten(1).sum(1), **TIGHT)
    twice = torch.func.jvp(torch.func.grad(lambda x: run(x).sum()), (x,), (tangent,))[1]
    leaf = x.clone().requires_grad_()
    first = torch.autograd.grad(run(leaf).sum(), leaf, create_graph=True)[0]
    assert_close(twice, torch.autograd.grad((first * tangent).sum(), leaf)[0], **TIGHT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@both_paths
@multi_head
def test_autocast_gives_its_dtype_and_full_gradients(dtype, need_weights, kind, device, generator):
    module = small(kind, generator).to(device)
    x, mask = batch_of(generator, 6)
    x, mask = x.detach().to(device).requires_grad_(), mask.to(device)
    exact = module(x, mask=mask, is_causal=True)[0]
    with torch.autocast(device.type, dtype=dtype):
        output = module(x, mask=mask, is_causal=True, need_weights=need_weights)[0]
    close(output, exact, dtype)
    actual = torch.autograd.grad(output.float().square().sum(), [x, *module.parameters()])
    assert {f.dtype for f in actual} == {torch.float32}
    actual = torch.cat([f.flatten() for f in actual])
    expected = torch.cat([e.flatten() for e in torch.autograd.grad(exact.square().sum(), [x, *module.parameters()])])
    assert (actual - expected).norm() <= TOLERANCE[dtype] * expected.norm()


@both_paths
@causal_or_not
@multi_head
def test_shapes_follow_on_the_meta_device_with_every_mask(kind, need_weights, is_causal):
    """That device has no numbers, so this also fails where one is looked at, for which a GPU would have to wait."""
    module = kind(D_MODEL, HEADS, device="meta")
    n = 5
    x = torch.empty(BATCH, n, D_MODEL, device="meta")
    for mask in (None, torch.empty(BATCH, 1, 1, n, dtype=torch.bool, device="meta"), torch.empty(n, n, device="meta")):
        output, weights = module(x, mask=mask, is_causal=is_causal, need_weights=need_weights)
        assert output.shape == (BATCH, n, D_MODEL)
        assert output.device.type == "meta"
        assert weights.shape == (BATCH, HEADS, n, n) if need_weights else weights is None


def test_additive_attention_compiles_whole(generator):
    module = fill(AdditiveAttention(D_MODEL, D_MODEL, 8), generator, 0.2)
    torch.compiler.reset()
    fast = torch.compile(module, fullgraph=True, backend="eager")
    x, mask = batch_of(generator, 4)
    assert_close(fast(x, x, mask=mask[:, 0])[0], module(x, x, mask=mask[:, 0])[0])
