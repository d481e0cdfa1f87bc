"""Attention inside each of many sequences that lie one after the other in a matrix.

On a GPU in half precision it is one call for all of them (`VarlenAttention`). Elsewhere, and for
models with a bias by position, it is one for each group of equally long sequences, or of about
equally long ones with a mask (`GroupedAttention`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F

from sms.encoders.devices import Machine
from sms.ragged import offsets_of

Bias: TypeAlias = Callable[[int], torch.Tensor]
"""Returns what is added to the scores of `width` tokens, (1, heads, width, width)."""
Attend: TypeAlias = Callable[[torch.Tensor, torch.Tensor], None]
"""Given queries, keys and values side by side, (n_rows, 3 d), writes what each token attends to
into the second, (n_rows, d)."""

GPU_STEP = 16
"""On a GPU, sequences whose lengths are the same when rounded up to this are one group."""
_PROBE_LENGTHS = (5, 3, 1)
_PROBE_ATOL = 2e-2  # values of a normal distribution in half precision

logger = logging.getLogger(__name__)


def varlen_attn(*given: Any) -> torch.Tensor:  # noqa: ANN401
    """Call torch's function; importing it brings a compiler, which takes a second."""
    from torch.nn.attention import varlen

    attended = varlen.varlen_attn(*given)
    assert isinstance(attended, torch.Tensor)  # noqa: S101  (of its overloads this one)
    return attended


class GroupedAttention:
    """One call for each group of sequences.

    With a `step` of 1 a group is equally long: nothing is padded and nothing masked.
    """

    def __init__(
        self, machine: Machine, heads: int, *, bias: Bias | None = None, step: int = 1
    ) -> None:
        self._machine, self._heads, self._bias, self._step = machine, heads, bias, step

    def over(self, lengths: np.ndarray) -> Attend:
        """Prepare for sequences of these lengths, which descend."""
        widths = -(-lengths // self._step) * self._step
        counts = np.unique(-widths, return_counts=True)[1]
        ends = np.cumsum(counts)
        groups = [self._group(lengths[end - n : end]) for n, end in zip(counts, ends, strict=True)]

        def attend(qkv: torch.Tensor, context: torch.Tensor) -> None:
            at = 0
            for group in groups:
                end = at + group.n_tokens
                self._attend(qkv[at:end], context[at:end], group)
                at = end

        return attend

    def _group(self, lengths: np.ndarray) -> _Group:
        count, width = lengths.size, int(lengths[0])
        bias = None if self._bias is None else self._bias(width)
        if lengths[-1] == width:
            return _Group(count, width, count * width, None, bias)
        is_token = np.arange(width) < lengths[:, None]
        places = self._machine.send(np.flatnonzero(is_token))
        hidden = self._machine.send(np.where(is_token, np.float32(0), np.float32(-np.inf)))
        hidden = hidden[:, None, None, :].to(self._machine.dtype)
        return _Group(
            count, width, int(lengths.sum()), places, hidden if bias is None else bias + hidden
        )

    def _attend(self, qkv: torch.Tensor, context: torch.Tensor, group: _Group) -> None:
        if group.places is not None:
            packed, qkv = qkv, qkv.new_zeros(group.count * group.width, qkv.shape[1])
            qkv[group.places] = packed
        shaped = qkv.view(group.count, group.width, 3, self._heads, -1)
        q, k, v = shaped.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=group.mask).transpose(1, 2)
        if group.places is None:
            context.view(group.count, group.width, self._heads, -1).copy_(mixed)
        else:
            context.copy_(mixed.reshape(-1, context.shape[1])[group.places])


class VarlenAttention:
    """One call for all sequences, whatever their lengths."""

    def __init__(self, machine: Machine, heads: int) -> None:
        self._machine, self._heads = machine, heads

    def over(self, lengths: np.ndarray) -> Attend:
        """Prepare for sequences of these lengths."""
        starts = self._machine.send(offsets_of(lengths).astype(np.int32))
        n_tokens, longest = int(lengths.sum()), int(lengths.max())

        def attend(qkv: torch.Tensor, context: torch.Tensor) -> None:
            q, k, v = qkv[:n_tokens].view(n_tokens, 3, self._heads, -1).unbind(1)
            mixed = varlen_attn(q, k, v, starts, starts, longest, longest)
            context[:n_tokens].copy_(mixed.flatten(1))

        return attend


@dataclass(frozen=True, slots=True)
class _Group:
    """Sequences of a block that follow each other and are about equally long."""

    count: int
    width: int
    n_tokens: int
    places: torch.Tensor | None
    """Of its tokens among all `count * width` places; None where none is empty."""
    mask: torch.Tensor | None
    """Added to their attention scores."""


def attention_of(
    machine: Machine, heads: int, width: int, bias: Bias | None
) -> GroupedAttention | VarlenAttention:
    """Choose the fastest attention that a device has for heads of a width."""
    if machine.device.type == "cpu":
        return GroupedAttention(machine, heads, bias=bias)
    grouped = GroupedAttention(machine, heads, bias=bias, step=GPU_STEP)
    if bias is not None or machine.precision == "fp32":
        return grouped
    varlen = VarlenAttention(machine, heads)
    return varlen if _is_same(varlen, grouped, machine, 3 * heads * width) else grouped


@torch.inference_mode()
def _is_same(
    tried: VarlenAttention, expected: GroupedAttention, machine: Machine, width: int
) -> bool:
    """Tell whether the one works here and gives what the other gives."""
    lengths = np.array(_PROBE_LENGTHS)
    numbers = np.random.default_rng(0).standard_normal((int(lengths.sum()), width))
    qkv = machine.send(numbers).to(machine.dtype)
    own, other = qkv.new_zeros(2, len(qkv), width // 3)
    expected.over(lengths)(qkv, other)
    try:
        tried.over(lengths)(qkv, own)
    # an older GPU, or heads too wide: the library says so in several ways
    except RuntimeError as error:
        logger.warning("attention over groups of sequences, since torch says: %s", error)
        return False
    return torch.allclose(own.float(), other.float(), rtol=0, atol=_PROBE_ATOL)
