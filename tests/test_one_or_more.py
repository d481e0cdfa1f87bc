"""A path may be text or `Path`, and one stands for a list of paths or names.

Both are settled where they enter: in the settings of a verb, in the door's functions of them, and
in what `sms` and `cluster` offer.
"""

from __future__ import annotations

import inspect
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
def one_path(path: AnyPath, settings: CompareSettings):  # noqa: F821  (only its name counts)
    """Return a path as a verb gets it."""
    return path


@keywords(CompareSettings)
def paths(files: OneOrMore, settings: CompareSettings):  # noqa: F821
    """Return paths as a verb gets them."""
    return files


def test_one_path_or_several_are_the_data():
    for given in ("a.csv", Path("a.csv")):
        assert one_path(given) == paths(given) == "a.csv"
    for several in ([Path("a.csv")], ("a.csv",), iter(["a.csv"])):
        assert paths(several) == ["a.csv"]


def test_every_verb_takes_paths_or_rows():
    for name in ("score", "correlate", "compare", "explain", "train", "evaluate", "preferences"):
        parameters = inspect.signature(getattr(assay, name)).parameters.values()
        data = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        assert {one.annotation for one in data} <= {"Rows", "AnyPath", "OneOrMore"}


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


PATHS = {
    "column_names": ("corpus.parquet", lambda x: cluster.column_names(x, "parquet")),
    "list_inputs": ("corpus.parquet", cluster.list_inputs),
    "part_path": ("run", lambda x: cluster.part_path(x, 0, "abc")),
    "committed": ("run", lambda x: cluster.committed(x, [], "abc")),
    "committed_parts": ("run", lambda x: cluster.committed_parts(x, [], "abc")),
    "reports_from_file": ("part-000000-abc.parquet", cluster.reports_from_file),
    "write_whole": ("written", lambda x: cluster.write_whole(x, b"")),
    "Job": ("run", lambda x: Job(out=x, fingerprint="abc")),
    "load_scorer": ("none", load_scorer),
    "status": ("none", assay.status),
    "score": ("corpus.parquet", lambda x: assay.score(x, out=x, metrics="length")),
    "correlate": (
        "scores.csv",
        lambda x: assay.correlate(x, ratings=Path(x).with_name("ratings.csv"), resamples=2)
        .correlations.rows(),
    ),
    "compare": ("scores.csv", lambda x: assay.compare(x, x, resamples=2)),
}  # fmt: skip


def outcome(call, given):
    """What comes of a call, or what it says; never that the kind of the argument is wrong."""
    try:
        return call(given)
    except (ValueError, OSError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", PATHS)
def test_path_may_be_text_or_path(name, here):
    file, call = PATHS[name]
    assert outcome(call, str(here / file)) == outcome(call, here / file)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: NegativesConfig(kinds=x("delete")),
        lambda x: ScoringConfig(metrics=x("length")),
        lambda x: score_texts(["A cat."], metrics=x("length")).to_pydict(),
        lambda x: CorrelateSettings(ratings="r", levels=x("system")),
    ],
)
def test_one_name_or_several(call):
    expected = call(lambda name: [name])
    assert call(lambda name: name) == expected
    assert call(lambda name: (name,)) == expected


def test_one_encoder_or_several():
    assert (
        Reward("rouge1_f", encoder="minilm").signature
        == Reward("rouge1_f", encoder=["minilm"]).signature
    )
