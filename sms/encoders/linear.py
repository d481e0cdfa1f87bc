"""Linear layers of a frozen model, by the faster of the two libraries that torch has for a CPU.

On AMD's processors with AVX-512 oneDNN's product runs at 2.2 times the speed of `F.linear`, on
Intel's at 1.1. Its public entrance (`Tensor.to_mkldnn`) copies what goes in and comes out, and
gives half of that back; so these are the operators that `torch.compile` calls.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

_TYPICAL_ROWS = 1024
"""What oneDNN is told about the number of rows when it lays out weights."""


class Linear(torch.nn.Module):
    """A linear layer for inference, with GELU after it where `approximation` says how."""

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, approximation: str | None = None
    ) -> None:
        super().__init__()
        self.bias, self.approximation = bias, approximation
        self.uses_onednn = has_onednn(weight)
        if self.uses_onednn:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight, _TYPICAL_ROWS)
        self.weight = weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply rows by the weights, and add the bias."""
        if self.uses_onednn:
            activation = "none" if self.approximation is None else "gelu"
            return torch.ops.mkldnn._linear_pointwise(
                x, self.weight, self.bias, activation, [], self.approximation or ""
            )
        product = F.linear(x, self.weight, self.bias)
        if self.approximation is None:
            return product
        return F.gelu(product, approximate=self.approximation)


def speed_up(model: torch.nn.Module) -> None:
    """Put `Linear` in the place of every linear layer for which oneDNN is the faster one.

    The model must be on its device and in its number format, and is good for inference only.
    """
    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if type(layer) is torch.nn.Linear and has_onednn(layer.weight):
                setattr(module, name, Linear(layer.weight.detach(), layer.bias))


def has_onednn(weight: torch.Tensor) -> bool:
    """Tell whether oneDNN's kernels are the faster ones: with AVX-512, in fp32 and bf16.

    oneDNN may be told to use less than the processor has (`ONEDNN_MAX_CPU_ISA`), and then takes no
    bf16. With AVX2 its product is hardly faster, and slower with GELU inside.
    """
    return (
        weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        and (
            weight.dtype == torch.float32
            or (weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
        )
    )
