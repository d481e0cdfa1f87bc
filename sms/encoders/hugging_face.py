"""Models of the transformers library: from a folder or a hub id to an encoder."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import transformers  # here: two threads that import it first at once may get half of it
from safetensors import SafetensorError, safe_open

from sms.encoders import EncoderRuntime
from sms.encoders.bert import BertEncoder, Pooling
from sms.encoders.devices import Machine
from sms.encoders.layers import LayerChoice, speed_up
from sms.encoders.packed_model import PackedModel, PackedShape, PaddedModel
from sms.encoders.pieces import PieceCutter, read_marks_as_letters
from sms.file_hashes import hash_of_files

logger = logging.getLogger(__name__)

_WANTED = ("*.json", "*.txt", "*.model", "*.safetensors")
_OTHER_FORMATS = ("onnx/*", "openvino/*", "*.onnx", "tf_model*", "flax_model*")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.bpe.*")
NO_LIMIT = 1_000_000
"""Tokens that a model without a maximum is said to read: more than any text has."""
_LOADABLE = "`{}` must hold a model that transformers can load"
PROBE = "A probe, of 12 words or so."
PROBE_ATOL = 1e-4
"""How far the packed pass may be from the library's before it is not used. Equal architectures
differ by 1e-6 times the size of a state; another one differs by whole units."""

T = TypeVar("T")


def load_hf(
    path: str, *, runtime: EncoderRuntime, layers: str = "last", pooling: str = "mean"
) -> BertEncoder:
    """Load a BERT-like model from a folder or by its id on the hub: words and sentences.

    This and the functions below raise `ValueError` for a model that is missing, damaged or of
    another kind, and for options that do not fit it.
    """
    folder = find_folder(path, after="hf:")
    machine = Machine.choose(runtime)
    check_weights(folder)
    tokenizer = load_tokenizer(folder)
    model = load_model(folder)
    choice = LayerChoice.parse(layers, model.config.num_hidden_layers)
    return BertEncoder(
        token_model(model, tokenizer, choice, machine),
        PieceCutter(tokenizer.backend_tokenizer),
        name=f"{name_of(path)}|layer:{layers}",
        content_hash=hash_of_model(folder),
        max_tokens=longest_sequence(model.config, tokenizer),
        pooling=Pooling(mode=pooling),
    )


def name_of(path: str) -> str:
    """Return the last part of a path or id, for a signature."""
    return Path(path).resolve().name if Path(path).exists() else path.split("/")[-1]


def find_folder(path: str, *, after: str) -> Path:
    """Return the folder of a model, downloading it where the hub has it.

    `after` is what stands before the path where a user writes it, such as `hf:`.
    """
    folder = Path(path)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise ValueError(f"`{after}` must be given a model's folder, got the file `{path}`")
    if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", path):
        raise ValueError(f"no model folder at `{path}`; check the path after `{after}`")
    return _from_hub(path, after)


def _from_hub(model_id: str, after: str) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    def fetch(*patterns: str) -> Path:
        return Path(
            huggingface_hub.snapshot_download(
                model_id, allow_patterns=list(patterns), ignore_patterns=list(_OTHER_FORMATS)
            )
        )

    try:
        folder = fetch(*_WANTED)
        return folder if any(folder.rglob("*.safetensors")) else fetch(*_WANTED, "*.bin")
    except errors.RepositoryNotFoundError as error:
        raise ValueError(
            f"no folder and no model on the hub at `{model_id}`; check the path after `{after}`"
        ) from error
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        raise ValueError(
            f"`{model_id}` is neither a folder nor in {huggingface_hub.constants.HF_HUB_CACHE}, "
            f"and the hub cannot be reached; where it can, run `hf download {model_id} "
            f"--local-dir DIR`, then give `{after}DIR`"
        ) from error


def check_weights(folder: Path) -> None:
    """Refuse a folder without whole weights."""
    files = sorted(folder.rglob("*.safetensors"))
    if not files and not any(folder.rglob("*.bin")):
        raise ValueError(
            f"`{folder}` must hold weights (model.safetensors or pytorch_model.bin), got none; "
            "download the model again"
        )
    for file in files:
        try:
            with safe_open(file, framework="numpy"):
                pass
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"`{file}` must be a whole safetensors file, got {one_line(error)}; download it "
                "again"
            ) from error


def load_tokenizer(folder: Path) -> Any:
    """Load a fast tokeniser; marks that stand in a text are letters to it."""
    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZER_FILES):
        raise ValueError(
            f"`{folder}` must hold a tokenizer ({', '.join(_TOKENIZER_FILES)}), got none; "
            "download the model again"
        )
    tokenizer = tried(
        lambda: transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True),
        f"`{folder}` must hold a tokenizer that transformers can load",
    )
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"`{folder}` must hold a fast tokenizer (tokenizer.json), got a slow one")
    tokenizer.split_special_tokens = True
    read_marks_as_letters(tokenizer.backend_tokenizer)
    return tokenizer


def load_model(folder: Path, **settings: Any) -> Any:
    """Load a model, of an encoder and decoder the encoder; otherwise as `load_pretrained`."""
    model = load_pretrained(folder, "AutoModel", **settings)
    return model.get_encoder() if model.config.is_encoder_decoder else model


def load_config(folder: Path) -> Any:
    """Load the configuration of a model, and run no code that lies with it."""
    if not (folder / "config.json").is_file():
        raise ValueError(f"{_LOADABLE.format(folder)}, got no config.json; check the path")
    return tried(
        lambda: transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        ),
        _LOADABLE.format(folder),
    )


def untrained_model(settings: Mapping[str, Any]) -> Any:
    """Make a model of what a `config.json` says, with random weights."""
    config = transformers.AutoConfig.for_model(**settings)
    return transformers.AutoModel.from_config(config)


def load_pretrained(
    folder: Path, auto_class: str, *, dtype: torch.dtype = torch.float32, **settings: Any
) -> Any:
    """Load a model by one of transformers' `AutoModel...` classes, on the CPU.

    No code that lies with the model is run. Settings take the place of what its configuration says,
    where it has them.
    """
    config = load_config(folder)
    config.update({name: value for name, value in settings.items() if hasattr(config, name)})
    with without_chatter():
        model, report = tried(
            lambda: getattr(transformers, auto_class).from_pretrained(
                folder,
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                dtype=dtype,
            ),
            _LOADABLE.format(folder),
        )
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise ValueError(
            f"`{folder}` must hold all weights of a {type(model).__name__}, lacks {len(missing)}, "
            f"for example {missing[0]}; its config.json or its weights are another model's"
        )
    return model


def token_model(
    model: Any, tokenizer: Any, layers: LayerChoice, machine: Machine
) -> PackedModel | PaddedModel:
    """Choose the fastest exact forward pass: packed where it gives what the library gives."""
    padding = tokenizer.pad_token_id or 0
    plain = Machine(torch.device("cpu"), "fp32")

    def probed() -> tuple[np.ndarray, torch.Tensor]:
        ids = np.array(tokenizer(PROBE)["input_ids"], dtype=np.int64)
        return ids, PaddedModel(model, padding, layers, plain).states(ids, np.array([ids.size]))

    ids, expected = tried(
        probed, f"a {type(model).__name__} must give vectors from its tokeniser's pieces alone"
    )
    shape = PackedShape.read(model.config.to_dict())
    if shape is not None:
        packed = PackedModel(shape, model.state_dict(), layers, plain)
        found = packed.states(ids, np.array([ids.size]))
        if torch.allclose(found, expected, rtol=PROBE_ATOL, atol=PROBE_ATOL):
            if machine == plain:
                return packed
            return PackedModel(shape, model.state_dict(), layers, machine)
        logger.warning("%s differs from its family; encoding it with padding", shape.family)
    slow = PaddedModel(model, padding, layers, machine)
    speed_up(model)
    return slow


def longest_sequence(config: Any, tokenizer: Any) -> int:
    """Return how many tokens a model reads, special ones included."""
    if (shape := PackedShape.read(config.to_dict())) is not None:
        places = shape.max_tokens
    else:
        # the relatives of RoBERTa, whose padding is token 1, number positions from 2
        places = n_places(config) - 2 * (getattr(config, "pad_token_id", None) == 1)
    return min(places, most_pieces(tokenizer))


def n_places(config: Any) -> int:
    """Return how many positions a model numbers; `NO_LIMIT` where it looks at distances alone."""
    return limit_of(getattr(config, "max_position_embeddings", None))


def most_pieces(tokenizer: Any) -> int:
    """Return how many pieces a tokeniser says that its model reads, or `NO_LIMIT`."""
    return limit_of(getattr(tokenizer, "model_max_length", None))


def limit_of(said: float | None) -> int:
    """Read a maximum: where there is none, libraries have nothing, 0, -1 or an enormous number."""
    return NO_LIMIT if said is None or said <= 0 else int(min(said, NO_LIMIT))


def hash_of_model(folder: Path) -> str:
    """Hash what decides a model's vectors: weights, configurations and vocabularies.

    A part of a model may have its weights as `.bin` where others have safetensors.
    """
    files = {file for pattern in (*_WANTED, "*.bin") for file in folder.rglob(pattern)}
    files -= {f for f in files if {"onnx", "openvino"} & set(f.relative_to(folder).parts)}
    safe = {file.parent for file in files if file.suffix == ".safetensors"}
    files -= {file for file in files if file.suffix == ".bin" and file.parent in safe}
    return hash_of_files(sorted(files))


def one_line(error: BaseException) -> str:
    """Return the first line of an error, with its kind where it says nothing."""
    text = str(error).strip().partition("\n")[0]
    return text[:200] or type(error).__name__


def tried(load: Callable[[], T], what: str) -> T:
    """Call into a library that may fail in any way on a damaged or strange model."""
    try:
        return load()
    except Exception as error:
        raise ValueError(f"{what}, got {type(error).__name__}: {one_line(error)}") from error


@contextmanager
def without_chatter() -> Iterator[None]:
    """Keep transformers' progress bars and load reports off the terminal."""
    from transformers.utils import logging as chatter

    verbosity, had_bars = chatter.get_verbosity(), chatter.is_progress_bar_enabled()
    chatter.set_verbosity_error()
    chatter.disable_progress_bar()
    try:
        yield
    finally:
        chatter.set_verbosity(verbosity)
        if had_bars:
            chatter.enable_progress_bar()
