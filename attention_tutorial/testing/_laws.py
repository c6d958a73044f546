"""The laws. Each is asked of a subject on inputs of one size, and raises what is broken."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..analysis.influence import find_influence, follows_order, keeps_texts
from ..exercises.chapter05 import EQUAL_ROWS, HALF_FILL, NAN_GRADIENTS, NAN_ROWS, NO_GRADIENT, OUTSHONE, OVERFLOW
from ..exercises.parse import random
from ..masks import causal_mask
from ._subject import CLOSE, WRONG_WAY, Broken, Size, Subject, lay_out, same


def output(subject: Subject, size: Size) -> None:
    model, x = subject.model(size), subject.draw(size)
    if not model(x).isfinite().all():
        raise Broken("the output holds NaN or infinity, without any mask: is 0 multiplied by infinity?", 11)
    if not same(model(x), model(x)):
        raise Broken("two calls differ in evaluation: is dropout on? Say F.dropout(..., training=self.training)")


def rows(subject: Subject, size: Size) -> None:
    if read := subject.read(size):
        read.blame("weighing", "roles")
    x = subject.draw(size)
    output, weights = subject.run(size, torch.ones_like(x) if subject.function else x)
    if weights is not None or subject.function:
        sums = output if weights is None else weights.sum(dim=-1)  # a mean of ones is one
        if (sums - 1).abs().max() > CLOSE or (weights is not None and weights.min() < -CLOSE):
            raise Broken("rows of weights must be positive and sum to 1 over the keys; yours do not", 5,
                          f"sums from {sums.min():.3g} to {sums.max():.3g}")  # fmt: skip


def divisor(subject: Subject, size: Size) -> None:
    if (read := subject.read(size)) is None:
        return
    read.blame()
    if abs(read.factor - 1) < 1e-3:
        return
    if read.factor < 1e-3:
        turned = read.factor < -1e-3
        raise Broken("the sign of the scores is turned: the key that matches least gets the most weight" if turned else
                     "all keys get the same weight; weights must come from the scores", None, read.place)  # fmt: skip
    d, d_model, divisor = read.heads.d_head, subject.draw(size).size(-1), 1 / (read.factor * read.scale)
    names = (("√d_model", d_model**0.5, 1), ("they are not scaled", 1.0, 2), ("d_k", d, 3), ("d_model", d_model, 1),
             ("√d_k", d**0.5, None), ("the number of heads", size.heads, 2), ("the number of keys", size.n, 2),
             ("√n, of the number of keys", size.n**0.5, 2),
             ("multiplied by √d_k", d**-0.5, 4), ("multiplied by √d_model", d_model**-0.5, 4))  # fmt: skip
    found = [(name, mistake) for name, number, mistake in names if abs(number / divisor - 1) < 2e-3]
    by = f" ({' or '.join(name for name, _ in found[:2])})" if found else ""
    factor = f"{1 / read.factor:.3g} times too small" if read.factor < 1 else f"{read.factor:.3g} times too large"
    right = " (√d_k)" if subject.scale is None else ""
    raise Broken(f"your scores are {factor}: divided by {divisor:.3g}{by}, expected {1 / read.scale:.3g}{right}",
                  found[0][1] if found else None, read.place)  # fmt: skip


def joined(subject: Subject, size: Size) -> None:
    if read := subject.read(size):
        read.blame("heads")
    (x, _), (taken, given) = (subject.heard[subject.names[i]] for i in (0, -1))
    if x.dim() == 4:
        raise Broken(
            "all heads share one small projection, and see only parts of the features: project before you split"
        )
    if len(subject.names) % 2 == 0 and taken.any() and taken.equal(given):
        raise Broken(f"{subject.names[-1]} returns what it takes: the joined heads are not mixed by W^O")


def agreement(subject: Subject, size: Size) -> None:
    if read := subject.read(size):
        read.blame("heads", "roles", "weighing")
        if not read.small and (read.reading is None or abs(read.factor - 1) > 1e-3):
            why = "no fault that this book knows explains it" if read.reading is None else "its divisor is another"
            raise Broken(f"F.scaled_dot_product_attention gives something else; {why}", None, read.place)


def order(subject: Subject, size: Size) -> None:
    kept = follows_order(subject.model(size), subject.draw(size), torch.arange(size.n).roll(1), tolerance=CLOSE)
    if subject.positions and kept and size.n > 1:
        raise Broken("words have no order: are positions added along the batch, x.size(0) in place of x.size(1)?")
    if not subject.positions and not kept:
        if read := subject.read(size):
            read.blame("heads", "weighing")
        raise Broken("shuffled words must get the same outputs, shuffled: is something reshaped without a transpose, "
                     "or are there positions (then say positions=True)?", 9)  # fmt: skip


def texts(subject: Subject, size: Size) -> None:
    if size.batch == 1:
        return
    model, x = subject.model(size), subject.draw(size)
    if not same(model(torch.stack([x[0], 3 * x[1]]))[0], model(x)[0]):
        if read := subject.read(size):
            read.blame("weighing", "heads")
        if find_influence(model, x)[0].equal(torch.eye(size.n, dtype=torch.bool)):
            raise Broken("a word acts on the other text of the batch, and not on its own: which axis is the batch?", 15)
        raise Broken("a text changes with the other text of the batch: does a softmax or a reshape run over the batch?")
    if not keeps_texts(model, x, tolerance=CLOSE):
        raise Broken("texts that change places must take their outputs along: are positions added along the batch, "
                     "x.size(0) in place of x.size(1)?")  # fmt: skip


def _acts(subject: Subject, size: Size, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return which words act on which, (batch, n, n), and which of this is judged: not what a word does to itself."""
    counts = ~torch.eye(size.n, dtype=torch.bool).expand(size.batch, -1, -1)
    if allowed is not None and "m" not in subject.mask_axes.split():
        counts = counts & allowed.mT  # what happens at padding, nobody reads
    return find_influence(subject.model(size, allowed), subject.draw(size), tolerance=1e-5), counts


def _hold_to_mask(subject: Subject, size: Size, allowed: Tensor | None) -> None:
    """Hold who acts on whom to the mask: what is masked must not, what is allowed must."""
    model, x, expected = subject.model(size, allowed), subject.draw(size), subject.seen(size, allowed)
    seen, counts = _acts(subject, size, allowed)
    if not model(x)[counts.any(dim=-1)].isfinite().all():
        _blame_steps(subject, size, None)
        raise Broken("the output holds NaN, although each word may see some key: is 0 multiplied by infinity?", 11)
    wrong = (seen != expected) & counts
    if wrong.any():
        b, i, j = wrong.nonzero()[0].tolist()
        place = f"in text {b + 1}, word {j + 1} must {'not ' if seen[b, i, j] else ''}change the output at word {i + 1}"
        try:
            _blame_mask(subject, size, allowed, seen, counts)
        except Broken as broken:
            model(x)  # that is the example
            raise Broken(broken.args[0], broken.args[1], place) from None


def _blame_steps(subject: Subject, size: Size, allowed: Tensor | None) -> None:
    """Raise for a step that is wrong, or for words that are mixed without any mask."""
    for mask in (None, allowed):
        if (read := subject.read(size, mask)) and not read.small:
            read.blame("heads", "roles", "weighing")
    if not subject.causal and not subject.positions:
        order(subject, size)


def _blame_mask(subject: Subject, size: Size, allowed: Tensor | None, seen: Tensor, counts: Tensor) -> None:
    """Raise for what explains that words act on others than they should."""
    x, expected = subject.draw(size), subject.seen(size, allowed)
    causal, ones = expected.equal(causal_mask(size.n).expand_as(expected)), torch.ones_like(seen)
    turned = (~expected).any(dim=-1, keepdim=True) & counts  # where the mask, turned round, would leave a key
    if allowed is not None and turned.any() and not ((seen == expected) & turned).any():
        raise Broken(WRONG_WAY, 7)
    _blame_steps(subject, size, allowed)
    if causal and not ((seen != ones.triu()) & counts).any():
        raise Broken("each word sees the future in place of the past: the triangle is turned round")
    if causal and not ((seen != ones.tril(1)) & counts).any():
        raise Broken("the triangle is one diagonal too wide: each word sees one of the future", 14)
    if not (seen & ~expected & counts).any():
        raise Broken("the mask hides more than it should")
    if allowed is None:
        raise Broken("the future is seen: is the triangle missing, or set after the softmax, or are heads reshaped "
                     "without a transpose?", 14 if seen.all() else None)  # fmt: skip
    bare, dark = subject.model(size)(x), torch.zeros_like(allowed)
    if same(subject.model(size, allowed)(x), bare):
        raise Broken("the mask has no effect", 14 if causal else None)
    real = allowed.all(dim=1)
    if same(subject.model(size, allowed)(x)[real], bare[real]):
        raise Broken("the mask hides words as queries, not as keys: its last axis must be that of the keys", 12)
    empty = subject.model(size, dark)(x)
    if empty.isnan().any():
        raise Broken("masked keys act on others: does the softmax run over the queries?", 5)
    if same(empty, bare):
        raise Broken("masked keys keep some weight: is a boolean mask added to the scores?", 8)
    if (_acts(subject, size, dark)[0] & counts).any():
        raise Broken("masked keys keep some weight: is their score 0, or a number that is not very low?", 13)
    raise Broken("masked keys keep some weight: are they masked after the softmax, or does it run over the queries?", 6)


def future(subject: Subject, size: Size) -> None:
    allowed = None if subject.causal else causal_mask(size.n).expand(size.batch, -1, -1)
    _hold_to_mask(subject, size, allowed)
    with torch.enable_grad():
        x = subject.draw(size).requires_grad_()
        output = subject.model(size, allowed)(x)
        for i in range(size.n - 1 if output.requires_grad else 0):
            row = (output[:, i] * random(output.size(-1))).sum()
            if torch.autograd.grad(row, x, retain_graph=True)[0][:, i + 1 :].abs().max() > 1e-6:
                raise Broken("a word gets a gradient from an earlier one's output, which must not depend on it")


def padding(subject: Subject, size: Size) -> None:
    _hold_to_mask(subject, size, subject.hidden(size, max(1, size.n - 2)))


def _empty(subject: Subject, size: Size) -> Tensor:
    """Hide all from the middle word, or, where a mask is the same for all words, from each word of a text."""
    allowed = subject.hidden(size, 0)
    if "m" in subject.mask_axes.split():
        allowed[:, torch.arange(size.n) != size.n // 2] = True
    return allowed


def empty_rows(subject: Subject, size: Size) -> None:
    allowed, x = _empty(subject, size), subject.draw(size)
    model, empty = subject.model(size, allowed), ~allowed.any(dim=-1)
    output = model(x)
    if not output[empty].isfinite().all():
        raise Broken(NAN_ROWS, 11)
    if (find_influence(model, x, tolerance=1e-5) & empty[..., None] & ~torch.eye(size.n, dtype=torch.bool)).any():
        padding(subject, size)  # does the mask work elsewhere?
        model(x)  # that is the example
        raise Broken(EQUAL_ROWS, 13)


def lengths(subject: Subject, size: Size) -> None:
    read, layer, axes = subject.read(size), subject.layer(size, subject.dtype), "batch heads n d"
    for m, n in ((size.n, size.n + 2), (size.n + 2, size.n)):
        q, k, v = (random(size.batch, size.heads, x, size.d, seed=i) for i, x in enumerate((m, n, n)))
        given = [lay_out(x, axes, layer.axes).to(subject.dtype) for x in (q, k, v)]
        try:
            got = layer.attention(*given, *([] if subject.mask is None else [None]))
        except Exception as error:
            raise Broken(f"m = {m} queries and n = {n} keys raise {type(error).__name__}: {error}") from error
        got = lay_out(got[0] if subject.returns_weights else got, layer.axes, axes).double()
        expected = nn.functional.scaled_dot_product_attention(q, k, v, scale=subject.scale_for(size.d))
        if read and not read.place and not (got.shape == expected.shape and same(got, expected)):
            raise Broken("wrong where there are more queries than keys, or fewer", None, f"m = {m}, n = {n}")


def large_scores(subject: Subject, size: Size) -> None:
    x, first = subject.draw(size), max(1, size.n - 2)
    if not subject.model(size)(2000 * x).isfinite().all():
        raise Broken(OVERFLOW)
    if subject.mask is not None:
        allowed, loud = subject.hidden(size, first), x.clone()
        loud[:, first:] *= 2000
        quiet, got = (subject.model(size, allowed)(words)[0, :first] for words in (x, loud))
        if quiet.isfinite().all() and not same(got, quiet):
            padding(subject, size)
            raise Broken(OUTSHONE, 6)


def half_precision(subject: Subject, size: Size) -> None:
    allowed = None if subject.mask is None else subject.hidden(size, max(1, size.n - 2))
    for dtype in (torch.float16, torch.bfloat16):
        x, name = subject.draw(size).to(dtype).double(), str(dtype).removeprefix("torch.")
        try:
            got = subject.model(size, allowed, dtype)(x)[:, 0]
        except Broken as broken:
            if "not implemented" in str(broken):
                continue  # nor is that your fault
            raise Broken(HALF_FILL, 13) if "overflow" in str(broken) else broken from None
        expected = subject.model(size, allowed)(x)[:, 0]
        if expected.isfinite().all() and not (got - expected).abs().max() <= 0.1 * expected.abs().max():
            what = "holds NaN" if got.isnan().any() else "is another"
            raise Broken(f"in {name} the output {what}: do numbers go beyond 65504, or is a fill too large?", 13)


def gradients(subject: Subject, size: Size) -> None:
    x, step, model = subject.draw(size), 1e-4 * subject.draw(size, seed=5), subject.model(size)
    with torch.enable_grad():
        leaf = x.clone().requires_grad_()
        output = model(leaf)
        if not output.requires_grad:
            raise Broken(NO_GRADIENT)
        mix = random(*output.shape)
        got = (torch.autograd.grad((output * mix).sum(), leaf)[0] * step).sum()
        wanted = ((model(x + step) - model(x - step)) * mix).sum() / 2
        if not (got - wanted).abs() <= 0.003 * max(wanted.abs(), step.norm()):
            raise Broken("the gradient does not say how a small step changes the output: is something detached?", None,
                         f"the output changes by {wanted:.3g}, by the gradient {got:.3g}")  # fmt: skip
        if subject.mask is not None and subject.empty_rows:
            output = subject.model(size, _empty(subject, size))(leaf)
            if not torch.autograd.grad((output * mix).sum(), leaf)[0].isfinite().all():
                raise Broken(NAN_GRADIENTS, 11)


def evaluation(subject: Subject, size: Size) -> None:
    x, allowed = subject.draw(size), None if subject.mask is None else subject.hidden(size, max(1, size.n - 2))
    model, layer = subject.model(size, allowed), subject.layer(size, subject.dtype)
    first = model(x)
    with torch.enable_grad():
        others = [model(x.clone().requires_grad_()).detach()]
    if isinstance(layer, nn.Module):
        with torch.random.fork_rng():
            layer.train()
            trained, again = model(x), model(x)
            layer.eval()
        others += [trained] if same(trained, again, equal_nan=True) else []  # with dropout, they cannot be compared
    if not all(same(first, other, equal_nan=True) for other in others):
        raise Broken("it computes something else in evaluation, eval() and no_grad(): is the mask left out there?", 14)


def askable(subject: Subject, cross: bool) -> list[tuple[str, str, Callable[[Subject, Size], None]]]:
    """Return the laws that can be asked under its conventions: their names, sections and functions."""
    heads, mask = bool(subject.names) and not subject.positions, subject.mask is not None
    possible = (
        ("output", "2.6", output, True),
        ("rows", "2.4", rows, heads or subject.returns_weights),
        ("divisor", "3.2", divisor, heads),
        ("heads", "4.4", joined, heads and not subject.function),
        ("agreement", "2.6", agreement, heads),
        ("order", "2.10", order, not subject.causal or subject.positions),
        ("texts", "6.4", texts, subject.sizes[-1].batch > 1),
        ("future", "5.3", future, subject.causal or (mask and "m" in subject.mask_axes.split())),
        ("padding", "5.4", padding, mask),
        ("empty rows", "5.7", empty_rows, mask and subject.empty_rows),
        ("lengths", "5.6", lengths, subject.function and cross and not subject.causal),
        ("large scores", "2a.1", large_scores, True),
        ("half precision", "5a.8", half_precision, subject.half),
        ("gradients", "2a.1", gradients, True),
        ("evaluation", "0.8", evaluation, True),
    )
    return [(name, section, law) for name, section, law, asked in possible if asked]
