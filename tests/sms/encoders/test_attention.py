"""Parts of a forward pass: attention over packed sequences, linear layers, the choice of layers."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sms.encoders import attention
from sms.encoders.attention import attention_of, grouped_attention, varlen_attention
from sms.encoders.devices import Machine
from sms.encoders.layers import LayerChoice, Linear, has_onednn, speed_up

HEADS, WIDTH = 2, 8
LENGTHS = np.array([37, 33, 33, 31, 17, 16, 3, 3, 1])
N_TOKENS = int(LENGTHS.sum())
CPU = Machine(torch.device("cpu"), "fp32")
ATOL = 1e-6
# some empty rows behind the last token
QKV = torch.randn(N_TOKENS + 5, 3 * HEADS * WIDTH, generator=torch.Generator().manual_seed(1))


def one_by_one(q, k, v, starts, *_):
    """Stand in for torch's call on a GPU, with its arguments."""
    found = torch.empty(q.shape)
    for start, end in itertools.pairwise(starts.tolist()):
        sequence_qkv = (part[start:end].transpose(0, 1)[None] for part in (q, k, v))
        found[start:end] = F.scaled_dot_product_attention(*sequence_qkv)[0].transpose(0, 1)
    return found


def bias(width: int) -> torch.Tensor:
    """Return a bias by distance, as MPNet has."""
    places = torch.arange(width)
    by_distance = torch.sin((places[None, :] - places[:, None]).float())
    return torch.stack([by_distance, -2 * by_distance])[None]


@pytest.mark.parametrize("biased", [None, bias])
@pytest.mark.parametrize("step", [1, 16, 64, "varlen"])
def test_attention_matches_one_sequence_at_a_time(step, biased, monkeypatch):
    monkeypatch.setattr(attention, "varlen_attn", one_by_one)
    tried = partial(grouped_attention, bias=biased, step=step)
    if step == "varlen":
        tried, biased = varlen_attention, None
    context = torch.zeros(N_TOKENS + 5, HEADS * WIDTH)
    tried(LENGTHS, machine=CPU, heads=HEADS)(QKV, context)
    assert not context[N_TOKENS:].any()
    by_sequence = (part[:N_TOKENS].split(LENGTHS.tolist()) for part in (context, QKV))
    for length, found, qkv in zip(LENGTHS.tolist(), *by_sequence, strict=True):
        q, k, v = qkv.view(length, 3, HEADS, WIDTH).permute(1, 2, 0, 3)
        scores = (q / WIDTH**0.5) @ k.transpose(1, 2)
        scores = scores if biased is None else scores + biased(length)[0]
        expected = (scores.softmax(-1) @ v).transpose(0, 1).reshape(length, -1)
        torch.testing.assert_close(found, expected, rtol=0, atol=ATOL)


def test_few_calls_on_a_gpu(monkeypatch):
    lengths = np.sort(np.random.default_rng(0).integers(5, 61, 400))[::-1]
    places, real = [], F.scaled_dot_product_attention

    def counting(q, *others, **named):
        places.append(q.shape[0] * q.shape[2])
        return real(q, *others, **named)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counting)
    qkv = torch.zeros(int(lengths.sum()), 3 * HEADS * WIDTH)
    coarse = grouped_attention(lengths, machine=CPU, heads=HEADS, step=attention.GPU_STEP)
    coarse(qkv, qkv[:, : HEADS * WIDTH].clone())
    assert len(places) <= 4
    assert sum(places) < 1.3 * lengths.sum()  # of one group it would be 1.8


def test_gpu_gets_one_call_in_half_precision_where_it_works(monkeypatch, caplog):
    gpu = SimpleNamespace(
        device=SimpleNamespace(type="cuda"),
        precision="bf16",
        dtype=torch.bfloat16,
        send=torch.from_numpy,
    )

    def too_old(*_):
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")

    for varlen, biased, expected in (
        (one_by_one, None, varlen_attention),
        (one_by_one, bias, grouped_attention),
        (lambda *given: one_by_one(*given) + 1, None, grouped_attention),
        (too_old, None, grouped_attention),
    ):
        monkeypatch.setattr(attention, "varlen_attn", varlen)
        assert attention_of(gpu, HEADS, WIDTH, biased).func is expected
    assert "only supports Ampere" in caplog.text


def test_loading_an_encoder_brings_no_compiler():
    program = "import sys, sms.encoders.bert; sys.exit('torch.nn.attention.varlen' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# Layers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean:0..7", "got 7 in 'mean:0..7'"),
        ("concat:-8", "got -8 in 'concat:-8'"),
        ("mean:3..2", "`layers` must run from a lower to a higher layer, got 'mean:3..2'"),
        ("second", "must be last, first, all, mean:I..J or concat:I,J,..., got 'second'"),
    ],
)
def test_wrong_choice_rejected(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LayerChoice.parse(text, 6)


def test_model_with_fast_layers_computes_the_same():
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(8, 3, bias=False))
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), inner)
    x = torch.randn(5, 6)
    with torch.inference_mode():
        expected = model(x)
        kind = Linear if has_onednn(model[0].weight) else torch.nn.Linear
        speed_up(model)
        torch.testing.assert_close(model(x), expected)
        torch.testing.assert_close(model(x[None]), expected[None])  # as batches of sequences
    assert type(model[0]) is type(model[2][0]) is kind
