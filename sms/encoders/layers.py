"""Which of a model's layers make up its vectors, and how they are put together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import torch


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
        numbers = []
        for part in re.findall(r"-?\d+", text):
            number = int(part)
            number += (n_layers + 1) * (number < 0)
            if not 0 <= number <= n_layers:
                raise ValueError(
                    f"`layers` must name layers from 0 (the embeddings) to {n_layers} (the last), "
                    f"got {part} in {text!r}"
                )
            numbers.append(number)
        if text.startswith("concat:"):
            return cls(tuple(numbers), concatenates=True)
        first, last = numbers
        if first > last:
            raise ValueError(f"`layers` must run from a lower to a higher layer, got {text!r}")
        return cls(tuple(range(first, last + 1)))
