"""Mistakes are read off the weights by what they are, whatever the sizes and factors, not looked up in a list."""

import math

import numpy as np
import pytest
import torch

from attention_tutorial import causal_mask, masked_softmax
from attention_tutorial.exercises import Case, Exercise, Mistake, judge
from attention_tutorial.exercises.reading import describe_scale, explain_weights, recover_weights, weights_alike
from attention_tutorial.exercises.results import (
    alike,
    close,
    expect_mask,
    expect_number,
    expect_numbers,
    expect_pair,
    expect_tensor,
    explain_rounding,
    number,
    numbers,
    random,
    same_shape,
    times,
    within,
)
from attention_tutorial.exercises.running import call

SIZES = {"d_k": 5, "d_model": 35, "h": 7, "n": 11, "m": 3}
SCORES = random(2, 3, 11)
SQUARE = random(2, 7, 7)
SOME = random(3, 11, seed=1) > -0.5


def explain(weights, scores=SCORES, **options):
    return explain_weights(weights, scores, sizes=SIZES, **options)


def test_right_weights_need_no_words():
    assert explain((SCORES / 5**0.5).softmax(-1)) is None
    assert explain(SCORES.softmax(-1), divide_by=None) is None
    assert explain((SCORES / 5**0.5).softmax(-1).float()) is None
    assert explain(masked_softmax(SCORES / 5**0.5, SOME), mask=SOME) is None


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (
            1.0,
            "sharper than they should be: your scores are too large by a factor of 2.24 = sqrt(5); you did not scale",
        ),
        (
            1 / 5,
            "flatter than they should be: your scores are too small by a factor of 2.24 = sqrt(5); you divided by d_k",
        ),
        (35**-0.5, "too small by a factor of 2.65 = sqrt(7); you divided by sqrt(d_model); divide by sqrt(d_k)"),
        (7**-0.5, "you divided by sqrt(h)"),
        (1 / 7, "you divided by h;"),
        (1 / 11, "you divided by n;"),
        (5**0.5, "you multiplied by sqrt(d_k)"),
        (5**-0.25, "the fourth root of d_k"),
        (35**-0.5 * 5**-0.5, "you divided by sqrt(d_model) as well"),
        (35**0.5 * 5**-0.5, "you multiplied by sqrt(d_model) as well"),
        (5**-2.0, "you divided by the square of d_k"),
        (5**-0.5 * math.log(2), "you took powers of 2 where exp takes powers of e"),
        (5**-0.5 / 11, "you divided by n as well"),
        (0.123, "too small by a factor of 3.64; in effect you divided by 8.13; divide by sqrt(d_k)"),
        (-(5**-0.5), "the sign of your scores is turned around"),
    ],
)
@pytest.mark.parametrize("mask", [None, SOME])
def test_the_factor_on_the_scores_is_read_off_the_weights(scale, words, mask):
    assert words in explain(masked_softmax(scale * SCORES, mask), mask=mask)


SCALED = SCORES / 5**0.5


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (SCORES, "these are the raw scores"),
        (SCALED, "these are the scaled scores"),
        (SCALED.exp(), "these are the exponentials"),
        (0.37 * SCALED.softmax(-1), "each row sums to 0.37"),
        (SCALED.softmax(-2), "runs over the queries"),
        (SCALED.softmax(0), "runs over axis 0"),
        (SCALED.flatten(1).softmax(-1).view_as(SCALED), "over the whole matrix"),
        (SCALED / SCALED.sum(-1, keepdim=True), "divided the scores by their sum"),
        (torch.full_like(SCALED, 1 / 11), "averaged evenly"),
        (torch.nn.functional.one_hot(SCALED.argmax(-1), 11), "all weight to one key"),
        (SCALED.softmax(-1).flip(-1), "in the wrong order"),
        (SCALED.softmax(-1).flip(0), "in the wrong rows"),
        (SCALED.softmax(-1) * torch.nan, "NaN"),
        (SCALED.sigmoid(), "each row of weights must sum to 1; yours sum to between"),
        ((SCALED**2).softmax(-1), "not the softmax of the scores"),
        (random(2, 3, 11, seed=9).softmax(-1), "not the softmax of the scores"),
    ],
)
def test_what_kind_of_weights_they_are_is_said(weights, words):
    assert words in explain(weights)


def test_swapped_queries_and_keys_are_recognised():
    assert "swapped" in explain((SQUARE.mT / 5**0.5).softmax(-1), SQUARE)


def filled(mask, fill):
    return SCALED.masked_fill(~mask, fill).softmax(-1)


def emptied(row, kind):
    """Right everywhere but in a row without an allowed key."""
    mask = SOME.clone()
    mask[1] = False
    weights = masked_softmax(SCALED, mask).clone()
    weights[:, 1] = kind
    return weights, mask


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (SCALED.softmax(-1), "your mask has no effect"),
        ((3 * SCALED).softmax(-1), "your mask has no effect"),
        (masked_softmax(SCALED, ~SOME), "the wrong way round"),
        (SCALED.softmax(-1) * SOME, "after the softmax"),
        ((3 * SCALED).softmax(-1) * SOME, "after the softmax"),
        ((SCALED * SOME).softmax(-1), "masked keys got the score 0"),
        (filled(SOME, 1e-9), "masked keys got the score 0"),
        (filled(SOME, -4.0), "masked keys got the score -4"),
        ((SCALED + SOME).softmax(-1), "you added a boolean mask"),
        ((SCALED + 0.95 * SOME).softmax(-1), "masked keys still get weight, up to 0."),
        ((SCALED + ~SOME).softmax(-1), "added the inverted boolean mask"),
        (filled(SOME, -torch.inf) * torch.nan, "NaN"),
        (masked_softmax(SCALED, SOME & (random(3, 11, seed=2) > 0)), "blocks more than it should"),
    ],
)
def test_what_happened_to_the_mask_is_said(weights, words):
    assert words in explain(weights, mask=SOME)


@pytest.mark.parametrize(
    ("kind", "words"), [(torch.nan, "came out as NaN"), (1 / 11, "got equal weights"), (0.5, "must get zero weights")]
)
def test_rows_without_an_open_key_are_looked_at(kind, words):
    weights, mask = emptied(1, kind)
    assert words in explain(weights, mask=mask)
    assert explain(emptied(1, 0.0)[0], mask=mask) is None


@pytest.mark.parametrize(("shift", "words"), [(-1, "misses the last key"), (1, "one key of the future")])
def test_a_shifted_causal_mask_is_recognised(shift, words):
    shifted = torch.ones(7, 7, dtype=torch.bool).tril(shift)
    diagnosis = explain(masked_softmax(SQUARE / 5**0.5, shifted), SQUARE, mask=causal_mask(7))
    assert "off by one" in diagnosis and words in diagnosis


def test_a_shifted_causal_mask_is_recognised_where_there_are_more_keys_than_queries():
    shifted = torch.ones(3, 11, dtype=torch.bool).tril(11 - 3 + 1)
    diagnosis = explain(masked_softmax(SCALED, shifted), mask=causal_mask(3, 11))
    assert "off by one: each query sees one key of the future" in diagnosis


def test_a_closed_key_that_is_open_is_named():
    wider = SOME.clone()
    wider[2, (~SOME)[2].nonzero()[0, 0]] = True
    assert "query 2 attends to key" in explain(masked_softmax(SCALED, wider), mask=SOME)


def test_scales_are_described_in_words():
    assert describe_scale(1.0, 5**-0.5, SIZES, "d_k").endswith("you did not scale them; divide by sqrt(d_k)")
    assert describe_scale(5**-0.5, 1.0, SIZES, None).endswith("you divided by sqrt(d_k); leave the scores as they are")


def test_weights_are_recovered_from_outputs():
    value = random(5, 7)
    weights = random(3, 5).softmax(-1)
    assert close(recover_weights(weights @ value, value), weights)
    assert recover_weights(weights @ value + 0.1 * random(3, 7), value) is None


def test_rows_that_are_not_weights_are_told_apart():
    right = (SCORES / 5**0.5).softmax(-1)
    square = (SQUARE / 5**0.5).softmax(-1)
    for weights, scores, words in (
        (SCORES.softmax(-1) / 5**0.5, SCORES, "0.447 = 1/sqrt(d_k) in place of 1: you divided after the softmax"),
        (right / 11, SCORES, "0.0909 = 1/n in place of 1; the softmax divides each"),
        (square / 7, SQUARE, "0.143 = 1/h in place of 1"),  # all together, too, sum to 1
        (square.mT, SQUARE, "transposed"),
        (torch.eye(7).expand_as(square), SQUARE, "never mixed"),
        (right.log(), SCORES, "logarithms"),
        (torch.ones_like(right), SCORES, "all your weights are 1"),
        (right.round(decimals=2), SCORES, "rounded to 2 decimals"),
        (right.softmax(-1), SCORES, "the softmax twice"),
        (right[:, :1].expand_as(right), SCORES, "all queries get the same weights"),
        ((SCORES / 5**0.5 - SCORES.amax(1, keepdim=True)).softmax(-1), SCORES, "another number was added"),
        ((SCORES / 5**0.5).index_fill(-1, torch.tensor(3), -math.inf).softmax(-1), SCORES, "such as key 3"),
    ):
        assert words in explain(weights, scores)


def test_inexact_numbers_are_told_from_wrong_ones():
    right = random(9)
    assert explain_rounding(right, right) is None
    assert explain_rounding(right.float(), right) is None
    assert explain_rounding(right + 0.1, right) is None
    assert explain_rounding(torch.zeros(2), torch.tensor([0.02, 0.04])) is None  # says nothing of where it came from
    assert "rounded to 1 decimal;" in explain_rounding(right.round(decimals=1), right)
    assert "rounded to 3 decimals;" in explain_rounding(right.float().round(decimals=3), right)
    assert "rounded to 4 decimals;" in explain_rounding(right.round(decimals=4), right)
    assert "nearly right" in explain_rounding(right.half(), right)
    ripple = right.abs().max() * torch.linspace(-1, 1, 9)
    assert "off by up to 0.00" in explain_rounding(right + 0.004 * ripple, right)
    assert explain_rounding(right + 0.006 * ripple, right) is None
    assert explain_rounding(right[:5], right) is None


def test_factors_are_named_by_the_sizes():
    right = random(9)
    assert times(right / 11, right, SIZES) == "0.0909 = 1/n times"
    assert times(right * 5**0.5, right, SIZES) == "2.24 = sqrt(d_k) times"
    assert times(right * 1.23, right, SIZES) == "1.23 times"
    assert times(right * 7 * 1.00003, right, SIZES) == "7 = h times"
    assert times(right * 7 * 1.003, right, SIZES) == "7.02 times"
    assert times(right + 1, right, SIZES) is None
    assert times(0 * right, right, SIZES) is None


def test_a_function_that_only_prints_is_told_to_return():
    def without_return(x):
        y = [x]  # noqa: F841 (the mistake: no return)

    for answer in (without_return, lambda x: print(end="")):
        with pytest.raises(Mistake, match="your function returns nothing"):
            call(answer, 1)
    with pytest.raises(NotImplementedError):
        call(lambda x: None, 1)


def test_close_allows_for_rounding_in_float32_and_no_more():
    assert close(1.0, 1 + 1.9e-5) and not close(1.0, 1 + 2.1e-5)  # relative and absolute
    assert close(0.0, 9e-6) and not close(0.0, 1.1e-5)
    assert close(torch.ones(3, dtype=torch.float32), [1, 1, 1])
    assert not close(torch.ones(3), torch.ones(1)) and not close(1.0, torch.ones(3))


def test_random_numbers_depend_on_seed_and_shape():
    assert random(3, 5).equal(random(3, 5)) and random(3).dtype == torch.float64
    first = [x.flatten()[0].item() for x in (random(3), random(5), random(3, 5), random(3, seed=1), random(5, seed=2))]
    assert len(set(first)) == len(first)


def test_call_tells_a_stub_from_an_operation_that_torch_does_not_have():
    def not_for_integers(x):
        return x.softmax(0)

    with pytest.raises(Mistake, match=r"raised NotImplementedError: .*\(in the line `return x.softmax\(0\)`\)"):
        call(not_for_integers, torch.arange(3))


def test_call_keeps_gradients_and_hands_over_copies():
    x = random(3).requires_grad_()
    gradient = call(lambda a: torch.autograd.grad(a.sum(), a)[0], x)
    assert gradient.tolist() == [1.0] * 3 and x.grad is None
    with pytest.raises(Mistake):
        call(lambda a: a.mul_(2), x.detach())
    assert close(x, random(3))
    assert call(lambda a, b: 1, torch.tensor([math.nan, 1.0]), [math.nan, 2]) == 1


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda a, b: a.unsqueeze_(0).sum(), "a"),
        (lambda a, b: a.mul_(1 + 1e-9).sum(), "a"),
        (lambda a, b: a[0].fill_(math.nan), "a"),
        (lambda a, b: b.sort() or 1, "b"),
        (lambda *a: a[1].append(1) or 1, "number 2"),
    ],
)
def test_every_change_of_an_argument_is_seen_and_named(change, name):
    with pytest.raises(Mistake, match=rf"changed its arguments \({name}\)"):
        call(change, torch.ones(3, dtype=torch.float64), [2, 1])


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (torch.ones(2), r"must have shape \(m, n\), here \(1, 2\); got \(2,\)"),
        ([1, 2], "must be a tensor; got list of int; torch.tensor makes a tensor of it"),
        ([torch.ones(2)], "must be a tensor; got list of Tensor; torch.stack"),
        (np.ones((1, 2)), "must be a tensor; got ndarray; torch.from_numpy"),
        ((torch.ones(1, 2), 0), "return the output alone; got a tuple of 2"),
        (torch.full((1, 2), math.nan), "holds NaN"),
        (torch.full((1, 2), math.inf), "holds infinity"),
    ],
)
def test_the_kind_of_result_is_said(result, words):
    with pytest.raises(Mistake, match=words):
        expect_tensor(result, (1, 2), "(m, n)")


def test_a_tensor_is_taken_in_float64_and_may_be_infinite_where_that_is_right():
    assert expect_tensor(torch.ones(2), (2,), "(n,)").dtype == torch.float64
    for x in (math.nan, math.inf):
        assert expect_tensor(torch.tensor([x]), (1,), "(n,)", finite=False).dtype == torch.float64


def test_booleans_pairs_and_numbers_are_asked_for():
    assert expect_tensor(torch.tensor([True]), (1,), "(n,)", boolean=True).dtype == torch.bool
    for ask, words in (
        (lambda: expect_tensor(torch.ones(1), (1,), "(n,)", boolean=True), "must be boolean; got float"),
        (lambda: expect_pair(3, "a", "b"), "return two things, a and b; got int"),
        (lambda: expect_pair((1, 2, 3), "a", "b"), "got 3 things"),
        (lambda: expect_number(torch.ones(2)), r"must be one number; got Tensor of shape \(2,\)"),
        (lambda: expect_number(math.nan), "is NaN"),
        (lambda: expect_number("3"), "must be one number; got str"),
        (lambda: expect_number(10**400), "too large"),
        (lambda: expect_numbers("ab"), "must be numbers; got str"),
        (lambda: expect_numbers([math.nan]), "holds NaN"),
        (lambda: expect_numbers([1, "two", 3]), "must be numbers; got list of int and str"),
        (lambda: expect_numbers([math.nan], "the weights"), "the weights hold NaN"),
    ):
        with pytest.raises(Mistake, match=words):
            ask()
    assert expect_pair([1, 2], "a", "b") == (1, 2)
    assert expect_number(torch.tensor(2.0)) == 2.0
    assert expect_numbers((1, 2)).tolist() == [1.0, 2.0]


def test_results_are_the_same_in_any_container_and_booleans_are_no_numbers():
    assert alike([1, 2], torch.tensor([1.0, 2.0])) and alike(np.ones(2), (1, 1)) and alike(2, torch.tensor(2.0))
    assert alike(torch.ones(2, dtype=torch.float32), torch.ones(2).double())
    assert alike((torch.ones(2), torch.zeros(3)), [torch.ones(2), torch.zeros(3)])
    assert not alike((torch.ones(2), torch.zeros(3)), (torch.ones(2), torch.ones(3)))
    assert not alike(torch.ones(2), (torch.ones(2), torch.ones(2)))
    assert not alike(torch.tensor([True]), torch.tensor([1.0])) and alike(torch.tensor([True]), torch.tensor([True]))
    assert not alike(torch.tensor([math.nan]), torch.tensor([math.nan]))
    for nothing in (None, "a", object(), 10**400, {}):
        assert not alike(nothing, nothing)
    assert within(0.1)(1.0, 1.05) and not alike(1.0, 1.05)


def test_results_may_be_the_same_in_shape_alone():
    a, b = torch.zeros(2, 3), torch.ones(2, 3)
    assert (
        same_shape(a, b) and same_shape((a, a), (b, b)) and not same_shape(a, b.T) and not same_shape((a, a), (b, b.T))
    )
    assert not same_shape(a, (b,)) and not same_shape([1, 2], [3, 4])


def test_weights_from_the_same_scores_are_alike_whatever_the_factor():
    weights = SCORES.softmax(-1)
    assert weights_alike(weights, (3 * SCORES).softmax(-1)) and weights_alike((0.1 * SCORES).softmax(-1), weights)
    assert not weights_alike(weights, random(2, 3, 11, seed=7).softmax(-1))
    assert not weights_alike(weights, weights[:1]) and not weights_alike(weights, -weights)
    assert not weights_alike((weights, weights), (weights, weights)) and not weights_alike(weights, None)


def test_a_mask_says_of_which_kind_it_is():
    assert expect_mask(torch.tensor([True]), (1,), "(n,)").tolist() == [True]
    for mask, words in (
        (torch.ones(1), "numbers 0 and 1"),
        (torch.tensor([-math.inf]), "a float mask of 0 and minus infinity"),
        (torch.tensor([3]), "must be boolean; got int64"),
        (torch.tensor([[True]]), r"must have shape \(n,\)"),
    ):
        with pytest.raises(Mistake, match=words):
            expect_mask(mask, (1,), "(n,)")


def test_as_many_numbers_are_asked_for_as_there_are():
    asked = numbers("the states", "there is one for each input")
    assert asked.read((1, 2), [3, 4]).tolist() == [1, 2]
    for answer, words in (([1], r"one for each input; expected 2, got shape \(1,\)"), (5, "2, got one number")):
        with pytest.raises(Mistake, match=words):
            asked.read(answer, [3, 4])


SEEN = Exercise(
    name="nine_1",
    asks="Whether it is True.",
    right=lambda: True,
    returns=number("it"),
    cases=[Case()],
    slips=[],
    rest="it is False",
    in_evaluation=True,
)


def test_an_answer_is_judged_again_as_in_evaluation():
    def raises():
        if not torch.is_grad_enabled():
            raise ValueError("it is gone")
        return True

    assert judge(SEEN, lambda: True) is None
    assert judge(SEEN, lambda: False).words == "it is False"
    again = "right in training, but not in evaluation (torch.no_grad() and eval()): "
    assert judge(SEEN, torch.is_grad_enabled).words == f"{again}it is False"
    assert judge(SEEN, raises).words.startswith(f"{again}your code raised ValueError: it is gone")
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("training", [True, False])
def test_a_module_is_handed_back_in_the_mode_it_came_in(training):
    modes = []

    class Module(torch.nn.Module):
        def forward(self):
            modes.append(self.training)
            return True

    module = Module().train(training)
    assert judge(SEEN, module) is None
    assert modes == [training, False]
    assert module.training is training
