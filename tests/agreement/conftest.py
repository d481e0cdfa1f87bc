"""Matrices that several tests use: small made-up ones, and SummEval with published scores."""

import json

import numpy as np
import pytest

ASPECTS = ("coherence", "consistency", "fluency", "relevance")


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def pilot(rng):
    """Two metrics and ratings, 8 systems on 12 documents, with holes and ties."""
    quality = rng.normal(size=(8, 1))
    ratings = np.round(quality + rng.normal(size=(8, 12)))
    first = quality + rng.normal(size=(8, 12))
    second = 0.5 * quality + np.round(rng.normal(size=(8, 12)), 1)
    first[2, 3], second[5, 1], ratings[7, 11] = np.nan, np.nan, np.nan
    return first, second, ratings


@pytest.fixture(scope="session")
def oracle(data_dir):
    """Read one of the files of published values; skip where there are none."""

    def read(name):
        path = data_dir.parent / "oracles" / name
        if not path.is_file():
            pytest.skip(f"no published values at {path}")
        return json.loads(path.read_text(encoding="utf-8"))

    return read


@pytest.fixture(scope="session")
def summeval(data_dir):
    """Peer metrics and experts' mean ratings as matrices, by name."""
    pl = pytest.importorskip("polars")
    peers = pl.read_parquet(data_dir / "summeval_peer_scores.parquet")
    keys = ["system_id", "document_id"]
    rows = pl.read_parquet(data_dir / "summeval_ratings.parquet")
    rows = rows.filter(pl.col("rater").str.starts_with("expert-"))
    systems, documents = (peers[key].unique().sort().to_list() for key in keys)

    def matrix(frame, column):
        result = np.full((len(systems), len(documents)), np.nan)
        i = [systems.index(each) for each in frame["system_id"]]
        j = [documents.index(each) for each in frame["document_id"]]
        result[i, j] = frame[column].to_numpy()
        return result

    metrics = {name: matrix(peers, name) for name in peers.columns if name not in keys}
    means = rows.group_by(keys).agg(pl.col(ASPECTS).mean())
    ratings = {aspect: matrix(means, aspect) for aspect in ASPECTS}
    return metrics, ratings
