"""Pretrained models of the transformers library: one way to find, check, name and load them.

A model is opened by its folder, or its id on the hub (`ModelFolder.open`), and loaded by whatever
runs it: an encoder, or a metric with a model of its own. Loading runs no code that lies with it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import torch
import transformers  # not in functions: two threads importing it at once may get half of it
from safetensors import SafetensorError, safe_open

from sms.encoders import EncoderRuntime
from sms.encoders.devices import Machine
from sms.encoders.layers import speed_up
from sms.encoders.pieces import read_marks_as_letters
from sms.file_hashes import hash_of_files

NO_LIMIT = 1_000_000
"""Tokens that a model without a maximum is said to read: more than any text has."""
_WANTED = ("*.json", "*.txt", "*.model", "*.safetensors")
_OTHER_FORMATS = ("onnx/*", "openvino/*", "*.onnx", "tf_model*", "flax_model*")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.bpe.*")
_NAMES_KERNELS = ("_implementation", "_implementation_internal")
_LOADABLE = "`{}` must hold a model that transformers can load"

T = TypeVar("T")
_in_use: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


def in_use(what: Hashable, path: str, runtime: EncoderRuntime, load: Callable[[], T]) -> T:
    """Return what metrics of this process have of a model's folder (`what` of it), or load it.

    It is forgotten with the last metric that has it, and loaded again where a file has changed.
    """
    folder = Path(path)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    found = [(file, file.stat()) for file in files]
    state = tuple((file, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for file, s in found)
    key = (what, str(path), state, Machine.choose(runtime), runtime.cache_folder)
    model: T | None = _in_use.get(key)
    if model is None:
        model = _in_use[key] = load()
    return model


@dataclass(frozen=True)
class ModelFolder:
    """A pretrained model that was found; what is in its folder is read when it is asked for.

    This and the functions below raise `ValueError` for a model that is missing, damaged or of
    another kind.
    """

    folder: Path
    name: str
    """For a signature."""
    content_hash: str
    machine: Machine
    """Where it computes."""

    @classmethod
    def open(
        cls, path: str, *, after: str, runtime: EncoderRuntime, folder: Path | None = None
    ) -> ModelFolder:
        """Find a model and check its weights; `after` is as in `find_folder`."""
        folder = folder or find_folder(path, after=after)
        check_weights(folder)
        return cls(folder, name_of(path), hash_of_model(folder), Machine.choose(runtime))

    @cached_property
    def tokenizer(self) -> Any:
        """A fast tokeniser; marks that stand in a text are letters to it."""
        return _tokenizer_of(self.folder)

    @cached_property
    def config(self) -> Any:
        """Its configuration."""
        return _config_of(self.folder)

    def load(self, auto_class: str, *, dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
        """Load it by one of transformers' `AutoModel...` classes, on the CPU.

        Settings take the place of what its configuration says, where it has them.
        """
        config = copy.deepcopy(self.config)
        config.update({name: value for name, value in settings.items() if hasattr(config, name)})
        with without_chatter():
            model, report = tried(
                lambda: getattr(transformers, auto_class).from_pretrained(
                    self.folder,
                    config=config,
                    local_files_only=True,
                    trust_remote_code=False,
                    output_loading_info=True,
                    dtype=dtype,
                ),
                _LOADABLE.format(self.folder),
            )
        missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
        if missing:
            raise ValueError(
                f"`{self.folder}` must hold all weights of a {type(model).__name__}, but "
                f"{len(missing)} are missing, such as {missing[0]}; config.json and weights are of "
                "different models: download the model again"
            )
        return model

    def load_encoder(self, **settings: Any) -> Any:
        """Load it, or of an encoder and a decoder the encoder, as `load` does."""
        model = self.load("AutoModel", **settings)
        return model.get_encoder() if model.config.is_encoder_decoder else model

    def ready(self, model: torch.nn.Module) -> Pretrained:
        """Put a model of its weights on the machine, for inference."""
        model = model.to(self.machine.device, self.machine.dtype).eval()
        speed_up(model)
        return Pretrained(self, model, most_tokens(model, self.tokenizer))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Pretrained:
    """A model on its machine, ready for inference."""

    folder: ModelFolder
    model: Any
    max_tokens: int
    """Tokens that it reads at once, special ones included; of each side where it has two."""

    @property
    def tokenizer(self) -> Any:
        """Its tokeniser."""
        return self.folder.tokenizer

    @property
    def machine(self) -> Machine:
        """Where it computes."""
        return self.folder.machine

    @property
    def has_encoder(self) -> bool:
        """Whether an encoder reads one text and a decoder another."""
        return bool(self.model.config.is_encoder_decoder)


def most_tokens(model: Any, tokenizer: Any) -> int:
    """Return how many tokens a model reads, special ones included: the one rule for all of them.

    It is the smaller of what its tokeniser says and the positions that it numbers (`n_places`).
    """
    return min(limit_of(getattr(tokenizer, "model_max_length", None)), n_places(model))


def n_places(model: Any) -> int:
    """Return how many positions a model numbers; `NO_LIMIT` where it looks at distances alone.

    RoBERTa and its relatives number them from after that of the padding, which a table of positions
    with an entry for padding shows.
    """
    said = limit_of(getattr(model.config, "max_position_embeddings", None))
    tables = (
        module
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding)
    )
    padding = next((table.padding_idx for table in tables if table.padding_idx is not None), None)
    return said if padding is None or said == NO_LIMIT else said - padding - 1


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


def _tokenizer_of(folder: Path) -> Any:
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


def _config_of(folder: Path) -> Any:
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
    """Make a model of what a `config.json` says, with random weights, by transformers' own code."""
    config = transformers.AutoConfig.for_model(**_without_code(settings))
    return transformers.AutoModel.from_config(config, trust_remote_code=False)


def _without_code(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what names code of a hub: classes, and kernels of attention and experts."""
    return {
        name: _without_code(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name != "auto_map" and not name.endswith(_NAMES_KERNELS)
    }


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
