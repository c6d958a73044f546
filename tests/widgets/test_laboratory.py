"""Laws of the laboratory: what it shows is what the two models do, what it says follows, and hands cannot break it.

That the engine computes what PyTorch computes, test_laboratory_engine.py says.
"""

import random

import pytest
import torch
from website import phone_faults, press, put

from attention_tutorial.data.synthetic import SYNTHETIC_TASKS, uniform_numbers
from attention_tutorial.models.one_layer import TEST, evaluate_one_layer, train_one_layer, write_on
from attention_tutorial.widgets import Laboratory
from attention_tutorial.widgets.laboratory import EXPERIMENTS, SWITCHES

# ---- The class ----------------------------------------------------------------------------------------------------


def test_the_argument_that_is_a_pair_is_the_switch():
    widget = Laboratory("bites", heads=(1, 4), causal=True)
    assert (widget.differ, widget.values) == ("heads", [1, 4])
    assert widget.both == EXPERIMENTS["bites"]["both"] | {"heads": 1, "causal": True}
    assert eval(repr(widget)).state() == widget.state()
    usual = Laboratory("write_on")
    assert (usual.differ, usual.values) == ("causal", [True, False])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"task": "sort"}, ValueError, "task must be one of 'look_up', .*; got 'sort'"),
        ({"divisor": "one"}, ValueError, "one argument must be a pair, what A has and what B has; got none"),
        ({"heads": (1, 2), "rate": (0.01, 0.03)}, ValueError, "one argument must be a pair.*; got heads and rate"),
        ({"heads": (2, 2)}, ValueError, r"heads must be two values that differ, or one value; got \(2, 2\)"),
        ({"d_head": (16, 17)}, ValueError, "d_head must be one of 4, 8, 16, 32, 64; got 17"),
        ({"seed": 10}, ValueError, "seed must be one of 0, 1, .*; got 10"),
        ({"seed": 0.5}, TypeError, "seed must be an int; got float"),
        ({"steps": 0}, ValueError, "steps must be at least 1; got 0"),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        Laboratory(**arguments)


def test_every_value_that_is_offered_trains_in_pytorch():
    for name, values in SWITCHES.items():
        for value in values:
            train_one_layer("bites", **{name: value}, steps=1)
    assert set(EXPERIMENTS) == set(SYNTHETIC_TASKS)


# ---- Links, code and words, in Node -------------------------------------------------------------------------------

RUBBISH = [
    "#lab?", "#lab?task=look_up", "#lab?task=sort&heads=1,2", "#lab?task=bites&heads=1,3", "#lab?task=bites&heads=2,2",
    "#lab?task=bites&heads=1,2&rate=0.01,0.03", "#lab?task=bites&heads=1,2,4", "#lab?task=bites&seed=1,2",
    "#lab?task=bites&heads=1,2&heds=1", "#lab?task=bites&heads=1,2&causal=maybe", "#lab?task=bites&heads=1,2&d_head=",
    "#lab?%F0%28%8C%28", "#lab?task=__proto__&heads=1,2", "#lab?task=bites&toString=1&heads=1,2",
]  # fmt: skip
OTHERS = ["", "#", "#four-things-to-try", "#/2", "#laboratory", "#look-it-up-not"]

IN_NODE = """
const { experiments, switches } = given.state;
return {
  again: given.all.map((one) => widget.fromLink(widget.toLink(one), experiments, switches)),
  rubbish: given.rubbish.map((link) => String(widget.fromLink(link, experiments, switches))),
  others: given.others.map((link) => String(widget.fromLink(link, experiments, switches))),
  named: experiments.map(({ id }) => widget.fromLink(`#${id}`, experiments, switches).task),
  setups: given.all.map((one) => widget.setupsOf(one)),
  codes: given.all.map((one) => widget.toPython(one, 7)),
  runs: given.runs.map((run) => [widget.winner(run), widget.sayRun(given.all[0], run, "A")]),
  starts: given.starts.map((starts) => [widget.sayStarts(starts), widget.sayRange(starts, 0)]),
  percents: [0, 0.001, 0.004, 0.5, 0.996, 0.999, 1].map(widget.percent),
};
"""


def points(scores, losses=(2.0, 1.0), written=None):
    return [
        {"step": 25 * i, "loss": losses[-1], "accuracy": s, "gradient": None, "largest": 0.5,
         "written": written if written is None else written[i]}
        for i, s in enumerate(scores)
    ]  # fmt: skip


FLAT, SLOW, FAST = [0.25, 0.3, 0.3, 0.3, 0.3], [0.2, 0.3, 0.5, 0.6, 0.95], [0.2, 0.95, 0.95, 0.95, 0.96]
RUNS = [
    [points(FAST), points(FLAT)],
    [points(FLAT), points(FAST)],
    [points(FAST), points(SLOW)],
    [points(FLAT), points([*FLAT[:-1], 0.33])],
    [points(SLOW), points([*SLOW[:-1], 0.97])],
    [points(FLAT, written=FAST), points(FAST, losses=(2.0, 0.1), written=FLAT)],
]
STARTS = [
    [(0.9, 0.5), (0.8, 0.6), (0.97, 0.4)],
    [(0.5, 0.9), (0.52, 0.5), (0.9, 0.4)],
    [(0.5, 0.5), (0.52, 0.5)],
]


@pytest.fixture(scope="module")
def said(run_in_node):
    draw = random.Random(3)
    experiments = []
    for task in EXPERIMENTS:
        for differ in [name for name in SWITCHES if name != "seed"]:
            both = {name: draw.choice(values) for name, values in SWITCHES.items()}
            values = draw.sample(SWITCHES[differ], 2)
            experiments.append({"task": task, "differ": differ, "values": values, "both": both | {differ: values[0]}})
    starts = [[{"seed": i, "scores": list(pair)} for i, pair in enumerate(pairs)] for pairs in STARTS]
    given = {"state": Laboratory().state(), "all": experiments, "runs": RUNS, "starts": starts,
             "rubbish": RUBBISH, "others": OTHERS}  # fmt: skip
    return experiments, run_in_node("laboratory", IN_NODE, given)


def test_a_link_carries_the_whole_set_up_and_rubbish_carries_none(said):
    experiments, found = said
    assert found["again"] == experiments
    assert set(found["rubbish"]) == {"undefined"}
    assert set(found["others"]) == {"null"}, "they are about something else on the page"
    assert found["named"] == list(EXPERIMENTS)


def test_the_code_trains_the_two_models_of_the_page(said, monkeypatch):
    from attention_tutorial.models import one_layer

    experiments, found = said
    calls = []
    monkeypatch.setattr(one_layer, "train_one_layer", lambda *task, **given: calls.append((*task, given)))
    monkeypatch.setattr(one_layer, "evaluate_one_layer", lambda model: (0, 0))
    for one, code, setups in zip(experiments, found["codes"], found["setups"], strict=True):
        calls.clear()
        exec(code.replace("trained.model", "trained"), {})
        assert len(calls) == 2 and {task for task, _ in calls} == {one["task"]}
        for value, (_, given), setup in zip(one["values"], calls, setups, strict=True):
            assert given == one["both"] | {one["differ"]: value, "steps": 7}
            assert setup == {"task": one["task"]} | {
                ("dHead" if name == "d_head" else name): value for name, value in given.items() if name != "steps"
            }


def test_what_is_said_of_a_run_follows_from_its_numbers(said):
    (alone, swapped, sooner, close, level, leak) = said[1]["runs"]
    assert (
        alone[0] == "A"
        and "96 %" in alone[1]
        and "30 %" in alone[1]
        and alone[1].endswith("In this run A did better. As you predicted.")
    )
    assert swapped[0] == "B" and swapped[1].endswith("In this run B did better. You predicted A.")
    assert sooner[0] == "A" and "too close to tell, but A got to 90 % sooner: after 25 steps, B after 100." in sooner[1]
    assert close[0] == "same" and close[1].endswith("That is too close to tell. You predicted A.")
    assert level[0] == "same"
    assert leak[0] == "A" and "B has the lower loss (0.10, A 1.00), and yet A writes better." in leak[1]


def test_what_is_said_of_several_starts_follows_from_their_numbers(said):
    one, mixed, none = said[1]["starts"]
    assert one == ["A does better in each of the 3 starts.", "80 % to 97 %"]
    assert mixed[0] == "Of 3 starts A does better in 1, B in 1, and 1 is too close to tell: one run may be luck."
    assert none == ["In none of the 2 starts can the two be told apart.", "50 % to 52 %"]
    assert said[1]["percents"] == ["0 %", "< 1 %", "< 1 %", "50 %", "> 99 %", "> 99 %", "100 %"]


# ---- Hands, in one page of Chromium -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(pages):
    page = pages.take(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(20_000)
    yield page
    failures = [what for kind, what in page.heard if kind in ("failure", "error")]
    page.evaluate("location.hash = ''")
    pages.give_back(page)
    assert failures == []


def show(page, *task, **options):
    page.evaluate("window.attentionWidgets = undefined; history.replaceState(null, '', location.href.split('#')[0])")
    put(page, Laboratory(*task, **options))


def train(page, name="train"):
    press(page, name)
    page.wait_for_function("document.querySelector('.bw-title').textContent.startsWith('What you saw')")


def place(page):
    return page.locator(".lab-place").first.text_content()


def curves(page):
    """Return the last points of A and B on each curve."""
    return page.locator(".lab-curves [role=img]").evaluate_all(
        "all => all.map(x => [...x.querySelectorAll('[data-model]')].map(y => JSON.parse(y.dataset.value)))"
    )


def choose(page, name, value):
    page.locator(f"[id$='-{name}']").first.select_option(value)


def pressed(page):
    return page.locator("[aria-pressed=true]").all_text_contents()


def trained(widget, steps):
    """Train the widget's two models in PyTorch."""
    given = [widget.both | {widget.differ: value} for value in widget.values]
    return [train_one_layer(widget.task, **one, steps=steps) for one in given]


@pytest.mark.parametrize("arguments", [
    {"task": "bites", "d_head": (4, 16), "heads": 2, "seed": 3},
    {"task": "two_look_ups", "heads": (2, 1), "d_head": 4, "causal": True},
    {"task": "write_on", "causal": (True, False), "d_head": 8, "positions": "sines"},
], ids=lambda given: given["task"])  # fmt: skip
def test_it_shows_what_the_two_models_do_in_pytorch(page, arguments):
    widget = Laboratory(**arguments, steps=30)
    show(page, **arguments, steps=30)
    train(page)
    press(page, "another")
    page.wait_for_function("document.querySelectorAll('.lab-sequence [data-value], .lab-sequence rect[style]').length")
    accuracy, loss, third, gradient = curves(page)
    task = SYNTHETIC_TASKS[widget.task]
    ids, targets = task.make(uniform_numbers(32, task.draws, seed=0, stream=TEST))
    asked = (targets >= 0)[:, None].expand(-1, 1, -1)
    for i, run in enumerate(trained(widget, 30)):
        right = evaluate_one_layer(run.model)
        assert (loss[i], accuracy[i]) == ([30, pytest.approx(right[0])], [30, pytest.approx(right[1])])
        assert gradient[i] == [30, pytest.approx(run.query_gradient[25:].mean().item())]
        with torch.no_grad():
            _, weights = run.model(ids)
        if widget.task == "write_on":
            written = write_on(run.model, ids[:, :6], 6)
            before = torch.cat([ids[:, 3:6], written[:, :-3]], dim=1)
            assert third[i] == [30, pytest.approx((written == (before + 1) % 8).double().mean().item())]
            shown = page.locator(f".lab-maps [data-model={'AB'[i]}] .lab-letters").last.text_content()
            assert shown.split() == ["abcdefgh"[letter] for letter in written[1]]
        else:
            largest = weights.amax(dim=-1)[asked.expand(-1, weights.size(1), -1)].mean().item()
            assert third[i] == [30, pytest.approx(largest)]
            at = int((targets[1] >= 0).nonzero())
            rows = page.locator(f".lab-rows [data-model={'AB'[i]}]").evaluate_all(
                "rows => rows.map(row => [...row.querySelectorAll('[data-value]')].map(x => Number(x.dataset.value)))"
            )
            torch.testing.assert_close(torch.tensor(rows, dtype=torch.float64), weights[1, :, at], rtol=0, atol=1e-9)


# In the page, since a busy machine may train to the end before it hears from outside.
TRAIN_AND_PAUSE = """async () => {
  const [train, step] = ["train", "step"].map((name) => document.querySelector(`[id$=-${name}]`));
  train.click();
  await new Promise((done) => setTimeout(done, 40));
  const meanwhile = [train.textContent, step.ariaDisabled];
  train.click();
  await new Promise(requestAnimationFrame);
  return [...meanwhile, train.textContent];
}"""


def test_predict_train_pause_step_go_on_and_once_more(page):
    show(page, "bites", steps=200)
    press(page, "predicted-B")
    assert "B: no positions" in pressed(page)
    spoken = """document.querySelector(".bw-panel").textContent"""
    page.evaluate(
        "window.heard = []; new MutationObserver(() => heard.push(1))"
        ".observe(document.querySelector('.bw-panel'), { subtree: true, childList: true, characterData: true })"
    )
    press(page, "step")
    page.wait_for_function("document.querySelector('.lab-place b').textContent === '1'")
    assert [[point[0] for point in curve] for curve in curves(page)] == [[1, 1]] * 4
    assert page.evaluate(spoken).startswith("Before the first step")
    assert page.evaluate(TRAIN_AND_PAUSE) == ["Pause", "true", "Go on"]
    page.wait_for_timeout(100)  # the round that was on its way comes yet
    assert place(page) != "step 200 of 200"
    train(page)
    assert place(page) == "step 200 of 200"
    assert "In this run A did better. You predicted B." in page.evaluate(spoken)
    assert page.evaluate("heard.length") < 30, "what is read out changes seldom"
    focus = page.evaluate("document.activeElement.id")
    assert focus.endswith("-train"), "the button keeps the focus"
    end = curves(page)
    press(page, "train")
    page.wait_for_function("document.querySelector('.lab-place').textContent === 'step 400 of 400'")
    press(page, "again")
    assert place(page) == "step 0 of 200" and curves(page) == [[None, None]] * 4
    train(page)
    assert curves(page) == end, "however it was paused, the same steps give the same numbers"


def test_what_is_changed_while_it_trains_ends_that(page):
    show(page, "look_up", steps=400)
    resting = len(page.workers)  # of tests before this one
    press(page, "predicted-A")
    press(page, "train")
    page.wait_for_function("Number(document.querySelector('.lab-place b').textContent) > 0")
    assert len(page.workers) == resting + 2
    press(page, "task-bites")
    page.wait_for_function("document.querySelector('.lab-place').textContent === 'step 0 of 400'")
    assert pressed(page) == ["Who bites whom"], "a prediction is about one set-up"
    assert page.locator("select").first.input_value() == "positions"
    choose(page, "positions-0", "none")
    assert page.locator("[id$='-positions-1']").input_value() == "learned", "A and B always differ"
    choose(page, "differ", "heads")
    assert [page.locator(f"[id$='-heads-{i}']").input_value() for i in (0, 1)] == ["1", "2"]
    assert "no positions" in page.locator("summary").first.text_content()


def test_threads_end_a_while_after_their_widget_is_gone_and_not_where_it_comes_back(page):
    page.evaluate("window.later = setTimeout; setTimeout = (act, after) => later(act, after > 9999 ? 200 : after); 0")
    show(page, "bites", steps=400)
    resting = len(page.workers)  # of tests before this one
    press(page, "train")
    page.wait_for_function("Number(document.querySelector('.lab-place b').textContent) > 0")
    page.evaluate("""async () => {
      const widget = document.querySelector("[data-widget]");
      widget.remove();
      await new Promise((done) => later(done, 50));
      document.body.append(widget);
      await new Promise((done) => later(done, 400));
    }""")
    page.wait_for_function("document.querySelector('.lab-place').textContent === 'step 400 of 400'")
    assert len(page.workers) == resting + 2, "it went on"
    page.evaluate("document.querySelector('[data-widget]').remove(); 0")
    for _ in range(200):
        if len(page.workers) == resting:
            break
        page.wait_for_timeout(20)
    page.evaluate("setTimeout = later; 0")
    assert len(page.workers) == resting, "no thread rests without its widget"


def test_five_more_starts_and_their_spread(page):
    show(page, "bites", steps=5)
    press(page, "starts")
    page.wait_for_function("document.querySelectorAll('.lab-table tbody tr').length === 6")
    cells = page.locator(".lab-table [data-value]").evaluate_all("all => all.map(x => Number(x.dataset.value))")
    widget = Laboratory("bites")
    for seed in (2, 6):
        widget.both = widget.both | {"seed": seed}
        right = [evaluate_one_layer(run.model)[1] for run in trained(widget, 5)]
        assert cells[2 * seed - 4 : 2 * seed - 2] == pytest.approx(right)
    low, high = (round(100 * of(cells[::2])) for of in (min, max))
    assert page.locator(".lab-range td").first.text_content() == f"{low} % to {high} %"
    assert "starts" in page.locator(".lab-starts .bw-said").text_content()
    press(page, "starts")
    press(page, "starts")
    assert page.locator("[id$='-starts']").text_content() == "Five more starts", "it was stopped"


FOLLOWED = "new Promise((done) => setTimeout(done, 20))"  # the event comes after the change


def test_a_link_sets_up_what_it_says_and_rubbish_is_ignored_with_a_word(page):
    show(page)
    hash_ = "fragment => { location.hash = fragment; }"
    for fragment, switch, values in [
        ("#lab?task=bites&d_head=4,8&seed=3", "d_head", ["4", "8"]),
        ("#write-on", "causal", ["true", "false"]),
        ("#lab?task=bites&d_head=4,5", "causal", ["true", "false"]),
        ("#two-look-ups", "heads", ["2", "1"]),
    ]:
        page.evaluate(hash_, fragment)
        page.evaluate(FOLLOWED)
        found = [page.locator(f"[id$='-{switch}-{i}']").input_value() for i in (0, 1)]
        assert found == values, fragment
        assert page.locator(".bw-trouble").count() == ("4,5" in fragment)
    choose(page, "heads-1", "4")
    link = page.evaluate("[...document.querySelectorAll('.lab-link')].map(x => x.getAttribute('href'))")[0]
    assert "heads=2,4" in link and "task=two_look_ups" in link
    page.evaluate("fragment => document.body.append(Object.assign(document.createElement('a'), "
                  "{ href: fragment, id: 'same', textContent: 'same' }))", "#two-look-ups")  # fmt: skip
    page.click("#same")
    assert page.locator("[id$='-heads-1']").input_value() == "1", "the same link again"


def test_code_and_link_are_copied_or_one_is_told(page):
    show(page, "bites")
    page.locator("summary", has_text="The same in PyTorch").click()
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { configurable: true, value: "
                  "{ writeText: (text) => { window.copied = text; } } })")  # fmt: skip
    press(page, "copy-code")
    page.wait_for_function("document.querySelector('[id$=\"-copy-code\"]').textContent === 'Copied'")
    assert page.evaluate("copied") == page.locator(".lab-code").text_content()
    press(page, "copy-link")
    page.wait_for_function("document.querySelector('[id$=\"-copy-link\"]').textContent === 'Copied'")
    assert page.evaluate("copied").endswith(page.locator(".lab-link").get_attribute("href"))
    press(page, "task-look_up")
    assert page.locator("[id$='-copy-code']").text_content() == "Copy the code", "this code was not copied"
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { configurable: true, value: undefined })")
    press(page, "copy-code")
    page.wait_for_selector("text=select it, and copy it by hand")


FORBIDDEN = [
    "constructor() { throw new Error('no'); }",
    "constructor() { setTimeout(() => this.onerror()); } terminate() {} postMessage() {}",
]


def test_where_threads_are_forbidden_it_says_so(page):
    for forbidden in FORBIDDEN:
        show(page, "bites")
        page.evaluate(f"window.kept = Worker; Worker = class {{ {forbidden} }}; 0")
        press(page, "train")
        page.wait_for_selector("[role=alert]")
        assert "forbids threads" in page.locator("[role=alert]").text_content()
        assert page.locator("[id$='-train']").text_content() == "Train both"
        press(page, "starts")
        page.wait_for_function("document.querySelectorAll('[role=alert]').length === 2")
        page.evaluate("Worker = window.kept; 0")


def test_trained_it_fits_a_phone(page):
    page.set_viewport_size({"width": 360, "height": 800})
    for task in ("look_up", "write_on"):
        show(page, task, heads=4, steps=2, d_head=4)
        train(page)
        assert phone_faults(page) == []
