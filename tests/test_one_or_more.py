"""A path may be text or `Path`, and one stands for a list of paths or names.

Both are settled where they enter: in the settings of a verb, in the door's functions of them, and
in what `sms` and `cluster` offer.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import assay
import cluster
from cluster import Job
from pipelines.cli.app import app
from pipelines.settings.compare import CompareSettings
from pipelines.settings.correlate import CorrelateSettings
from pipelines.settings.form import keywords
from reffree.negatives import NegativesConfig
from reffree.scorer import load_scorer
from sms import ScoringConfig, score_texts
from sms.reward import Reward

SETTINGS = {
    (name, setting.name): setting
    for name, command in app.commands.items()
    for setting in getattr(command, "settings", ())
    if setting.form in ("one", "list") and setting.kind is str and "encoders" not in setting.words
}


@pytest.mark.parametrize(("verb", "name"), SETTINGS)
def test_one_name_or_several_and_text_or_path_are_a_setting(verb, name):
    setting = SETTINGS[verb, name]
    value = setting.choices[0] if setting.choices else "a/b.csv"
    expected = (value,) if setting.form == "list" else value
    several = [[value], (value,), iter([value])] if setting.form == "list" else []
    for given in [value, *([] if setting.choices else [Path(value)]), *several]:
        assert setting.checked(given) == expected


@keywords(CompareSettings)
def paths(files: OneOrMore, settings: CompareSettings):  # noqa: F821  (only its name counts)
    """Return paths as a verb gets them."""
    return files


def test_one_path_or_several_are_the_data():
    assert paths("a.csv") == paths(Path("a.csv")) == "a.csv"
    for several in ([Path("a.csv")], ("a.csv",), iter(["a.csv"])):
        assert paths(several) == ["a.csv"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a corpus, scores and ratings of it."""
    folder = tmp_path_factory.mktemp("here")
    rows = [{"document_id": f"d{i // 2}", "system_id": f"s{i % 2}"} for i in range(6)]
    keys = pl.DataFrame(rows)
    keys.with_columns(candidate=pl.lit("A cat sat.")).write_parquet(folder / "corpus.parquet")
    keys.with_columns(good=pl.Series(range(6))).write_csv(folder / "scores.csv")
    keys.with_columns(clear=pl.Series([1, 2, 2, 3, 3, 4])).write_csv(folder / "ratings.csv")
    return folder


def correlations(scores):
    ratings = Path(scores).with_name("ratings.csv")
    return assay.correlate(scores, ratings=ratings, resamples=2).correlations.rows()


PATHS = {
    cluster.list_inputs: "corpus.parquet",
    cluster.reports_from_file: "part-000000-abc.parquet",
    load_scorer: "none",
    assay.status: "none",
    correlations: "scores.csv",
    lambda path: cluster.column_names(path, "parquet"): "corpus.parquet",
    lambda path: cluster.committed(path, [], "abc"): "run",
    lambda path: cluster.write_whole(path, b""): "written",
    lambda path: Job(out=path, fingerprint="abc"): "run",
    lambda path: assay.score(path, out=path, metrics="length"): "corpus.parquet",
    lambda path: assay.compare(path, path, resamples=2): "scores.csv",
}


def outcome(call, given):
    """What comes of a call, or what it says; never that the kind of the argument is wrong."""
    try:
        return call(given)
    except (ValueError, OSError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(("call", "file"), PATHS.items())
def test_path_may_be_text_or_path(call, file, here):
    assert outcome(call, str(here / file)) == outcome(call, here / file)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: NegativesConfig(kinds=x("delete")),
        lambda x: ScoringConfig(metrics=x("length")),
        lambda x: score_texts(["A cat."], metrics=x("length")).to_pydict(),
        lambda x: CorrelateSettings(ratings="r", levels=x("system")),
        lambda x: Reward("rouge1_f", encoder=x("minilm")).signature,
    ],
)
def test_one_name_or_several(call):
    expected = call(lambda name: [name])
    assert call(lambda name: name) == expected
    assert call(lambda name: (name,)) == expected
