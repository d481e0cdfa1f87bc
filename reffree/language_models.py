"""Pretrained models that score texts: found, loaded, run in batches that fit the memory.

What they are asked is in `likelihood` and `pair`. Loading runs no code that lies with a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sms.encoders import EncoderRuntime
from sms.encoders.batches import Batches
from sms.encoders.devices import Machine
from sms.encoders.pretrained import ModelFolder, Pretrained, in_use
from sms.encoders.vector_cache import Recent, VectorCache

BATCH_TOKENS = {"cpu": 2_048, "cuda": 65_536}
"""Tokens, padding included, that go through a model together, by device."""
GENERATOR = "generator"
"""A causal model or one of an encoder and a decoder, as its configuration says."""
CLASSIFIER = "classifier"  # a model with a head for classes of sequences

RECENT_BYTES = 64 << 20  # answers that a model gave lately and that are kept
_KEY_BYTES = 150  # of a key and what holds an answer


def load_pretrained(path: str, kind: str, *, runtime: EncoderRuntime, after: str) -> Pretrained:
    """Load a `GENERATOR` or `CLASSIFIER` from a folder, or by its id on the hub."""

    def load() -> Pretrained:
        folder = ModelFolder.open(path, after=after, runtime=runtime)
        auto_class = "AutoModelForSequenceClassification"
        if kind == GENERATOR:
            is_pair = folder.config.is_encoder_decoder
            auto_class = "AutoModelForSeq2SeqLM" if is_pair else "AutoModelForCausalLM"
        return folder.ready(folder.load(auto_class, dtype=folder.machine.dtype))

    return in_use((Pretrained, kind), path, runtime, load)


def batches(machine: Machine) -> Batches:
    """Return what runs a model in batches that fit into the memory of its device."""
    return Batches(BATCH_TOKENS[machine.device.type])


def padded(
    rows: Sequence[np.ndarray], machine: Machine, *, fill: int = 0, is_left: bool = False
) -> tuple[Any, Any]:
    """Lay rows of tokens out as a rectangle of tensors, and say which places are theirs."""
    width = max(row.size for row in rows)
    values, mask = np.full((len(rows), width), fill), np.zeros((len(rows), width), dtype=np.int64)
    for k, row in enumerate(rows):
        place = slice(width - row.size, None) if is_left else slice(row.size)
        values[k, place], mask[k, place] = row, 1
    return machine.send(values), machine.send(mask)


class Remembered:
    """Arrays that a model gave lately, or in an earlier run with the same cache folder.

    They are filed under hexadecimal digits that identify what they are about.
    """

    def __init__(self, owner: str, cache_folder: str | None) -> None:
        self._recent: Recent[np.ndarray] = Recent(_KEY_BYTES)
        self._disk: VectorCache | None = None
        if cache_folder is not None:
            self._disk = VectorCache(cache_folder, owner=owner, dimension=1)

    def values(
        self, sizes: Mapping[str, int], compute: Callable[[list[str]], Mapping[str, np.ndarray]]
    ) -> tuple[dict[str, np.ndarray], int]:
        """Return arrays by name, of so many numbers, and how many of them were computed."""
        names = list(sizes)
        missing = [names[place] for place in self._recent.missing(names)]
        known = {name: self._recent[name] for name in sizes.keys() - set(missing)}
        kept: dict[str, np.ndarray] = {}
        if self._disk is not None and missing:
            # `VectorCache` files n_words numbers and one more: an array's last number is that one
            n_words = np.array([sizes[name] - 1 for name in missing], dtype=np.int64)
            read = self._disk.read([bytes.fromhex(name) for name in missing], n_words)
            kept = {missing[place]: np.append(*parts) for place, parts in read.items()}
        fresh = dict(compute([name for name in missing if name not in kept]))
        if self._disk is not None and fresh:
            written = {
                bytes.fromhex(name): array.astype(np.float32) for name, array in fresh.items()
            }
            self._disk.write({key: (array[:-1], array[-1:]) for key, array in written.items()})
        self._recent.add(kept | fresh, RECENT_BYTES)
        return known | kept | fresh, len(fresh)
