"""How a training runs: in a folder that it can go on in, in this process or on Ray Train.

The folder is new, or has a run to go on with; a wrong request leaves it as it was. On Ray the
workers share every batch, by gloo on CPUs, NCCL on GPUs, and each does the same work on the folder,
which all must see. Ray only starts them and brings them together: checkpoints, and going on from
them, are the training's own, so a run goes on with the same number of workers wherever and however
it was stopped. (Ray's way to go on, by the name of a run, would go on with a changed request too.)
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from cluster.children import ProcessLost
from cluster.output import Output
from cluster.progress import Progress
from cluster.ray_options import cluster_address
from cluster.ray_process import call_apart
from pipelines.settings.form import shared_fields
from pipelines.settings.pairs import MachineSettings
from reffree.scorers.naming import SCORER_FILE
from sms.naming import AnyPath
from sms.signature import library_versions

TRAINING_FOLDER = "training"  # what is needed to go on, in the folder of the result
PAIRS_FOLDER = "pairs"
RAY_FOLDER = "ray"


def stages(on_progress: Callable[[Progress], None] | None) -> Callable[[str], None]:
    """Return what tells of a stage, if anybody listens."""

    def tell(stage: str) -> None:
        if on_progress is not None:
            on_progress(Progress(stage=stage))

    return tell


def fingerprint_of(asked: Mapping[str, Any]) -> str:
    """Hash all that a training's result depends on; a run only goes on with the same."""
    named = {**asked, "versions": library_versions()}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


def checked_folder(
    out: AnyPath,
    *,
    result: str = SCORER_FILE,
    called: str = "a trained scorer",
    begun: str = "",
    is_resumed: bool = False,
) -> Path:
    """Check that a folder is new or empty, or has a run that can go on.

    Such a run has the file `begun` in `training/`, or only that subfolder; it is deleted unless
    `is_resumed`. A finished run has the file `result`, and messages call it `called`.
    """
    output = Output.named("--out", out)
    folder = output.local
    output.check_folder()
    if not folder.exists():
        return folder
    if (folder / result).exists():
        raise ValueError(f"`--out` already holds {called}: {folder}; choose another folder")
    is_run = (folder / TRAINING_FOLDER / begun).exists()
    if is_run and not is_resumed:
        shutil.rmtree(folder / TRAINING_FOLDER)
    elif not is_run and any(folder.iterdir()):
        raise ValueError(f"`--out` must be a new or empty folder, got {folder}")
    return folder


@contextmanager
def undone_if_wrong(folder: Path, is_begun: Callable[[], bool]) -> Iterator[None]:
    """Delete what a request that turns out wrong has left, unless there is a run to go on with.

    The folder goes too if it was not there.
    """
    was_there = folder.exists()
    try:
        yield
    except (ValueError, OSError):
        if not is_begun():
            shutil.rmtree(folder / TRAINING_FOLDER, ignore_errors=True)
            if not was_there:
                with suppress(OSError):
                    folder.rmdir()
        raise


# On Ray


def train_on_ray(work: Callable[..., object], folder: Path, settings: MachineSettings) -> None:
    """Train in several processes; the weights are in the folder of the run then.

    `work` is called with `device` and `ranks`: `learn` or `learn_stage` with all else given.
    """
    address = cluster_address(settings.address)
    # Settings of a verb may hold functions, which cannot be sent to another process.
    machines = MachineSettings(**shared_fields(MachineSettings, settings))
    work = partial(_work_in, os.getcwd(), work)
    try:
        call_apart(_drive, work, folder, machines, address, tell={}, address=address)
    except ProcessLost as error:
        raise _lost(str(error)) from error


def _drive(
    work: Callable[..., object],
    folder: Path,
    machines: MachineSettings,
    address: str | None,
    _say: Callable[..., None],  # workers write their news into the folder
) -> None:
    """Be the driver: connect, then have Ray Train start the workers."""
    from cluster.children import worker_environment
    from cluster.ray_cluster import connected

    try:
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer
        from ray.train.v2.api.exceptions import TrainingFailedError
    except ImportError as error:
        raise ValueError("`--workers` needs Ray Train; pip install 'assay[train]'") from error

    uses_gpu = machines.gpus_per_worker > 0
    resources = {"CPU": 1.0, **({"GPU": machines.gpus_per_worker} if uses_gpu else {})}
    variables = worker_environment(1, is_local=address is None)
    with connected(address, machines.workers, is_open_allowed=machines.insecure_cluster):
        trainer = TorchTrainer(
            _train_worker,
            train_loop_config={"work": work, "uses_gpu": uses_gpu},
            torch_config=TorchConfig(backend="nccl" if uses_gpu else "gloo"),
            scaling_config=ScalingConfig(
                num_workers=machines.workers, use_gpu=uses_gpu, resources_per_worker=resources
            ),
            run_config=RunConfig(  # type: ignore[call-arg]  # its types are those of Ray Train V1
                name=uuid4().hex,  # never one that Ray would go on with
                storage_path=str(folder / RAY_FOLDER),
                worker_runtime_env={"env_vars": variables},
            ),
        )
        try:
            trainer.fit()
        except TrainingFailedError as error:
            raise _what_failed(error) from error


def _work_in(folder: str, work: Callable[..., object], **options: object) -> None:
    """Do a worker's work in the folder of the command, in which Ray has not started the worker."""
    os.chdir(folder)
    work(**options)


def _train_worker(job: dict[str, Any]) -> None:
    import torch

    from reffree.neural.loop import Ranks

    if not job["uses_gpu"]:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    job["work"](device="cuda" if job["uses_gpu"] else "cpu", ranks=Ranks.current())


def _what_failed(error: Exception) -> Exception:
    """Return the first worker's own exception where it says what to do, else one of ours."""
    failures = getattr(error, "worker_failures", None) or {}
    for rank in sorted(failures):
        cause: BaseException | None = failures[rank]
        while cause is not None:
            if isinstance(cause, ValueError) or type(cause) is RuntimeError:
                return type(cause)(str(cause).strip().splitlines()[-1])
            cause = getattr(cause, "cause", None) or cause.__cause__
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return _lost(lines[-1].strip() if lines else type(error).__name__)


def _lost(reason: str) -> RuntimeError:
    return RuntimeError(f"training on Ray failed ({reason}); run the same command again")
