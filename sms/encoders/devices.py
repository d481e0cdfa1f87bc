"""Where an encoder computes and in which number format."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from sms.compiled import model_threads
from sms.encoders import EncoderRuntime

SHARE_OF_MEMORY = 0.4
"""Share of a GPU's free memory, as a model is loaded, that its batches may take."""

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
        """Choose the device and format for a runtime, and set torch's threads.

        Raises `ValueError` if a GPU is asked for and there is none.
        """
        uses_gpu = runtime.device != "cpu" and torch.cuda.is_available()
        if runtime.device == "cuda" and not uses_gpu:
            raise ValueError("`device` must be auto or cpu here, got cuda: torch sees no GPU")
        if runtime.threads is not None:
            torch.set_num_threads(model_threads(runtime.threads))
        chosen = {"auto": "bf16" if uses_gpu else "fp32"}
        precision = chosen.get(runtime.precision, runtime.precision)
        return cls(torch.device("cuda" if uses_gpu else "cpu"), precision)

    def send(self, array: np.ndarray) -> torch.Tensor:
        """Copy to the device; a GPU goes on with what it computes meanwhile."""
        tensor = torch.from_numpy(array)
        if self.device.type == "cpu":
            return tensor
        stream, _ = _copy_streams(self.device)
        with torch.cuda.stream(stream):
            copy = tensor.pin_memory().to(self.device, non_blocking=True)
        computing = torch.cuda.current_stream(self.device)
        computing.wait_stream(stream)
        copy.record_stream(computing)
        return copy

    def fetch(self, tensor: torch.Tensor) -> Callable[[], np.ndarray]:
        """Begin to copy back; calling what is returned waits for the copy and returns it."""
        if self.device.type == "cpu":
            return tensor.numpy
        _, stream = _copy_streams(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            copy.copy_(tensor, non_blocking=True)
            arrived = stream.record_event()
        tensor.record_stream(stream)

        def wait() -> np.ndarray:
            arrived.synchronize()
            return copy.numpy()

        return wait

    def room_for(self, bytes_per_token: int, most: int) -> int:
        """Return how many tokens fit into the free memory of a GPU, `most` at most."""
        if self.device.type == "cpu":
            return most
        free, _ = torch.cuda.mem_get_info(self.device)
        return max(min(int(free * SHARE_OF_MEMORY) // bytes_per_token, most), 1)


@functools.cache
def _copy_streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    """Return the streams of copies to a GPU and back."""
    return torch.cuda.Stream(device), torch.cuda.Stream(device)


def uses_gpu(device: str) -> bool:
    """Tell whether a model that is to run on this one of `DEVICES` runs on a GPU."""
    return Machine.choose(EncoderRuntime(device=device)).device.type == "cuda"


def count_gpus() -> int:
    """Count the GPUs that torch sees on this machine, without using one."""
    return torch.cuda.device_count()
