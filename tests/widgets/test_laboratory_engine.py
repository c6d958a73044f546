"""Laws of the laboratory's engine: in the page as in PyTorch, from the first random number to the twentieth step."""

import itertools
import json
import subprocess
from base64 import b64decode

import pytest
import torch

from attention_tutorial.data.synthetic import SYNTHETIC_TASKS, normal_numbers, uniform_numbers
from attention_tutorial.models.one_layer import (
    BATCH,
    BATCHES,
    HELD_OUT,
    TEST,
    OneLayer,
    evaluate_one_layer,
    train_one_layer,
    write_on,
)
from tools.node import JS, node

STEPS = 20
SPARSE = 5  # every fifth case also by differences, at a few of the weights
PARTS = ("embedding", "w_q", "w_k", "w_v", "w_o", "positions")

# Any two values of two switches meet in one of these; blocks of matrices have edges with 7 features.
SWITCHES = {
    "task": tuple(SYNTHETIC_TASKS),
    "d_head": (12, 4, 7, 24),
    "divisor": ("one", "root", "width"),
    "positions": ("none", "sines", "learned"),
    "heads": (1, 2, 4),
    "causal": (False, True),
}
PLACES = """
001021 012100 020201 030110 102200 111211 120010 131120 200121 212021 221201 232210 302111 310221 322120 331001
""".split()  # of the values in each case
CASES = [
    {name: values[int(place)] for (name, values), place in zip(SWITCHES.items(), places, strict=True)} | {"seed": seed}
    for seed, places in enumerate(PLACES)
]
NAMES = [" ".join(map(str, case.values())) for case in CASES]

SCRIPT = """
import { readFileSync } from "node:fs";
const { steps, cases, some } = JSON.parse(readFileSync(0, "utf8"));
const { BATCH, Model, Random, TASKS } = await import(process.argv[1]);
const bytes = (x) => Buffer.from(x.buffer, x.byteOffset, x.byteLength).toString("base64");
const both = ({ ids, targets }) => [[...ids], [...targets]];

/* The derivatives of the loss by differences, at some of the weights, beside those of `gradients`. */
function differences(setup) {
  const model = new Model(setup);
  const { ids, targets } = model.task.batch(new Random(1), BATCH);
  model.differentiate(ids, targets);
  const [w, slopes] = [model.weights.all, model.gradients.all.slice()];
  const draw = new Random(2);
  return Array.from({ length: 8 }, () => {
    const i = draw.below(w.length);
    const start = w[i];
    const [above, below] = [1e-5, -1e-5].map((by) => {
      w[i] = start + by;
      return model.differentiate(ids, targets).loss;
    });
    w[i] = start;
    return [slopes[i], (above - below) / 2e-5];
  });
}

function run(setup) {
  const model = new Model(setup);
  const start = bytes(model.weights.all.slice());
  const looks = [0, 1].map((which) => {
    const { weights, logits } = model.look(model.example(which).ids);
    return [bytes(weights), bytes(logits)];
  });
  const measured = [];
  let gradients;
  for (let i = 0; i < steps; i++) {
    const { loss, accuracy, queryGradient } = model.step();
    if (i === 0) gradients = bytes(model.gradients.all.slice());
    measured.push([loss, accuracy, queryGradient]);
  }
  const prompt = model.example(3).ids.slice(0, 3);
  const written = setup.task === "write_on" ? [...model.write(prompt, 14)] : [];
  const { loss, accuracy } = model.evaluate();
  return { start, looks, gradients, measured, end: bytes(model.weights.all), tested: [loss, accuracy], written };
}

const tasks = Object.values(TASKS).map((task) => {
  const held = new Model({ ...cases[0], task: task.name }).example(511);
  const { name, words, answers, length } = task;
  return { name, words, answers, length, batch: both(task.batch(new Random(5, 6), 64)), last: both(held) };
});
const random = new Random(7, 3);
const uniform = Array.from({ length: 1000 }, () => random.next());
const normal = Array.from({ length: 1000 }, () => random.normal());
const runs = cases.map(run);
process.stdout.write(JSON.stringify({ tasks, uniform, normal, runs, differences: some.map(differences) }));
"""


@pytest.fixture(scope="module")
def page():
    """All that is asked of the engine, from one process."""
    cases = [{**case, "dHead": case["d_head"], "rate": 0.01} for case in CASES]
    engine = (JS / "widgets" / "laboratory" / "engine.ts").as_uri()
    command = [node(), "--input-type=module", "--eval", SCRIPT, engine]
    text = json.dumps({"steps": STEPS, "cases": cases, "some": cases[::SPARSE]})
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def numbers(text):
    return torch.frombuffer(bytearray(b64decode(text)), dtype=torch.float64)


def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def assert_close(ours, expected, atol=1e-10):
    torch.testing.assert_close(ours, expected.detach(), rtol=0, atol=atol)


# ---- Random numbers and tasks -------------------------------------------------------------------------------------


def test_random_numbers_are_the_same(page):
    assert page["uniform"] == uniform_numbers(1000, seed=7, stream=3).tolist()
    behind = normal_numbers(1500, seed=7, stream=3)[500:]  # the first 1000 uniform ones would have made 500
    assert_close(torch.tensor(page["normal"], dtype=torch.float64), behind, atol=1e-13)


@pytest.mark.parametrize("place", range(len(SYNTHETIC_TASKS)), ids=list(SYNTHETIC_TASKS))
def test_tasks_have_the_same_words_and_the_same_sequences(page, place):
    name, task = list(SYNTHETIC_TASKS.items())[place]
    theirs = page["tasks"][place]
    assert [theirs[part] for part in ("name", "words", "answers", "length")] == [
        name, task.words, task.answers, task.length
    ]  # fmt: skip
    for given, draws, size in [
        (theirs["batch"], uniform_numbers(64, task.draws, seed=5, stream=BATCHES), 64),
        (theirs["last"], uniform_numbers(HELD_OUT, task.draws, seed=0, stream=TEST), 1),
    ]:
        assert given == [part[-size:].flatten().tolist() for part in task.make(draws)]


def test_any_two_values_of_two_switches_meet():
    for (one, values), (other, others) in itertools.combinations(SWITCHES.items(), 2):
        assert {(case[one], case[other]) for case in CASES} == set(itertools.product(values, others)), (one, other)


# ---- The model ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=range(len(CASES)), ids=NAMES)
def case(request, page):
    return CASES[request.param], page["runs"][request.param]


def test_start_logits_gradients_and_twenty_steps_are_pytorch_s(case):
    setup, theirs = case
    model = OneLayer(**setup)
    parts = [getattr(model, name) for name in PARTS]
    assert_close(numbers(theirs["start"]), flat(parts), atol=1e-13)

    ids, _ = model.task.make(uniform_numbers(2, model.task.draws, seed=0, stream=TEST))
    for sequence, looked in zip(ids, theirs["looks"], strict=True):
        logits, weights = model(sequence[None])
        assert_close(numbers(looked[0]), weights.flatten())
        assert_close(numbers(looked[1]), logits.flatten())

    ids, targets = model.task.make(uniform_numbers(BATCH, model.task.draws, seed=setup["seed"], stream=BATCHES))
    logits, _ = model(ids)
    torch.nn.functional.cross_entropy(logits[targets >= 0], targets[targets >= 0]).backward()
    learning = [part for part in parts if part.requires_grad]
    gradient = flat([part.grad for part in learning])
    assert_close(numbers(theirs["gradients"])[: len(gradient)], gradient)

    model, *measured = train_one_layer(**setup, steps=STEPS)
    assert_close(numbers(theirs["end"]), flat([getattr(model, name) for name in PARTS]))
    assert_close(torch.tensor(theirs["measured"], dtype=torch.float64), torch.stack(measured, dim=1))
    assert theirs["tested"] == pytest.approx(evaluate_one_layer(model), abs=1e-10)
    if setup["task"] == "write_on":
        ids, _ = model.task.make(uniform_numbers(4, model.task.draws, seed=0, stream=TEST))
        assert theirs["written"] == write_on(model, ids[3:, :3], 14)[0].tolist()


def test_gradients_are_those_of_the_loss(page):
    for setup, slopes in zip(CASES[::SPARSE], page["differences"], strict=True):
        derivative, difference = torch.tensor(slopes, dtype=torch.float64).T
        if setup["positions"] != "learned":  # then those of positions are computed, and nobody uses them
            assert derivative.abs().max() > 0
        assert_close(derivative, difference, atol=2e-8)
