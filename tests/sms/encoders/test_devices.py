"""Which device and number format are chosen, and how much fits on the device."""

from __future__ import annotations

import pytest
import torch

from sms.encoders import EncoderRuntime, bert
from sms.encoders.bert import load_minilm
from sms.encoders.devices import Machine


def test_budget_follows_the_free_memory_of_the_card(monkeypatch):
    gpu, most = Machine(torch.device("cuda"), "bf16"), bert.BLOCK_TOKENS["cuda"]
    for free, expected in ((140 << 30, most), (1 << 30, (4 << 30) // 10 // 16_384), (1, 1)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _, free=free: (free, 140 << 30))
        assert gpu.room_for(16_384, most) == pytest.approx(expected, abs=1)
    assert Machine(torch.device("cpu"), "fp32").room_for(16_384, 2_048) == 2_048


def test_device_and_number_format(monkeypatch):
    for has_gpu, device, precision, expected in (
        (True, "auto", "auto", ("cuda", "bf16")),
        (True, "auto", "fp32", ("cuda", "fp32")),
        (True, "cpu", "auto", ("cpu", "fp32")),
        (False, "auto", "auto", ("cpu", "fp32")),
    ):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        chosen = Machine.choose(EncoderRuntime(device=device, precision=precision))
        assert (chosen.device.type, chosen.precision) == expected
    with pytest.raises(ValueError, match="`device` must be auto or cpu here, got cuda"):
        load_minilm(runtime=EncoderRuntime(device="cuda"))
