"""Attention inside each of many sequences that lie one after the other in a matrix.

On a GPU in half precision it is one call for all of them (`varlen_attention`). Elsewhere, and for
models with a bias by position, it is one for each group of equally long sequences, or of about
equally long ones with a mask (`grouped_attention`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
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
_PROBE_LENGTHS = np.array([5, 3, 1])
_PROBE_ATOL = 2e-2  # values of a normal distribution in half precision

logger = logging.getLogger(__name__)


def varlen_attn(*given: Any) -> Any:
    """Call torch's function; importing it brings a compiler, which takes a second."""
    from torch.nn.attention import varlen

    return varlen.varlen_attn(*given)


def attention_of(
    machine: Machine, heads: int, width: int, bias: Bias | None
) -> Callable[[np.ndarray], Attend]:
    """Choose the fastest attention that a device has for heads of a width.

    What is returned prepares it for sequences of some lengths, which descend.
    """
    step = 1 if machine.device.type == "cpu" else GPU_STEP
    grouped = partial(grouped_attention, machine=machine, heads=heads, bias=bias, step=step)
    if machine.device.type == "cpu" or bias is not None or machine.precision == "fp32":
        return grouped
    varlen = partial(varlen_attention, machine=machine, heads=heads)
    numbers = np.random.default_rng(0).standard_normal((_PROBE_LENGTHS.sum(), 3 * heads * width))
    with torch.inference_mode():
        qkv = machine.send(numbers).to(machine.dtype)
        expected, tried = qkv.new_zeros(2, len(qkv), heads * width)
        grouped(_PROBE_LENGTHS)(qkv, expected)
        try:
            varlen(_PROBE_LENGTHS)(qkv, tried)
        # an older GPU, or heads too wide: the library says so in several ways
        except RuntimeError as error:
            logger.warning("computing attention in groups, because torch reports: %s", error)
            return grouped
    is_same = torch.allclose(tried.float(), expected.float(), rtol=0, atol=_PROBE_ATOL)
    return varlen if is_same else grouped


def varlen_attention(lengths: np.ndarray, *, machine: Machine, heads: int) -> Attend:
    """One call for all sequences, whatever their lengths."""
    starts = machine.send(offsets_of(lengths).astype(np.int32))
    n_tokens, longest = int(lengths.sum()), int(lengths.max())

    def attend(qkv: torch.Tensor, context: torch.Tensor) -> None:
        q, k, v = qkv[:n_tokens].view(n_tokens, 3, heads, -1).unbind(1)
        mixed = varlen_attn(q, k, v, starts, starts, longest, longest)
        context[:n_tokens].copy_(mixed.flatten(1))

    return attend


def grouped_attention(
    lengths: np.ndarray, *, machine: Machine, heads: int, bias: Bias | None = None, step: int = 1
) -> Attend:
    """One call for each group of sequences whose lengths are the same, rounded up to a `step`.

    With a step of 1 a group is equally long: nothing is padded and nothing masked.
    """
    group_sizes = np.unique(-(lengths // -step), return_counts=True)[1][::-1]
    parts = np.split(lengths, np.cumsum(group_sizes)[:-1])
    groups = [(int(part.sum()), _attention_together(part, machine, heads, bias)) for part in parts]

    def attend(qkv: torch.Tensor, context: torch.Tensor) -> None:
        at = 0
        for n_tokens, attend_group in groups:
            rows = slice(at, at := at + n_tokens)
            attend_group(qkv[rows], context[rows])

    return attend


def _attention_together(
    lengths: np.ndarray, machine: Machine, heads: int, bias: Bias | None
) -> Attend:
    """One call for sequences of a block that follow each other; short ones are filled up."""
    count, width = lengths.size, int(lengths[0])
    mask = None if bias is None else bias(width)  # added to the scores
    places = None  # of the tokens among all `count * width` places, where some are empty
    if lengths[-1] < width:
        is_token = np.arange(width) < lengths[:, None]
        hidden = machine.send(np.where(is_token, np.float32(0), np.float32(-np.inf)))
        hidden = hidden[:, None, None, :].to(machine.dtype)
        mask = hidden if mask is None else mask + hidden
        places = machine.send(np.flatnonzero(is_token))

    def attend(qkv: torch.Tensor, context: torch.Tensor) -> None:
        if places is not None:
            packed, qkv = qkv, qkv.new_zeros(count * width, qkv.shape[1])
            qkv[places] = packed
        q, k, v = qkv.view(count, width, 3, heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)
        if places is None:
            context.view(count, width, heads, -1).copy_(mixed)
        else:
            context.copy_(mixed.reshape(-1, context.shape[1])[places])

    return attend
