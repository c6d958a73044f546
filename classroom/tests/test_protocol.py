"""Plain data cross the wire and come back the same; nothing else does."""

import json
import math
import pickle
import struct
from collections import namedtuple

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_classroom import protocol

numbers = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.none())
plain = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=4),
    ),
    max_leaves=20,
)


def same(a, b):
    return type(a) is type(b) and (len(a) == len(b) and all(map(same, a, b)) if isinstance(a, list | tuple) else a == b)


@given(plain)
def test_plain_data_come_back_the_same_to_the_type(data):
    assert same(protocol.unpack(protocol.pack(data)), data)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_every_float_comes_back(value):
    assert struct.pack("d", protocol.unpack(protocol.pack(value))) == struct.pack("d", value)


@pytest.mark.parametrize("dtype", sorted(protocol.DTYPES, key=str))
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_every_tensor_comes_back(dtype, shape):
    x = torch.arange(6).reshape(2, 3)[: shape[0] if shape else 1].sum(0)[:0].new_ones(shape).to(dtype)
    y = protocol.unpack(protocol.pack([x]))[0]
    assert type(y) is torch.Tensor and y.dtype == dtype and y.shape == x.shape and bool((y == x).all())


def test_views_gradients_and_arrays_come_back():
    x = torch.randn(4, 6, requires_grad=True)
    y, z, array = protocol.unpack(protocol.pack((x, x.detach().T[::2], np.arange(6.0).reshape(2, 3))))
    assert y.requires_grad and bool((y == x).all()) and bool((z == x.detach().T[::2]).all())
    assert type(array) is np.ndarray and array.shape == (2, 3)
    assert protocol.unpack(protocol.pack([np.float64(2.5), np.int64(3), np.bool_(True)])) == [2.5, 3, True]


class Fake(torch.Tensor):
    pass


class Payload:
    def __reduce__(self):
        return (print, ("ran",))


@pytest.mark.parametrize(
    "thing", [Payload(), Fake([1.0]), torch.nn.Linear(2, 2), lambda x: x, {1, 2}, torch.zeros(2, dtype=torch.complex64)]
)
def test_what_is_no_plain_data_crosses_as_a_name_only(thing):
    with pytest.raises(protocol.ProtocolError, match="only plain data"):
        protocol.pack(thing)
    came = protocol.unpack(protocol.pack({"value": thing}, strict=False))["value"]
    assert type(came).__name__ == protocol.type_name(thing)
    assert not isinstance(came, torch.Tensor) and not callable(came)


def test_tuples_and_lists_with_names_cross_as_what_they_are():
    """What a student's own check takes for a tuple is one here too."""

    class Own(list):
        pass

    def there(x):
        return protocol.unpack(protocol.pack(x, strict=False))

    assert there(namedtuple("Pair", "a b")(1, 2)) == (1, 2) and there(Own([1, 2])) == [1, 2]
    assert there(torch.ones(2, 3).shape) == (2, 3)
    both = there(torch.tensor([[1.0, 2.0]]).max(-1))
    assert type(both) is tuple and [x.item() for x in both] == [2.0, 1]


def test_a_parameter_crosses_as_its_numbers():
    came = protocol.unpack(protocol.pack(torch.nn.Parameter(torch.ones(2)), strict=False))
    assert type(came) is torch.Tensor and came.tolist() == [1, 1]


def message(text, blob=b""):
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    return protocol.HEADER.pack(len(text), len(blob)) + text + blob


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        message(b"not json"),
        message(b"[" * 100_000),
        message({}),
        message({"z": "1"}),
        message({"x": "0"}),
        message({"x": "0"}, b"\0" * 8),
        message({"x": "0"}, pickle.dumps(torch.ones(2))),
        message({"x": "0"}, struct.pack("<Q", 2**60) + b"{}"),
        message({"f": "what"}),
        message({"i": "zz"}),
        message({"d": [[{"l": []}, 1]]}),
        message({"d": [1]}),
        message([1, 2]),
        message(1.5),
        message({"l": [None] * (protocol.NODES + 1)}),
        protocol.pack([1]) + b"more",
        message({"l": [{"x": "0"}] * 1000}, safetensors.torch.save({"0": torch.ones(10**6)})),  # 4 MB, or 4 GB
    ],
)
def test_bytes_that_are_no_message_are_refused(data):
    with pytest.raises(protocol.ProtocolError):
        protocol.unpack(data)


def test_a_text_that_would_take_fifty_times_its_place_is_not_parsed():
    with pytest.raises(protocol.ProtocolError, match="too many things"):
        protocol.unpack(message(b'{"l": [' + b"{}," * 10**6 + b"{}]}"))


def test_a_length_beyond_the_limit_is_refused_before_it_is_read():
    with pytest.raises(protocol.ProtocolError, match="bytes"):
        protocol.lengths(protocol.HEADER.pack(2**40, 0), 2**20)
