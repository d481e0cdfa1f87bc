"""Which of a model's layers make up its vectors, and linear layers that are fast on a CPU."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

_TYPICAL_ROWS = 1024
"""What oneDNN is told about the number of rows when it lays out weights."""
_ROWS_MULTIPLE, _ROWS_MULTIPLE_ONEDNN = 256, 32


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """Layers by number, 0 for the embeddings and `n` for the last of `n` layers."""

    numbers: tuple[int, ...]
    concatenates: bool = False
    """Whether they are written one after the other; otherwise their mean is taken."""

    @property
    def highest(self) -> int:
        """The last layer that must be computed."""
        return max(self.numbers)

    @property
    def width(self) -> int:
        """How many times as wide as one layer the result is."""
        return len(self.numbers) if self.concatenates else 1

    def joined(self, layers: Iterable[torch.Tensor]) -> torch.Tensor:
        """Put the chosen ones of all layers together, from 0 on, each of shape (n_tokens, d).

        The vectors are fp32, shape (n_tokens, d) or wider where layers are joined.
        """
        states = {k: layer for k, layer in enumerate(layers) if k in self.numbers}
        chosen = [states[number].float() for number in self.numbers]
        if self.concatenates:
            return torch.cat(chosen, dim=1)
        return sum(chosen[1:], chosen[0]) / len(chosen)

    @classmethod
    def parse(cls, text: str, n_layers: int) -> LayerChoice:
        """Read `last`, `first`, `all`, `mean:I..J` or `concat:I,J,...`.

        Negative numbers count from the last layer, which is -1; `first` is layer 1 and `all` the
        mean of layers 1 to `n_layers`, without the embeddings. Raises `ValueError` if it is none of
        them or names a layer that the model has not.

        Examples
        --------
        >>> LayerChoice.parse("concat:-2,-1", 6).numbers
        (5, 6)
        """
        named = {"last": (n_layers,), "first": (1,), "all": tuple(range(1, n_layers + 1))}
        if text in named:
            return cls(named[text])
        if not re.fullmatch(r"mean:-?\d+\.\.-?\d+|concat:-?\d+(,-?\d+)*", text):
            raise ValueError(
                f"`layers` must be last, first, all, mean:I..J or concat:I,J,..., got {text!r}"
            )
        given = [int(part) for part in re.findall(r"-?\d+", text)]
        numbers = tuple(number + (n_layers + 1) * (number < 0) for number in given)
        for number, said in zip(numbers, given, strict=True):
            if not 0 <= number <= n_layers:
                raise ValueError(
                    f"`layers` must name layers from 0 (the embeddings) to {n_layers} (the last), "
                    f"got {said} in {text!r}"
                )
        if text.startswith("concat:"):
            return cls(numbers, concatenates=True)
        first, last = numbers
        if first > last:
            raise ValueError(f"`layers` must run from a lower to a higher layer, got {text!r}")
        return cls(tuple(range(first, last + 1)))


class Linear(torch.nn.Module):
    """A linear layer for inference, with GELU after it where `approximation` says how.

    It is computed by the faster of the two libraries that torch has for a CPU. On AMD's processors
    with AVX-512 oneDNN's product runs at 2.2 times the speed of `F.linear`, on Intel's at 1.1. Its
    public entrance (`Tensor.to_mkldnn`) copies what goes in and comes out, and gives half of that
    back; so these are the operators that `torch.compile` calls.
    """

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


def rows_multiple(weight: torch.Tensor) -> int:
    """Return of what the rows that are multiplied by weights like these must be a multiple.

    Matrix products choose their kernels by the number of rows. If it is a multiple of this, the
    product of a row in fp32 is the same to the last bit whatever the other rows, how many they are
    and the number of threads (on one kind of CPU); oneDNN needs few for that. In other formats that
    depends on the processor: with AMX, bf16 differs by 1e-3.
    """
    is_onednn = has_onednn(weight) and weight.dtype == torch.float32
    return _ROWS_MULTIPLE_ONEDNN if is_onednn else _ROWS_MULTIPLE
