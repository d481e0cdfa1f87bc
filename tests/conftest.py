"""Environment, hypothesis profiles and the fixtures every test may use."""

import atexit
import gc
import os
import secrets
import signal
import sys
from pathlib import Path

# Read when the libraries are imported, so set before anything else.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("POT_BACKEND_DISABLE_TENSORFLOW", "1")
os.environ.setdefault("POT_BACKEND_DISABLE_JAX", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # threads of several such processes would wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_AUTH_MODE", "token")  # of the clusters that tests start or join
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
gc.disable()  # until everything is imported, see `pytest_collection_finish`
os.fsync = lambda handle: None  # what a test writes need not survive a power cut; a fifth faster

settings.register_profile("assay", deadline=None, max_examples=40)  # others each time
settings.register_profile("assay-ci", deadline=None, derandomize=True)
settings.load_profile("assay-ci" if os.environ.get("CI") else "assay")

_status: list[int] = []


@atexit.register  # before most others register, so it runs after them
def end_at_once_where_ray_was():
    """End without the destructors of C++ where this process had to do with Ray.

    Some of its threads outlive `ray.shutdown` (they export metrics) and may use what has just been
    destroyed: a segmentation fault after the last test, once in many runs.
    """
    if _status and "ray" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_status[-1])


def pytest_collection_finish():
    """Collect garbage again, but look neither at what was imported nor at everything so often.

    Half a million objects of libraries and tests outlive every test: to look through them takes up
    to a second each time.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def pytest_sessionfinish(exitstatus):
    _status.append(int(exitstatus))
    gc.collect()
    gc.freeze()  # pytest looks for garbage ten times more


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the evaluation data; a test that asks for it is skipped where there is none."""
    folder = Path(os.environ.get("ASSAY_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no evaluation data at {folder}; set ASSAY_DATA to its folder")
    return folder


@pytest.fixture
def one_thread():
    """Let torch use one thread, so that weights do not depend on the machine's cores."""
    import torch

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
