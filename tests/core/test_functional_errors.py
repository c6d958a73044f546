"""Every wrong argument of the attention functions gives an error that names it, the rule and what came."""

import math

import numpy as np
import pytest
import torch
from oracles import assert_raises, mistakes

from attention_tutorial import (
    additive_attention,
    additive_scores,
    causal_mask,
    fused_attention,
    masked_softmax,
    multiplicative_attention,
    scaled_dot_product_attention,
)

Q, K, V = torch.zeros(2, 5, 11), torch.zeros(2, 7, 11), torch.zeros(2, 7, 13)
KIND = "must hold real floating-point numbers (float64, float32, bfloat16 or float16); got"
WRONG_INPUTS = {
    TypeError: [
        (lambda f: f(np.zeros((5, 11)), K, V), "query must be a torch.Tensor; got ndarray"),
        (lambda f: f(Q, [[1.0]], V), "key must be a torch.Tensor; got list"),
        (lambda f: f(Q, K, None), "value must be a torch.Tensor; got NoneType"),
        (lambda f: f(torch.nested.nested_tensor(list(Q), layout=torch.jagged), K, V),
         "query must not be nested; pad it by torch.nested.to_padded_tensor, and hide the padding by a mask, "
         "padding_mask(lengths)"),
        (lambda f: f(Q.int(), K, V), f"query {KIND} torch.int32"),
        (lambda f: f(Q, K.bool(), V), f"key {KIND} torch.bool"),
        (lambda f: f(Q, K, V + 0j), f"value {KIND} torch.complex64"),
        (lambda f: f(Q.to(torch.float8_e5m2), K, V), f"query {KIND} torch.float8_e5m2"),
        (lambda f: f(Q, K.double(), V),
         "query and key must have the same dtype; got query torch.float32, key torch.float64"),
        (lambda f: f(Q, K, V.half()),
         "query and value must have the same dtype; got query torch.float32, value torch.float16"),
    ],
    ValueError: [
        (lambda f: f(Q, K.to("meta"), V), "query and key must be on the same device; got query on cpu, key on meta"),
        (lambda f: f(Q, K, V.to("meta")),
         "query and value must be on the same device; got query on cpu, value on meta"),
        (lambda f: f(Q[0, 0], K, V), "query needs at least two axes (..., m, d_k); got shape (11,)"),
        (lambda f: f(Q, K[0, 0], V), "key needs at least two axes (..., n, d_k); got shape (11,)"),
        (lambda f: f(Q, K, torch.tensor(1.0)), "value needs at least two axes (..., n, d_v); got shape ()"),
        (lambda f: f(Q[..., :0], K[..., :0], V),
         "query needs at least one feature, d_k >= 1 (axis -1); got shape (2, 5, 0)"),
        (lambda f: f(Q, K, V[:, :3]),
         "key and value need the same number of positions n (axis -2); got key (2, 7, 11), value (2, 3, 13)"),
        (lambda f: f(Q, torch.zeros(3, 7, 11), V),
         "the leading axes of query and key must broadcast; got query (2, 5, 11), key (3, 7, 11)"),
        (lambda f: f(Q, K[:1], torch.zeros(3, 7, 13)),
         "the leading axes of query and value must broadcast; got query (2, 5, 11), value (3, 7, 13)"),
        (lambda f: f(Q[:1], K, torch.zeros(3, 7, 13)),
         "the leading axes of key and value must broadcast; got key (2, 7, 11), value (3, 7, 13)"),
    ],
}  # fmt: skip
MASK_KIND = "mask must be boolean (True = may attend) or floating point (added to the scores); got"
MASK_SHAPE = "mask must broadcast to the scores (..., m, n); expected something that broadcasts to (2, 5, 7), got"
WRONG_MASKS = {
    TypeError: [
        ([[True]], "mask must be a torch.Tensor or None; got list"),
        (np.ones((5, 7)), "mask must be a torch.Tensor or None; got ndarray"),
        (torch.ones(5, 7, dtype=torch.int64), f"{MASK_KIND} torch.int64"),
        (torch.ones(5, 7, dtype=torch.uint8), f"{MASK_KIND} torch.uint8"),
    ],
    ValueError: [
        (torch.ones(7, 5), f"{MASK_SHAPE} (7, 5)"),
        (torch.ones(3, 5, 7), f"{MASK_SHAPE} (3, 5, 7)"),
        (torch.ones(6, 7), f"{MASK_SHAPE} (6, 7)"),
        (torch.ones(3, 2, 5, 7), f"{MASK_SHAPE} (3, 2, 5, 7)"),
        (torch.ones(1, 2, 5, 7), f"{MASK_SHAPE} (1, 2, 5, 7)"),
        (torch.ones(5, 6), f"{MASK_SHAPE} (5, 6)"),
        (torch.ones(5, 7, device="meta"), "mask must be on the device of the query; expected cpu, got meta"),
    ],
}  # fmt: skip
WRONG_OPTIONS = {
    TypeError: [
        (lambda f: f(Q, K, V, is_causal=1), "is_causal must be True or False; got int"),
        (lambda f: f(Q, K, V, is_causal=None), "is_causal must be True or False; got NoneType"),
        (lambda f: f(Q, K, V, is_causal=causal_mask(5, 7)), "is_causal must be True or False; got Tensor"),
        (lambda f: f(Q, K, V, scale="1"), "scale must be a real number or None; got str"),
        (lambda f: f(Q, K, V, scale=True), "scale must be a real number or None; got bool"),
        (lambda f: f(Q, K, V, scale=1j), "scale must be a real number or None; got complex"),
        (lambda f: f(Q, K, V, scale=torch.tensor(1.0)), "scale must be a real number or None; got Tensor"),
    ],
    ValueError: [
        (lambda f: f(Q, torch.zeros(2, 7, 3), V),
         "query and key need the same number of features d_k (axis -1); got query (2, 5, 11), key (2, 7, 3)"),
        (lambda f: f(Q, K, V, scale=math.nan), "scale must be finite; got nan"),
        (lambda f: f(Q, K, V, scale=-math.inf), "scale must be finite; got -inf"),
    ],
}  # fmt: skip


def eager(*args, **kwargs):
    return scaled_dot_product_attention(*args, **kwargs)[0]


def additive(query, key, value, mask=None):
    ones = torch.ones(17, 11)
    return additive_attention(query, key, value, ones, ones, torch.ones(17), mask)


def luong_dot(query, key, value, mask=None):
    return multiplicative_attention(query, key, value, mask)


ATTENTIONS = {"eager": eager, "fused": fused_attention, "additive": additive, "multiplicative": luong_dot}


@pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS.keys())
@mistakes(WRONG_INPUTS)
def test_a_wrong_input_is_named_with_the_rule_and_what_came(attend, call, error, message):
    assert_raises(lambda: call(attend), error, message)


@pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS.keys())
@mistakes(WRONG_MASKS)
def test_a_wrong_mask_is_named_with_the_rule_and_what_came(attend, call, error, message):
    assert_raises(lambda: attend(Q, K, V, call), error, message)


@pytest.mark.parametrize("attend", [eager, fused_attention], ids=["eager", "fused"])
@mistakes(WRONG_OPTIONS)
def test_a_wrong_option_is_named_with_the_rule_and_what_came(attend, call, error, message):
    assert_raises(lambda: call(attend), error, message)


QUERY, KEY, ONES = torch.zeros(2, 5, 19), torch.zeros(2, 7, 11), torch.ones(17)
W, W_QUERY, W_KEY = torch.zeros(19, 11), torch.zeros(17, 19), torch.zeros(17, 11)
WRONG_PARAMETERS = {
    TypeError: [
        (lambda: multiplicative_attention(QUERY, KEY, KEY, w=[1.0]), "w must be a torch.Tensor; got list"),
        (lambda: multiplicative_attention(QUERY.half(), KEY.half(), KEY.half(), w=W.bfloat16()),
         "query and w must have the same dtype; got query torch.float16, w torch.bfloat16"),
        (lambda: additive_scores(QUERY, KEY, W_QUERY.double(), W_KEY, ONES),
         "query and w_query must have the same dtype; got query torch.float32, w_query torch.float64"),
        (lambda: additive_scores(QUERY, KEY, W_QUERY, W_KEY, ONES.half()),
         "query and v must have the same dtype; got query torch.float32, v torch.float16"),
        (lambda: additive_scores(QUERY, KEY, W_QUERY, W_KEY, [1.0]), "v must be a torch.Tensor; got list"),
        (lambda: masked_softmax([1.0]), "scores must be a torch.Tensor; got list"),
        (lambda: masked_softmax(torch.ones(3).int()), f"scores {KIND} torch.int32"),
    ],
    ValueError: [
        (lambda: multiplicative_attention(QUERY, KEY, KEY, w=W[:3]),
         "w must have shape (d_q, d_k); expected (19, 11), got (3, 11)"),
        (lambda: additive_scores(QUERY, KEY, W_KEY, W_KEY, ONES),
         "w_query must have shape (d_hidden, d_q); expected (17, 19), got (17, 11)"),
        (lambda: additive_scores(QUERY, KEY, W_QUERY, W_QUERY, ONES),
         "w_key must have shape (d_hidden, d_k); expected (17, 11), got (17, 19)"),
        (lambda: additive_scores(QUERY, KEY, W_QUERY, W_KEY.to("meta"), ONES),
         "query and w_key must be on the same device; got query on cpu, w_key on meta"),
        (lambda: additive_scores(QUERY, KEY, W_QUERY, W_KEY, ONES[:, None]),
         "v must have one axis (d_hidden,); got shape (17, 1)"),
        (lambda: additive_scores(QUERY[0, 0], KEY, W_QUERY, W_KEY, ONES),
         "query needs at least two axes (..., m, d_q); got shape (19,)"),
        (lambda: multiplicative_attention(QUERY, KEY, KEY),
         "query and key need the same number of features d_k (axis -1); got query (2, 5, 19), key (2, 7, 11)"),
        (lambda: masked_softmax(torch.ones(2, 3), torch.ones(3, 3)),
         "mask must broadcast to the scores (..., m, n); expected something that broadcasts to (2, 3), got (3, 3)"),
        (lambda: masked_softmax(torch.ones(3), torch.ones(2, 3)),
         "mask must broadcast to the scores (..., m, n); expected something that broadcasts to (3,), got (2, 3)"),
    ],
}  # fmt: skip


@mistakes(WRONG_PARAMETERS)
def test_a_wrong_parameter_is_named_with_the_rule_and_what_came(call, error, message):
    assert_raises(call, error, message)


def test_autocast_mixes_no_float64():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        message = "query and key must have the same dtype; got query torch.float32, key torch.float64"
        assert_raises(lambda: eager(Q, K.double(), V), TypeError, message)
