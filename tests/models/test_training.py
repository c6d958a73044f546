"""Laws of the training loop, and of the accuracy of what a trained model writes.

The oracle of the loop is a plain loop, one model at a time.
"""

import math
import sys
from functools import partial

import pytest
import torch
from oracles import assert_raises, draw, mistakes
from torch import nn

from attention_tutorial.data.copying import CopyBatches, copy_examples, shift_right
from attention_tutorial.models.seq2seq import ATTENTION_KINDS, Seq2Seq
from attention_tutorial.models.training import sequence_loss, token_accuracy, train


def make(kind="dot", seed=0, vocab_size=6, d_hidden=5):
    generator = torch.Generator().manual_seed(seed)
    return Seq2Seq(
        vocab_size, d_embedding=3, d_hidden=d_hidden, d_attention=7, attention=kind, generator=generator
    ).double()


def train_alone(model, batches, learning_rate, max_norm, start=0, padding=-100):
    """What `train` does, written plainly with torch's own parts, for one model."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=len(batches))
    losses = []
    for source, target in batches:
        logits, _ = model(source, torch.cat([torch.full_like(target[:, :1], start), target[:, :-1]], dim=1))
        counts = target != padding
        loss = -logits.log_softmax(-1).gather(2, target[..., None])[..., 0][counts].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("options", [{}, {"start": 1, "padding": 5}], ids=["plain", "padded"])
@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_training_side_by_side_or_one_equals_training_alone(kind, several, options):
    """The limit of the norm is one that some gradients exceed and others do not."""
    ours, alone = [make(kind, s) for s in range(3)], [make(kind, s) for s in range(3)]
    batches = list(CopyBatches(12, batch_size=4, min_length=3, max_length=4, num_symbols=4, num_models=3))
    if options:
        for _, target in batches:
            target[:, 1, -2:] = 5  # fills up
    options |= {"learning_rate": 0.03, "max_norm": 0.5}
    together = train(ours, batches, **options).unbind(1) if several else None
    for i, model in enumerate(alone):
        own = [(s[i], t[i]) for s, t in batches]
        history = together[i] if several else train(ours[i], own, **options)
        assert history.tolist() == pytest.approx(train_alone(model, own, **options), abs=1e-8)
        for (name, mine), theirs in zip(ours[i].named_parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-7, msg=name)


def test_some_gradients_were_clipped_and_some_were_not():
    """The law above would not see a mistake in the clipping otherwise."""
    norms = []
    for seed in range(3):
        model = make("dot", seed)
        for source, target in CopyBatches(12, batch_size=4, min_length=3, max_length=4, num_symbols=4, num_models=3):
            loss = sequence_loss(model(source[seed], shift_right(target[seed]))[0], target[seed])
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            norms.append(math.sqrt(sum(g.square().sum().item() for g in gradients)))
    assert min(norms) < 0.5 < max(norms)


def test_a_batch_of_padding_alone_costs_nothing_and_changes_nothing_else(generator):
    logits = draw(generator, 3, 2, 4, 6).requires_grad_()
    target = torch.randint(1, 6, (3, 2, 4), generator=generator)
    target[1] = 0
    losses = torch.func.vmap(partial(sequence_loss, padding=0))(logits, target)
    assert losses[1] == sequence_loss(logits[1], target[1], padding=0) == 0
    alone = [nn.functional.cross_entropy(logits[i].mT, target[i]).item() for i in (0, 2)]
    assert losses[::2].tolist() == pytest.approx(alone)
    assert torch.autograd.grad(losses.sum(), logits)[0].any(dim=-1).tolist() == (target > 0).tolist()
    batches = [(target[i], target[i]) for i in range(3)]
    assert train(make(), batches, padding=0)[1] == 0


def test_training_is_repeatable_and_leaves_the_batches_alone():
    batches = list(CopyBatches(5, max_length=3, num_symbols=5))
    before = [ids.clone() for pair in batches for ids in pair]
    first, two = make(), make()
    assert torch.equal(train(first, batches), train(two, batches))
    after = [ids for pair in batches for ids in pair]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_training_works_on_the_device(device):
    model = make().to(device)
    history = train(model, CopyBatches(3, max_length=3, num_symbols=5))
    assert history.device.type == "cpu"
    assert next(model.parameters()).device.type == device.type


def test_loss_by_hand():
    logits = torch.tensor([[[0.0, math.log(3.0)], [0.0, 0.0]]])  # probabilities 1/4, 3/4 and 1/2, 1/2
    expected = -(math.log(0.75) + math.log(0.5)) / 2
    assert sequence_loss(logits, torch.tensor([[1, 0]])).item() == pytest.approx(expected, abs=1e-6)


def test_accuracy_counts_each_position(monkeypatch):
    model = make()
    source = torch.ones(2, 3, dtype=torch.long)
    written = torch.tensor([[1, 2, 3], [1, 5, 3]])
    monkeypatch.setattr(model, "generate", lambda source, num_steps: (written, None))
    target = torch.tensor([[1, 2, 4], [1, 2, 3]])
    assert token_accuracy(model, source, target).tolist() == [1.0, 0.5, 0.5]


# The progress bar


@pytest.mark.parametrize(
    ("variables", "shows"),
    [({}, True), ({"PYTEST_VERSION": "9"}, False), ({"ATTENTION_TUTORIAL_PROGRESS": "0"}, False)],
)
def test_progress_bar_shows_at_a_terminal_but_not_under_tests_or_where_unwanted(variables, shows, monkeypatch, capsys):
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "ATTENTION_TUTORIAL_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    train(make(), CopyBatches(2, max_length=2, num_symbols=5), description="a team")
    assert ("a team" in capsys.readouterr().err) == shows


MODEL = make()
BATCH = copy_examples(2, 3, num_symbols=5, generator=torch.Generator())
MISTAKES = {
    TypeError: [
        (lambda: train("model", [BATCH]), "models must be a module or a sequence of modules; got str"),
        (lambda: train(make(), iter([BATCH])),
         "batches must be a sized collection of (source, target); got list_iterator"),
        (lambda: train(make(), [BATCH], max_norm="1"), "max_norm must be a real number; got str"),
        (lambda: token_accuracy("model", *BATCH), "model must be a Seq2Seq; got str"),
        (lambda: token_accuracy(MODEL, BATCH[0], [1]), "target must be a torch.Tensor of token ids; got list"),
    ],
    ValueError: [
        (lambda: train([], [BATCH]), "models must hold at least one model; got none"),
        *((lambda other=other: train([make("dot"), other], [BATCH]),
           "models must all be of one class and size; expected that of model 0, got another for model 1")
          for other in (make("additive"), make("dot", d_hidden=4), make("none"))),
        (lambda: train(make(), []), "batches must hold at least one batch; got none"),
        (lambda: train(make(), [BATCH], learning_rate=0), "learning_rate must be above 0; got 0"),
        (lambda: train([make(), make(seed=1)], [BATCH]),
         "source must be (models, batch, n) with models=2; got shape (2, 3)"),
        (lambda: train(make(), [(BATCH[0][None], BATCH[1][None])]), "source must be (batch, n); got shape (1, 2, 3)"),
        (lambda: sequence_loss(torch.zeros(2, 3, 5), torch.zeros(2, 4, dtype=torch.long)),
         "logits must be (batch, m, vocab_size) for target (batch, m); got logits (2, 3, 5), target (2, 4)"),
        (lambda: token_accuracy(MODEL, BATCH[0], BATCH[1][:1]),
         "source and target need two axes (batch, positions) and the same batch size (axis 0); got source (2, 3), "
         "target (1, 3)"),
    ],
}  # fmt: skip


@mistakes(MISTAKES)
def test_mistakes_are_named(call, error, message):
    assert_raises(call, error, message)
