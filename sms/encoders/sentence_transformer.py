"""Models of the sentence-transformers library: sentence vectors only.

A transformer with one pooling, and perhaps normalisation, after it goes through this project's own
forward pass, which gives what `encode` gives; anything else is run by the library.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from sms.encoders import CannotSplit, EncoderRuntime
from sms.encoders.base import SentenceEncoder
from sms.encoders.batches import Batches
from sms.encoders.bert import POOLINGS, BertEncoder, Pooling
from sms.encoders.devices import Machine
from sms.encoders.hugging_face import PROBE, token_model
from sms.encoders.layers import LayerChoice
from sms.encoders.pieces import (
    SPACES,
    PieceCutter,
    attempt_each,
    marks_for,
    read_marks_as_letters,
)
from sms.encoders.pretrained import (
    NO_LIMIT,
    ModelFolder,
    limit_of,
    most_tokens,
    tried,
    without_chatter,
)
from sms.text import SegmentedTexts, Segmenter

logger = logging.getLogger(__name__)

BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}
"""Tokens that the library encodes together, padding included, by device."""
_MOST_SPECIAL = 8
PROBE_ATOL = 1e-5
"""How far this project's vectors may be from the library's before those are taken."""


class LibraryEncoder(SentenceEncoder):
    """Sentence vectors by the library's `encode`, which cuts what is too long for the model."""

    def __init__(self, model: Any, *, name: str, content_hash: str, machine: Machine) -> None:
        super().__init__(
            signature=f"{name}|oov:drop|pool:library{machine.signature}",
            content_hash=content_hash,
            dimension=model.encode(PROBE, show_progress_bar=False).size,
        )
        self.batches = Batches(BATCH_TOKENS[machine.device.type])
        self._model = model.to(machine.device, machine.dtype)
        self._limit = limit_of(model.max_seq_length)
        tokenizer = getattr(model, "tokenizer", None)
        self._tokenizer = tokenizer if callable(tokenizer) else None

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words have no unknown piece, where the tokeniser has one."""
        unknown = getattr(self._tokenizer, "unk_token_id", None)
        if unknown is None:
            return super().known_words(texts)

        def are_known(words: list[str]) -> np.ndarray:
            rows = self._pieces(words, add_special_tokens=False)
            return np.array([row is None or unknown not in row for row in rows], dtype=bool)

        return texts.vocabulary.column(f"known:{self.content_hash}", are_known)

    def pieces_of_words(self, texts: SegmentedTexts) -> np.ndarray | None:
        """Return how many pieces each word is cut into; None where it is looked up."""
        tokenizer = self._tokenizer
        if tokenizer is None or not hasattr(tokenizer, "convert_tokens_to_ids"):
            return None
        spaces = {*tokenizer.convert_tokens_to_ids([*SPACES])}

        def counted(words: list[str]) -> np.ndarray:
            rows = self._pieces(words, add_special_tokens=False)
            n_pieces = [sum(piece not in spaces for piece in row or ()) for row in rows]
            return np.array(n_pieces, dtype=np.int64)

        return texts.vocabulary.column(f"pieces:{self.content_hash}", counted)

    def is_cut(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which sentences have more tokens than the library gives to the model."""
        # no tokeniser makes more tokens than bytes, a few special ones aside
        n_bytes = np.array([len(sentence.encode()) for sentence in texts.sentences])
        long = np.flatnonzero(n_bytes + _MOST_SPECIAL > self._limit)
        is_cut = np.zeros(n_bytes.size, dtype=bool)
        is_cut[long] = self._lengths([texts.sentences[k] for k in long], long) > self._limit
        return is_cut

    def inputs_of(self, texts: SegmentedTexts, wanted: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Return some sentences as they stand, and their tokens that are read."""
        sentences = [texts.sentences[k] for k in wanted.tolist()]
        lengths = np.minimum(self._lengths(sentences, wanted), self._limit)
        return sentences, np.maximum(lengths, 1).astype(np.int64)

    def embed(self, inputs: list[Any]) -> np.ndarray:
        """Return a vector for each sentence."""
        encoded = self._model.encode(
            inputs, batch_size=len(inputs), convert_to_tensor=True, show_progress_bar=False
        )
        return encoded.float().cpu().numpy()

    def _lengths(self, sentences: list[str], numbers: np.ndarray) -> np.ndarray:
        """Return the tokens of some sentences, uncut."""
        if self._tokenizer is None:
            # a model without a tokenizer looks words up; characters are enough to sort by length
            return np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        lengths = np.array([-1 if row is None else len(row) for row in self._pieces(sentences)])
        if (lengths < 0).any():
            raise CannotSplit(numbers[lengths < 0])
        return lengths.astype(np.int64)

    def _pieces(self, texts: list[str], **options: bool) -> list[list[int] | None]:
        """Cut texts; None for one that the tokeniser fails on."""
        tokenizer: Any = self._tokenizer
        uncut = {"truncation": False, "padding": False, "verbose": False}
        return attempt_each(lambda some: tokenizer(some, **uncut, **options)["input_ids"], texts)


def load_st(path: str, *, runtime: EncoderRuntime) -> BertEncoder | LibraryEncoder:
    """Load a sentence-transformers model from a folder or by its id on the hub."""
    model_folder = ModelFolder.open(path, after="st:", runtime=runtime)
    model = _load(model_folder.folder)
    return _own_encoder(model, model_folder) or LibraryEncoder(
        model,
        name=model_folder.name,
        content_hash=model_folder.content_hash,
        machine=model_folder.machine,
    )


def _load(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    def loaded() -> Any:
        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        if (model.max_seq_length or 0) < 0:  # the library reads -1, "no limit", as a limit
            model.max_seq_length = NO_LIMIT
        model.encode(PROBE, show_progress_bar=False)
        return model

    with without_chatter():
        what = f"`{folder}` must hold a model that sentence-transformers can load and run"
        model = tried(loaded, what)
    backend = getattr(getattr(model, "tokenizer", None), "backend_tokenizer", None)
    if backend is not None and not marks_for(backend, _prompt_of(model)):
        model.tokenizer.split_special_tokens = True
        read_marks_as_letters(backend)
    return model.eval()


def _prompt_of(model: Any) -> str:
    return str(model.prompts.get(model.default_prompt_name or "", ""))


def _own_encoder(model: Any, model_folder: ModelFolder) -> BertEncoder | None:
    """Return an encoder with this project's forward pass, None if it gives other vectors."""
    pooling = _plain_pooling(model)
    if pooling is None or not getattr(model.tokenizer, "is_fast", False):
        return None
    transformer = model[0].auto_model
    tokenizer = copy.deepcopy(model.tokenizer)  # its cutting off is switched off below
    longest = most_tokens(transformer, tokenizer)
    layers = LayerChoice.parse("last", transformer.config.num_hidden_layers)

    def encoder(where: Machine) -> BertEncoder:
        return BertEncoder(
            token_model(transformer, tokenizer, layers, where),
            PieceCutter(tokenizer.backend_tokenizer),
            name=model_folder.name,
            content_hash=model_folder.content_hash,
            max_tokens=min(limit_of(model.max_seq_length), longest),
            pooling=pooling,
            has_words=False,
        )

    probe = encoder(Machine(torch.device("cpu"), "fp32"))
    vectors = probe.encode(Segmenter().segment(pa.array([PROBE]))).pooled
    expected = model.encode([PROBE], show_progress_bar=False)
    if vectors.shape == expected.shape and np.allclose(vectors, expected, rtol=0, atol=PROBE_ATOL):
        return encoder(model_folder.machine)
    logger.warning("%s: sentence-transformers gives other vectors; using it", model_folder.name)
    return None


def _plain_pooling(model: Any) -> Pooling | None:
    """Return how a model pools, None if it does more than that or changes the text before."""
    modules = list(model)
    kinds = [_kind_of(module) for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return None
    mode = _mode_of(modules[1])
    if mode not in POOLINGS or modules[0].do_lower_case or _prompt_of(model):
        return None
    return Pooling(mode=mode, normalises=len(modules) == 3)


def _kind_of(module: Any) -> str:
    """Return the name of one of the library's classes, whose places differ between versions."""
    kind = type(module)
    return kind.__name__ if kind.__module__.startswith("sentence_transformers.") else ""


def _mode_of(pooling: Any) -> object:
    """Return how the library's module pools, which versions before 5.4 tell by a method."""
    mode = getattr(pooling, "pooling_mode", None)
    return pooling.get_pooling_mode_str() if mode is None else mode
