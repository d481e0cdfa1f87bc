"""What the encoders from TensorFlow Hub share: TensorFlow itself and SavedModel folders.

TensorFlow is imported when the first of them is loaded, never before. Models compute in fp32
whatever `EncoderRuntime.precision` says: their graphs are published so.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import tarfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sms.encoders import EncoderRuntime
from sms.encoders.batches import Batches
from sms.file_hashes import hash_of_file


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of TensorFlow Hub, in memory."""

    name: str
    """For signatures."""
    path: str
    """Folder or URL, as it was asked for."""
    folder: Path
    """Where its files are."""
    content_hash: str
    """Of all its files."""
    loaded: Any
    """What `tensorflow_hub.load` returned, with `signatures` by name; callable or not."""
    tensorflow: ModuleType

    def batches(self, most: int) -> Batches:
        """Return what runs it over batches of at most so many words, padding included."""
        return Batches(most, shortages=(self.tensorflow.errors.ResourceExhaustedError,))

    def probe(self, use: str, run: Callable[[], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Return the arrays of a first call, which must be finite float32.

        `use` is what the model must do, for the message. Raises `ValueError` if the call fails or
        returns something else, naming the model's path.
        """
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


def load_model(kind: str, path: str, *, published: str, runtime: EncoderRuntime) -> HubModel:
    """Load a SavedModel or a module in the older format of TensorFlow Hub, from a folder or URL.

    What is downloaded is kept in `TFHUB_CACHE_DIR`. Messages name the kind of encoder and the URL
    of the published model that people most likely want. Raises `ValueError` if TensorFlow is not
    installed, there is no such folder, a download fails, a file is missing or damaged, or a GPU is
    asked for and absent.
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
    folder = _downloaded(kind, path, hub) if is_url else Path(path).expanduser()
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
    # what the first model of a process set stays
    with contextlib.suppress(RuntimeError):
        if runtime.device == "cpu":
            tensorflow.config.set_visible_devices([], "GPU")
        for gpu in gpus:  # or it takes all of the memory, and torch has none
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
