"""Every wrong argument of the attention functions gives an error that names it, the rule and what came."""

import math

import numpy as np
import pytest
import torch
from oracles import assert_raises

from attention_tutorial import (
    additive_attention,
    additive_scores,
    causal_mask,
    dot_product_scores,
    fused_attention,
    general_scores,
    masked_softmax,
    multiplicative_attention,
    scaled_dot_product_attention,
)

Q, K, V = torch.zeros(2, 5, 11), torch.zeros(2, 7, 11), torch.zeros(2, 7, 13)
KIND = "must hold real floating-point numbers (float64, float32, bfloat16 or float16); got"
WRONG_INPUTS = {
    "query array": (lambda f: f(np.zeros((5, 11)), K, V), TypeError, "query must be a torch.Tensor; got ndarray"),
    "key list": (lambda f: f(Q, [[1.0]], V), TypeError, "key must be a torch.Tensor; got list"),
    "value none": (lambda f: f(Q, K, None), TypeError, "value must be a torch.Tensor; got NoneType"),
    "query int": (lambda f: f(Q.int(), K, V), TypeError, f"query {KIND} torch.int32"),
    "key bool": (lambda f: f(Q, K.bool(), V), TypeError, f"key {KIND} torch.bool"),
    "value complex": (lambda f: f(Q, K, V + 0j), TypeError, f"value {KIND} torch.complex64"),
    "query float8": (lambda f: f(Q.to(torch.float8_e5m2), K, V), TypeError, f"query {KIND} torch.float8_e5m2"),
    "key dtype": (
        lambda f: f(Q, K.double(), V),
        TypeError,
        "query and key must have the same dtype; got query torch.float32, key torch.float64",
    ),
    "value dtype": (
        lambda f: f(Q, K, V.half()),
        TypeError,
        "query and value must have the same dtype; got query torch.float32, value torch.float16",
    ),
    "key device": (
        lambda f: f(Q, K.to("meta"), V),
        ValueError,
        "query and key must be on the same device; got query on cpu, key on meta",
    ),
    "value device": (
        lambda f: f(Q, K, V.to("meta")),
        ValueError,
        "query and value must be on the same device; got query on cpu, value on meta",
    ),
    "query one axis": (
        lambda f: f(Q[0, 0], K, V),
        ValueError,
        "query needs at least two axes (..., m, d_k); got shape (11,)",
    ),
    "key one axis": (
        lambda f: f(Q, K[0, 0], V),
        ValueError,
        "key needs at least two axes (..., n, d_k); got shape (11,)",
    ),
    "value no axes": (
        lambda f: f(Q, K, torch.tensor(1.0)),
        ValueError,
        "value needs at least two axes (..., n, d_v); got shape ()",
    ),
    "no features": (
        lambda f: f(Q[..., :0], K[..., :0], V),
        ValueError,
        "query needs at least one feature, d_k >= 1 (axis -1); got shape (2, 5, 0)",
    ),
    "positions": (
        lambda f: f(Q, K, V[:, :3]),
        ValueError,
        "key and value need the same number of positions n (axis -2); got key (2, 7, 11), value (2, 3, 13)",
    ),
    "leading query key": (
        lambda f: f(Q, torch.zeros(3, 7, 11), V),
        ValueError,
        "the leading axes of query and key must broadcast; got query (2, 5, 11), key (3, 7, 11)",
    ),
    "leading query value": (
        lambda f: f(Q, K[:1], torch.zeros(3, 7, 13)),
        ValueError,
        "the leading axes of query and value must broadcast; got query (2, 5, 11), value (3, 7, 13)",
    ),
    "leading key value": (
        lambda f: f(Q[:1], K, torch.zeros(3, 7, 13)),
        ValueError,
        "the leading axes of key and value must broadcast; got key (2, 7, 11), value (3, 7, 13)",
    ),
}
MASK_KIND = "mask must be boolean (True = may attend) or floating point (added to the scores); got"
MASK_SHAPE = "mask must broadcast to the scores (..., m, n); expected something that broadcasts to (2, 5, 7), got"
WRONG_MASKS = {
    "mask list": ([[True]], TypeError, "mask must be a torch.Tensor or None; got list"),
    "mask array": (np.ones((5, 7)), TypeError, "mask must be a torch.Tensor or None; got ndarray"),
    "mask int": (torch.ones(5, 7, dtype=torch.int64), TypeError, f"{MASK_KIND} torch.int64"),
    "mask uint8": (torch.ones(5, 7, dtype=torch.uint8), TypeError, f"{MASK_KIND} torch.uint8"),
    "mask transposed": (torch.ones(7, 5), ValueError, f"{MASK_SHAPE} (7, 5)"),
    "mask batch": (torch.ones(3, 5, 7), ValueError, f"{MASK_SHAPE} (3, 5, 7)"),
    "mask stretches queries": (torch.ones(6, 7), ValueError, f"{MASK_SHAPE} (6, 7)"),
    "mask adds axes": (torch.ones(3, 2, 5, 7), ValueError, f"{MASK_SHAPE} (3, 2, 5, 7)"),
    "mask adds an axis of one": (torch.ones(1, 2, 5, 7), ValueError, f"{MASK_SHAPE} (1, 2, 5, 7)"),
    "mask too few keys": (torch.ones(5, 6), ValueError, f"{MASK_SHAPE} (5, 6)"),
    "mask device": (
        torch.ones(5, 7, device="meta"),
        ValueError,
        "mask must be on the device of the query; expected cpu, got meta",
    ),
}
WRONG_OPTIONS = {
    "features": (
        lambda f: f(Q, torch.zeros(2, 7, 3), V),
        ValueError,
        "query and key need the same number of features d_k (axis -1); got query (2, 5, 11), key (2, 7, 3)",
    ),
    "causal int": (lambda f: f(Q, K, V, is_causal=1), TypeError, "is_causal must be True or False; got int"),
    "causal none": (lambda f: f(Q, K, V, is_causal=None), TypeError, "is_causal must be True or False; got NoneType"),
    "causal mask": (
        lambda f: f(Q, K, V, is_causal=causal_mask(5, 7)),
        TypeError,
        "is_causal must be True or False; got Tensor",
    ),
    "scale string": (lambda f: f(Q, K, V, scale="1"), TypeError, "scale must be a real number or None; got str"),
    "scale bool": (lambda f: f(Q, K, V, scale=True), TypeError, "scale must be a real number or None; got bool"),
    "scale complex": (lambda f: f(Q, K, V, scale=1j), TypeError, "scale must be a real number or None; got complex"),
    "scale tensor": (
        lambda f: f(Q, K, V, scale=torch.tensor(1.0)),
        TypeError,
        "scale must be a real number or None; got Tensor",
    ),
    "scale nan": (lambda f: f(Q, K, V, scale=math.nan), ValueError, "scale must be finite; got nan"),
    "scale inf": (lambda f: f(Q, K, V, scale=-math.inf), ValueError, "scale must be finite; got -inf"),
}


def eager(*args, **kwargs):
    return scaled_dot_product_attention(*args, **kwargs)[0]


def additive(query, key, value, mask=None):
    ones = torch.ones(17, 11)
    return additive_attention(query, key, value, ones, ones, torch.ones(17), mask)


def luong_dot(query, key, value, mask=None):
    return multiplicative_attention(query, key, value, mask)


ATTENTIONS = {"eager": eager, "fused": fused_attention, "additive": additive, "multiplicative": luong_dot}


@pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS.keys())
@pytest.mark.parametrize(("call", "error", "message"), WRONG_INPUTS.values(), ids=WRONG_INPUTS.keys())
def test_a_wrong_input_is_named_with_the_rule_and_what_came(attend, call, error, message):
    assert_raises(lambda: call(attend), error, message)


@pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS.keys())
@pytest.mark.parametrize(("mask", "error", "message"), WRONG_MASKS.values(), ids=WRONG_MASKS.keys())
def test_a_wrong_mask_is_named_with_the_rule_and_what_came(attend, mask, error, message):
    assert_raises(lambda: attend(Q, K, V, mask), error, message)


@pytest.mark.parametrize("attend", [eager, fused_attention], ids=["eager", "fused"])
@pytest.mark.parametrize(("call", "error", "message"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS.keys())
def test_a_wrong_option_is_named_with_the_rule_and_what_came(attend, call, error, message):
    assert_raises(lambda: call(attend), error, message)


QUERY, KEY, ONES = torch.zeros(2, 5, 19), torch.zeros(2, 7, 11), torch.ones(17)
W, W_QUERY, W_KEY = torch.zeros(19, 11), torch.zeros(17, 19), torch.zeros(17, 11)
WRONG_PARAMETERS = {
    "w transposed": (
        lambda: general_scores(QUERY, KEY, W.T),
        ValueError,
        "w must have shape (d_q, d_k); expected (19, 11), got (11, 19)",
    ),
    "w none": (lambda: general_scores(QUERY, KEY, None), TypeError, "w must be a torch.Tensor; got NoneType"),
    "w dtype": (
        lambda: general_scores(QUERY, KEY, W.double()),
        TypeError,
        "query and w must have the same dtype; got query torch.float32, w torch.float64",
    ),
    "w dtype, attention": (
        lambda: multiplicative_attention(QUERY.half(), KEY.half(), KEY.half(), w=W.bfloat16()),
        TypeError,
        "query and w must have the same dtype; got query torch.float16, w torch.bfloat16",
    ),
    "w shape, attention": (
        lambda: multiplicative_attention(QUERY, KEY, KEY, w=W[:3]),
        ValueError,
        "w must have shape (d_q, d_k); expected (19, 11), got (3, 11)",
    ),
    "w_query shape": (
        lambda: additive_scores(QUERY, KEY, W_KEY, W_KEY, ONES),
        ValueError,
        "w_query must have shape (d_hidden, d_q); expected (17, 19), got (17, 11)",
    ),
    "w_key shape": (
        lambda: additive_scores(QUERY, KEY, W_QUERY, W_QUERY, ONES),
        ValueError,
        "w_key must have shape (d_hidden, d_k); expected (17, 11), got (17, 19)",
    ),
    "w_query dtype": (
        lambda: additive_scores(QUERY, KEY, W_QUERY.double(), W_KEY, ONES),
        TypeError,
        "query and w_query must have the same dtype; got query torch.float32, w_query torch.float64",
    ),
    "w_key device": (
        lambda: additive_scores(QUERY, KEY, W_QUERY, W_KEY.to("meta"), ONES),
        ValueError,
        "query and w_key must be on the same device; got query on cpu, w_key on meta",
    ),
    "v dtype": (
        lambda: additive_scores(QUERY, KEY, W_QUERY, W_KEY, ONES.half()),
        TypeError,
        "query and v must have the same dtype; got query torch.float32, v torch.float16",
    ),
    "v axes": (
        lambda: additive_scores(QUERY, KEY, W_QUERY, W_KEY, ONES[:, None]),
        ValueError,
        "v must have one axis (d_hidden,); got shape (17, 1)",
    ),
    "v list": (
        lambda: additive_scores(QUERY, KEY, W_QUERY, W_KEY, [1.0]),
        TypeError,
        "v must be a torch.Tensor; got list",
    ),
    "scores features": (
        lambda: dot_product_scores(QUERY, KEY),
        ValueError,
        "query and key need the same number of features d_k (axis -1); got query (2, 5, 19), key (2, 7, 11)",
    ),
    "scores one axis": (
        lambda: dot_product_scores(QUERY[0, 0], KEY),
        ValueError,
        "query needs at least two axes (..., m, d_q); got shape (19,)",
    ),
    "scores leading": (
        lambda: general_scores(QUERY, torch.zeros(3, 7, 11), W),
        ValueError,
        "the leading axes of query and key must broadcast; got query (2, 5, 19), key (3, 7, 11)",
    ),
    "luong dot features": (
        lambda: multiplicative_attention(QUERY, KEY, KEY),
        ValueError,
        "query and key need the same number of features d_k (axis -1); got query (2, 5, 19), key (2, 7, 11)",
    ),
    "softmax list": (lambda: masked_softmax([1.0]), TypeError, "scores must be a torch.Tensor; got list"),
    "softmax int": (lambda: masked_softmax(torch.ones(3).int()), TypeError, f"scores {KIND} torch.int32"),
    "softmax mask": (
        lambda: masked_softmax(torch.ones(2, 3), torch.ones(3, 3)),
        ValueError,
        "mask must broadcast to the scores (..., m, n); expected something that broadcasts to (2, 3), got (3, 3)",
    ),
    "softmax one axis": (
        lambda: masked_softmax(torch.ones(3), torch.ones(2, 3)),
        ValueError,
        "mask must broadcast to the scores (..., m, n); expected something that broadcasts to (3,), got (2, 3)",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), WRONG_PARAMETERS.values(), ids=WRONG_PARAMETERS.keys())
def test_a_wrong_parameter_is_named_with_the_rule_and_what_came(call, error, message):
    assert_raises(call, error, message)


def test_autocast_mixes_no_float64():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_raises(lambda: eager(Q, K.double(), V), *WRONG_INPUTS["key dtype"][1:])
