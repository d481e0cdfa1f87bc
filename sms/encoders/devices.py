"""Where an encoder computes and in which number format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sms.compiled import model_threads
from sms.encoders import EncoderRuntime

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class Machine:
    """A device and the format of a model's weights and states on it."""

    device: torch.device
    precision: str
    """`fp32`, `bf16` or `fp16`."""

    @property
    def dtype(self) -> torch.dtype:
        """The format as torch names it."""
        return _DTYPES[self.precision]

    @property
    def signature(self) -> str:
        """What the format adds to an encoder's signature: nothing for fp32."""
        return "" if self.precision == "fp32" else f"|precision:{self.precision}"

    @classmethod
    def choose(cls, runtime: EncoderRuntime) -> Machine:
        """Pick the device and format that a runtime asks for, and set torch's threads.

        Raises
        ------
        ValueError
            If a GPU is asked for and there is none.
        """
        is_there = torch.cuda.is_available()
        if runtime.device == "cuda" and not is_there:
            raise ValueError("`device` must be auto or cpu here, got cuda: torch sees no GPU")
        uses_gpu = is_there and runtime.device != "cpu"
        if runtime.threads is not None:
            torch.set_num_threads(model_threads(runtime.threads))
        precision = runtime.precision
        if precision == "auto":
            precision = "bf16" if uses_gpu else "fp32"
        return cls(torch.device("cuda" if uses_gpu else "cpu"), precision)

    def send(self, array: np.ndarray) -> torch.Tensor:
        """Copy to the device."""
        return torch.from_numpy(array).to(self.device)


def count_gpus() -> int:
    """Count the GPUs that torch sees on this machine, without using one."""
    return torch.cuda.device_count()
