"""The made-up result as a fixture."""

import pytest

from tests.pipelines.reports.made_up import make_result


@pytest.fixture(scope="session")
def result():
    return make_result()
