"""The processes that train one model together; one process alone is the plain case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed, nn


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where a process stands in its group."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> Ranks:
        """Return the place in the group that `torch.distributed` has set up, if it has."""
        if distributed.is_available() and distributed.is_initialized():
            return cls(distributed.get_rank(), distributed.get_world_size())
        return cls()

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """Have the gradients of all processes averaged."""
        if self.size == 1:
            return model
        return nn.parallel.DistributedDataParallel(model)

    def sum(self, *values: float, device: torch.device) -> list[float]:
        """Add up numbers over all processes, in float64."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=device)
        distributed.all_reduce(total)
        found: list[float] = total.tolist()
        return found

    def gather(self, value: Any) -> list[Any]:  # noqa: ANN401  (any picklable value)
        """Return the values of all processes, in their order, on every one."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values
