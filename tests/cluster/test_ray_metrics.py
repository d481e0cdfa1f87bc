"""The numbers that a real cluster's Prometheus endpoint shows of a run."""

import re
import time
import urllib.request

import pytest

from cluster import RayOptions, list_inputs, plan_shards, run_ray
from tests.cluster.conftest import rows_of, started_ray
from tests.cluster.toy_scorer import MakeScorer

pytest.importorskip("prometheus_client", reason="the extra `cluster` is not installed")
pytestmark = [pytest.mark.ray, pytest.mark.slow]

SAMPLE = re.compile(r"ray_(assay_\w+)\{(.*)\} (\S+)")
LABEL = re.compile(r'(outcome|status|stage|part|state|le)="([^"]*)"')
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def ray():
    often = {"metrics_report_interval_ms": 200}
    with started_ray(num_cpus=1, _system_config=often) as ray:
        yield ray


def scrape(ray):
    """Read all samples of ours from every node, as Prometheus does; (name, labels) to value."""
    found = {}
    for node in ray.nodes():
        url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        for name, labels, value in SAMPLE.findall(text):
            key = (name, *(value for _, value in LABEL.findall(labels)))
            found[key] = found.get(key, 0.0) + float(value)
    return found


def test_metrics_by_hand(write_corpus, job, ray, monkeypatch):
    """Six shards of eight rows; one has a row without text, another always fails."""
    monkeypatch.setattr("cluster.driver.LOOK_AROUND_EVERY_S", 0.0)
    rows = rows_of(48)
    rows[3]["candidate"] = None
    plan = plan_shards(list_inputs([write_corpus(rows, row_group_size=8)]), 8)
    reports, found = [], {}

    def scrape_at_the_end(report):
        """While the workers are alive."""
        reports.append(report)
        deadline = time.monotonic() + PATIENCE_S
        while len(reports) == 6 and time.monotonic() < deadline:
            found.update(scrape(ray))
            if found.get(("assay_shards_total", "failed")) == 2 and len(found) > 10:
                return
            time.sleep(0.2)

    options = RayOptions(workers=1, max_attempts=2)
    how = {"fails_on": rows[9]["candidate"]}
    run_ray(plan, MakeScorer(**how), job, scrape_at_the_end, options=options)
    assert found["assay_rows_total",] == 40
    assert found["assay_shards_total", "done"] == 5
    assert found["assay_shards_total", "failed"] == 2
    assert found["assay_rows_with_status_total", "no candidate"] == 1
    assert found["assay_scorer_rows_total", ""] == 40
    seconds = sum(report.seconds for report in reports)
    stages = [value for (name, *_), value in found.items() if name == "assay_stage_seconds_total"]
    assert 0 < sum(stages) <= seconds
    assert found["assay_shard_seconds_count",] == 5
    assert found["assay_shard_seconds_bucket", "+Inf"] == 5
    assert ("assay_workers", "busy") in found
    assert ("assay_shards", "waiting") in found
