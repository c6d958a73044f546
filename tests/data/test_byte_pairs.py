"""Laws of byte-pair encoding: no text is lost, and what is joined is what occurs most often."""

import copy
import pickle
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oracles import assert_raises, mistakes

from attention_tutorial.data.byte_pairs import BYTES, BytePairs, cut_pieces, learn_merges
from attention_tutorial.models.code_model import held_out_files, load_code_model

HUGS = BytePairs([(b"u", b"g"), (b"h", b"ug")])
CODE = st.lists(st.sampled_from(["\n", " ", "    ", "f", "_x1", "2", "(", "]", ":", "\t", "é", "木", "𝛼"])).map("".join)
WORDS = st.dictionaries(st.text("abc", min_size=1, max_size=14).map(str.encode), st.integers(1, 5), max_size=8)


@pytest.fixture(scope="module")
def shipped():
    return load_code_model().tokens


@example("".join(map(chr, range(0x300))))
@given(st.text() | CODE)
def test_pieces_join_to_the_text(text):
    assert "".join(cut_pieces(text)) == text


@given(st.text() | CODE)
def test_what_is_encoded_is_decoded(shipped, text):
    for tokens in (BytePairs([]), HUGS, shipped):
        ids = tokens.encode(text)
        assert tokens.decode(ids) == text and 0 not in ids
        assert b"".join(tokens.contents[i] for i in ids) == text.encode()


def naive(word, pair):
    """Join a pair wherever it stands, from the left, place by place."""
    at, joined = 0, []
    while at < len(word):
        step = 2 if tuple(word[at : at + 2]) == pair else 1
        joined.append(b"".join(word[at : at + step]))
        at += step
    return joined


@given(WORDS, st.integers(0, 12))
def test_every_merge_is_the_most_frequent_pair_of_a_recount(counts, size):
    words = {piece: [bytes([byte]) for byte in piece] for piece in counts}
    expected = []
    while len(expected) < size:
        pairs = Counter(pair for piece, word in words.items() for pair in [*pairwise(word)] * counts[piece])
        if not pairs:
            break
        most = max(pairs.values())
        expected.append(min(pair for pair, times in pairs.items() if times == most))
        words = {piece: naive(word, expected[-1]) for piece, word in words.items()}
    merges = learn_merges(counts, size)
    assert merges == expected
    tokens = BytePairs(merges)  # and what was learned from is then encoded as it was joined
    assert all([tokens.contents[i] for i in tokens.encode(piece.decode())] == word for piece, word in words.items())


@given(st.text("abchug", min_size=1, max_size=12))
def test_a_piece_is_joined_merge_by_merge_in_the_order_in_which_they_were_learned(word):
    tokens = BytePairs([(b"u", b"g"), (b"h", b"ug"), (b"a", b"b"), (b"ab", b"c"), (b"hug", b"hug")])
    expected = [bytes([byte]) for byte in word.encode()]
    for pair in tokens.merges:  # one sweep a merge: no later one makes an earlier one possible again
        expected = naive(expected, pair)
    *_, last = tokens.steps(word)
    assert last == expected == [tokens.contents[i] for i in tokens.encode(word)]


def test_no_token_reaches_over_the_edge_of_a_piece_and_a_name_is_the_same_anywhere(shipped):
    for text in held_out_files().values():
        joined = [part for piece in cut_pieces(text) for part in list(shipped.steps(piece))[-1]]
        assert [shipped.contents[i] for i in shipped.encode(text)] == joined
    alone = shipped.encode("frobnicate")
    for text, before, after in (("x = frobnicate(y)", "x = ", "(y)"), ("\n    frobnicate\n", "\n    ", "\n")):
        assert shipped.encode(text) == [*shipped.encode(before), *alone, *shipped.encode(after)]


def test_ids_count_the_beginning_then_bytes_then_merges():
    assert [len(tokens) for tokens in (BytePairs([]), HUGS)] == [BYTES + 1, BYTES + 3]
    assert HUGS.contents[0] == b"" and HUGS.text(0) == ""
    assert HUGS.encode("A") == [ord("A") + 1] and HUGS.encode("é") == [0xC3 + 1, 0xA9 + 1]
    assert HUGS.text(0xC3 + 1) == "\ufffd", "half a character"


def test_a_copy_has_the_same_tokens():
    for other in (pickle.loads(pickle.dumps(HUGS)), copy.deepcopy(HUGS)):
        assert other.merges == HUGS.merges and other.encode("hugs") == HUGS.encode("hugs")


@mistakes({
    TypeError: [
        (lambda: cut_pieces(5), "text must be a str; got int"),
        (lambda: HUGS.encode(b"hug"), "text must be a str; got bytes"),
        (lambda: learn_merges({"hug": 1}, 1), "counts must be of pieces of type bytes; got 'hug'"),
        (lambda: learn_merges({b"hug": 1}, 1.0), "size must be an int; got float"),
    ],
    ValueError: [
        (lambda: learn_merges({b"hug": 1}, -1), "size must be at least 0; got -1"),
        (lambda: HUGS.decode([1, 259]), "ids must be from 0 to 258; got 259"),
        (lambda: HUGS.text(-1), "ids must be from 0 to 258; got -1"),
        (lambda: BytePairs([(b"u", b"g"), (b"hu", b"g")]),
         "merges must join two earlier tokens to a new one; got (b'hu', b'g') at 1"),
        (lambda: BytePairs([(b"u", b"g"), (b"u", b"g")]),
         "merges must join two earlier tokens to a new one; got (b'u', b'g') at 1"),
    ],
})  # fmt: skip
def test_a_mistake_is_explained(call, error, message):
    assert_raises(call, error, message)
