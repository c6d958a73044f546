"""The checkers of chapter 1 are tested themselves: right answers pass, and each wrong one gets its own diagnosis."""

import math

import pytest
import torch

from attention_tutorial.checks import diagnose


def rnn(inputs, w, u):
    h, states = 0.0, []
    for x in inputs:
        h = math.tanh(w * x + u * h)
        states.append(h)
    return states


def rnn_forgetting(inputs, w, u):
    return [math.tanh(w * x) for x in inputs]


def rnn_linear(inputs, w, u):
    h, states = 0.0, []
    for x in inputs:
        h = w * x + u * h
        states.append(h)
    return states


def rnn_from_one(inputs, w, u):
    h, states = 1.0, []
    for x in inputs:
        h = math.tanh(w * x + u * h)
        states.append(h)
    return states


def rnn_adding_raw_input(inputs, w, u):
    h, states = 0.0, []
    for x in inputs:
        h = math.tanh(w * x) + u * h
        states.append(h)
    return states


def attend(s, h):
    powers = (h @ s).exp()
    weights = powers / powers.sum()
    return weights @ h, weights


def attend_stable(s, h):
    weights = torch.softmax(torch.mv(h, s), dim=0)
    return (weights[:, None] * h).sum(dim=0), weights


def additive(q, k, w, u, v):
    return torch.tanh(w @ q + k @ u.T) @ v


def additive_loop(q, k, w, u, v):
    return torch.stack([v @ torch.tanh(w @ q + u @ k_j) for k_j in k])


def edge(model, source, target_in, i, j, *, allowed=False, compare=None):
    mask = torch.full((target_in.size(1), source.size(1)), not allowed)
    mask[i, j] = allowed
    with torch.no_grad():
        before = model(source, target_in)[0].argmax(dim=-1)
        after = model(source, target_in, mask)[0].argmax(dim=-1)
    changed = before != after
    return (changed if compare == "all" else changed[:, i]).double().mean().item()


def edge_whole_row(model, source, target_in, i, j):
    mask = torch.ones(target_in.size(1), source.size(1), dtype=torch.bool)
    mask[i] = False
    return _share(model, source, target_in, mask, i)


def edge_swapped(model, source, target_in, i, j):
    mask = torch.ones(target_in.size(1), source.size(1), dtype=torch.bool)
    mask[min(j, len(mask) - 1), i] = False
    return _share(model, source, target_in, mask, i)


def _share(model, source, target_in, mask, i):
    with torch.no_grad():
        before = model(source, target_in)[0].argmax(dim=-1)
        after = model(source, target_in, mask)[0].argmax(dim=-1)
    return (before[:, i] != after[:, i]).double().mean().item()


def edge_per_sequence(model, source, target_in, i, j):
    """Right, but one sequence at a time, and as a tensor."""
    return torch.tensor([edge(model, s[None], t[None], i, j) for s, t in zip(source, target_in, strict=True)]).mean()


RIGHT = [
    ("1.1", rnn),
    ("1.1", lambda inputs, w, u: torch.tensor(rnn(inputs, w, u))),
    ("1.1", lambda inputs, w, u: tuple(rnn(inputs, w, u))),
    ("1.2", lambda length, num_symbols: length * math.log2(num_symbols)),
    ("1.2", lambda length, num_symbols: math.log(num_symbols**length) / math.log(2)),
    ("1.2", lambda length, num_symbols: length * torch.log2(torch.tensor(float(num_symbols), dtype=torch.float64))),
    ("1.3", attend),
    ("1.3", attend_stable),
    ("1.4", additive),
    ("1.4", additive_loop),
    ("1.5", edge),
    ("1.5", edge_per_sequence),
]


@pytest.mark.parametrize(("exercise", "answer"), RIGHT)
def test_right_answers_pass(exercise, answer):
    assert diagnose(exercise, answer) is None


def stub(*arguments):
    raise NotImplementedError


@pytest.mark.parametrize("exercise", ["1.1", "1.2", "1.3", "1.4", "1.5"])
@pytest.mark.parametrize("answer", [stub, lambda *arguments: None, lambda *arguments: ..., None, ...])
def test_stubs_are_not_filled_in_yet(exercise, answer):
    assert diagnose(exercise, answer) == "not filled in yet"


WRONG = [
    ("1.1", lambda inputs, w, u: rnn(inputs, w, u)[-1], "return the list of all"),
    ("1.1", lambda inputs, w, u: 3.5, "got one number"),
    ("1.1", lambda inputs, w, u: [0.0, *rnn(inputs, w, u)], "h_0 is not among them"),
    ("1.1", lambda inputs, w, u: rnn(inputs, w, u)[:2], "expected 4, got shape (2,)"),
    ("1.1", rnn_forgetting, "the old state does not enter"),
    ("1.1", rnn_linear, "the tanh is missing"),
    ("1.1", lambda inputs, w, u: rnn(inputs, u, w), "w and u are swapped"),
    ("1.1", rnn_from_one, "since h_0 = 0"),
    ("1.1", rnn_adding_raw_input, "the first state is right and a later one is not"),
    ("1.1", lambda inputs, w, u: inputs.missing, "your code raised AttributeError"),
    ("1.2", lambda length, num_symbols: length * math.log(num_symbols), "natural units"),
    ("1.2", lambda length, num_symbols: length * math.log10(num_symbols), "decimal digits"),
    ("1.2", lambda length, num_symbols: math.log2(length * num_symbols), "not num_symbols * length"),
    ("1.2", lambda length, num_symbols: num_symbols * math.log2(length), "are swapped"),
    ("1.2", lambda length, num_symbols: math.log2(num_symbols), "bits of one letter"),
    ("1.2", lambda length, num_symbols: length * math.ceil(math.log2(num_symbols)), "whole bits for each letter"),
    ("1.2", lambda length, num_symbols: math.ceil(length * math.log2(num_symbols)), "no need to round"),
    ("1.2", lambda length, num_symbols: num_symbols**length, "that is the number of sequences"),
    ("1.2", lambda length, num_symbols: 12 * math.log2(num_symbols), "but not for 1 out of 2"),
    ("1.2", lambda length, num_symbols: 7.0, "between 39 and 40"),
    ("1.3", lambda s, h: attend(s, h)[0], "return two things"),
    ("1.3", lambda s, h: attend(s, h)[::-1], "the context first"),
    ("1.3", lambda s, h: (attend(s, h)[0], h), "one weight for each encoder state"),
    ("1.3", lambda s, h: (h @ s @ h, h @ s), "softmax is still to come"),
    ("1.3", lambda s, h: ((h @ s).exp() @ h, (h @ s).exp()), "divide them by their sum"),
    ("1.3", lambda s, h: (h.mean(0), (h @ s) / (h @ s).sum()), "take the exponential of each first"),
    ("1.3", lambda s, h: (h.mean(0), (h @ s / len(s) ** 0.5).softmax(0)), "there is no scaling yet"),
    ("1.3", lambda s, h: (h.mean(0), torch.eye(len(h))[(h @ s).argmax()]), "only the best position"),
    ("1.3", lambda s, h: (h.mean(0), torch.full((len(h),), 1 / len(h))), "all weights are equal"),
    ("1.3", lambda s, h: (h.mean(0), 0.5 * attend(s, h)[1]), "yours sum to 0.5"),
    ("1.3", lambda s, h: (h.mean(0), (-h @ s).softmax(0)), "not the softmax of the scores"),
    ("1.3", lambda s, h: (attend(s, h)[1], attend(s, h)[1]), "as many features as a state"),
    ("1.3", lambda s, h: (h.mean(0), attend(s, h)[1]), "not the plain average"),
    ("1.3", lambda s, h: (h[(h @ s).argmax()], attend(s, h)[1]), "not the best one"),
    ("1.3", lambda s, h: (attend(s, h)[0] / len(h), attend(s, h)[1]), "no further division by n"),
    ("1.3", lambda s, h: (s, attend(s, h)[1]), "it is weights @ h"),
    ("1.4", lambda q, k, w, u, v: torch.tanh(w @ q + k @ u.T), "v turns them into one score"),
    ("1.4", lambda q, k, w, u, v: additive(q, k, w, u, v).sum(), "one score for each key"),
    ("1.4", lambda q, k, w, u, v: additive(q, k, w, u, v).softmax(0), "before the softmax"),
    ("1.4", lambda q, k, w, u, v: (w @ q + k @ u.T) @ v, "the tanh is missing"),
    ("1.4", lambda q, k, w, u, v: ((w @ q + k @ u.T) @ v).tanh(), "the tanh belongs inside"),
    ("1.4", lambda q, k, w, u, v: (torch.tanh(w @ q) + torch.tanh(k @ u.T)) @ v, "apply tanh once"),
    ("1.4", lambda q, k, w, u, v: torch.tanh(k @ u.T) @ v, "the query does not enter"),
    ("1.4", lambda q, k, w, u, v: (torch.tanh(w @ q) @ v).repeat(len(k)), "the keys do not enter"),
    ("1.4", lambda q, k, w, u, v: torch.tanh((w @ q) * (k @ u.T)) @ v, "added here, not multiplied"),
    ("1.4", lambda q, k, w, u, v: torch.tanh(w @ q + k @ u.T).sum(1), "v is missing"),
    ("1.4", lambda q, k, w, u, v: -additive(q, k, w, u, v), "the numbers are not"),
    ("1.5", lambda *a: 1 - edge(*a), "stay the same"),
    ("1.5", lambda *a: 400 * edge(*a), "divide by how many"),
    ("1.5", lambda *a: edge(*a, compare="all"), "compare column i"),
    ("1.5", lambda *a: edge(*a, allowed=True), "the wrong way round, so that step i sees only position j"),
    ("1.5", edge_whole_row, "forbade step i every position"),
    ("1.5", edge_swapped, "i and j are swapped"),
    ("1.5", lambda *a: 0.123, "the share should be"),
]


@pytest.mark.parametrize(("exercise", "answer", "diagnosis"), WRONG)
def test_wrong_answers_get_their_own_diagnosis(exercise, answer, diagnosis):
    found = diagnose(exercise, answer)
    assert found is not None and diagnosis in found


def test_every_diagnosis_of_the_bank_is_its_own():
    for exercise in ("1.1", "1.2", "1.3", "1.4", "1.5"):
        found = [diagnose(number, answer) for number, answer, _ in WRONG if number == exercise]
        assert len(set(found)) == len(found)
