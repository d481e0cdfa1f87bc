"""`assay evaluate --ratings`: what a scorer goes by where people have rated."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

import assay
from agreement import partial_correlate
from reffree.building import build
from reffree.scorer import load_scorer
from reffree.scorer_folder import save_scorer
from sms.scoring import score_texts
from tests.rare import run
from tests.reffree.conftest import model_config
from tests.reffree.tiny_bert import make_groups, write_tiny_bert

N_DOCUMENTS, N_SYSTEMS = 4, 6


def evaluate_by_ratings(scorers, corpus, ratings, **given):
    return assay.evaluate(*scorers, (), corpus=corpus, ratings=ratings, **given)


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorers")
    config = model_config(encoder=f"hf:{write_tiny_bert(folder / 'bert')}", max_pieces=30)
    save_scorer(folder / "news", build(config), loss="bce", trained_on={}, held_out={}, versions={})
    return folder / "news"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    found = []
    for i, (good, _) in enumerate(make_groups(N_DOCUMENTS)):
        words = good.source.split()
        found += [
            {
                "document_id": f"d{i}",
                "system_id": f"s{k}",
                "source": good.source,
                "candidate": " ".join(rng.choice(words, size=2 + k)),
                "quality": float(rng.integers(1, 6)) + k,
            }
            for k in range(N_SYSTEMS)
        ]
    return pl.DataFrame(found)


@pytest.fixture
def files(rows, tmp_path):
    corpus, ratings = tmp_path / "corpus.parquet", tmp_path / "ratings.csv"
    rows.drop("quality").write_parquet(corpus)
    rows.select("document_id", "system_id", "quality").write_csv(ratings)
    return corpus, ratings


def matrix(values):
    return np.array(values).reshape(N_DOCUMENTS, N_SYSTEMS).T


def test_figures_match_scipy(scorer, rows, files):
    system, summary = evaluate_by_ratings([scorer], *files)
    scores = matrix(load_scorer(scorer).score(rows["source"], rows["candidate"]).scores)
    ratings = matrix(rows["quality"])
    length = matrix(score_texts(rows["candidate"].to_list(), metrics=("length",))["length"])
    assert (system.level, summary.level) == ("system", "summary")
    assert (system.n_systems, system.n_documents) == (N_SYSTEMS, N_DOCUMENTS)
    expected = spearmanr(scores.mean(1), ratings.mean(1)).statistic
    assert system.with_rating == pytest.approx(expected)
    within = [spearmanr(scores[:, d], ratings[:, d]).statistic for d in range(N_DOCUMENTS)]
    assert summary.with_rating == pytest.approx(np.mean(within))
    within = [spearmanr(scores[:, d], length[:, d]).statistic for d in range(N_DOCUMENTS)]
    assert summary.with_trait["length"] == pytest.approx(np.mean(within))
    partial = partial_correlate(scores, ratings, length, level="summary", coefficient="spearman")
    assert summary.with_rating_given["length"] == pytest.approx(partial.value)
    assert summary.with_rating_given["length"] != pytest.approx(summary.with_rating)


def test_printed_and_written(scorer, files, tmp_path, capsys):
    corpus, ratings = map(str, files)
    figures = tmp_path / "figures.json"
    arguments = ["evaluate", str(scorer), "--corpus", corpus, "--ratings", ratings, "--quiet"]
    assert run([*arguments, "--json", str(figures)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("news and people, spearman")
    assert "score~rating|length" in lines[2]
    first = json.loads(figures.read_text())[0]
    assert lines[3].split()[:5] == [
        "quality", "system", "6", "4", f"{first['with_rating']:.3f}",
    ]  # fmt: skip


def test_columns_of_pairs_corpus_and_ratings_are_named_together(scorer, files, tmp_path):
    corpus, ratings = files
    renamed = tmp_path / "renamed.csv"
    table = pl.read_csv(ratings).with_columns(who=pl.lit("expert-1"))
    table.write_csv(renamed)
    columns = {"rater": "who", "split": "side"}
    expected = evaluate_by_ratings([scorer], corpus, ratings)
    found = evaluate_by_ratings([scorer], corpus, renamed, columns=columns)
    assert [replace(one, notes=[]) for one in found] == expected
    assert found[0].notes == ["Raters: all 1 (expert-1)"]


def test_aspect_called_like_a_metric_is_a_rating(scorer, rows, files, tmp_path):
    corpus, ratings = files
    other = tmp_path / "other.csv"
    pl.read_csv(ratings).rename({"quality": "length"}).write_csv(other)
    expected = evaluate_by_ratings([scorer], corpus, ratings)
    found = evaluate_by_ratings([scorer], corpus, other)
    assert [replace(each, aspect="quality") for each in found] == expected


def test_ratings_without_corpus_rejected(scorer, files, capsys):
    assert run(["evaluate", str(scorer), "--ratings", str(files[1]), "--quiet"]) == 2
    assert "`--corpus` and `--ratings` belong together" in capsys.readouterr().err
