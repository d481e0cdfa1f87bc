"""Pretrained models that score texts: found, loaded, run in batches that fit the memory.

What they are asked is in `likelihood` and `pair`. Loading runs no code that lies with a model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from sms.encoders import EncoderRuntime
from sms.encoders.batches import Batches
from sms.encoders.devices import Machine
from sms.encoders.hugging_face import (
    check_weights,
    find_folder,
    hash_of_model,
    load_config,
    load_pretrained,
    load_tokenizer,
    most_pieces,
    n_places,
    name_of,
)
from sms.encoders.layers import speed_up
from sms.encoders.vector_cache import Recent, VectorCache

BATCH_TOKENS = {"cpu": 2_048, "cuda": 65_536}
"""Tokens, padding included, that go through a model together, by device."""
GENERATOR = "generator"
"""A causal model or one of an encoder and a decoder, as its configuration says."""
CLASSIFIER = "classifier"  # a model with a head for classes of sequences

RECENT_BYTES = 64 << 20  # answers that a model gave lately and that are kept
_KEY_BYTES = 150  # of a key and what holds an answer

T = TypeVar("T")
_in_use: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


def in_use(what: Hashable, path: str, runtime: EncoderRuntime, load: Callable[[], T]) -> T:
    """Return what metrics of this process have of a model's folder (`what` of it), or load it.

    It is forgotten with the last metric that has it, and loaded again where a file has changed.
    """
    folder = Path(path)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    found = [(file, file.stat()) for file in files]
    state = tuple((file, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for file, s in found)
    key = (what, str(path), state, Machine.choose(runtime), runtime.cache_folder)
    model: T | None = _in_use.get(key)
    if model is None:
        model = _in_use[key] = load()
    return model


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Pretrained:
    """A model on its device, its tokeniser and what identifies them."""

    model: Any  # of the transformers library, ready for inference
    tokenizer: Any  # a fast one
    machine: Machine
    name: str  # for a signature
    content_hash: str
    max_tokens: int
    """Tokens that it reads at once, special ones included; of each side where it has two."""

    @property
    def has_encoder(self) -> bool:
        """Whether an encoder reads one text and a decoder another."""
        return bool(self.model.config.is_encoder_decoder)

    @classmethod
    def load(cls, path: str, kind: str, *, runtime: EncoderRuntime, after: str) -> Pretrained:
        """Load a `GENERATOR` or `CLASSIFIER` from a folder, or by its id on the hub."""

        def load() -> Pretrained:
            folder = find_folder(path, after=after)
            machine = Machine.choose(runtime)
            check_weights(folder)
            tokenizer, config = load_tokenizer(folder), load_config(folder)
            auto_class = "AutoModelForSequenceClassification"
            if kind == GENERATOR:
                is_pair = config.is_encoder_decoder
                auto_class = "AutoModelForSeq2SeqLM" if is_pair else "AutoModelForCausalLM"
            model = load_pretrained(folder, auto_class, dtype=machine.dtype)
            model = model.to(machine.device).eval()
            speed_up(model)
            most = min(most_pieces(tokenizer), n_places(config))
            return cls(model, tokenizer, machine, name_of(path), hash_of_model(folder), most)

        return in_use((cls, kind), path, runtime, load)


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
            # a cache's values are those of words and one of their sentence, here all of one text
            n_words = np.array([sizes[name] - 1 for name in missing], dtype=np.int64)
            read = self._disk.read([bytes.fromhex(name) for name in missing], n_words)
            kept = {missing[place]: np.append(*own) for place, own in read.items()}
        fresh = dict(compute([name for name in missing if name not in kept]))
        if self._disk is not None and fresh:
            written = {bytes.fromhex(name): own.astype(np.float32) for name, own in fresh.items()}
            self._disk.write({key: (own[:-1], own[-1:]) for key, own in written.items()})
        self._recent.add(kept | fresh, RECENT_BYTES)
        return known | kept | fresh, len(fresh)
