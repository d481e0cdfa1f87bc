"""Attention over packed sequences: each kind against one sequence at a time."""

from __future__ import annotations

import itertools
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sms.encoders import attention
from sms.encoders.attention import GroupedAttention, VarlenAttention, attention_of
from sms.encoders.devices import Machine

HEADS, WIDTH = 2, 8
LENGTHS = np.array([37, 33, 33, 31, 17, 16, 3, 3, 1])
CPU = Machine(torch.device("cpu"), "fp32")
ATOL = 1e-6


def one_by_one(q, k, v, starts, *_):
    """Stand in for torch's call on a GPU, with its arguments."""
    ends = starts.tolist()
    found = torch.empty(q.shape)
    for start, end in itertools.pairwise(ends):
        own = (part[start:end].transpose(0, 1)[None] for part in (q, k, v))
        found[start:end] = F.scaled_dot_product_attention(*own)[0].transpose(0, 1)
    return found


def bias(width: int) -> torch.Tensor:
    """Return a bias by distance, as MPNet has."""
    places = torch.arange(width)
    by_distance = torch.sin((places[None, :] - places[:, None]).float())
    return torch.stack([by_distance, -2 * by_distance])[None]


def attended(tried, lengths=LENGTHS) -> torch.Tensor:
    """Return what made-up tokens attend to, with some empty rows behind the last."""
    rows = int(lengths.sum()) + 5
    qkv = torch.randn(rows, 3 * HEADS * WIDTH, generator=torch.Generator().manual_seed(1))
    context = torch.zeros(rows, HEADS * WIDTH)
    tried.over(lengths)(qkv, context)
    assert not context[-5:].any()
    return context


@pytest.mark.parametrize("step", [1, 4, 16, 64])
@pytest.mark.parametrize("biased", [None, bias])
def test_groups_match_one_sequence_at_a_time(step, biased):
    found = attended(GroupedAttention(CPU, HEADS, bias=biased, step=step))
    at, rows = 0, int(LENGTHS.sum()) + 5
    qkv = torch.randn(rows, 3 * HEADS * WIDTH, generator=torch.Generator().manual_seed(1))
    for length in LENGTHS.tolist():
        q, k, v = qkv[at : at + length].view(length, 3, HEADS, WIDTH).permute(1, 2, 0, 3)
        scores = (q / WIDTH**0.5) @ k.transpose(1, 2)
        scores = scores if biased is None else scores + biased(length)[0]
        expected = (scores.softmax(-1) @ v).transpose(0, 1).reshape(length, -1)
        torch.testing.assert_close(found[at : at + length], expected, rtol=0, atol=ATOL)
        at += length


def test_one_call_for_all_sequences_gives_the_same(monkeypatch):
    monkeypatch.setattr(attention, "varlen_attn", one_by_one)
    found = attended(VarlenAttention(CPU, HEADS))
    torch.testing.assert_close(found, attended(GroupedAttention(CPU, HEADS)), rtol=0, atol=ATOL)


def count_calls(monkeypatch) -> list[int]:
    """List the places of every call of torch's attention."""
    places: list[int] = []
    real = F.scaled_dot_product_attention

    def counting(q, *others, **named):
        places.append(q.shape[0] * q.shape[2])
        return real(q, *others, **named)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counting)
    return places


def test_calls_and_places_by_step(monkeypatch):
    lengths = np.sort(np.random.default_rng(0).integers(5, 61, 400))[::-1]
    places = count_calls(monkeypatch)
    attended(GroupedAttention(CPU, HEADS), lengths)
    assert (len(places), sum(places)) == (len(np.unique(lengths)), lengths.sum())
    places.clear()
    attended(GroupedAttention(CPU, HEADS, step=attention.GPU_STEP), lengths)
    assert len(places) <= 4
    assert sum(places) < 1.3 * lengths.sum()  # of one group it would be 1.8


def test_cpu_gets_groups_of_equal_length(monkeypatch):
    places = count_calls(monkeypatch)
    attended(attention_of(CPU, HEADS, WIDTH, None))
    assert sum(places) == LENGTHS.sum()


@pytest.fixture
def gpu(monkeypatch) -> Any:
    """A GPU that is a CPU."""
    monkeypatch.setattr(attention, "varlen_attn", one_by_one)
    return SimpleNamespace(
        device=SimpleNamespace(type="cuda"),
        precision="bf16",
        dtype=torch.bfloat16,
        send=torch.from_numpy,
    )


def test_gpu_in_half_precision_gets_one_call(gpu):
    assert isinstance(attention_of(gpu, HEADS, WIDTH, None), VarlenAttention)


def test_gpu_gets_groups_for_what_one_call_cannot_do(gpu, monkeypatch, caplog):
    assert isinstance(attention_of(gpu, HEADS, WIDTH, bias), GroupedAttention)
    monkeypatch.setattr(attention, "varlen_attn", lambda *given: one_by_one(*given) + 1)
    assert isinstance(attention_of(gpu, HEADS, WIDTH, None), GroupedAttention)

    def too_old(*_):
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")

    monkeypatch.setattr(attention, "varlen_attn", too_old)
    assert isinstance(attention_of(gpu, HEADS, WIDTH, None), GroupedAttention)
    assert "only supports Ampere" in caplog.text


def test_loading_an_encoder_brings_no_compiler():
    program = "import sys, sms.encoders.bert; sys.exit('torch.nn.attention.varlen' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
