"""Every public function takes text or `Path` for a path, and one for a list of paths or names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import cluster
from cluster import Job
from pipelines.evaluate_by_ratings import evaluate_by_ratings
from pipelines.explain import Explainer
from pipelines.learning_curve import learning_curve
from pipelines.preferences import compare_preferences
from pipelines.prepare_pairs import prepare_pairs
from pipelines.reinforcement import ReinforceRecipe
from pipelines.settings.compare import CompareSettings
from pipelines.settings.correlate import CorrelateSettings
from pipelines.status import run_status
from reffree.negatives import NegativesConfig
from reffree.scorer import load_scorer
from reffree.training import Recipe
from reinforce.decoding import BeamConfig
from reinforce.learning import SummariserConfig
from reinforce.summarisers import Limits
from sms import ScoringConfig, score_texts
from sms.reward import Reward
from tests.reffree.conftest import model_config, train_config
from tests.reinforce.conftest import reward_config, stage_config


def _named(**homes: str) -> SimpleNamespace:
    return SimpleNamespace(
        **{name: getattr(import_module(home), name) for name, home in homes.items()}
    )


pipelines = _named(
    compare_scores="pipelines.compare",
    correlate="pipelines.correlation.run",
    evaluate_scorer="pipelines.evaluate",
    export_data="pipelines.datasets.exporting",
    import_data="pipelines.datasets.run",
    open_explainer="pipelines.explain",
    reinforce_summariser="pipelines.reinforcement",
    reproduce="pipelines.papers.run",
    score_corpus="pipelines.score",
    train_scorer="pipelines.train",
    write_negatives="pipelines.negatives",
)
"""The functions that do what a verb does."""

ROWS = [
    {"document_id": f"d{i // 2}", "system_id": f"s{i % 2}", "candidate": "A cat sat. " * (i + 1)}
    for i in range(6)
]
TEXTS = ("candidate", "reference", "references", "source", "sources")
RECIPE = Recipe(
    model=model_config(),
    negatives=NegativesConfig(kinds=("delete",)),
    training=train_config(),
)
REINFORCED = ReinforceRecipe(
    summariser=SummariserConfig(
        model="pointer",
        vocabulary_size=30,
        vectors=None,
        n_dimensions=4,
        n_hidden=4,
        n_layers=1,
        dropout=0.0,
        limits=Limits(source_words=9, summary_words=9),
    ),
    likelihood=stage_config(),
    mixed=stage_config(),
    rewards=(reward_config(metric="rouge1_f"),),
    beam=BeamConfig(width=1, blocks_trigrams=False),
)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a corpus, scores and ratings of it, and a finished run."""
    folder = tmp_path_factory.mktemp("here")
    frame = pl.DataFrame(ROWS)
    frame.write_parquet(folder / "corpus.parquet")
    keys = frame.select("document_id", "system_id")
    numbers = keys.with_columns(pl.Series("good", range(6)), pl.Series("length", range(6)[::-1]))
    numbers.write_csv(folder / "scores.csv")
    numbers.with_columns(pl.col("good") * 2.0).write_csv(folder / "others.csv")
    ratings = keys.with_columns(pl.Series("clear", [1, 2, 2, 3, 3, 4]), pl.lit("r").alias("rater"))
    ratings.write_csv(folder / "ratings.csv")
    (folder / "counts.csv").write_text("system_a,system_b,wins,losses,ties\nold,new,6,4,2\n")
    pipelines.score_corpus(
        folder / "corpus.parquet", folder / "run", metrics="length", local=True, workers=1
    )
    return folder


def explainer(here: Path) -> Explainer:
    return pipelines.open_explainer(here / "corpus.parquet", metric="length")


def correlate(here: Path, **asked: Any) -> object:
    asked = {"ratings": here / "ratings.csv", "resamples": 2, **asked}
    scores = asked.pop("scores", here / "scores.csv")
    return pipelines.correlate(scores, CorrelateSettings(**asked)).correlations.rows()


def compare(here: Path, **asked: Any) -> object:
    paths = [asked.pop("scores_a", here / "scores.csv"), asked.pop("scores_b", here / "others.csv")]
    settings = CompareSettings(**asked, resamples=2)
    return pipelines.compare_scores(*paths, settings).frame().rows()


# function, argument, what is given, the call. What is given is a path in the folder, or one name.
# Most paths are not there: that is said before anything is computed, with the path.
PATHS: list[tuple[Callable[..., object], str, str, Callable[[Any, Path], object]]] = [
    (pipelines.compare_scores, "scores_a", "scores.csv", lambda x, h: compare(h, scores_a=x)),
    (pipelines.compare_scores, "scores_b", "others.csv", lambda x, h: compare(h, scores_b=x)),
    (pipelines.correlate, "ratings", "ratings.csv", lambda x, h: correlate(h, ratings=x)),
    (pipelines.correlate, "corpus", "corpus.parquet", lambda x, h: correlate(h, corpus=x)),
    (pipelines.correlate, "out", "scores.csv", lambda x, h: correlate(h, out=x)),
    (pipelines.export_data, "out", "run", lambda x, h: pipelines.export_data("sacrerouge", [], x)),
    *(
        (pipelines.import_data, name, f"{name}.csv", call)
        for name, call in {
            "out": lambda x, h: pipelines.import_data("newsroom", [], x),
            "ratings": lambda x, h: pipelines.import_data("summeval", [], "o.parquet", ratings=x),
            "scores": lambda x, h: pipelines.import_data("summeval", [], "o.parquet", scores=x),
        }.items()
    ),
    (
        *(pipelines.open_explainer, "scores", "run"),
        lambda x, h: pipelines.open_explainer(metric="length", scores=x).page("d0"),
    ),
    (
        *(pipelines.open_explainer, "ratings", "ratings.csv"),
        lambda x, h: pipelines.open_explainer(
            h / "corpus.parquet", metric="length", ratings=x
        ).page("d0"),
    ),
    (
        *(Explainer.write_pages, "folder", "pages"),
        lambda x, h: explainer(h).write_pages([("d0", "s0")], x),
    ),
    *(
        (pipelines.reproduce, name, "nowhere", call)
        for name, call in {
            "data": lambda x, h: pipelines.reproduce("clark2019-table6", data=x),
            "scorers": lambda x, h: pipelines.reproduce("clark2019-table6", scorers=x),
            "scores": lambda x, h: pipelines.reproduce(
                "sun2019-table3", scores=x, ratings=h / "ratings.csv"
            ),
            "ratings": lambda x, h: pipelines.reproduce(
                "sun2019-table3", scores=h / "scores.csv", ratings=x
            ),
        }.items()
    ),
    (
        *(pipelines.reproduce, "out", "scores.csv"),
        lambda x, h: pipelines.reproduce("clark2019-table6", out=x),
    ),
    (
        *(pipelines.score_corpus, "out", "run"),
        lambda x, h: (
            pipelines.score_corpus(
                h / "corpus.parquet", x, metrics="length", local=True, workers=1
            ).means
        ),
    ),
    (
        *(pipelines.score_corpus, "embedding_cache", "s3:"),
        lambda x, h: pipelines.score_corpus(
            h / "none.csv", h / "o", metrics="length", embedding_cache=x, local=True
        ),
    ),
    (pipelines.train_scorer, "out", "run", lambda x, h: pipelines.train_scorer([], x, RECIPE)),
    (
        *(pipelines.train_scorer, "embedding_cache", "kept"),
        lambda x, h: pipelines.train_scorer(h / "none.csv", h / "o", RECIPE, embedding_cache=x),
    ),
    (
        *(pipelines.evaluate_scorer, "embedding_cache", "kept"),
        lambda x, h: pipelines.evaluate_scorer(h / "none", h / "p.csv", embedding_cache=x),
    ),
    (
        *(pipelines.reinforce_summariser, "out", "run"),
        lambda x, h: pipelines.reinforce_summariser([], x, REINFORCED),
    ),
    (
        *(pipelines.reinforce_summariser, "start", "none"),
        lambda x, h: pipelines.reinforce_summariser(
            h / "corpus.parquet", h / "o", REINFORCED, start=x
        ),
    ),
    (
        *(pipelines.write_negatives, "out", "scores.csv"),
        lambda x, h: pipelines.write_negatives([], x, NegativesConfig(kinds=("delete",))),
    ),
    (run_status, "out", "run", lambda x, h: run_status(x)),
    (learning_curve, "out", "run", lambda x, h: learning_curve([], x, RECIPE, [1])),
    *(
        (evaluate_by_ratings, name, "none.csv", call)
        for name, call in {
            "corpus": lambda x, h: evaluate_by_ratings("s", x, h / "ratings.csv"),
            "ratings": lambda x, h: evaluate_by_ratings("s", h / "corpus.parquet", x),
        }.items()
    ),
    (
        *(compare_preferences, "key", "none.csv"),
        lambda x, h: compare_preferences(h / "corpus.parquet", key=x),
    ),
    (load_scorer, "folder", "none", lambda x, h: load_scorer(x)),
    (
        *(load_scorer, "cache_folder", "none"),
        lambda x, h: load_scorer(h / "none", cache_folder=x),
    ),
    (
        *(cluster.column_names, "path", "corpus.parquet"),
        lambda x, h: cluster.column_names(x, "parquet"),
    ),
    (cluster.part_path, "out", "run", lambda x, h: cluster.part_path(x, 0, "abc")),
    (cluster.committed, "out", "run", lambda x, h: cluster.committed(x, [], "abc")),
    (cluster.committed_parts, "out", "run", lambda x, h: cluster.committed_parts(x, [], "abc")),
    (
        *(cluster.reports_from_file, "path", "part-000000-abc.parquet"),
        lambda x, h: cluster.reports_from_file(x),
    ),
    (cluster.write_whole, "path", "written", lambda x, h: cluster.write_whole(x, b"")),
    (Job, "out", "run", lambda x, h: Job(out=x, fingerprint="abc")),
]
SEVERAL_PATHS: list[tuple[Callable[..., object], str, str, Callable[[Any, Path], object]]] = [
    (pipelines.correlate, "scores", "scores.csv", lambda x, h: correlate(h, scores=x)),
    *(
        (pipelines.evaluate_scorer, name, f"none-{name}", call)
        for name, call in {
            "scorers": lambda x, h: pipelines.evaluate_scorer(x, h / "corpus.parquet"),
            "paths": lambda x, h: pipelines.evaluate_scorer([], x),
        }.items()
    ),
    (
        *(pipelines.export_data, "paths", "none.csv"),
        lambda x, h: pipelines.export_data("sacrerouge", x, h / "o"),
    ),
    (
        *(pipelines.import_data, "paths", "none.csv"),
        lambda x, h: pipelines.import_data("newsroom", x, h / "o.parquet"),
    ),
    (
        *(pipelines.open_explainer, "corpora", "corpus.parquet"),
        lambda x, h: pipelines.open_explainer(x, metric="length").page("d0"),
    ),
    (
        *(pipelines.score_corpus, "corpora", "corpus.parquet"),
        lambda x, h: (
            pipelines.score_corpus(x, h / "run", metrics="length", local=True, workers=1).means
        ),
    ),
    (
        *(pipelines.train_scorer, "paths", "none.csv"),
        lambda x, h: pipelines.train_scorer(x, h / "o", RECIPE),
    ),
    (
        *(pipelines.reinforce_summariser, "paths", "none.csv"),
        lambda x, h: pipelines.reinforce_summariser(x, h / "o", REINFORCED),
    ),
    (
        *(pipelines.write_negatives, "paths", "none.csv"),
        lambda x, h: pipelines.write_negatives(
            x, h / "o.parquet", NegativesConfig(kinds=("delete",))
        ),
    ),
    (compare_preferences, "judgements", "none.csv", lambda x, h: compare_preferences(x)),
    (prepare_pairs, "paths", "none.csv", lambda x, h: prepare_pairs(x, h / "o")),
    (learning_curve, "paths", "none.csv", lambda x, h: learning_curve(x, h / "o", RECIPE, [1])),
    (
        *(evaluate_by_ratings, "scorers", "none"),
        lambda x, h: evaluate_by_ratings(x, h / "corpus.parquet", h / "ratings.csv"),
    ),
    (cluster.list_inputs, "corpora", "corpus.parquet", lambda x, h: cluster.list_inputs(x)),
]
SEVERAL_NAMES: list[tuple[Callable[..., object], str, str, Callable[[Any, Path], object]]] = [
    *(
        (pipelines.correlate, name, "nothing", lambda x, h, name=name: correlate(h, **{name: x}))
        for name in (
            *("aspects", "raters", "systems", "exclude_systems", "metrics"),
            *("levels", "coefficients"),
        )
    ),
    *(
        (pipelines.compare_scores, name, value, lambda x, h, name=name: compare(h, **{name: x}))
        for name, value in {"metrics": "length", "systems_a": "s0", "systems_b": "s1"}.items()
    ),
    *(
        (
            *(pipelines.open_explainer, name, value),
            lambda x, h, name=name: pipelines.open_explainer(
                h / "corpus.parquet", metric="length", ratings=h / "ratings.csv", **{name: x}
            ).page("d0"),
        )
        for name, value in {"aspects": "clear", "raters": "r"}.items()
    ),
    (
        *(compare_preferences, "systems", "nobody"),
        lambda x, h: compare_preferences(h / "counts.csv", systems=x),
    ),
    (Explainer.page, "system_ids", "s1", lambda x, h: explainer(h).page("d0", x)),
    (Explainer.explain, "wanted", "s1", lambda x, h: len(explainer(h).explain({"d0": x})["d0"])),
    (
        *(pipelines.evaluate_scorer, "kinds", "delete"),
        lambda x, h: pipelines.evaluate_scorer(h / "none", h / "corpus.parquet", kinds=x),
    ),
    (pipelines.reproduce, "tables", "nothing", lambda x, h: pipelines.reproduce(x)),
    (
        *(pipelines.score_corpus, "metrics", "length"),
        lambda x, h: (
            pipelines.score_corpus(
                h / "corpus.parquet", h / "run", metrics=x, local=True, workers=1
            ).means
        ),
    ),
    (NegativesConfig, "kinds", "delete", lambda x, h: NegativesConfig(kinds=x)),
    (ScoringConfig, "metrics", "length", lambda x, h: ScoringConfig(metrics=x)),
    (score_texts, "metrics", "length", lambda x, h: score_texts(["A cat."], metrics=x).to_pydict()),
    (Reward, "encoder", "minilm", lambda x, h: Reward("rouge1_f", encoder=x).signature),
]


def outcome(call, given, here):
    """What comes of a call, or what it says; never that the kind of the argument is wrong."""
    try:
        return call(given, here)
    except (ValueError, OSError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(("function", "argument", "name", "call"), PATHS)
def test_path_may_be_text_or_path(function, argument, name, call, here):
    as_text, as_path = (outcome(call, form(here / name), here) for form in (str, Path))
    assert as_text == as_path


@pytest.mark.parametrize(("function", "argument", "name", "call"), SEVERAL_PATHS)
def test_one_path_or_several(function, argument, name, call, here):
    path = here / name
    expected = outcome(call, [str(path)], here)
    for given in (str(path), path, [path], (str(path),), iter([path])):
        assert outcome(call, given, here) == expected


@pytest.mark.parametrize(("function", "argument", "name", "call"), SEVERAL_NAMES)
def test_one_name_or_several(function, argument, name, call, here):
    expected = outcome(call, [name], here)
    for given in (name, (name,)):
        assert outcome(call, given, here) == expected


def test_every_argument_that_is_a_path_or_a_list_of_names_is_in_a_table():
    tested = {(case[0], case[1]) for case in (*PATHS, *SEVERAL_PATHS, *SEVERAL_NAMES)}
    missing = []
    for package in ("sms", "sms.explaining", "cluster", "pipelines"):
        module = pipelines if package == "pipelines" else import_module(package)
        for name in getattr(module, "__all__", vars(module)):
            function = getattr(module, name)
            if not inspect.isfunction(function):
                continue
            missing += [
                f"{package}.{name}({parameter.name})"
                for parameter in inspect.signature(function).parameters.values()
                if any(
                    kind in str(parameter.annotation)
                    for kind in ("AnyPath", "OneOrMore", "PathLike", "str | Sequence[str]")
                )
                and parameter.name not in TEXTS
                and (function, parameter.name) not in tested
            ]
    assert not missing
