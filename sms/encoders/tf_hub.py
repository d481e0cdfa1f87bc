"""Encoders from TensorFlow Hub: the Universal Sentence Encoder and ELMo.

They are those of Cer et al. (2018) and Peters et al. (2018). TensorFlow is imported when the first
of them is loaded, never before. Models compute in fp32 whatever `EncoderRuntime.precision` says:
their graphs are published so.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import sys
import tarfile
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from sms.encoders import EncoderRuntime
from sms.encoders.base import Encoder, SentenceEncoder
from sms.encoders.batches import Batches
from sms.encoders.pieces import read_marks_as_letters
from sms.file_hashes import hash_of_file
from sms.ragged import Ragged, offsets_of, owners_of, places_of
from sms.text import SegmentedTexts

USE_BATCH_WORDS = 4096
"""Words of the sentences that are read together, padding included."""
ELMO_BATCH_WORDS = 1024
"""The same; a longer sentence is read in windows of as many. The published model's convolutions
over letters take about 200 KB a word."""
USE_PUBLISHED = "https://tfhub.dev/google/universal-sentence-encoder/4"
ELMO_PUBLISHED = "https://tfhub.dev/google/elmo/3"

# Names of a signature, its argument and its output: in TF2 SavedModels, then in older modules.
_CONVENTIONS = (("serving_default", "inputs", "outputs"), ("default", "text", "default"))
# Some Transformers ignore what comes after 128 words (tensorflow/hub issue 244).
_LONGEST_PROBE = 256
_SAME_ATOL = 1e-6  # one word in 256 moves a vector of norm 1 by far more
_PROBE = ["A text to try it on.", "One."]
_LAYERS = ("word_emb", "lstm_outputs1", "lstm_outputs2")


# Loading


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of TensorFlow Hub, in memory."""

    name: str
    """For signatures."""
    path: str
    """Folder or URL, as it was asked for."""
    folder: Path
    content_hash: str
    """Of all its files."""
    loaded: Any
    """What `tensorflow_hub.load` returned, with `signatures` by name; callable or not."""
    tensorflow: ModuleType

    def probe(self, use: str, run: Callable[[], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Return the arrays of a first call, which must be finite float32; `use` says of what."""
        try:
            arrays = run()
        # signatures of other models fail in every way there is
        except Exception as error:
            raise ValueError(f"`{self.path}` must {use}, got {_first_line(error)}") from error
        for array in arrays:
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise ValueError(
                    f"`{self.path}` must {use} as finite float32 values, got {array.dtype} with "
                    f"{np.isfinite(array).mean():.0%} finite"
                )
        return arrays


def _load(kind: str, path: str, *, published: str, runtime: EncoderRuntime) -> HubModel:
    """Load a SavedModel or a module in the older format, from a folder or URL.

    What is downloaded is kept in `TFHUB_CACHE_DIR`. Messages name the kind of encoder and the URL
    of the published model that people most likely want.
    """
    with _without_start_up_lines():
        try:
            tensorflow = importlib.import_module("tensorflow")
            hub = importlib.import_module("tensorflow_hub")
        except ImportError as error:
            raise ValueError(
                f"encoder `{kind}` needs TensorFlow ({_first_line(error)}); "
                "pip install 'assay[tfhub]'"
            ) from error
        _configure(tensorflow, runtime)
    is_url = path.startswith(("http://", "https://"))
    folder = _downloaded(kind, path, hub) if is_url else Path(path)
    if not (folder / "saved_model.pb").is_file():
        raise ValueError(
            f"`{path}` must be a SavedModel folder, got none with a file `saved_model.pb`; "
            f"download for example {_archive(published)}, unpack it and give its folder"
        )
    try:
        loaded = hub.load(str(folder))
    # a damaged file fails in every way there is
    except Exception as error:
        raise ValueError(
            f"`{path}` must be a whole SavedModel, got {_first_line(error)}; download it again"
        ) from error
    name = path.partition("://")[2].partition("/")[2] if is_url else folder.resolve().name
    return HubModel(name, path, folder, _hash_of(folder), loaded, tensorflow)


@contextlib.contextmanager
def _without_start_up_lines() -> Iterator[None]:
    """Drop what TensorFlow writes to file descriptor 2 as it starts; errors are exceptions."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only
    stderr = os.dup(2)
    with Path(os.devnull).open("w") as nowhere, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="pkg_resources is deprecated")
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _configure(tensorflow: ModuleType, runtime: EncoderRuntime) -> None:
    gpus = tensorflow.config.list_physical_devices("GPU")
    if runtime.device == "cuda" and not gpus:
        raise ValueError(
            "`device` must be auto or cpu here, got cuda: TensorFlow sees no GPU; "
            "install a TensorFlow that does with `pip install 'tensorflow[and-cuda]'`"
        )
    # TensorFlow refuses other settings once the first model of the process runs; they stay then
    with contextlib.suppress(RuntimeError):
        if runtime.device == "cpu":
            tensorflow.config.set_visible_devices([], "GPU")
        for gpu in gpus:  # else TensorFlow takes all memory and torch gets none
            tensorflow.config.experimental.set_memory_growth(gpu, True)
        if runtime.threads:
            tensorflow.config.threading.set_intra_op_parallelism_threads(runtime.threads)
            tensorflow.config.threading.set_inter_op_parallelism_threads(runtime.threads)
    tensorflow.config.experimental.enable_tensor_float_32_execution(False)


def _downloaded(kind: str, url: str, hub: ModuleType) -> Path:
    try:
        return Path(hub.resolve(url))
    except (OSError, EOFError, ValueError, tarfile.TarError) as error:
        raise ValueError(
            f"`{url}` could not be downloaded, got {_first_line(error)}; where there is a "
            f"network, download {_archive(url)}, unpack it and write `{kind}:FOLDER`"
        ) from error


def _archive(url: str) -> str:
    return f"{url}?tf-hub-format=compressed"


def _hash_of(folder: Path) -> str:
    digest = hashlib.blake2b()
    files = (path for path in folder.rglob("*") if path.is_file())
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in files):
        digest.update(f"{name}\0{hash_of_file(path)}\n".encode())
    return digest.hexdigest()[:32]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


# The Universal Sentence Encoder


class UseEncoder(SentenceEncoder):
    """Sentence vectors of a Universal Sentence Encoder, DAN, Transformer or lite.

    *enc-2* and *enc-3* of Sun and Nenkova (2019), who encode a text as a whole: `unit=text`. By
    default sentences go in one by one. Either goes in as it stands; the model cuts it into words,
    and only for the lite one this is done here.
    Where the model turns out to read only so many words, longer sentences are said to be cut.
    """

    def __init__(self, model: HubModel, *, unit: str) -> None:
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
            dimension=vectors.shape[1],
            unit=unit,
        )
        self.batches = Batches(USE_BATCH_WORDS)
        self._limit = self._words_read()

    def is_cut(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which sentences have more words than the model reads."""
        return texts.sentence_words.lengths > self._limit

    def inputs_of(self, texts: SegmentedTexts, wanted: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Return some sentences as they stand, and their words; at least 1, as all are read."""
        n_words = np.maximum(texts.sentence_words.lengths[wanted], 1)
        return [texts.sentences[k] for k in wanted.tolist()], n_words

    def embed(self, inputs: list[Any]) -> np.ndarray:
        """Return a vector for each sentence."""
        return self._embed(inputs)

    def _words_read(self) -> int:
        """Return after how many words the model reads no more."""

        def ignores_what_follows(n_words: int) -> bool:
            one, other = self._embed([f"{'word ' * n_words}{last}" for last in ("river", "seven")])
            return np.allclose(one, other, rtol=0, atol=_SAME_ATOL)

        if not ignores_what_follows(_LONGEST_PROBE):
            return sys.maxsize
        return bisect_left(range(_LONGEST_PROBE), True, key=ignores_what_follows)


def _embed_of(model: HubModel) -> Callable[[list[str]], np.ndarray]:
    """Return what turns n texts into vectors of shape (n, d), however the model is called."""
    constant, loaded = model.tensorflow.constant, model.loaded
    lite = loaded.signatures.get("default")
    if lite is not None and "dense_shape" in lite.structured_input_signature[1]:
        tokenizer = _pieces_of(model)

        def embed(texts: list[str]) -> np.ndarray:
            pieces = Ragged.from_rows([np.array(x.ids) for x in tokenizer.encode_batch(texts)])
            places = np.stack([pieces.owners, places_of(pieces.lengths)], axis=1)
            shape = np.array([len(texts), pieces.lengths.max()])
            sparse = {"values": pieces.values, "indices": places, "dense_shape": shape}
            inputs = {name: constant(array) for name, array in sparse.items()}
            return lite(**inputs)["default"].numpy()

        return embed
    if callable(loaded):
        return lambda texts: loaded(constant(texts)).numpy()
    for name, argument, output in _CONVENTIONS:
        if name in loaded.signatures:
            signature = loaded.signatures[name]
            return lambda texts: signature(**{argument: constant(texts)})[output].numpy()
    names = ", ".join(name for name, _, _ in _CONVENTIONS)
    raise ValueError(
        f"`{model.path}` must have one of the signatures {names}, got "
        f"{', '.join(loaded.signatures) or 'none'}; a Universal Sentence Encoder is {USE_PUBLISHED}"
    )


def _pieces_of(model: HubModel) -> Tokenizer:
    """Read the SentencePiece unigram vocabulary of a lite module."""
    from transformers.convert_slow_tokenizer import import_protobuf

    written = import_protobuf().ModelProto()
    try:
        (path,) = model.folder.rglob("*.model")
        written.ParseFromString(path.read_bytes())
        vocabulary = [(piece.piece, piece.score) for piece in written.pieces]
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=written.trainer_spec.unk_id))
    # a damaged file fails in every way there is
    except Exception as error:
        raise ValueError(
            f"`{model.path}` must hold its SentencePiece unigram vocabulary, one `assets/*.model`, "
            f"got {_first_line(error)}; unpack the whole archive"
        ) from error
    charsmap = written.normalizer_spec.precompiled_charsmap
    rules = [normalizers.Precompiled(charsmap)] if charsmap else [normalizers.NFKC()]
    spaces = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    tokenizer.normalizer = normalizers.Sequence([*rules, *spaces])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([p.piece for p in written.pieces if p.type != p.NORMAL])
    read_marks_as_letters(tokenizer)
    return tokenizer


def load_use(path: str, *, runtime: EncoderRuntime, unit: str = "sentence") -> UseEncoder:
    """Load a Universal Sentence Encoder from a URL or folder, a SavedModel or an older module.

    This and `load_elmo` raise `ValueError` if TensorFlow is not installed, the model is not there,
    damaged or of another kind, or a GPU is asked for and absent.
    """
    return UseEncoder(_load("use", path, published=USE_PUBLISHED, runtime=runtime), unit=unit)


# ELMo


class ElmoEncoder(Encoder):
    """Word vectors of ELMo; a text's vector is their mean or maximum, over all its words.

    `layers="mean"` gives the vectors of Clark et al. (2019), the mean of the three layers;
    `layers="concat"` those of Sun and Nenkova (2019), where `pooling` is *ELMo-a* or *ELMo-m*. The
    lowest layer is half as wide as the others and counts as if written twice, as in the published
    model's own average of layers.
    """

    def __init__(self, model: HubModel, *, layers: str, pooling: str) -> None:
        if "tokens" not in model.loaded.signatures:
            raise ValueError(
                f"`{model.path}` must have the signature tokens, got "
                f"{', '.join(model.loaded.signatures) or 'none'}; ELMo is {ELMO_PUBLISHED}"
            )
        self._tensorflow = model.tensorflow
        self._signature = model.loaded.signatures["tokens"]
        self._concatenates = layers == "concat"
        super().__init__(
            signature=f"elmo-{model.name}|layers:{layers}|pool:{pooling}",
            content_hash=model.content_hash,
            has_words=True,
            dimension=self._width(model) * (len(_LAYERS) if self._concatenates else 1),
            pooling=pooling,
        )
        self._batches = Batches(ELMO_BATCH_WORDS)

    def _width(self, model: HubModel) -> int:
        """Return the width of the upper layers, after a first call."""
        use = f"give {', '.join(_LAYERS)} for tokens and sequence_len"
        tokens = np.array([["A", "probe"], ["One", ""]], dtype=object)
        low, *upper = model.probe(use, lambda: self._call(tokens, np.array([2, 1])))
        width = 2 * low.shape[-1]
        shapes = [layer.shape for layer in (low, *upper)]
        if shapes != [(2, 2, width // 2), (2, 2, width), (2, 2, width)]:
            raise ValueError(
                f"`{model.path}` must {use}, the lowest half as wide as the others, got shapes "
                f"{', '.join(map(str, shapes))} for 2 sentences of 2 words"
            )
        return width

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch, longest first."""
        words = texts.sentence_words.take(wanted)
        self.counts["tokens"] += words.values.size
        vocabulary = texts.vocabulary.words
        tokens = np.array([vocabulary[word] for word in words.values.tolist()], dtype=object)
        sentence_of_window, windows = _windows(words.lengths)
        row_of_word = np.cumsum(kept.values) - 1
        vectors = np.empty((int(kept.values.sum()), self.dimension), dtype=np.float32)
        is_max = self.pooling == "max"
        combine = np.maximum if is_max else np.add
        pooled = np.full((wanted.size, self.dimension), -np.inf if is_max else 0, dtype=np.float32)

        def compute(batch: np.ndarray) -> None:
            part = windows.take(batch)
            states = self._states(Ragged(tokens[part.values], part.offsets))
            is_kept = kept.values[part.values]
            vectors[row_of_word[part.values[is_kept]]] = states[is_kept]
            combine.at(
                pooled, sentence_of_window[batch], combine.reduceat(states, part.offsets[:-1])
            )

        self._batches.run(windows.lengths, compute)
        if is_max:
            pooled[words.lengths == 0] = 0  # nothing to take the largest of
        else:
            pooled /= np.maximum(words.lengths, 1)[:, None].astype(np.float32)
        return vectors, pooled

    def _states(self, sentences: Ragged) -> np.ndarray:
        """Return the vector of every word, shape (n_words, d)."""
        rows = sentences.owners
        columns = places_of(sentences.lengths)
        padded = np.full((len(sentences), int(sentences.lengths.max())), "", dtype=object)
        padded[rows, columns] = sentences.values
        low, *upper = (layer[rows, columns] for layer in self._call(padded, sentences.lengths))
        layers = [np.concatenate([low, low], axis=1), *upper]
        return np.concatenate(layers, axis=1) if self._concatenates else sum(layers) / len(layers)

    def _call(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the three layers, each of shape (n_sentences, n_words, d_layer)."""
        constant = self._tensorflow.constant
        layers = self._signature(
            tokens=constant(tokens), sequence_len=constant(lengths.astype(np.int32))
        )
        return tuple(layers[name].numpy() for name in _LAYERS)


def _windows(lengths: np.ndarray) -> tuple[np.ndarray, Ragged]:
    """Cut sentences into windows; return each window's sentence and the places of its words."""
    n_windows = -(-lengths // ELMO_BATCH_WORDS)
    sentence = owners_of(n_windows)
    n_before = places_of(n_windows) * ELMO_BATCH_WORDS
    sizes = np.minimum(lengths[sentence] - n_before, ELMO_BATCH_WORDS)
    return sentence, Ragged(np.arange(int(lengths.sum())), offsets_of(sizes))


def load_elmo(
    path: str, *, runtime: EncoderRuntime, layers: str = "mean", pooling: str = "mean"
) -> ElmoEncoder:
    """Load ELMo from a folder or URL; errors as of `load_use`."""
    model = _load("elmo", path, published=ELMO_PUBLISHED, runtime=runtime)
    return ElmoEncoder(model, layers=layers, pooling=pooling)
