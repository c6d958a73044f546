"""Laws of associative recall: the questions, the scores, and what training can be told to do."""

import math

import pytest
import torch
from oracles import assert_raises, mistakes

from attention_tutorial import scaled_dot_product_attention
from attention_tutorial.models.tasks.associative_recall import STARTS, Recall, learn_recall, recall_questions

pytestmark = pytest.mark.usefixtures("double")


def test_a_question_shows_each_symbol_once_and_asks_for_one_of_them():
    order, content, place = recall_questions(20, torch.Generator().manual_seed(0))
    assert all(len(set(row)) == 16 for row in order.flatten(0, 1).tolist())
    assert order.max() < 32 and content.max() < 8 and place.max() < 16
    assert order.shape == content.shape == (STARTS, 20, 16)


def test_an_answer_is_what_the_package_s_attention_returns():
    model = Recall(5, 3.0, features=7)
    questions = recall_questions(4, torch.Generator().manual_seed(1))
    logits, scores = model.answer(questions)
    for start in (0, STARTS - 1):
        for question in (0, 3):
            shown = questions.order[start, question]
            asked = shown[questions.place[start, question]]
            values = torch.nn.functional.one_hot(questions.content[start, question], 8).double()
            q, k = model.x[start, asked] @ model.w_q[start], model.x[start, shown] @ model.w_k[start]
            output, _ = scaled_dot_product_attention(q, k, values, scale=1 / 3)
            assert torch.allclose(logits[start, question], (output @ model.readout[start])[0])
            assert torch.allclose(scores[start, question], (q @ k.T)[0] / 3)


@pytest.mark.parametrize(("d_k", "start", "features"), [(64, 1.0, 64), (256, 0.5, 32)])
def test_scores_start_with_the_deviation_that_start_and_divisor_give(d_k, start, features):
    table = Recall(d_k, 2.0, start=start, features=features).table()
    assert table.std().item() == pytest.approx(math.sqrt(d_k) * start**2 / 2, rel=0.1)


def test_a_smaller_start_and_rate_stand_for_the_division():
    divided = learn_recall(16, 4.0, 0.2, steps=20)
    plain = learn_recall(16, 1.0, 0.2, start=16**-0.25, rate_qk=0.05, steps=20)
    assert torch.allclose(divided.model.table(), plain.model.table(), atol=1e-9)
    assert torch.equal(divided.accuracy, plain.accuracy)


def test_training_learns_and_adam_is_another_way():
    trained = learn_recall(16, 4.0, 0.4, steps=80)
    assert trained.history.shape == (STARTS, 80)
    assert trained.accuracy.mean() > 0.9
    assert trained.model.cosines().mean() > 0.3
    assert not torch.equal(
        learn_recall(4, 2.0, 0.01, steps=3, adam=True).model.w_q, learn_recall(4, 2.0, 0.01, steps=3).model.w_q
    )


def test_the_seed_moves_everything():
    first, other = (Recall(4, 2.0, seed=seed) for seed in (0, 5))
    assert not torch.equal(first.x, other.x) and not torch.equal(first.w_q, other.w_q)


@mistakes({
    ValueError: [
        (lambda: recall_questions(0, torch.Generator()), "size must be at least 1; got 0"),
        (lambda: Recall(0, 1.0), "d_k must be at least 1; got 0"),
        (lambda: Recall(4, 1.0, features=0), "features must be at least 1; got 0"),
        (lambda: Recall(4, 0.0), "divisor must be above 0; got 0.0"),
        (lambda: Recall(4, 1.0, start=0.0), "start must be above 0; got 0.0"),
        (lambda: learn_recall(4, 2.0, 0.2, steps=0), "steps must be at least 1; got 0"),
        (lambda: learn_recall(4, 2.0, -0.1, steps=1), "rate must be above 0; got -0.1"),
    ],
})  # fmt: skip
def test_a_mistake_gets_an_error_that_names_it(call, error, message):
    assert_raises(call, error, message)
