"""Laws of the tests of heads: where each job says to look, and which pattern passes."""

from types import SimpleNamespace

import pytest
import torch
from oracles import assert_raises, mistakes

from attention_tutorial.analysis.head_jobs import (
    JOBS,
    Look,
    copy_score,
    job_scores,
    list_looks,
    repeated_tokens,
)
from attention_tutorial.data.byte_pairs import BEGIN, BytePairs
from attention_tutorial.models.code_model import CodeModel, held_out_files, load_code_model

HALF = 20


@pytest.fixture(scope="module")
def tokens():
    return load_code_model().tokens


@pytest.fixture(scope="module")
def rows(tokens):
    """The beginning of each file that is shipped, and a passage from its middle."""
    ids = [tokens.encode(text) for text in held_out_files().values()]
    return torch.tensor([[BEGIN, *file[at : at + 199]] for file in ids for at in (0, len(file) // 2)])


class Patterns:
    """What stands in for a model: its one layer has a head for each rule, which puts all weight on one place."""

    def __init__(self, tokens, *rules):
        self.tokens, self.rules = tokens, rules

    def __call__(self, ids):
        batch, n = ids.shape
        weights = torch.zeros(batch, len(self.rules), n, n)
        for row, sequence in enumerate(ids.tolist()):
            for head, rule in enumerate(self.rules):
                for i in range(n):
                    weights[row, head, i, rule(sequence, i)] = 1
        return SimpleNamespace(weights=(weights,))


# ---- Each job once more, by looking back from one place -------------------------------------------------------------


def last(texts, before, wanted):
    return next((j for j in reversed(range(before)) if wanted(j, texts[j])), None)


def starts_a_line(texts):
    return lambda j, text: text.startswith("\n") and j + 1 < len(texts) and not texts[j + 1].startswith("\n")


def line(texts, i):
    start = starts_a_line(texts)
    if i + 1 == len(texts) or not texts[i + 1].startswith("\n"):
        return None
    here = last(texts, i, start)
    there = None if here is None else last(texts, here, start)
    return None if there is None or i - here <= 3 else (here, there)


def indentation(texts, i):
    start = starts_a_line(texts)
    if not start(i, texts[i]):
        return None
    same = last(texts, i, lambda j, text: start(j, text) and text == texts[i])
    other = last(texts, i, lambda j, text: start(j, text) and text != texts[i])
    return None if same is None or other is None else (same, other)


def closes(texts, i):
    return i + 1 < len(texts) and texts[i + 1] in {")", "]", "}"}


def opening(j, text):
    return text in {"(", "[", "{"}


def nearest_bracket(texts, i):
    here = last(texts, i + 1, opening) if closes(texts, i) else None
    there = None if here in (None, i) else last(texts, here, opening)
    return None if there is None else (here, there)


def matching_bracket(texts, i):
    if not closes(texts, i):
        return None
    depth = 0
    for j in range(i, -1, -1):
        depth += texts[j] in {")", "]", "}"}
        if opening(j, texts[j]):
            if depth == 0:
                nearest = last(texts, i + 1, opening)
                return None if nearest == j else (j, nearest)
            depth -= 1
    return None


ONCE_MORE = {
    "previous": lambda texts, i: (i - 1, i - 2) if i >= 8 else None,
    "first": lambda texts, i: (0, 1) if i >= 32 else None,
    "line": line,
    "nearest bracket": nearest_bracket,
    "matching bracket": matching_bracket,
    "indentation": indentation,
}


@pytest.mark.parametrize("job", ONCE_MORE)
def test_looks_are_those_of_looking_back_from_each_place(job, tokens, rows):
    for row in rows.tolist():
        texts = [tokens.text(token) for token in row]
        expected = [Look(job, i, *places) for i in range(len(row)) if (places := ONCE_MORE[job](texts, i))]
        assert [look for look in list_looks(texts) if look.job == job] == expected


def test_looks_of_a_text_by_hand():
    texts = "|\n|f|(|[|a|]|)|\n  |g|(|h|(|)|\n|b|c|d|e|\n|i".split("|")
    assert [look[1:] for look in list_looks(texts) if look.job == "matching bracket"] == [(6, 3, 4)]
    assert [look[1:] for look in list_looks(texts) if look.job == "nearest bracket"] == [(5, 4, 3), (6, 4, 3)]
    assert [look[1:] for look in list_looks(texts) if look.job == "line"] == [(13, 8, 1), (18, 14, 8)]
    assert [look[1:] for look in list_looks(texts) if look.job == "indentation"] == [(14, 1, 8), (19, 14, 8)]


@pytest.mark.parametrize("job", ONCE_MORE)
def test_a_head_that_does_a_job_scores_one_and_the_decoy_s_head_none(job, tokens, rows):
    def head(which):
        def rule(sequence, i):
            places = ONCE_MORE[job]([tokens.text(token) for token in sequence[: i + 2]], i)
            return places[which] if places else i

        return rule

    score = job_scores(Patterns(tokens, head(0), head(1)), rows[:4])[job]
    assert score.target.tolist() == [[1, 0]] and score.decoy.tolist() == [[0, 1]] and score.looks > 0
    assert score.best() == (1, 1)


# ---- Scores of a model ----------------------------------------------------------------------------------------------


def test_a_score_is_the_mean_weight_over_all_looks(tokens, rows, generator):
    model = CodeModel(tokens, d_model=12, num_heads=3, generator=generator)
    torch.nn.init.normal_(model.layers[1].distance, generator=generator)
    ids = rows[:5, :120]
    scores = job_scores(model, ids)
    with torch.no_grad():
        weights = model(ids).weights
    listed = [(row, *look) for row in range(5) for look in list_looks([tokens.text(int(token)) for token in ids[row]])]
    assert scores.keys() == {job for _, job, *_ in listed} <= JOBS.keys()
    for job, score in scores.items():
        places = [(row, i, target, decoy) for row, name, i, target, decoy in listed if name == job]
        assert score.looks == len(places)
        for layer in range(2):
            for head in range(3):
                target, decoy = (
                    sum(float(weights[layer][place[0], head, place[1], place[key]]) for place in places) / len(places)
                    for key in (2, 3)
                )
                assert score.target[layer, head] == pytest.approx(target, abs=1e-5)
                assert score.decoy[layer, head] == pytest.approx(decoy, abs=1e-5)
        layer, head = score.best()
        assert score.target[layer - 1, head - 1] == score.target.max()


def test_an_untrained_model_has_no_head_with_a_job(tokens, rows, generator):
    model = CodeModel(tokens, generator=generator)
    scores = job_scores(model, rows) | {"copy": copy_score(model, 8, 32, generator)}
    assert scores.keys() == JOBS.keys()
    assert all(score.target.max() < threshold / 2 for job, score in scores.items() for _, threshold in [JOBS[job]])


# ---- Copying --------------------------------------------------------------------------------------------------------


def test_random_tokens_are_written_twice_or_not(generator):
    model = SimpleNamespace(tokens=BytePairs([]))
    twice, once = repeated_tokens(model, 200, HALF, generator)
    assert twice.shape == once.shape == (200, 2 * HALF + 1)
    assert (twice[:, 0] == BEGIN).all() and (once[:, 0] == BEGIN).all()
    assert twice[:, 1 : HALF + 1].equal(twice[:, HALF + 1 :]) and once[:, HALF + 1 :].equal(twice[:, HALF + 1 :])
    assert {*twice[:, 1:].unique().tolist()} == {*range(1, 257)}, "every token but the one that begins a text"
    assert (once[:, 1 : HALF + 1] == twice[:, 1 : HALF + 1]).float().mean() < 0.02


def test_copying_is_told_from_looking_so_many_places_back(generator, tokens):
    def copies(sequence, i):
        return i - HALF + 1 if i > HALF and sequence[i] == sequence[i - HALF] else 0

    def counts(sequence, i):
        return max(i - HALF + 1, 0)

    score = copy_score(Patterns(tokens, copies, counts, lambda sequence, i: max(i - 1, 0)), 4, HALF, generator)
    assert score.target.tolist() == [[1, 1, 0]] and score.looks == 4 * HALF
    assert score.decoy[0].tolist() == pytest.approx([0, 1, 0], abs=0.02)


@mistakes({
    TypeError: [
        (lambda: job_scores(load_code_model(), [[0, 1]]), "ids must be a torch.Tensor of token ids; got list"),
    ],
    ValueError: [
        (lambda: job_scores(load_code_model(), torch.zeros(9, dtype=torch.long)),
         "ids must be (batch, n) with n at most 256; got (9,)"),
    ],
})  # fmt: skip
def test_a_mistake_is_explained(call, error, message):
    assert_raises(call, error, message)
