"""The book's two small examples: sentences with features and matrices set by hand, to be redone on paper."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["SHE_SAW_HIM", "THE_CAT", "Example"]


@dataclass(frozen=True)
class Example:
    """A sentence as attention sees it; all numbers are float64.

    Attributes:
        words: the n words of the sentence.
        features: names of the d_model features of a word.
        wanted: names of the d_k features of queries and keys: what a word can look for.
        learned: names of the d_v features of values: what a word can tell the others.
        vectors: the features of every word that may be used, by the word.
        W_Q: (d_model, d_k).
        W_K: (d_model, d_k).
        W_V: (d_model, d_v).
        W_O: (d_v, d_model), from what was received back to the features of a word.

    Example:
        >>> x = THE_CAT.embed("the mat sat on the cat".split())
        >>> x.shape, THE_CAT.X.shape
        (torch.Size([6, 6]), torch.Size([6, 6]))
    """

    words: tuple[str, ...]
    features: tuple[str, ...]
    wanted: tuple[str, ...]
    learned: tuple[str, ...]
    vectors: dict[str, list[float]]
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor

    @property
    def X(self) -> Tensor:
        """Return the sentence with a row for each word, (n, d_model)."""
        return self.embed(self.words)

    def embed(self, words: list[str] | tuple[str, ...]) -> Tensor:
        """Return the rows of other words in the same features.

        Args:
            words: such as ``"the mat sat on the cat".split()``.

        Returns:
            A tensor (n, d_model).

        Raises:
            ValueError: if there is no vector for a word.
        """
        unknown = [word for word in words if word not in self.vectors]
        if unknown:
            raise ValueError(f"words must be among {', '.join(self.vectors)}; got {unknown[0]!r}")
        return _tensor(*(self.vectors[word] for word in words))


def _tensor(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


#: *the cat sat on the mat*: "sat" looks for an animal, "on" for a place; values say what an animal or a place is like.
THE_CAT = Example(
    words=("the", "cat", "sat", "on", "the", "mat"),
    features=("animal", "place", "action", "relation", "furry", "flat"),
    wanted=("animal", "place"),
    learned=("furry", "flat", "soft"),
    vectors={
        "the": [0, 0, 0, 0, 0, 0],
        "cat": [1, 0, 0, 0, 1, 0],
        "mat": [0, 1, 0, 0, 0, 1],
        "sat": [0, 0, 1, 0, 0, 0],
        "on": [0, 0, 0, 1, 0, 0],
        "dog": [1, 0, 0, 0, 1, 0],
        "slept": [0, 0, 1, 0, 0, 0],
    },
    W_Q=_tensor([0, 0], [0, 0], [4, 0], [0, 4], [0, 0], [0, 0]),
    W_K=_tensor([1, 0], [0, 1], [0, 0], [0, 0], [0, 0], [0, 0]),
    W_V=_tensor([0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0.5], [0, 1, 0.5]),
    W_O=_tensor([0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]),
)

#: *she saw him*: the verb looks for who (nominative) and whom (accusative) at once. Values say which person a word is.
SHE_SAW_HIM = Example(
    words=("she", "saw", "him"),
    features=("nominative", "accusative", "female", "male", "action"),
    wanted=("nominative", "accusative"),
    learned=("female", "male"),
    vectors={
        "she": [1, 0, 1, 0, 0],
        "he": [1, 0, 0, 1, 0],
        "her": [0, 1, 1, 0, 0],
        "him": [0, 1, 0, 1, 0],
        "saw": [0, 0, 0, 0, 1],
    },
    W_Q=_tensor([0, 0], [0, 0], [0, 0], [0, 0], [4, 4]),
    W_K=_tensor([1, 0], [0, 1], [0, 0], [0, 0], [0, 0]),
    W_V=_tensor([0, 0], [0, 0], [1, 0], [0, 1], [0, 0]),
    W_O=_tensor([0, 0, 1, 0, 0], [0, 0, 0, 1, 0]),
)
