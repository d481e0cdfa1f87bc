"""A trained scorer: scores candidates against their sources, and is kept in a folder.

The folder has `scorer.json` (configuration, signature, what it was trained on, held-out results).
That is all of a scorer of features (`linear`); others have `weights.safetensors`, and the tokenizer
and the transformer's settings where there is one. It needs nothing else, but for the encoder of a
scorer that has one and does not train it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from reffree.building import TOKENIZER_FILE, TRANSFORMER_FILE, Built, rebuild
from reffree.checkpoint import replace_file
from reffree.features import LEAST, PairFeatures
from reffree.linear import LinearModel, linear_model
from reffree.models import ModelConfig
from reffree.naming import BOUND, SCORER_FILE, find_scorer, split_head
from sms.encoders.batches import Batches
from sms.naming import AnyPath, nearest
from sms.signature import version
from sms.text import TextRules

FORMAT = 2
"""Of the folder; another number is refused."""
WEIGHTS_FILE = "weights.safetensors"
SOURCE_SAMPLE = "source_sample"
"""Of what it was trained on, the hashes that `SourceSample` keeps; not for people."""
BATCH_PIECES = {"cpu": 4_096, "cuda": 131_072}
"""Pieces (or vectors) that go through a model together, by device."""
COLUMN = "reffree"
"""Of the one score, where a scorer is used without `assay score`."""
CHECKED_LIBRARIES = ("torch", "transformers", "tokenizers")
"""A change of the main version of one may change a score."""

_HASH_LENGTH = 12
FEATURES = "features"
"""The scorer that is a weighted sum of features."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of pairs of texts."""

    scores: np.ndarray
    """Higher is better, NaN where there is none; float64, (n,), or (n, n_heads)."""
    is_cut: np.ndarray
    """Whether some text was too long and only its lead was read; bool, (n,)."""
    reasons: Mapping[int, tuple[str, ...]]
    """Why a pair that was read has no score, in the words of a status, by row."""


class PairScorer(Protocol):
    """What computes the scores of a `LearnedScorer`."""

    heads: tuple[str, ...]
    """Names of the columns that it computes; none where there is one without a name."""
    bounds: tuple[float, float]
    """Lowest and highest score."""
    encoder_content: str
    """Hash of the encoder that is not among its weights; empty if there is none."""

    def score(self, sources: Sequence[str], candidates: Sequence[str]) -> PairScores:
        """Score pairs, a column for each head."""


class LearnedScorer:
    """Scores candidates without a reference; `load_scorer` makes one.

    It has what computes the scores, its signature and what `scorer.json` says. Of several heads it
    gives the one that is named `head`, or their mean.
    """

    input_columns = ("candidate", "sources")
    score_fields = (COLUMN,)

    def __init__(
        self,
        pairs: PairScorer,
        signature: str,
        settings: Mapping[str, Any],
        *,
        head: str | None = None,
    ) -> None:
        self.signature = signature
        self.settings = settings
        self.head = head
        self._pairs = pairs
        if head is not None:
            self.column_of(head)

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the heads; none where there is one without a name."""
        return self._pairs.heads

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest score."""
        return self._pairs.bounds

    @property
    def encoder_content(self) -> str:
        """Hash of the encoder that is not among its weights; empty if there is none."""
        return self._pairs.encoder_content

    @property
    def signatures(self) -> dict[str, str]:
        """The signature, by the one column that `compare` returns."""
        return {COLUMN: self.signature}

    def column_of(self, head: str) -> int:
        """Return the place of a head among the columns.

        Raises
        ------
        ValueError
            If there is no such head.
        """
        if head not in self.heads:
            there = nearest(head, self.heads) if self.heads else "this scorer has one score"
            raise ValueError(f"no head `{head}` in the scorer; {there}")
        return self.heads.index(head)

    @property
    def linear(self) -> LinearPairs | None:
        """What computes the scores, if they are weighted sums of features."""
        return self._pairs if isinstance(self._pairs, LinearPairs) else None

    def prepare(self, rows: pa.Table) -> np.ndarray:
        """Score rows with `candidate` and `sources`; NaN where either has no word.

        With `compare` this is what a reward needs (`sms.scorers.Scorer`).
        """
        candidates, given = rows["candidate"].to_pylist(), rows["sources"].to_pylist()
        sources = [[text for text in own or () if _has_word(text)] for own in given]
        usable = [k for k, text in enumerate(candidates) if sources[k] and _has_word(text)]
        scores = np.full(len(candidates), np.nan)
        if usable:
            found = self.score_against_all(
                [sources[k] for k in usable], [candidates[k] for k in usable]
            )
            scores[usable] = self.chosen(found.scores)
        return scores

    def compare(self, prepared: np.ndarray) -> pa.Table:
        """Return the scores of `prepare` as a column, null where undefined."""
        return pa.table({COLUMN: pa.array(prepared, pa.float64(), from_pandas=True)})

    def counters(self) -> dict[str, int]:
        """Return nothing: it counts nothing."""
        return {}

    def chosen(self, scores: np.ndarray, head: str | None = None) -> np.ndarray:
        """Return the scores of a head, of the scorer's own, or their mean; shape (n,)."""
        name = head or self.head
        found: np.ndarray = scores.mean(axis=1) if name is None else scores[:, self.column_of(name)]
        return found

    def score(self, sources: Sequence[str], candidates: Sequence[str]) -> PairScores:
        """Score pairs; what else is scored with a pair makes no difference beyond rounding.

        A text of which the model sees nothing, such as one without any word that has a vector,
        has no score: NaN.

        Raises
        ------
        ValueError
            If there are not as many sources as candidates.
        """
        if len(sources) != len(candidates):
            raise ValueError(
                f"`sources` must be as many as candidates, got {len(sources)} and {len(candidates)}"
            )
        found = self._pairs.score(sources, candidates)
        return replace(found, scores=self.chosen(found.scores))

    def score_against_all(
        self, sources: Sequence[Sequence[str]], candidates: Sequence[str]
    ) -> PairScores:
        """Score candidates that have several sources: the mean over them (section 3.6.1).

        Scores have a column for each head, which `chosen` reads. Sources without a score are left
        out; a candidate without any other has none: NaN.
        """
        lengths = np.array([len(own) for own in sources], dtype=np.int64)
        repeated = np.repeat(np.arange(len(candidates)), lengths)
        flat = self._pairs.score(
            list(chain.from_iterable(sources)), [candidates[row] for row in repeated.tolist()]
        )
        n = len(candidates)
        is_scored = ~np.isnan(flat.scores[:, 0])
        n_scored = np.bincount(repeated[is_scored], minlength=n)
        sums = np.zeros((n, flat.scores.shape[1]))
        np.add.at(sums, repeated[is_scored], flat.scores[is_scored])
        is_cut = np.bincount(repeated, weights=flat.is_cut, minlength=n) > 0
        reasons: dict[int, tuple[str, ...]] = {}
        for pair, why in flat.reasons.items():
            row = int(repeated[pair])
            if not n_scored[row]:
                reasons.setdefault(row, why)
        sums[n_scored == 0] = np.nan
        return PairScores(sums / np.maximum(n_scored, 1)[:, None], is_cut, reasons)


class NeuralPairs:
    """The scores of a model in torch."""

    heads: tuple[str, ...] = ()
    bounds = (0.0, 1.0)

    def __init__(self, built: Built, device: str = "cpu") -> None:
        self.encoder_content = built.encoder_content
        self._reader, self._where = built.reader, torch.device(device)
        self._model = built.model.to(self._where).eval()
        self._batches = Batches(BATCH_PIECES[self._where.type])

    def score(self, sources: Sequence[str], candidates: Sequence[str]) -> PairScores:
        """Score pairs in batches of about the same length."""
        readings = self._reader.read(sources, candidates)
        lengths = np.array([reading.length for reading in readings], dtype=np.int64)
        scores = np.empty((len(readings), 1))

        def compute(rows: np.ndarray) -> None:
            inputs = self._reader.collate([readings[row] for row in rows])
            scores[rows, 0] = self._probabilities(inputs)

        self._batches.run(lengths, compute)
        reasons = {row: reading.unseen for row, reading in enumerate(readings) if reading.unseen}
        scores[list(reasons)] = np.nan
        is_cut = np.array([reading.is_cut for reading in readings], dtype=bool)
        return PairScores(scores, is_cut, reasons)

    @torch.inference_mode()
    def _probabilities(self, inputs: dict[str, torch.Tensor]) -> np.ndarray:
        # In fp32 on any device, so that a scorer's numbers do not depend on where it runs.
        logits = self._model(**{name: tensor.to(self._where) for name, tensor in inputs.items()})
        found: np.ndarray = torch.sigmoid(logits.double()).cpu().numpy()
        return found


class LinearPairs:
    """The scores of a weighted sum of features."""

    bounds = (-BOUND, BOUND)

    def __init__(self, model: LinearModel, features: PairFeatures) -> None:
        self.model, self._features = model, features
        self.heads = tuple(model.heads)
        self.encoder_content = features.encoder_content

    def score(self, sources: Sequence[str], candidates: Sequence[str]) -> PairScores:
        """Score pairs; those of a document should stand together."""
        scores = self.model.scores(self._features.values(sources, candidates))
        unseen = np.flatnonzero(np.isnan(scores).all(axis=1)).tolist()
        reasons = dict.fromkeys(unseen, ("features:undefined",))
        return PairScores(scores, np.zeros(len(scores), dtype=bool), reasons)

    def contributions(self, source: str, candidate: str, head: str | None) -> dict[str, float]:
        """Split the score of a head, or the mean of all, into the parts of its features.

        With the `constant` they add up to the score, unless that is at a bound.
        """
        values = self._features.values([source], [candidate])
        heads = self.heads if head is None else (head,)
        parts = np.mean([self.model.contributions(values, each)[0] for each in heads], axis=0)
        return dict(zip(self.model.features.names, parts.tolist(), strict=True))

    def constant(self, head: str | None) -> float:
        """Return what a head, or the mean of all, adds to the parts of its features."""
        heads = self.heads if head is None else (head,)
        return -float(
            np.mean([self.model.heads[h].mean / self.model.heads[h].deviation for h in heads])
        )

    def least_sentences(self, source: str, sentences: Sequence[str]) -> dict[str, int]:
        """Find the sentence behind each feature of the worst one: which has it lowest alone."""
        values = self._features.values([source] * len(sentences), sentences)
        return {
            name: int(np.nanargmin(column))
            for name, column in zip(self.model.features.names, values.T, strict=True)
            if name.endswith(LEAST) and not np.isnan(column).all()
        }


def _has_word(text: str | None) -> bool:
    return text is not None and any(map(str.isalnum, text))


def signature_of(built: Built, loss: str, weights_hash: str) -> str:
    """Build a signature: what the scorer is made of, and which weights it has.

    For example `reffree|scorer:bert|enc:all-MiniLM-L6-v2|head:fc|pieces:512|cut:longest|loss:bce
    |weights:0123456789ab|v:0.1.0`.
    """
    config = built.config
    if config.scorer == "bert":
        reads = f"|head:{config.head}|pieces:{config.max_pieces}|cut:{config.truncation}"
    else:
        lengths = f"{config.document_length}+{config.summary_length}"
        reads = f"|head:{config.head}|{config.unit}:{lengths}|{TextRules().signature}"
    return (
        f"reffree|scorer:{config.scorer}|enc:{built.encoder_name}{reads}"
        f"|loss:{loss}|weights:{weights_hash[:_HASH_LENGTH]}|v:{version()}"
    )


def signature_of_linear(model: LinearModel) -> str:
    """Build the signature of a scorer of features."""
    weights = hashlib.blake2b(json.dumps(asdict(model), sort_keys=True).encode(), digest_size=16)
    read = model.features.language_model
    language_model = f"|lm:{Path(read).name}" if read else ""
    return (
        f"reffree|scorer:{FEATURES}{language_model}|heads:{'+'.join(model.heads)}|{TextRules().signature}"
        f"|weights:{weights.hexdigest()[:_HASH_LENGTH]}|v:{version()}"
    )


def save_scorer(folder: Path, built: Built, *, loss: str, **said: Any) -> str:  # noqa: ANN401
    """Write the folder of a scorer; return its signature.

    All that is `said` is JSON-able: what it was trained on (files, numbers of pairs, negatives),
    figures by kind of negative (`held_out`), and versions of libraries.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCORER_FILE).unlink(missing_ok=True)  # until all is there, it is no scorer
    weights = {name: v.contiguous().cpu() for name, v in built.model.state_dict().items()}
    replace_file(folder / WEIGHTS_FILE, lambda path: path.write_bytes(save(weights)))
    if built.tokenizer is not None and built.transformer is not None:
        (folder / TRANSFORMER_FILE).write_text(f"{built.transformer}\n", "utf-8")
        built.tokenizer.save(str(folder / TOKENIZER_FILE))
    return _write_settings(
        folder,
        signature=signature_of(built, loss, _hash_of(folder / WEIGHTS_FILE)),
        model=asdict(built.config),
        loss=loss,
        encoder_content=built.encoder_content,
        hashes={
            name: _hash_of(folder / name)
            for name in (WEIGHTS_FILE, TOKENIZER_FILE, TRANSFORMER_FILE)
            if (folder / name).exists()
        },
        **said,
    )


def save_linear(folder: Path, pairs: LinearPairs, **said: Any) -> str:  # noqa: ANN401
    """Write the folder of a scorer of features, which is one file; return its signature."""
    folder.mkdir(parents=True, exist_ok=True)
    return _write_settings(
        folder,
        signature=signature_of_linear(pairs.model),
        model={"scorer": FEATURES, **asdict(pairs.model)},
        encoder_content=pairs.encoder_content,
        hashes={},
        **said,
    )


def _write_settings(folder: Path, **settings: Any) -> str:  # noqa: ANN401
    text = f"{json.dumps({'format': FORMAT, **settings}, indent=1, ensure_ascii=False)}\n"
    replace_file(folder / SCORER_FILE, lambda path: path.write_text(text, "utf-8"))
    return str(settings["signature"])


def load_scorer(
    folder: AnyPath, *, device: str = "cpu", cache_folder: AnyPath | None = None
) -> LearnedScorer:
    """Load a scorer from a folder that `assay train` wrote, or the one in the package, `news`.

    `FOLDER.HEAD` gives one of its heads, for example `news.fluency`. `cache_folder` keeps the
    vectors of an encoder that is not trained.

    Raises
    ------
    ValueError
        If a file is missing or is not the one that was written, the format is of another version,
        or the encoder is another.
    """
    name, head = split_head(os.fspath(folder))
    folder = find_scorer(name)
    settings = read_settings(folder)
    kept = None if cache_folder is None else os.fspath(cache_folder)
    with _naming_damage(folder):
        _warn_of_versions(folder, settings)
        if is_linear(settings):
            pairs, signature = _load_linear(folder, settings, device)
        else:
            pairs, signature = _load_neural(folder, settings, device, kept)
    if signature.rpartition("|v:")[0] != settings["signature"].rpartition("|v:")[0]:
        raise ValueError(
            f"`{folder / SCORER_FILE}` must have the signature of what is in the folder, "
            f"{signature}, got {settings['signature']}; train again"
        )
    return LearnedScorer(pairs, settings["signature"], settings, head=head)


def _load_neural(
    folder: Path, settings: Mapping[str, Any], device: str, cache_folder: str | None
) -> tuple[PairScorer, str]:
    if WEIGHTS_FILE not in settings["hashes"]:
        raise ValueError(
            f"`{folder / SCORER_FILE}` must have all its keys, got none of {WEIGHTS_FILE}; copy "
            "the folder again"
        )
    for name, digest in settings["hashes"].items():
        if not (folder / name).is_file() or _hash_of(folder / name) != digest:
            state = "another file" if (folder / name).is_file() else "none"
            raise ValueError(
                f"`{folder / name}` must be the file that was written with the scorer, got "
                f"{state}; copy the folder again"
            )
    config = ModelConfig(**settings["model"])
    built = rebuild(config, folder, settings["encoder_content"], cache_folder=cache_folder)
    try:
        built.model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(
            f"`{folder / WEIGHTS_FILE}` must fit the model, got {str(error).splitlines()[0]}"
        ) from error
    signature = signature_of(built, settings["loss"], settings["hashes"][WEIGHTS_FILE])
    return NeuralPairs(built, device), signature


def _load_linear(folder: Path, settings: Mapping[str, Any], device: str) -> tuple[PairScorer, str]:
    model = linear_model({k: v for k, v in settings["model"].items() if k != "scorer"})
    features = PairFeatures(model.features, device=device)
    if features.encoder_content != settings["encoder_content"]:
        raise ValueError(
            f"the models of {folder} must be those that the scorer was "
            f"trained with ({settings['encoder_content']}), got {features.encoder_content}"
        )
    return LinearPairs(model, features), signature_of_linear(model)


def is_linear(settings: Mapping[str, Any]) -> bool:
    """Say whether `scorer.json` is that of a scorer of features."""
    return settings["model"].get("scorer") == FEATURES


def read_settings(folder: Path) -> dict[str, Any]:
    """Read and check `scorer.json`."""
    path = folder / SCORER_FILE
    try:
        settings: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(
            f"`{folder}` must be a scorer's folder with {SCORER_FILE}, got none; a training that "
            "was interrupted goes on when the same command is given again"
        ) from error
    except ValueError as error:
        raise ValueError(f"`{path}` must be JSON, got {error}; copy the folder again") from error
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        found = settings.get("format") if isinstance(settings, dict) else None
        raise ValueError(
            f"`{path}` must have format {FORMAT}, got {found}; this version of assay reads no other"
        )
    kinds = {"signature": str, "model": dict, "encoder_content": str, "hashes": dict}
    wrong = [name for name, kind in kinds.items() if not isinstance(settings.get(name), kind)]
    if wrong:
        raise ValueError(
            f"`{path}` must have all its keys, got none of {', '.join(wrong)}; copy the folder "
            "again"
        )
    return settings


@contextmanager
def _naming_damage(folder: Path) -> Iterator[None]:
    """Say in one line that a value of `scorer.json` is not of its kind, wherever that shows."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, OverflowError) as error:
        raise ValueError(
            f"`{folder / SCORER_FILE}` must be as this version of assay writes it, got another "
            f"setting or kind of value ({error}); copy the folder again, or load it with the "
            "version that wrote it"
        ) from error


def _warn_of_versions(folder: Path, settings: Mapping[str, Any]) -> None:
    """Say so where a library is of another main version than the scorer was trained with."""
    for name in CHECKED_LIBRARIES:
        then, now = settings.get("versions", {}).get(name), metadata.version(name)
        if then is not None and then.partition(".")[0] != now.partition(".")[0]:
            logger.warning(
                "%s was trained with %s %s, this is %s; its scores may differ",
                folder, name, then, now,
            )  # fmt: skip


def _hash_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
