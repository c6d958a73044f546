"""Recurrent networks, and the encoder-decoder of chapter 1 with and without attention.

Axes: ``n`` source positions, ``m`` target positions, ``d`` features of an input, ``d_hidden`` features of a state;
``batch`` sequences stand side by side. Every sequence of a batch has the same length, so there is no padding.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._validation import (
    check_float_tensor,
    check_generator,
    check_same_kind,
    check_sequences,
    check_shape,
    check_size,
    shape_of,
)
from ..data.copying import START
from ..functional import multiplicative_attention
from ..layers import AdditiveAttention

__all__ = ["ATTENTION_KINDS", "GRU", "RNN", "Seq2Seq"]

ATTENTION_KINDS = ("none", "additive", "dot")


class _Recurrent(nn.Module):
    """The parameters of a recurrent network: w for the input, u for the state before, and a bias, below each other."""

    gates = 1

    def __init__(self, d_input: int, d_hidden: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        check_size("d_input", d_input, minimum=1)
        check_size("d_hidden", d_hidden, minimum=1)
        self.w = nn.Parameter(torch.empty(self.gates * d_hidden, d_input))
        self.u = nn.Parameter(torch.empty(self.gates * d_hidden, d_hidden))
        self.b = nn.Parameter(torch.empty(self.gates * d_hidden))
        draw_parameters(self, 1 / math.sqrt(d_hidden), generator)

    def extra_repr(self) -> str:
        """Say what `print(module)` shows."""
        return f"d_input={self.w.size(1)}, d_hidden={self.u.size(1)}"


class RNN(_Recurrent):
    r"""The plain recurrent network: one formula, used again at every position.

    .. math:: h_j = \tanh(W x_j + U h_{j-1} + b)

    Args:
        d_input: features of an input.
        d_hidden: features of a state.
        generator: source of the first weights, uniform in plus or minus 1/sqrt(d_hidden); torch's global one if left
            out.

    Raises:
        TypeError: if a size is not an int, or ``generator`` not a ``torch.Generator``.
        ValueError: if a size is below 1, or ``generator`` is not on the CPU.

    Example:
        >>> rnn = RNN(d_input=1, d_hidden=1)
        >>> _ = rnn.load_state_dict({"w": torch.ones(1, 1), "u": 0.5 * torch.ones(1, 1), "b": torch.zeros(1)})
        >>> states, last = rnn(torch.tensor([[[1.0], [0.0]]]))
        >>> [round(h, 3) for h in states.flatten().tolist()]  # tanh(1), then tanh(0.5 tanh(1))
        [0.762, 0.363]

    Source:
        Elman (1990); in this form, Bengio et al. (1994).
    """

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return all states (batch, n, d_hidden) and the last one (batch, d_hidden).

        Args:
            inputs: (batch, n, d_input).
            state: the state before the first input, (batch, d_hidden); zeros when left out.

        Returns:
            ``(states, last)``.

        Raises:
            TypeError: if ``inputs`` is not a float tensor of the network's dtype.
            ValueError: if shapes do not fit the network, or there is no position.
        """
        state = _check_recurrent(inputs, state, self.w, self.u)
        states = []
        for x in F.linear(inputs, self.w, self.b).unbind(dim=1):  # W x_j + b, for every j at once
            state = torch.tanh(x + state @ self.u.T)
            states.append(state)
        return torch.stack(states, dim=1), state


class GRU(_Recurrent):
    r"""A recurrent network with gates, which say how much of the old state to keep.

    .. math::

        \begin{aligned}
        r_j &= \sigma(W_r x_j + U_r h_{j-1} + b_r) \\
        z_j &= \sigma(W_z x_j + U_z h_{j-1} + b_z) \\
        \tilde h_j &= \tanh(W_h x_j + r_j \odot U_h h_{j-1} + b_h) \\
        h_j &= (1 - z_j) \odot \tilde h_j + z_j \odot h_{j-1}
        \end{aligned}

    The three matrices of each kind are stored below each other, in the order r, z, h, as torch does. Torch's own
    ``nn.GRU`` has a second bias; with that one at zero the two agree.

    Args:
        d_input: features of an input.
        d_hidden: features of a state.
        generator: source of the first weights, uniform in plus or minus 1/sqrt(d_hidden); torch's global one if left
            out.

    Raises:
        TypeError: if a size is not an int, or ``generator`` not a ``torch.Generator``.
        ValueError: if a size is below 1, or ``generator`` is not on the CPU.

    Example:
        >>> states, last = GRU(d_input=3, d_hidden=5)(torch.zeros(2, 7, 3))
        >>> states.shape, last.shape, states[:, -1].equal(last)
        (torch.Size([2, 7, 5]), torch.Size([2, 5]), True)

    Source:
        Cho et al. (2014), section 2.3. As in ``nn.GRU``, the reset gate r multiplies after U_h; there, before it.
    """

    gates = 3

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return all states (batch, n, d_hidden) and the last one (batch, d_hidden), as :meth:`RNN.forward`."""
        state = _check_recurrent(inputs, state, self.w, self.u)
        d = self.u.size(1)
        x_gates, x_new = F.linear(inputs, self.w, self.b).split([2 * d, d], dim=-1)
        u_gates, u_new = self.u.T.split([2 * d, d], dim=-1)
        states = []
        for gates, new in zip(x_gates.unbind(dim=1), x_new.unbind(dim=1), strict=True):
            r, z = torch.sigmoid(gates + state @ u_gates).chunk(2, dim=-1)
            candidate = torch.tanh(new + r * (state @ u_new))
            state = torch.lerp(candidate, state, z)  # (1 - z) * candidate + z * state
            states.append(state)
        return torch.stack(states, dim=1), state


class Seq2Seq(nn.Module):
    r"""An encoder and a decoder, both GRUs, with one switch: what the decoder attends to.

    .. math::

        h_j = \operatorname{GRU}(x_j, h_{j-1}), \qquad
        s_i = \operatorname{GRU}(y_{i-1}, s_{i-1}) \text{ with } s_0 = h_n, \qquad
        \text{logits}_i = W_o [s_i; c_i] + b_o

    The context :math:`c_i` is the only difference between the three kinds:

    * ``"none"``: the encoder's last state, :math:`c_i = h_n`, the same one vector at every step;
    * ``"additive"``: :math:`c_i = \sum_j a_{ij} h_j`, weights from :math:`v^\top \tanh(W s_i + U h_j)`;
    * ``"dot"``: the same sum, weights from :math:`s_i^\top h_j`.

    Args:
        vocab_size: number of different tokens, the start token (id 0) included; source and target share them.
        d_embedding: features of a token's vector.
        d_hidden: features of a state, in the encoder and in the decoder.
        d_attention: width of the additive score's small network; the other kinds do not use it.
        attention: ``"none"``, ``"additive"`` or ``"dot"``.
        generator: source of the first weights (on the CPU); torch's global one if left out.

    Raises:
        TypeError: if a size is not an int, ``attention`` not a str, or ``generator`` not a ``torch.Generator``.
        ValueError: if a size is below 1, ``attention`` is none of the three, or ``generator`` is not on the CPU.

    Example:
        >>> model = Seq2Seq(vocab_size=11, attention="dot")
        >>> source, target_in = torch.ones(2, 7, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long)
        >>> logits, weights = model(source, target_in)
        >>> logits.shape, weights.shape
        (torch.Size([2, 5, 11]), torch.Size([2, 5, 7]))

    Source:
        Sutskever et al. (2014) and Cho et al. (2014) for "none" (Cho's decoder, too, sees the one vector at every
        step); Bahdanau et al. (2015) for "additive"; Luong et al. (2015), section 3.1, for "dot" and for attending
        with the new state s_i (Bahdanau's decoder attends with the old one, s_{i-1}).
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        d_embedding: int = 16,
        d_hidden: int = 64,
        d_attention: int = 32,
        attention: str = "none",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_size("vocab_size", vocab_size, minimum=1)
        check_size("d_embedding", d_embedding, minimum=1)
        check_size("d_hidden", d_hidden, minimum=1)
        check_size("d_attention", d_attention, minimum=1)
        _check_kind(attention)
        self.attention = attention
        self.embedding = nn.Embedding(vocab_size, d_embedding)
        self.encoder = GRU(d_embedding, d_hidden, generator=generator)
        self.decoder = GRU(d_embedding, d_hidden, generator=generator)
        self.score = AdditiveAttention(d_hidden, d_hidden, d_attention) if attention == "additive" else None
        self.readout = nn.Linear(2 * d_hidden, vocab_size)
        draw_parameters(self.embedding, math.sqrt(3), generator)  # variance 1
        if self.score is not None:
            draw_parameters(self.score, 1 / math.sqrt(d_hidden), generator)
        draw_parameters(self.readout, 1 / math.sqrt(2 * d_hidden), generator)

    def forward(self, source: Tensor, target_in: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Predict every target token from the source and the target tokens before it.

        Args:
            source: token ids (batch, n).
            target_in: token ids (batch, m): the start token, then the target without its last token.
            mask: boolean, True = target position i may look at source position j; broadcasts to (batch, m, n).

        Returns:
            ``(logits, weights)``: logits (batch, m, vocab_size); weights (batch, m, n), those used on the way, or
            ``None`` without attention.

        Raises:
            TypeError: if ids are not int64.
            ValueError: if shapes do not fit together, or a mask is given to a model without attention.
        """
        encoder_states, last = self.encode(source)
        logits, weights, _ = self.decode(target_in, encoder_states, last, mask)
        return logits, weights

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Read the source (batch, n); return its states (batch, n, d_hidden) and the last one (batch, d_hidden)."""
        check_sequences("source", source, "n")
        return self.encoder(self.embedding(source))

    def decode(
        self, target_in: Tensor, encoder_states: Tensor, decoder_state: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Decode from a decoder state; return the logits, the weights (or None) and the new decoder state."""
        check_sequences("target_in", target_in, "m")
        if target_in.size(0) != encoder_states.size(0):
            raise ValueError("source and target_in need the same batch size (axis 0); "
                             f"got source {encoder_states.size(0)}, target_in {target_in.size(0)}")  # fmt: skip
        decoder_states, decoder_state = self.decoder(self.embedding(target_in), decoder_state)
        context, weights = self.attend(decoder_states, encoder_states, mask)
        return self.readout(torch.cat([decoder_states, context], dim=-1)), weights, decoder_state

    def attend(self, query: Tensor, encoder_states: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return the contexts (batch, m, d_hidden) and the weights (batch, m, n) for decoder states ``query``."""
        if self.attention == "none":
            if mask is not None:
                raise ValueError("mask needs attention to act on; expected None with attention='none', got a mask")
            return encoder_states[:, -1:].expand_as(query), None  # the last state, again and again
        if self.score is not None:
            return self.score(query, encoder_states, mask=mask)
        return multiplicative_attention(query, encoder_states, encoder_states, mask=mask)

    @torch.no_grad()
    def generate(self, source: Tensor, num_steps: int) -> tuple[Tensor, Tensor | None]:
        """Decode ``num_steps`` tokens greedily, feeding back at every step the token that scored best.

        Args:
            source: token ids (batch, n).
            num_steps: number of tokens m.

        Returns:
            ``(tokens, weights)``: tokens (batch, m); weights (batch, m, n), or ``None`` without attention.

        Raises:
            TypeError: if ids are not int64, or ``num_steps`` not an int.
            ValueError: if ``num_steps`` is below 1.
        """
        check_size("num_steps", num_steps, minimum=1)
        encoder_states, decoder_state = self.encode(source)
        token = torch.full_like(source[:, :1], START)
        tokens, rows = [], []
        for _ in range(num_steps):
            logits, weights, decoder_state = self.decode(token, encoder_states, decoder_state)
            token = logits.argmax(dim=-1)  # (batch, 1)
            tokens.append(token)
            if weights is not None:
                rows.append(weights)
        return torch.cat(tokens, dim=1), torch.cat(rows, dim=1) if rows else None

    def extra_repr(self) -> str:
        """Say what `print(module)` shows."""
        return f"attention={self.attention!r}"


@torch.no_grad()
def draw_parameters(module: nn.Module, bound: float, generator: torch.Generator | None) -> None:
    """Draw every parameter of a module from the uniform distribution in plus or minus ``bound``."""
    check_generator(generator, optional=True)
    for parameter in module.parameters():
        parameter.uniform_(-bound, bound, generator=generator)


def _check_kind(attention: Any) -> None:
    if not isinstance(attention, str):
        raise TypeError(f"attention must be a str; got {type(attention).__name__}")
    if attention not in ATTENTION_KINDS:
        raise ValueError(f"attention must be one of {', '.join(map(repr, ATTENTION_KINDS))}; got {attention!r}")


def _check_recurrent(inputs: Any, state: Any, w: Tensor, u: Tensor) -> Tensor:
    """Check what goes into a recurrent network, and return the state to begin with."""
    check_float_tensor("inputs", inputs)
    if inputs.dim() != 3 or inputs.size(1) == 0 or inputs.size(2) != w.size(1):
        raise ValueError("inputs must be (batch, n, d_input) with at least one position and "
                         f"d_input={w.size(1)}; got shape {shape_of(inputs)}")  # fmt: skip
    check_same_kind("inputs", inputs, "the module's weights", w)
    first_shape = (inputs.size(0), u.size(1))
    if state is None:
        return inputs.new_zeros(first_shape)
    check_shape("state", state, first_shape, "(batch, d_hidden)")
    check_same_kind("inputs", inputs, "state", state)
    return state
