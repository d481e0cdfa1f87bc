"""`assay score --metrics reffree@DIR`: learned scorers beside the other metrics."""

import json
import shutil
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from reffree.neural.building import build
from reffree.neural.models import ModelConfig
from reffree.scorers.folder import save_scorer
from reffree.scorers.scorer import LinearPairs, load_scorer
from sms.explaining import explain
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from sms.text import words
from tests.reffree.conftest import model_config
from tests.reffree.tiny_bert import make_groups, write_tiny_bert
from tests.torture.breaking import break_everywhere

SIDES = ("candidate", "source")
PAIRS = [(group[0].source, group[0].candidate) for group in make_groups(8)]


def saved(folder, built):
    save_scorer(folder, built, loss="bce", trained_on={}, held_out={}, versions={})
    return folder


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorers")
    config = model_config(encoder=f"hf:{write_tiny_bert(folder / 'bert')}", max_pieces=16)
    return saved(folder / "news", build(config))


def write_corpus(path, rows):
    sources, candidates = zip(*rows, strict=True)
    ids = {"document_id": [f"d{i}" for i in range(len(rows))], "system_id": ["a"] * len(rows)}
    sources = pa.array(sources, pa.list_(pa.string()))
    pq.write_table(pa.table({**ids, "candidate": candidates, "source": sources}), path)
    return path


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "c.parquet", [([s], c) for s, c in PAIRS])


def score(corpus, out, *metrics):
    score_corpus(corpus, ScoreSettings(out=out, metrics=metrics, local=True, workers=1))
    return pl.read_parquet(f"{out}/scores/*.parquet")


def test_scores_are_those_of_the_scorer(scorer, corpus, tmp_path):
    name = f"reffree@{scorer}"
    table = score(corpus, tmp_path / "out", name)
    expected = load_scorer(scorer).score(*zip(*PAIRS, strict=True))
    np.testing.assert_allclose(table[name].to_numpy(), expected.scores, rtol=0, atol=1e-6)
    assert (table[f"cut@{scorer}"] == expected.is_cut).all()
    assert 0 < expected.is_cut.sum() < len(PAIRS)
    cut = [
        "; ".join(
            f"{side}:cut@{scorer}" for side, is_cut in zip(SIDES, cut_sides, strict=True) if is_cut
        )
        for cut_sides in expected.cut
    ]
    assert table["status"].to_list() == [status or None for status in cut]
    assert table.columns[2:5] == [name, f"cut@{scorer}", "status"]
    signatures = json.loads(Path(tmp_path / "out" / "run.json").read_text())["signatures"]
    assert signatures[name] == f"{load_scorer(scorer).signature}|norm:nfc+unmarked"


def test_heads_of_the_scorer_of_the_package_and_their_mean(tmp_path):
    corpus = write_corpus(tmp_path / "c.parquet", [([s, s], c) for s, c in PAIRS] + [([""], "a b")])
    heads = load_scorer("news").heads
    names = ["reffree@news", *(f"reffree@news.{head}" for head in heads)]
    table = score(corpus, tmp_path / "out", *names)
    expected = load_scorer("news")._pairs.score(*zip(*PAIRS, strict=True)).scores
    found = table.select(names).to_numpy()
    np.testing.assert_allclose(found[:-1, 1:], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[:-1, 0], expected.mean(axis=1), rtol=0, atol=1e-12)
    assert table["status"].to_list()[-1] == "source:empty"


def test_explanation_of_a_sum_of_features_adds_up_and_names_the_worst_sentence():
    source = "A storm shut the harbour on Monday. Two ships waited outside. Nobody was hurt."
    invented = "Farmers praised cheaper tractors."
    candidate = f"The storm shut the harbour. {invented} Nobody was hurt."
    for head in ("", ".consistency"):
        found = explain(candidate, source=source, metric=f"reffree@news{head}")
        assert sum(part.score for part in found.parts) == pytest.approx(found.score, abs=1e-12)
        sizes = [abs(part.score) for part in found.parts[:-1]]
        assert sizes == sorted(sizes, reverse=True)
        assert found.parts[-1].feature == "constant"
        behind = {part.feature: part.sentence for part in found.parts if part.sentence}
        assert behind == {"words_least": invented, "copy_least": invented}
    assert explain("", source=source, metric="reffree@news").parts == ()
    found = explain(candidate, source=[source, PAIRS[0][0]], metric="reffree@news.fluency")
    assert sum(part.score for part in found.parts) == pytest.approx(found.score, abs=1e-12)
    assert not [part for part in found.parts if part.sentence]


def test_scorer_of_the_package_is_a_reward():
    from assay import Reward

    reward = Reward("reffree@news.consistency")
    (source, candidate), *_ = PAIRS
    found = reward([candidate, ""], sources=[source, source])
    expected = load_scorer("news.consistency").score([source], [candidate]).scores[0]
    assert found == [pytest.approx(expected), -8.0]
    assert (reward.bounds, reward.higher_is) == ((-8.0, 8.0), "better")


def test_several_sources_count_by_their_mean(scorer, tmp_path):
    (first, candidate), (second, _) = PAIRS[:2]
    rows = [([first, second], candidate), ([first, "", None], candidate), ([], candidate)]
    table = score(write_corpus(tmp_path / "c.parquet", rows), tmp_path / "out", f"reffree@{scorer}")
    expected = load_scorer(scorer).score([first, second], [candidate] * 2).scores
    found = table[f"reffree@{scorer}"].to_list()
    assert found[:2] == pytest.approx([expected.mean(), expected[0]], abs=1e-6)
    assert found[2] is None
    cut = f"source:cut@{scorer}"
    assert table["status"].to_list() == [cut, cut, "source:missing"]


def word_scorer(folder):
    (folder / "vectors.txt").write_text("cat 0.1 0.2\nsat 0.3 0.1\n")
    config = model_config(scorer="word", encoder=f"glove:{folder}/vectors.txt", head="lstm")
    return saved(folder / "words", build(config, [("The cat sat. A cat sat.", "Cat sat.")]))


def test_candidate_that_cannot_be_read_has_a_status(tmp_path, monkeypatch):
    split = words.split_words

    def fail(chunk):
        if chunk == "BROKEN":
            raise ValueError("on purpose")
        return split(chunk)

    monkeypatch.setattr(words, "split_words", fail)
    folder = word_scorer(tmp_path)
    texts = ("A cat.", "Zyx qwv.", "Of the.", "!", "A BROKEN cat.", "A cat sat.")
    rows = [(["The cat sat."], text) for text in texts]
    table = score(write_corpus(tmp_path / "c.parquet", rows), tmp_path / "out", f"reffree@{folder}")
    unknown, broken = (f"candidate:{why}@{folder}" for why in ("no_known_words", "cannot_be_split"))
    statuses = [None, unknown, unknown, "candidate:no_words", broken, None]
    assert table["status"].to_list() == statuses
    found = table[f"reffree@{folder}"].to_list()
    assert [value is None for value in found] == [status is not None for status in statuses]
    alone = load_scorer(folder).score([rows[0][0][0]] * 2, [texts[0], texts[-1]]).scores
    assert found[::5] == pytest.approx(alone.tolist(), abs=1e-6)


def test_text_that_the_tokeniser_fails_on_has_a_status(scorer):
    """Half a character, as a generation that was cut off has at its end."""
    (source, candidate), *_ = PAIRS
    learned = load_scorer(scorer)
    expected = learned.score([source], [candidate]).scores
    half = "A cat \ud83d"
    found = learned.score([source, source, half], [candidate, half, candidate])
    blamed = {1: "candidate", 2: "source"}
    assert found.reasons == {k: ((side, "cannot_be_split"),) for k, side in blamed.items()}
    assert found.scores.tolist() == pytest.approx([expected[0], nan, nan], abs=1e-6, nan_ok=True)


def rows_to_break(n):
    name = f"n{abs(n)}{'a' if n < 0 else 'b'}"
    return to_rows([f"The cat saw {name}x. It sat."], None, [f"A cat saw {name}z. The cat sat."])


def test_learned_scorer_that_broke_off_somewhere_goes_on(tmp_path):
    config = ScoringConfig(metrics=(f"reffree@{word_scorer(tmp_path)}", "rouge1_f:source"))
    pair = [SummaryScorer(config, threads=1, device="cpu") for _ in range(2)]
    for scorer in pair:  # loads all it loads when it is first needed
        scorer.score(rows_to_break(1_000_000))
    break_everywhere(*pair, rows_to_break, iter(range(5, 2_000, 41)))


def test_changed_scorer_is_not_mixed_into_a_run(scorer, corpus, tmp_path):
    shutil.copytree(scorer, tmp_path / "scorer")
    name = f"reffree@{tmp_path / 'scorer'}"
    score(corpus, tmp_path / "out", name)
    model = ModelConfig(**load_scorer(scorer).settings["model"])
    saved(tmp_path / "scorer", build(model, seed=5))
    with pytest.raises(ValueError, match="reffree@"):
        score(corpus, tmp_path / "out", name)


def test_scorers_of_features_are_told_apart_by_their_content(tmp_path):
    news, folder = load_scorer("news").linear, tmp_path / "scorer"
    heads = {name: replace(head, mean=head.mean + 1) for name, head in news.model.heads.items()}
    LinearPairs(replace(news.model, heads=heads), news.features).save(folder)
    config = ScoringConfig(metrics=(f"reffree@{folder}", "reffree@news"))
    trained, packaged = SummaryScorer(config).content.values()  # by which workers know their files
    assert trained != packaged


UNNAMED = (
    "must name a scorer: reffree@news, reffree@DIR from `assay train`, or reffree@hf:OWNER/NAME"
)
REFUSED = {
    **dict.fromkeys(("reffree", "reffree@", "reffree:source"), UNNAMED),
    "reffree@news:reference": "metric 'reffree@news:reference' must end in :source",
    "reffree@news.fluency:": "metric 'reffree@news.fluency:' must end in :source",
    "reffree@no": r"must be a scorer's folder with scorer.json, got none",
    "reffree@news.style": "no head `style` in the scorer; there are coherence",
}


@pytest.mark.parametrize("name", REFUSED)
def test_scorer_that_is_not_there_rejected(name):
    with pytest.raises(ValueError, match=REFUSED[name]):
        SummaryScorer(ScoringConfig(metrics=["rouge1", name]))


def test_statuses_of_every_kind_of_text(scorer):
    (source, candidate), (other, _) = PAIRS[:2]
    long = " ".join(f"word{k}" for k in range(40))
    candidates = [candidate, None, " ", "!", "<t></t>", candidate, candidate, long, candidate]
    sources = [[source], [source], [source], [source], [source], [], None, [other], ["", other]]
    rows = to_rows(candidates, sources=sources)
    learned, name = load_scorer(scorer), f"reffree@{scorer}"
    found = SummaryScorer(ScoringConfig(metrics=(name,)), device="cpu").score(rows)
    expected = learned.score([source, other, other], [candidate, long, candidate]).scores
    np.testing.assert_allclose(found[name].to_numpy()[[0, 7, 8]], expected, atol=1e-6)
    assert found[name].null_count == 6
    told = found["status"].to_pylist()
    assert told[1:7] == [
        "candidate:null", "candidate:empty", "candidate:no_words", "candidate:empty",
        "source:missing", "source:missing",
    ]  # fmt: skip
    assert told[7].startswith(f"candidate:cut@{scorer}")


def test_scorer_may_be_said_to_read_the_source(scorer):
    names = [f"{name}{more}" for name in ("reffree@news.fluency", f"reffree@{scorer}")
             for more in ("", ":source")]  # fmt: skip
    run = SummaryScorer(ScoringConfig(metrics=names))
    (row,) = run.score(to_rows(["The cat sat."], sources=["The cat saw a bird."])).to_pylist()
    assert row[names[0]] == row[names[1]]
    assert row[names[2]] == row[names[3]]
    assert run.signatures[names[0]] == run.signatures[names[1]]
    assert run.signatures[names[2]] == run.signatures[names[3]]


def test_source_is_read_as_far_as_the_run_says(scorer):
    """`source_tokens` holds for all metrics, and the signature says so."""
    names = (f"reffree@{scorer}", "reffree@news.fluency")
    source, candidate = "The cat saw a bird. It sat by the door all day.", "The cat sat."
    cut, whole = (SummaryScorer(ScoringConfig(metrics=names, source_tokens=n)) for n in (5, None))
    expected = whole.score(to_rows([candidate], None, ["The cat saw a bird."])).to_pylist()
    assert cut.score(to_rows([candidate], None, [source])).to_pylist() == expected
    assert whole.score(to_rows([candidate], None, [source])).to_pylist() != expected
    for name in names:
        assert cut.signatures[name] == f"{whole.signatures[name]}|first:5"
    given = SummaryScorer(ScoringConfig(metrics=names, sentences="given"))
    texts = ([["The cat", "sat."]], None, [["The cat saw", "a bird."]])
    sentences = to_rows(*texts, sentences="given")
    assert given.score(sentences).to_pylist() == expected
    explained = explain(candidate, source=source, metric=names[1], source_tokens=5)
    assert sum(part.score for part in explained.parts) == pytest.approx(explained.score)
