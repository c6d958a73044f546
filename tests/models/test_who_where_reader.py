"""Laws of the reader: what its attention is, what equal weights and one projection force, and that it learns."""

import pytest
import torch

from attention_tutorial import scaled_dot_product_attention
from attention_tutorial.data.sentences import VOCABULARY, encode, who_where
from attention_tutorial.models.tasks.who_where_reader import Reader, reader_accuracy, train_reader


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_the_weights_are_those_of_the_package_s_attention_and_padding_gets_none():
    reader = Reader(seeded(0), d_model=7)
    ids = encode([["the", "cat", "sat", "on", "the", "mat"], ["the", "big", "bee"]])
    logits, weights = reader(ids)
    assert weights.shape == (2, 6, 6) and logits.shape == (2, 6, len(VOCABULARY))
    x = reader.embedding[ids[1, :3]]
    output, expected = scaled_dot_product_attention(x @ reader.w_q, x @ reader.w_k, x @ reader.w_v)
    assert torch.allclose(weights[1, :3, :3], expected, atol=1e-6)
    assert torch.allclose(logits[1, :3], output @ reader.w_answer, atol=1e-5)
    assert (weights[1, :, 3:] == 0).all()


def test_who_asks_alone_gets_what_he_gets_among_all():
    reader, drawn = Reader(seeded(0)), who_where(5, generator=seeded(1))
    every, every_weight = reader(drawn.ids)
    some, some_weight = reader(drawn.ids, drawn.asked)
    rows = torch.arange(5)[:, None]
    assert torch.allclose(some, every[rows, drawn.asked], atol=1e-5)
    assert torch.allclose(some_weight, every_weight[rows, drawn.asked], atol=1e-6)


def test_what_is_not_allowed_gets_no_weight():
    reader, drawn = Reader(seeded(0)), who_where(5, generator=seeded(1))
    allowed = torch.ones(5, 2, drawn.ids.size(1), dtype=torch.bool)
    allowed[:, 1, 2] = False
    _, weights = reader(drawn.ids, drawn.asked, allowed)
    assert (weights[:, 1, 2] == 0).all() and (weights[:, 0, 2] > 0).all()


def test_equal_weights_say_the_same_everywhere_and_so_know_half_at_most():
    reader, drawn = Reader(seeded(0), equal_weights=True), who_where(50, generator=seeded(1))
    logits, weights = reader(drawn.ids[:1])
    assert torch.allclose(logits, logits[:, :1].expand_as(logits), atol=1e-6)
    assert torch.allclose(weights[0, 0], weights[0, 0].max() * (drawn.ids[0] > 0))
    assert reader_accuracy(train_reader(reader, drawn, seeded(2), steps=20), drawn) <= 0.5


def test_one_shared_projection_stays_one():
    reader, drawn = Reader(seeded(0), shared=True), who_where(50, generator=seeded(1))
    train_reader(reader, drawn, seeded(2), steps=2)
    assert torch.equal(reader.w_q, reader.w_k)
    assert len(list(reader.parameters())) == 4


def test_training_learns_to_answer():
    sentences = who_where(400, generator=seeded(0))
    reader = Reader(seeded(0))
    before = reader_accuracy(reader, sentences)
    assert train_reader(reader, sentences, seeded(1), steps=150) is reader
    assert before < 0.3 and reader_accuracy(reader, sentences) > 0.9


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Reader(0), TypeError, "generator"),
        (lambda: Reader(seeded(0), d_model=0), ValueError, "d_model"),
        (lambda: Reader(seeded(0), shared=1), TypeError, "shared"),
        (lambda: Reader(seeded(0), equal_weights="no"), TypeError, "equal_weights"),
        (lambda: train_reader(Reader(seeded(0)), None, seeded(0), steps=0), ValueError, "steps"),
        (lambda: train_reader(Reader(seeded(0)), None, seeded(0), batch=0), ValueError, "batch"),
        (lambda: train_reader(Reader(seeded(0)), None, 3), TypeError, "generator"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
