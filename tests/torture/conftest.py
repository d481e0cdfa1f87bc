"""Word vectors that all inputs share, and limits of what one input may take."""

from __future__ import annotations

import faulthandler
import os
import resource

import pytest

from tests.cluster.conftest import (  # noqa: F401  (fixtures)
    address,
    check_resumed,
    check_scores,
    cluster,
    job,
    make_plan,
    plan,
    read_scores,
    run_joined,
    write_corpus,
)
from tests.object_stores import bucket, proxy, server  # noqa: F401  (fixtures)
from tests.sms.conftest import glove  # noqa: F401  (a fixture)
from tests.torture.sound import write_vectors

LIMIT_S = 900
"""Of one input; most take a tenth of a second, but a busy machine is no hang."""
MEMORY_BYTES = 16 << 30
"""That a process may ask for: an input that wants more than there is must be refused."""


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    return write_vectors(tmp_path_factory.mktemp("vectors") / "vectors.txt")


@pytest.fixture
def begins(capfd):
    """A function to call before each input: the process ends if the input takes too long."""
    with capfd.disabled():
        stderr = os.dup(2)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, before[1]))
    yield lambda: faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=stderr)
    faulthandler.cancel_dump_traceback_later()
    resource.setrlimit(resource.RLIMIT_DATA, before)
    os.close(stderr)
