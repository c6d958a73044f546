"""The axes that comments in the displayed source name, such as ``# (batch, heads, n, d_head)``, are the axes there.

Every such line runs, and the shape of what it makes is compared with its comment. Every axis has a size of its own.
"""

import inspect
import re
import sys

import torch

from attention_tutorial import (
    AdditiveAttention,
    MultiHeadAttention,
    functional,
    layers,
    multiplicative_attention,
    positions,
    scaled_dot_product_attention,
    tiled,
)

MODULES = (functional, layers, positions, tiled)
LEADING = (2, 3)  # what `...` stands for
SIZES = {
    "batch": 2, "heads": 6, "kv_heads": 3, "m": 5, "n": 7, "d_k": 23, "d_v": 13, "d_head": 10, "d_hidden": 17,
    "d_model": 22, "d": 22,
}  # fmt: skip
COMMENT = re.compile(r"^\s*(?:(?P<names>\w+(?:, \w+)*) = |return ).*  # (?P<axes>\([^()]*\)(?:, \([^()]*\))*)")


def lines_with_axes():
    """Yield (file, line, names that it assigns or None where it returns, the axes of each)."""
    for module in MODULES:
        file = inspect.getsourcefile(module)
        for number, line in enumerate(inspect.getsource(module).splitlines(), start=1):
            match = COMMENT.match(line)
            if match and "," in match["axes"]:  # (the others are words in parentheses)
                yield file, number, match["names"], re.findall(r"\(([^()]*)\)", match["axes"])


COMMENTED = {(file, number): (names, axes) for file, number, names, axes in lines_with_axes()}


def told(axes):
    """Return the sizes that the axes of a comment stand for, without the leading ``...``."""
    return tuple(eval(axis.replace("/", "//"), {}, SIZES) for axis in axes.split(", ") if axis != "...")


def fits(shape, axes):
    """Say whether a shape has these axes; ``...`` are any that broadcast to the leading ones."""
    last, leading = told(axes), shape[: len(shape) - len(told(axes))]
    if not axes.startswith("..."):
        return shape == last
    return shape[len(leading) :] == last and torch.broadcast_shapes(leading, LEADING) == LEADING


def watch(call):
    """Call, and return {(file, line): the shapes of what the line made first} for the lines with axes."""
    made, last = {}, {}  # `last`: of each call, the line that has just run

    def step(frame, event, value):
        before, here = last.get(frame), (frame.f_code.co_filename, frame.f_lineno)
        if before in COMMENTED:
            names = COMMENTED[before][0]
            values = [value] if names is None else [frame.f_locals.get(name) for name in names.split(", ")]
            values = values[0] if isinstance(values[0], tuple) else values
            made.setdefault(before, [tuple(x.shape) for x in values if isinstance(x, torch.Tensor)])
        last[frame] = here
        return step if here[0] in files else None

    files = {file for file, _ in COMMENTED}
    previous = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    finally:
        sys.settrace(previous)
    return made


def zeros(axes):
    return torch.zeros((LEADING if axes.startswith("...") else ()) + told(axes))


def all_calls():
    """Call all that has such lines."""
    query, key, value = zeros("..., m, d_k"), zeros("..., n, d_k"), zeros("..., n, d_v")
    scaled_dot_product_attention(query, key, value)
    scaled_dot_product_attention(query, key, value, is_causal=True)
    tiled.tiled_attention(query, key, value)
    multiplicative_attention(torch.zeros(*LEADING, 5, 19), key, value, w=torch.zeros(19, 23))
    AdditiveAttention(19, 23, 17)(torch.zeros(*LEADING, 5, 19), key, value)
    x, y = zeros("batch, m, d_model"), zeros("batch, n, d_model")
    MultiHeadAttention(22, 6, 10, num_kv_heads=3)(x, y)
    positions.sinusoidal_positions(7, 22)
    positions.shift_matrix(3, 22)
    for pairing in positions.PAIRINGS:
        positions.apply_rotary(zeros("..., n, d"), pairing=pairing)
    positions.alibi_bias(5, 7, num_heads=6)


def test_the_axes_in_comments_are_those_of_the_tensors():
    made = watch(all_calls)
    wrong = []
    for (file, line), (_, axes) in COMMENTED.items():
        shapes = made.get((file, line), [])
        named = axes if len(axes) > 1 else axes * len(shapes)  # one for all, where a line makes several tensors alike
        if not shapes or len(named) != len(shapes) or not all(map(fits, shapes, named)):
            wrong.append(f"{file}:{line}: the comment says {axes}, {[told(a) for a in axes]}; the line made {shapes}")
    assert not wrong, "\n".join(wrong)
    assert len(COMMENTED) >= 20
