"""The Universal Sentence Encoder *lite*: pieces of words in, as a sparse matrix, and vectors out.

The module (Cer et al. 2018; universal-sentence-encoder-lite of TensorFlow Hub) reads numbers of
SentencePiece's pieces and brings their vocabulary, `assets/*.model`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from sms.encoders.pieces import read_marks_as_letters
from sms.encoders.tf_hub import HubModel

_SIGNATURE, _OUTPUT = "default", "default"
_INPUTS = {"values", "indices", "dense_shape"}


def is_lite(model: HubModel) -> bool:
    """Tell whether a module reads a sparse matrix of pieces."""
    signature = getattr(model.loaded, "signatures", {}).get(_SIGNATURE)
    return signature is not None and set(signature.structured_input_signature[1]) == _INPUTS


def lite_embed(model: HubModel) -> Callable[[list[str]], np.ndarray]:
    """Return what turns n texts into vectors of shape (n, d).

    Raises `ValueError` if the module has no vocabulary, or not one that can be read.
    """
    files = sorted(model.folder.rglob("*.model"))
    if len(files) != 1:
        raise ValueError(
            f"`{model.path}` must hold its vocabulary, one file `assets/*.model`, got "
            f"{len(files)}; unpack the whole archive"
        )
    tokenizer = read_pieces(files[0])
    signature, constant = model.loaded.signatures[_SIGNATURE], model.tensorflow.constant

    def embed(texts: list[str]) -> np.ndarray:
        rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        widest = max(map(len, rows), default=0)
        places = [(row, k) for row, ids in enumerate(rows) for k in range(len(ids))]
        return signature(
            values=constant(np.array([i for ids in rows for i in ids], dtype=np.int64)),
            indices=constant(np.array(places, dtype=np.int64).reshape(-1, 2)),
            dense_shape=constant(np.array([len(rows), widest], dtype=np.int64)),
        )[_OUTPUT].numpy()

    return embed


def read_pieces(path: Path) -> Tokenizer:
    """Read the file of a SentencePiece unigram model.

    Raises `ValueError` if it is damaged or another kind of model.
    """
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
