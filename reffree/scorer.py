"""A trained scorer: scores candidates against their sources, and is kept in a folder.

The folder has `scorer.json` (configuration, signature, what it was trained on, held-out results),
`weights.safetensors`, and the tokenizer and the transformer's settings where there is one. It needs
nothing else, but for the encoder of a `sentence` or `word` scorer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from reffree.building import TOKENIZER_FILE, TRANSFORMER_FILE, Built, rebuild
from reffree.checkpoint import replace_file
from reffree.models import ModelConfig
from sms.naming import AnyPath
from sms.signature import version
from sms.text import TextRules

FORMAT = 1
"""Of the folder; another number is refused."""
SCORER_FILE = "scorer.json"
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
_NO_LONGER = ("lora_rank",)
"""Settings of a model that older scorers name; they had no part in them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of pairs of texts."""

    scores: np.ndarray
    """Higher is better, in [0, 1], NaN where there is none; float64, (n,)."""
    is_cut: np.ndarray
    """Whether some text was too long and only its lead was read; bool, (n,)."""
    reasons: Mapping[int, tuple[str, ...]]
    """Why a pair that was read has no score, in the words of a status, by row."""


class LearnedScorer:
    """Scores candidates without a reference; `load_scorer` makes one.

    It has a model with its trained weights, its signature and what `scorer.json` says.
    """

    input_columns = ("candidate", "sources")
    score_fields = (COLUMN,)
    bounds = (0.0, 1.0)
    """Lowest and highest score."""

    def __init__(
        self, built: Built, signature: str, settings: Mapping[str, Any], *, device: str = "cpu"
    ) -> None:
        self.signature = signature
        self.settings = settings
        self._built = built
        self._where = torch.device(device)
        self._model = built.model.to(self._where).eval()

    @property
    def encoder_content(self) -> str:
        """Hash of the encoder that is not among its weights; empty if there is none."""
        return self._built.encoder_content

    @property
    def signatures(self) -> dict[str, str]:
        """The signature, by the one column that `compare` returns."""
        return {COLUMN: self.signature}

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
            scores[usable] = found.scores
        return scores

    def compare(self, prepared: np.ndarray) -> pa.Table:
        """Return the scores of `prepare` as a column, null where undefined."""
        return pa.table({COLUMN: pa.array(prepared, pa.float64(), from_pandas=True)})

    def counters(self) -> dict[str, int]:
        """Return nothing: it counts nothing."""
        return {}

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
        readings = self._built.reader.read(sources, candidates)
        lengths = np.array([reading.length for reading in readings], dtype=np.int64)
        scores = np.empty(len(readings))
        budget = BATCH_PIECES[self._where.type]
        order = np.argsort(-lengths, kind="stable")
        at = 0
        while at < order.size:
            rows = order[at : at + max(1, budget // int(lengths[order[at]]))]
            inputs = self._built.reader.collate([readings[row] for row in rows])
            scores[rows] = self._probabilities(inputs)
            at += rows.size
        reasons = {row: reading.unseen for row, reading in enumerate(readings) if reading.unseen}
        scores[list(reasons)] = np.nan
        is_cut = np.array([reading.is_cut for reading in readings], dtype=bool)
        return PairScores(scores, is_cut, reasons)

    def score_against_all(
        self, sources: Sequence[Sequence[str]], candidates: Sequence[str]
    ) -> PairScores:
        """Score candidates that have several sources: the mean over them (section 3.6.1).

        Sources without a score are left out; a candidate without any other has none: NaN.
        """
        lengths = np.array([len(own) for own in sources], dtype=np.int64)
        repeated = np.repeat(np.arange(len(candidates)), lengths)
        flat = self.score(
            list(chain.from_iterable(sources)), [candidates[row] for row in repeated.tolist()]
        )
        n = len(candidates)
        is_scored = ~np.isnan(flat.scores)
        n_scored = np.bincount(repeated[is_scored], minlength=n)
        sums = np.bincount(repeated[is_scored], weights=flat.scores[is_scored], minlength=n)
        is_cut = np.bincount(repeated, weights=flat.is_cut, minlength=n) > 0
        reasons: dict[int, tuple[str, ...]] = {}
        for pair, why in flat.reasons.items():
            row = int(repeated[pair])
            if not n_scored[row]:
                reasons.setdefault(row, why)
        means = np.divide(sums, n_scored, out=np.full(n, np.nan), where=n_scored > 0)
        return PairScores(means, is_cut, reasons)

    @torch.inference_mode()
    def _probabilities(self, inputs: dict[str, torch.Tensor]) -> np.ndarray:
        # In fp32 on any device, so that a scorer's numbers do not depend on where it runs.
        logits = self._model(**{name: tensor.to(self._where) for name, tensor in inputs.items()})
        found: np.ndarray = torch.sigmoid(logits.double()).cpu().numpy()
        return found


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
    elif config.scorer == "features":
        reads = ""
    else:
        lengths = f"{config.document_length}+{config.summary_length}"
        reads = f"|head:{config.head}|{config.unit}:{lengths}"
    features = f"|features:{'+'.join(config.features)}" if config.features else ""
    if config.features or config.scorer != "bert":  # which reads whole texts
        features += f"|{TextRules().signature}"
    return (
        f"reffree|scorer:{config.scorer}|enc:{built.encoder_name}{reads}"
        f"{features}|loss:{loss}|weights:{weights_hash[:_HASH_LENGTH]}|v:{version()}"
    )


def save_scorer(
    folder: Path,
    built: Built,
    *,
    loss: str,
    trained_on: Mapping[str, Any],
    held_out: Mapping[str, Any],
    versions: Mapping[str, str],
) -> str:
    """Write the folder of a scorer; return its signature.

    All mappings are JSON-able: what it was trained on (files, numbers of pairs, negatives), figures
    by kind of negative, and versions of libraries.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCORER_FILE).unlink(missing_ok=True)  # until all is there, it is no scorer
    weights = {name: v.contiguous().cpu() for name, v in built.model.state_dict().items()}
    replace_file(folder / WEIGHTS_FILE, lambda path: path.write_bytes(save(weights)))
    if built.tokenizer is not None and built.transformer is not None:
        (folder / TRANSFORMER_FILE).write_text(f"{built.transformer}\n", "utf-8")
        built.tokenizer.save(str(folder / TOKENIZER_FILE))
    weights_hash = _hash_of(folder / WEIGHTS_FILE)
    settings = {
        "format": FORMAT,
        "signature": signature_of(built, loss, weights_hash),
        "model": asdict(built.config),
        "loss": loss,
        "encoder_content": built.encoder_content,
        "hashes": {
            name: _hash_of(folder / name)
            for name in (WEIGHTS_FILE, TOKENIZER_FILE, TRANSFORMER_FILE)
            if (folder / name).exists()
        },
        "trained_on": trained_on,
        "held_out": held_out,
        "versions": versions,
    }
    text = f"{json.dumps(settings, indent=1, ensure_ascii=False)}\n"
    replace_file(folder / SCORER_FILE, lambda path: path.write_text(text, "utf-8"))
    return str(settings["signature"])


def load_scorer(
    folder: AnyPath, *, device: str = "cpu", cache_folder: AnyPath | None = None
) -> LearnedScorer:
    """Load a scorer from a folder that `assay train` wrote.

    `cache_folder` keeps the vectors of an encoder that is not trained.

    Raises
    ------
    ValueError
        If a file is missing or is not the one that was written, the format is of another version,
        or the encoder is another.
    """
    folder = Path(folder).expanduser()
    settings = read_settings(folder)
    with _naming_damage(folder):
        _warn_of_versions(folder, settings)
    for name, digest in settings["hashes"].items():
        if not (folder / name).is_file() or _hash_of(folder / name) != digest:
            state = "another file" if (folder / name).is_file() else "none"
            raise ValueError(
                f"`{folder / name}` must be the file that was written with the scorer, got "
                f"{state}; copy the folder again"
            )
    kept = None if cache_folder is None else os.fspath(cache_folder)
    with _naming_damage(folder):
        of_model = {name: v for name, v in settings["model"].items() if name not in _NO_LONGER}
        config = ModelConfig(**of_model)
        built = rebuild(config, folder, settings["encoder_content"], cache_folder=kept)
    try:
        built.model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(
            f"`{folder / WEIGHTS_FILE}` must fit the model, got {str(error).splitlines()[0]}"
        ) from error
    signature = signature_of(built, settings["loss"], settings["hashes"][WEIGHTS_FILE])
    if _without_version(signature) != _without_version(settings["signature"]):
        raise ValueError(
            f"`{folder / SCORER_FILE}` must have the signature of what is in the folder, "
            f"{signature}, got {settings['signature']}; train again"
        )
    return LearnedScorer(built, settings["signature"], settings, device=device)


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
    kinds = {"signature": str, "model": dict, "loss": str, "encoder_content": str, "hashes": dict}
    wrong = [name for name, kind in kinds.items() if not isinstance(settings.get(name), kind)]
    if wrong or WEIGHTS_FILE not in settings["hashes"]:
        raise ValueError(
            f"`{path}` must have all its keys, got none of {', '.join(wrong) or WEIGHTS_FILE}; "
            "copy the folder again"
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


def _without_version(signature: str) -> str:
    return signature.rpartition("|v:")[0]


def _hash_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
