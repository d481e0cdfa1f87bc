"""The folder of a trained scorer: what is written, the signature, and what is read and checked.

The folder has `scorer.json` (configuration, signature, what it was trained on, held-out results).
That is all of a scorer of features (`linear`); others have `weights.safetensors`, and the tokenizer
and the transformer's settings where there is one. It needs nothing else, but for the encoder of a
scorer that has one and does not train it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from safetensors.torch import save

from reffree.features.linear import LinearModel, linear_model
from reffree.neural.building import TOKENIZER_FILE, TRANSFORMER_FILE, Built
from reffree.neural.checkpoint import replace_file
from reffree.scorers.naming import SCORER_FILE
from sms.encoders.registry import parse_spec
from sms.settings import settings_of
from sms.signature import version
from sms.text import TextRules, detokenize

FORMAT = 2  # of the folder; another number is refused
WEIGHTS_FILE = "weights.safetensors"
MODEL_FILES = (WEIGHTS_FILE, TOKENIZER_FILE, TRANSFORMER_FILE)
"""All that a scorer may have beside its settings."""
SOURCE_SAMPLE = "source_sample"
"""Of what it was trained on, the hashes that `SourceSample` keeps; not for people."""
CHECKED_LIBRARIES = ("torch", "transformers", "tokenizers")
"""A change of the main version of one may change a score."""

_HASH_LENGTH = 12
_KEYS = {"signature": str, "model": dict, "encoder_content": str, "hashes": dict}
FEATURES = "features"  # the scorer that is a weighted sum of features

logger = logging.getLogger(__name__)


def signature_of(built: Built, loss: str, weights_hash: str) -> str:
    """Build a signature: what the scorer is made of, and which weights it has."""
    config = built.config
    if config.scorer == "bert":
        reads = f"|head:{config.head}|pieces:{config.max_pieces}|cut:{config.truncation}"
    else:
        rules = TextRules(language=config.language).signature
        lengths = f"{config.document_length}+{config.summary_length}"
        reads = f"|head:{config.head}|{config.unit}:{lengths}|{rules}"
    return (
        f"reffree|scorer:{config.scorer}|enc:{built.encoder_name}{reads}"
        f"|loss:{loss}|weights:{weights_hash[:_HASH_LENGTH]}|v:{version()}"
    )


def signature_of_linear(model: LinearModel, metrics: str = "") -> str:
    """Build the signature of a scorer of features; `metrics` is that of columns it reads."""
    features = {"names": model.features.names, "copy_shares": model.features.copy_shares}
    said = asdict(model) | {"features": features}
    weights = hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16)
    read = f"|reads:{metrics}" if metrics else ""
    return (
        f"reffree|scorer:{FEATURES}{read}|heads:{'+'.join(model.heads)}|{TextRules().signature}"
        f"|{detokenize.SIGNATURE}|weights:{weights.hexdigest()[:_HASH_LENGTH]}|v:{version()}"
    )


def save_scorer(folder: Path, built: Built, *, loss: str, **said: Any) -> str:  # noqa: ANN401
    """Write the folder of a scorer; return its signature."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCORER_FILE).unlink(missing_ok=True)  # until all is there, it is no scorer
    weights = {name: v.contiguous().cpu() for name, v in built.model.state_dict().items()}
    replace_file(folder / WEIGHTS_FILE, lambda path: path.write_bytes(save(weights)))
    if built.tokenizer is not None and built.transformer is not None:
        (folder / TRANSFORMER_FILE).write_text(f"{built.transformer}\n", "utf-8")
        built.tokenizer.save(str(folder / TOKENIZER_FILE))
    hashes = {name: hash_of(folder / name) for name in MODEL_FILES if (folder / name).exists()}
    return write_settings(
        folder,
        signature=signature_of(built, loss, hashes[WEIGHTS_FILE]),
        model=asdict(built.config),
        loss=loss,
        encoder_content=built.encoder_content,
        hashes=hashes,
        **said,
    )


def write_settings(folder: Path, **settings: Any) -> str:  # noqa: ANN401
    """Write `scorer.json` into a folder that may be new; return the signature."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{json.dumps({'format': FORMAT, **settings}, indent=1, ensure_ascii=False)}\n"
    replace_file(folder / SCORER_FILE, lambda path: path.write_text(text, "utf-8"))
    return str(settings["signature"])


def is_linear(settings: Mapping[str, Any]) -> bool:
    """Say whether `scorer.json` is that of a scorer of features."""
    return settings["model"].get("scorer") == FEATURES


def models_to_choose(settings: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return by alias the models that a scorer of features reads and for which others may be put.

    A scorer that was trained with certain files of models says so in `encoder_content`.
    """
    if settings["encoder_content"] or not is_linear(settings):
        return {}
    models: Mapping[str, Mapping[str, Any]] = settings["model"]["features"]["models"]
    return models


def files_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the files of a scorer."""
    return (SCORER_FILE, *settings["hashes"])


def language_of_scorer(settings: Mapping[str, Any]) -> str:
    """Return the language of the texts that a scorer learned from; features are English ones."""
    return str(settings["model"].get("language", "en"))


def read_settings(folder: Path) -> dict[str, Any]:
    """Read and check `scorer.json`."""
    path = folder / SCORER_FILE
    try:
        settings: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(
            f"`{folder}` must be a scorer's folder with {SCORER_FILE}, got none; to continue an "
            "interrupted training, run the same command again"
        ) from error
    except ValueError as error:
        raise ValueError(f"`{path}` must be JSON, got {error}; copy the folder again") from error
    found = settings.get("format") if isinstance(settings, dict) else None
    if found != FORMAT:
        raise ValueError(
            f"`{path}` must have format {FORMAT}, got {found}; train again, or load it with "
            "the version of assay that wrote it"
        )
    wrong = [name for name, kind in _KEYS.items() if not isinstance(settings.get(name), kind)]
    if wrong:
        raise ValueError(
            f"`{path}` must have the keys {', '.join(wrong)}, got none; copy the folder again"
        )
    return settings


def check_stands_alone(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a scorer that reads a model which is neither in its folder nor comes with Assay.

    Where such a model is, only the machine knows that the scorer was trained on; and a scorer of
    somebody else could send its reader anywhere.
    """
    with naming_damage(folder):
        foreign = {*settings["hashes"]} - {*MODEL_FILES}
        elsewhere = sorted(foreign) or _models_elsewhere(settings["model"])
    if elsewhere:
        raise ValueError(
            f"the scorer {folder} reads {', '.join(elsewhere)}, which it does not hold, so it can "
            "neither be exported nor loaded from the hub; copy its folder and the models yourself"
        )


def _models_elsewhere(model: Mapping[str, Any]) -> list[str]:
    """Name the encoder, or the metrics with models, that a scorer reads."""
    if model.get("scorer") == FEATURES:
        read = linear_model(model)
        if not read.features.metrics:
            return []
        asked = read.features.scoring.asked
        return [one.written for one in asked if one.path is not None or one.table is not None]
    if model["scorer"] == "bert":
        return []  # the transformer's weights are its own
    spec = parse_spec(model["encoder"])
    paths = [option.name for option in settings_of(spec.kind.options) if option.is_path]
    return [str(spec)] if spec.path or {*paths} & {*spec.options} else []


@contextmanager
def naming_damage(folder: Path) -> Iterator[None]:
    """Say in one line that a value of `scorer.json` is not of its kind, wherever that shows."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, OverflowError) as error:
        raise ValueError(
            f"`{folder / SCORER_FILE}` must be as this version of assay writes it, got another "
            f"setting or kind of value ({error}); copy the folder again, or load it with the "
            "version that wrote it"
        ) from error


def warn_of_versions(folder: Path, settings: Mapping[str, Any]) -> None:
    """Say so where a library is of another main version than the scorer was trained with."""
    for name in CHECKED_LIBRARIES:
        then, now = settings.get("versions", {}).get(name), metadata.version(name)
        if then is not None and then.partition(".")[0] != now.partition(".")[0]:
            logger.warning(
                "%s was trained with %s %s, this is %s; its scores may differ",
                folder, name, then, now,
            )  # fmt: skip


def hash_of(path: Path) -> str:
    """Hash a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
