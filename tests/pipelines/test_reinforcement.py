"""`assay reinforce`: from files to a table, after a stop, with a model's folder, wrong requests."""

import json

import pyarrow.parquet as pq
import pytest
import torch

from pipelines import reinforcement as module
from pipelines.cli.app import run
from reinforce.learning import load_summariser
from tests.commands import wrong
from tests.pipelines.test_train_model import resumed
from tests.reinforce.conftest import known_words, make_documents
from tests.reinforce.tiny_models import write_tiny_model
from tests.row_files import write_rows

N = 30

pytestmark = pytest.mark.usefixtures("one_thread")


def rows_of(n):
    return [
        {
            "document_id": one.document_id,
            "split": "train" if i < n - 10 else "dev" if i < n - 5 else "test",
            "source": one.source,
            "references": list(one.references),
        }
        for i, one in enumerate(make_documents(n))
    ]


@pytest.fixture
def pairs(tmp_path):
    return write_rows(tmp_path / "pairs.parquet", rows_of(N))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Word vectors of all words but the names: quicker than a neural model."""
    path = tmp_path_factory.mktemp("vectors") / "glove.txt"
    lines = [f"{word} {k % 5} {k % 7} 1" for k, word in enumerate(known_words().words[4:])]
    path.write_text("\n".join(lines))
    return f"glove:{path}"


@pytest.fixture
def reinforce(pairs, encoder, tmp_path):
    """Run `assay reinforce` and return exit status and folder."""

    def call(*options, out="out", corpus=pairs):
        folder = tmp_path / out
        fixed = [
            "--hidden", "8", "--dimensions", "8", "--summary-words", "6",
            "--epochs", "2", "--mixed-epochs", "2", "--batch-size", "5", "--threads", "1",
            "--log-steps", "2", "--mixed-learning-rate", "1e-3", "--beam", "2",
            "--encoder", encoder,
        ]  # fmt: skip
        if "--reward" not in options:
            fixed += ["--reward", "rougeL_f"]
        arguments = ["reinforce", str(corpus), "--out", str(folder), *fixed, "--quiet"]
        return run([*arguments, *map(str, options)]), folder

    return call


def weights_of(folder):
    return load_summariser(folder).module.state_dict()


@pytest.mark.slow
def test_summarisers_summaries_and_scores(reinforce, capsys, tmp_path):
    status, folder = reinforce("--reward", "rougeL_f,rouge1_f")
    assert status == 0
    shown = capsys.readouterr().out
    systems = ["lead-3", "mle", "mle+mle", "mle+rougeL_f", "mle+rouge1_f"]
    summaries = pq.read_table(folder / "summaries.parquet").to_pylist()
    assert len(summaries) == 5 * 5
    assert [row["system_id"] for row in summaries[::5]] == systems
    assert summaries[0]["candidate"] == summaries[0]["source"]  # two sentences are all there are
    (part,) = (folder / "scores" / "scores").glob("part-*.parquet")
    scored = pq.read_table(part).to_pylist()
    assert len(scored) == len(summaries)
    assert {"rouge1_f", "rouge2_f", "rougeL_f", "wms", "sms", "s+wms", "length"} <= set(scored[0])
    assert "rougeL_f" in shown
    assert all(system in shown for system in systems)
    compared = ["compare", str(folder / "scores"), str(folder / "scores"), "--systems-a", "lead-3"]
    assert run([*compared, "--systems-b", "mle"]) == 0
    assert {path.name for path in (folder / "training").iterdir()} == set(systems[1:])
    assert (folder / "training" / "mle+rouge1_f" / "metrics.jsonl").exists()
    about = json.loads((folder / "mle+rouge1_f" / "training.json").read_text())
    assert about["reward"]["metric"] == "rouge1_f"
    about = json.loads((folder / "mle+mle" / "training.json").read_text())
    assert (about["stage"], about["reward"]["gamma_last"]) == ("control", 0)
    assert "already holds a finished run" in wrong(
        capsys, reinforce("--reward", "rougeL_f,rouge1_f")
    )


@pytest.mark.slow
def test_sum_that_is_held_near_its_start(reinforce, capsys):
    options = ["--no-control", "--drawn", 2, "--decay", "--kl", 0.1]
    status, folder = reinforce("--reward", "rougeL_f - .1*novelty", *options)
    assert status == 0
    assert "novelty" in capsys.readouterr().out  # what is rewarded is compared, too
    names = ["mle", "mle+rougeL_f---.1-novelty"]
    assert {path.name for path in (folder / "training").iterdir()} == set(names)
    likely, rewarded = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (folder / "training" / name / "metrics.jsonl" for name in names)
    )
    assert likely[-1]["learning_rate"] == 0
    figures = {figure for line in rewarded for figure in line}
    assert {"reward[rougeL_f]", "reward[novelty]", "kl"} <= figures - set(likely[-1])


@pytest.mark.slow
def test_interrupted_run_goes_on_to_the_same_weights(reinforce, capsys):
    _, whole = reinforce(out="whole")

    def is_reached(news):
        return "reward_drawn" in news.figures and news.step >= 6

    stopped = resumed(
        reinforce, ("--checkpoint-steps", 3), capsys, module, "learn_stage", is_reached
    )
    for name in ("mle", "mle+rougeL_f"):
        first, second = weights_of(whole / name), weights_of(stopped / name)
        assert all(torch.equal(first[key], second[key]) for key in first)
    first, second = (pq.read_table(folder / "summaries.parquet") for folder in (whole, stopped))
    assert first.equals(second)


@pytest.mark.slow
def test_another_reward_begins_with_an_earlier_run(reinforce, capsys):
    _, first = reinforce(out="first")
    status, second = reinforce("--start", first / "mle", "--reward", "rouge2_f", out="second")
    assert status == 0
    one, two = weights_of(first / "mle"), weights_of(second / "mle")
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not (second / "training" / "mle").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_model_of_transformers(reinforce, tmp_path):
    texts = [row["source"] for row in rows_of(N)]
    model = write_tiny_model(tmp_path / "bart", "bart", texts)
    status, folder = reinforce("--model", f"hf:{model}", "--epochs", 1, "--mixed-epochs", 1)
    assert status == 0
    assert (folder / "mle+rougeL_f" / "config.json").exists()
    assert pq.read_table(folder / "summaries.parquet").num_rows == 4 * 5


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--reward", "rougeL"), "a reward must be one column, got rougeL_p, rougeL_r, rougeL_f"),
        (("--reward", "sms - length"), "`undefined` must be a finite number for sms - length"),
        (("--reward", "sms,sms"), "`reward` must not name a metric twice"),
        (("--gamma", "0.9", "--gamma-last", "0.5"), "must be in [0, 1] and not fall"),
        (("--model", "bert"), "`model` must be pointer or hf:PATH, got 'bert'"),
        (("--vectors", "minilm"), "`vectors` must be glove:PATH, word2vec:PATH or fasttext:PATH"),
        (("--start", "nowhere"), "`start` must be a summariser's folder, got nowhere"),
        (("--limit", "3"), "train, validation and test must have pairs"),
        (("--drawn", "0"), "`drawn` must be at least 1"),
        (("--dropout", "1"), "`dropout` must be in [0, 1), got 1"),
        (("--kl", "-1"), "`kl` must be at least 0, got -1"),
    ],
)
def test_wrong_request_leaves_nothing(options, rule, reinforce, capsys, tmp_path):
    assert rule in wrong(capsys, reinforce(*options))
    assert not (tmp_path / "out").exists()


def test_foreign_folder_rejected(reinforce, capsys, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("keep me")
    assert "must be a new or empty folder" in wrong(capsys, reinforce())
    assert (tmp_path / "out" / "letter.txt").exists()


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*")
def test_two_workers_learn_what_one_learns(reinforce):
    pytest.importorskip("tensorboardX", reason="needs Ray Train; pip install 'assay[train]'")
    _, one = reinforce("--batch-size", 6, out="one")
    status, two = reinforce("--batch-size", 6, "--workers", 2, out="two")
    assert status == 0
    # Without chance in it the first stage is the same; the second draws in every process.
    first, second = weights_of(one / "mle"), weights_of(two / "mle")
    for name in first:
        torch.testing.assert_close(first[name], second[name], atol=1e-4, rtol=1e-3)
    assert (two / "mle+rougeL_f" / "summariser.json").exists()
