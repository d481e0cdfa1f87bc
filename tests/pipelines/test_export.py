"""`assay export`: what is handed over, its card; `reffree@hf:OWNER/NAME` in what scores."""

import json
import pickle
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from huggingface_hub import ModelCard

import assay
from pipelines.cli.app import run
from pipelines.reports.scorer_card import is_card, scorer_card
from reffree.neural.building import build
from reffree.scorers.folder import save_scorer
from reffree.scorers.naming import PACKAGED
from reffree.scorers.scorer import load_scorer
from tests.commands import wrong
from tests.hub import TOKEN
from tests.pipelines.test_train_model import rated
from tests.reffree.conftest import model_config
from tests.reffree.tiny_bert import make_groups, write_tiny_bert
from tests.row_files import write_rows

# of the library where it sends large files by git LFS
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
NEWS = PACKAGED / "news"
ROWS = [
    {"document_id": f"d{k}", "system_id": "a", "candidate": group[0].candidate + " end.",
     "source": group[0].source}
    for k, group in enumerate(make_groups(6))
]  # fmt: skip
LICENCE = ("--licence", "cc-by-4.0")


@pytest.fixture
def bert(tmp_path):
    """The folder of a neural scorer whose encoder was in a folder of this machine."""
    encoder = f"hf:{write_tiny_bert(tmp_path / 'private' / 'bert')}"
    built = build(model_config(encoder=encoder, max_pieces=16, n_hidden=8), seed=3)
    figures = {"n": 8, "accuracy": 0.75, "auc": 0.8, "preferred": 1.0, "mse": 0.1}
    save_scorer(
        tmp_path / "mine", built, loss="bce", held_out={"cross-pair": figures}, versions={},
        trained_on={"files": ["pairs.parquet"], "pairs": {"train": 30, "test": 4}},
    )  # fmt: skip
    (tmp_path / "mine" / "training").mkdir()
    (tmp_path / "mine" / "training" / "metrics.jsonl").write_text("{}\n")
    (tmp_path / "mine" / "notes.txt").write_text("The text of a rater.")
    return tmp_path / "mine"


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return str(tmp_path / "corpus.jsonl")


def uploaded(folder, name):
    return assay.export("scorer", folder, to=f"hf:{name}", licence="cc-by-4.0").to


def figures_in(card):
    """Read the rows of the table of a card."""
    rows = [line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| ")]
    return rows[0], {row[0]: row[1:] for row in rows[2:]}


# To a folder


def test_folder_scores_as_before_and_has_a_card(tmp_path, capsys):
    out = tmp_path / "given" / "news"
    assert run(["export", "scorer", "news", "--to", str(out), *LICENCE]) == 0
    printed = capsys.readouterr().out
    assert {file.name for file in out.iterdir()} == {"README.md", "scorer.json"}
    sources, candidates = zip(*((row["source"], row["candidate"]) for row in ROWS), strict=True)
    before, after = load_scorer(NEWS), load_scorer(out)
    assert f"Written to {out}: README.md (" in printed
    assert f"Signature: {before.signature}\n" in printed
    np.testing.assert_array_equal(
        before.score(sources, candidates).scores, after.score(sources, candidates).scores
    )
    assert after.signature == before.signature
    card = ModelCard.load(out / "README.md")
    assert card.data.to_dict() == {
        "license": "cc-by-4.0",
        "language": "en",
        "library_name": "assay",
        "tags": ["assay", "summarization", "evaluation", "reference-free"],
    }
    assert f"Signature: `{before.signature}`" in card.text
    assert "Trained on cnndm\\_pairs.parquet." in card.text
    assert "Rows: train 1,474, validation 203, test 161." in card.text
    header, rows = figures_in(card.text)
    assert header == ["mistake", "rows", "AUC", "preferred"]
    held_out = json.loads((NEWS / "scorer.json").read_text())["held_out"]
    assert rows == {
        kind: [f"{one['n']:,}", f"{one['auc']:.3f}", f"{one['preferred']:.3f}"]
        for kind, one in held_out.items()
    }


def test_how_to_use_it_in_the_card_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assay.export("scorer", "news", to="mine", licence="mit")
    pl.DataFrame(ROWS).write_parquet("summaries.parquet")
    card = Path("mine/README.md").read_text()
    command, program = re.findall(r"```\w+\n(.*?)```", card, re.DOTALL)
    assert run([*command.split()[1:], "--quiet"]) == 0
    exec(program)
    assert Path("scores/_SUCCESS").exists()


def test_nothing_but_the_scorer_leaves_and_no_path_of_the_machine(bert, tmp_path):
    exported = assay.export("scorer", bert, to=tmp_path / "out", licence="mit")
    there = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert exported.files == {name: len(data) for name, data in sorted(there.items())}
    assert sorted(there) == [
        "README.md", "scorer.json", "tokenizer.json", "transformer.json", "weights.safetensors",
    ]  # fmt: skip
    assert str(tmp_path).encode() in (bert / "scorer.json").read_bytes()
    assert not [name for name, data in there.items() if b"private" in data or b"/tmp" in data]
    header, rows = figures_in(there["README.md"].decode())
    assert header == ["mistake", "rows", "accuracy", "AUC", "preferred"]
    assert rows == {"cross-pair": ["8", "0.750", "0.800", "1.000"]}
    sources, candidates = zip(*((row["source"], row["candidate"]) for row in ROWS), strict=True)
    before, after = load_scorer(bert), load_scorer(tmp_path / "out")
    np.testing.assert_array_equal(
        before.score(sources, candidates).scores, after.score(sources, candidates).scores
    )
    assert after.signature == before.signature == exported.signature


def test_card_that_was_edited_is_kept(tmp_path, capsys):
    first, second = tmp_path / "a", tmp_path / "b"
    assay.export("scorer", "news", to=first, licence="mit")
    card = (first / "README.md").read_text() + "\nNot for dialogues.\n"
    (first / "README.md").write_text(card)
    words = ["export", "scorer", str(first), "--to", str(second)]
    message = wrong(capsys, (run([*words, *LICENCE]), second))
    assert "README.md has a licence; leave out `--licence`, or edit it there" in message
    assert run(words) == 0
    assert (second / "README.md").read_text() == card


def test_cards_of_ratings_and_of_preferences():
    fit = {
        "aspect": "co|herence",
        "n_fitted": 8,
        "cross_validated": 0.41,
        "others": {"length": None},
    }
    linear = {"scorer": "features", "heads": {"coherence": {}}}
    said = {"signature": "s", "model": linear, "held_out": {"x": fit}}
    said["trained_on"] = {
        "ratings": ["co|herence"],
        "candidates": 1_600,
        "negatives": {"kinds": ["a"]},
    }
    card = scorer_card(said, "hf:me/x", "mit")
    assert "| co\\|herence | 8 | 0.410 | – |" in card
    assert "- Ratings by people of 1,600 summaries: co\\|herence." in card
    assert 'metrics="reffree@hf:me/x")' in card
    assert "Made-up" not in card
    right = {"head": "overall", "n_judged": 20, "n_right": 12.5, "others": {"length": 9.0}}
    said = {
        "signature": "s",
        "model": linear,
        "held_out": {},
        "trained_on": {"preferences": [right]},
    }
    assert "| overall | 20 | 12.500 | 9.000 |" in scorer_card(said, "x", "mit")
    assert is_card(card)
    assert not is_card(card.replace("library_name: assay", "library_name: other"))
    assert not is_card((NEWS / "README.md").read_text())


@pytest.mark.slow
def test_scorer_trained_on_ratings_is_exported(tmp_path, capsys):
    rows, ratings = rated()
    corpus = str(write_rows(tmp_path / "corpus.parquet", rows))
    people = str(write_rows(tmp_path / "ratings.parquet", ratings))
    trained = assay.train(corpus, ratings=people, out=tmp_path / "s")
    assay.export("scorer", trained.out, to=tmp_path / "out", licence="mit")
    header, table = figures_in((tmp_path / "out" / "README.md").read_text())
    fit = trained.fits[0]
    assert header[:3] == ["aspect", "documents fitted to", "this scorer"]
    assert table["quality"][:2] == [str(fit.n_fitted), f"{fit.cross_validated:.3f}"]


WRONG = {
    "what": (["model", "news"], "`WHAT` must be one of scorer, got 'model'"),
    "no-scorer": (["scorer", "{tmp}"], "must be a scorer's folder with scorer.json, got none"),
    "no-licence": (["scorer", "news"], "`--licence ID` is missing: say under which licence"),
    "licence": (["scorer", "news", "--licence", "My own"], "must be the hub's name of a licence"),
    "private": (
        ["scorer", "news", "--private", *LICENCE],
        "`--private` is for a repository on the",
    ),
    "elsewhere": (
        ["scorer", "{tmp}/elsewhere", *LICENCE],
        "reads likelihood@lm, which it does not hold, so",
    ),
    "damaged": (
        ["scorer", "{tmp}/mine", *LICENCE],
        "weights.safetensors` must be the file that was",
    ),
}


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG)
def test_wrong_request_writes_nothing(words, message, bert, tmp_path, capsys):
    said = json.loads((NEWS / "scorer.json").read_text())
    said["model"]["features"] |= {
        "names": ["density", "likelihood@lm"], "models": {"lm": {"path": "/home/me/lm"}},
    }  # fmt: skip
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "scorer.json").write_text(json.dumps(said))
    (bert / "weights.safetensors").write_bytes(b"0")
    out = tmp_path / "out"
    words = [word.replace("{tmp}", str(tmp_path)) for word in words]
    assert message in wrong(capsys, (run(["export", *words, "--to", str(out)]), out))
    assert not out.exists()


def test_folder_with_something_in_it_is_refused(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    words = ["export", "scorer", "news", "--to", str(tmp_path / "out"), *LICENCE]
    assert "must be a new or empty folder, or hf:OWNER/NAME" in wrong(capsys, (run(words), 0))
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine.txt"]


# To the hub, and back by its name


def test_upload_is_loaded_by_name_bit_by_bit(bert, hub, corpus, tmp_path, capsys):
    words = ["export", "scorer", str(bert), "--to", "hf:me/tiny", "--private", *LICENCE]
    assert run(words) == 0
    printed = capsys.readouterr()
    commit = hub.repositories["me/tiny"].refs["main"]
    assert f"Uploaded to {hub.url}/me/tiny as commit {commit}: README.md (" in printed.out
    assert f"the metric reffree@hf:me/tiny; this commit of it is reffree@hf:me/tiny@{commit}\n" in (
        printed.out
    )
    assert TOKEN not in printed.out + printed.err
    sent = hub.files("me/tiny")
    assert not [name for name, data in sent.items() if TOKEN.encode() in data or b"/tmp" in data]
    assert "notes.txt" not in sent
    names = ["reffree@hf:me/tiny", f"reffree@hf:me/tiny@{commit}", f"reffree@{bert}"]
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        given = ["--out", str(out), "--workers", str(workers), "--local", "--quiet"]
        assert run(["score", corpus, "--metrics", ",".join(names), *given]) == 0
        scores = pl.read_parquet(out / "scores/*.parquet")
        for name in names[:2]:
            assert scores[name].to_list() == scores[names[2]].to_list()
        signatures = json.loads((out / "run.json").read_text())["signatures"]
        for name in names[:2]:
            assert signatures[name] == f"{signatures[names[2]]}|hf:me/tiny@{commit}"
        assert TOKEN not in (out / "run.json").read_text()
    assert scores[names[0]].n_unique() > 1


@pytest.mark.slow
def test_workers_without_the_files_fetch_the_commit_that_the_driver_found(
    hub, corpus, tmp_path, monkeypatch
):
    name = uploaded("news", "me/news")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "of_workers"))  # this process has another
    metrics = ["reffree@hf:me/news", "reffree@news"]
    run = assay.score(corpus, metrics=metrics, out=tmp_path / "out", workers=2, local=False)
    scores = run.to_polars()
    assert scores[metrics[0]].to_list() == scores[metrics[1]].to_list()
    assert run.signatures[metrics[0]].endswith(f"|{name}")
    (found,) = (tmp_path / "of_workers").glob("*/snapshots/*/scorer.json")
    assert found.parent.name == name.partition("@")[2]


def test_run_goes_on_with_the_commit_that_it_began_with(hub, corpus, tmp_path):
    def score(*metrics, **settings):
        run = assay.score(corpus, out=tmp_path / "out", metrics=metrics, **settings)
        pinned = [text.rpartition("@")[2] for text in run.signatures.values()]
        return run.n_new_shards, {*pinned}

    files = {"scorer.json": (NEWS / "scorer.json").read_bytes()}
    first = hub.add("me/news", files)
    assert score("reffree@hf:me/news") == (1, {first})
    second = hub.add("me/news", {"scorer.json": (PACKAGED / "general/scorer.json").read_bytes()})
    assert score("reffree@hf:me/news") == (0, {first})
    assert score("reffree@hf:me/news", "reffree@hf:me/news.fluency") == (1, {first})
    by_name = {"metric": "reffree@hf:me/news.fluency", "scores": tmp_path / "out"}
    explained = assay.explain([], **by_name, document="d0", out=tmp_path / "page.html")
    expected = pl.read_parquet(tmp_path / "out/scores/*.parquet")["reffree@hf:me/news.fluency"][0]
    assert explained[0].explanation.score == pytest.approx(expected, abs=1e-9)
    metrics = ("reffree@hf:me/news", "reffree@hf:me/news.fluency")
    assert score(*metrics, fresh=True) == (1, {second})


def test_two_commits_are_not_one_metric(hub, corpus, tmp_path):
    outs = tmp_path / "first", tmp_path / "second"
    for scorer, out in zip(("news", "general"), outs, strict=True):
        hub.add("me/news", {"scorer.json": (PACKAGED / scorer / "scorer.json").read_bytes()})
        assay.score(corpus, out=out, metrics="reffree@hf:me/news")
    ratings = [{"document_id": row["document_id"], "system_id": "a", "good": 1} for row in ROWS]
    pl.DataFrame(ratings).write_csv(tmp_path / "ratings.csv")
    with pytest.raises(ValueError, match="must be computed with the same files in all inputs"):
        assay.correlate([*outs], ratings=tmp_path / "ratings.csv", out=tmp_path / "report")


def test_languages_differ_is_said_before_a_run_begins(hub, corpus, tmp_path, capsys):
    uploaded("news", "me/news")
    words = ["score", corpus, "--metrics", "reffree@hf:me/news", "--language", "de"]
    message = wrong(capsys, (run([*words, "--out", str(tmp_path / "out"), "--quiet"]), 0))
    assert "was trained on texts in English, got `language` de" in message
    assert not (tmp_path / "out").exists()


def test_scorer_and_reward_by_name(hub, offline):
    name = uploaded("news", "me/news")
    rows = [{"candidate": row["candidate"], "source": row["source"]} for row in ROWS]
    expected = [row["reffree@news"] for row in assay.score(rows, metrics="reffree@news")]
    scorer = assay.Scorer(metrics="reffree@hf:me/news")
    assert scorer.signatures["reffree@hf:me/news"].endswith(f"|{name}")
    hub.add("me/news", {"scorer.json": (PACKAGED / "general/scorer.json").read_bytes()})
    for held in (scorer, pickle.loads(pickle.dumps(scorer))):
        assert [row["reffree@hf:me/news"] for row in held(rows)] == expected
    assert [row[f"reffree@{name}"] for row in assay.score(rows, metrics=f"reffree@{name}")] == (
        expected
    )
    reward = assay.Reward(f"reffree@{name}")
    texts = {"references": None, "sources": [row["source"] for row in rows]}
    assert reward.bounds == (-8.0, 8.0)
    assert reward([row["candidate"] for row in rows], **texts) == expected
    assert load_scorer(f"{name}.fluency").head == "fluency"
    offline()
    assert load_scorer(name).signature == load_scorer("news").signature


def test_judge_by_name(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.judge.USUAL", ("length", "density"))
    uploaded("news", "me/news")
    ladder = Path(assay.__file__).parents[1] / "pipelines/examples"
    judged = assay.judge(
        str(ladder / "quality_ladder.jsonl"), ratings=str(ladder / "written_quality.csv"),
        metrics=["reffree@hf:me/news", "reffree@news"], resamples=50, out=tmp_path / "judged",
    )  # fmt: skip
    assert "reffree@hf:me/news" in judged.text()
