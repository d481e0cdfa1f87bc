"""The Universal Sentence Encoder of TensorFlow Hub (Cer et al. 2018), DAN, Transformer and lite.

*enc-2* and *enc-3* of Sun and Nenkova (2019), who encode a text as a whole: `unit=text`. By default
sentences go in one by one. Either goes in as it stands; the model cuts it into words itself, or
for the lite module `_lite_embed` does.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from sms.encoders import EncoderRuntime
from sms.encoders.contextual import ContextualEncoder
from sms.encoders.pieces import read_marks_as_letters
from sms.encoders.tf_hub import HubModel, load_model
from sms.ragged import Ragged
from sms.text import SegmentedTexts

BATCH_WORDS = 4096
"""Words of the sentences that are read together, padding included."""
PUBLISHED = "https://tfhub.dev/google/universal-sentence-encoder/4"

# signature, its argument and its output: of TF2 SavedModels and of the older modules
_CONVENTIONS = (("serving_default", "inputs", "outputs"), ("default", "text", "default"))
_LITE_INPUTS = {"values", "indices", "dense_shape"}
"""Of a sparse matrix of pieces, in the lite module."""
# Some Transformers ignore what comes after 128 words (tensorflow/hub issue 244).
_LONGEST_PROBE = 256
_SAME_ATOL = 1e-6  # one word in 256 moves a vector of norm 1 by far more
_PROBE = ["A text to try it on.", "One."]


class UseEncoder(ContextualEncoder):
    """Sentence vectors of a Universal Sentence Encoder.

    Where the model turns out to read only so many words, longer sentences are said to be cut.
    Raises `ValueError` if the model does not turn texts into vectors, naming its path.
    """

    def __init__(self, model: HubModel, *, unit: str = "sentence") -> None:
        self._embed = _embed_of(model)
        (vectors,) = model.probe("turn texts into vectors", lambda: (self._embed(_PROBE),))
        if vectors.ndim != 2 or len(vectors) != len(_PROBE):
            raise ValueError(
                f"`{model.path}` must turn {len(_PROBE)} texts into {len(_PROBE)} vectors, got "
                f"shape {vectors.shape}"
            )
        super().__init__(
            signature=f"use-{model.name}|{'unit:text' if unit == 'text' else 'pool:mean'}",
            content_hash=model.content_hash,
            has_words=False,
            dimension=vectors.shape[1],
            unit=unit,
        )
        self._limit = _limit_of(self._embed)
        self._batches = model.batches(BATCH_WORDS)

    def is_cut(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which sentences have more words than the model reads."""
        return texts.sentence_words.lengths > self._limit

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch, longest first."""
        n_words = texts.sentence_words.lengths[wanted]
        self.counts["tokens"] += int(n_words.sum())
        vectors = np.empty((wanted.size, self.dimension), dtype=np.float32)

        def compute(batch: np.ndarray) -> None:
            vectors[batch] = self._embed([texts.sentences[k] for k in wanted[batch].tolist()])

        self._batches.run(n_words, compute)
        return np.empty((0, self.dimension), dtype=np.float32), vectors


def _embed_of(model: HubModel) -> Callable[[list[str]], np.ndarray]:
    """Return what turns n texts into vectors of shape (n, d), however the model is called."""
    constant, loaded = model.tensorflow.constant, model.loaded
    signature = getattr(loaded, "signatures", {}).get("default")
    if signature is not None and set(signature.structured_input_signature[1]) == _LITE_INPUTS:
        return _lite_embed(model, signature)
    if callable(loaded):
        return lambda texts: loaded(constant(texts)).numpy()
    for name, argument, output in _CONVENTIONS:
        if name in loaded.signatures:
            signature = loaded.signatures[name]
            return lambda texts: signature(**{argument: constant(texts)})[output].numpy()
    names = ", ".join(name for name, _, _ in _CONVENTIONS)
    raise ValueError(
        f"`{model.path}` must have one of the signatures {names}, got "
        f"{', '.join(loaded.signatures) or 'none'}; a Universal Sentence Encoder is {PUBLISHED}"
    )


def _lite_embed(
    model: HubModel,
    signature: Any,  # noqa: ANN401  (of TensorFlow)
) -> Callable[[list[str]], np.ndarray]:
    """Return what turns n texts into vectors of shape (n, d)."""
    files = sorted(model.folder.rglob("*.model"))
    if len(files) != 1:
        raise ValueError(
            f"`{model.path}` must hold its vocabulary, one file `assets/*.model`, got "
            f"{len(files)}; unpack the whole archive"
        )
    tokenizer = read_pieces(files[0])
    constant = model.tensorflow.constant

    def embed(texts: list[str]) -> np.ndarray:
        rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        widest = max(map(len, rows), default=0)
        places = [(row, k) for row, ids in enumerate(rows) for k in range(len(ids))]
        return signature(
            values=constant(np.array([i for ids in rows for i in ids], dtype=np.int64)),
            indices=constant(np.array(places, dtype=np.int64).reshape(-1, 2)),
            dense_shape=constant(np.array([len(rows), widest], dtype=np.int64)),
        )["default"].numpy()

    return embed


def read_pieces(path: Path) -> Tokenizer:
    """Read the file of a SentencePiece unigram model."""
    from transformers.convert_slow_tokenizer import import_protobuf

    written = import_protobuf().ModelProto()
    try:
        written.ParseFromString(path.read_bytes())
        vocabulary = [(piece.piece, piece.score) for piece in written.pieces]
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=written.trainer_spec.unk_id))
    # a damaged file fails in every way there is
    except Exception as error:
        raise ValueError(
            f"`{path}` must be a SentencePiece unigram model, got {type(error).__name__}; download "
            "it again"
        ) from error
    charsmap = written.normalizer_spec.precompiled_charsmap
    rules = [normalizers.Precompiled(charsmap)] if charsmap else [normalizers.NFKC()]
    spaces = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    tokenizer.normalizer = normalizers.Sequence([*rules, *spaces])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([p.piece for p in written.pieces if p.type != p.NORMAL])
    read_marks_as_letters(tokenizer)
    return tokenizer


def _limit_of(embed: Callable[[list[str]], np.ndarray]) -> int:
    """Return after how many words a model reads no more."""

    def ignores_what_follows(n_words: int) -> bool:
        one, other = embed([f"{'word ' * n_words}{last}" for last in ("river", "seven")])
        return np.allclose(one, other, rtol=0, atol=_SAME_ATOL)

    if not ignores_what_follows(_LONGEST_PROBE):
        return sys.maxsize
    return bisect_left(range(_LONGEST_PROBE), True, key=ignores_what_follows)


def load_use(path: str, *, runtime: EncoderRuntime, unit: str = "sentence") -> UseEncoder:
    """Load a Universal Sentence Encoder from a URL or folder, a SavedModel or an older module."""
    model = load_model("use", path, published=PUBLISHED, runtime=runtime)
    return UseEncoder(model, unit=unit)
