"""`assay train` and `assay evaluate`: from files to figures, after a stop, wrong requests."""

import json
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.special import logit
from scipy.stats import pearsonr, rankdata

import assay
from cluster import list_inputs, with_content
from pipelines import train as module
from pipelines.cli.app import run
from pipelines.settings.train import TrainSettings
from pipelines.train_model import train_fingerprint
from pipelines.train_on_ratings import agreement_inside
from reffree.features.aspects import GENERAL_HEADS
from reffree.scorers.fitting import RECIPES, fit_scorer
from reffree.scorers.naming import PACKAGED
from reffree.scorers.scorer import load_scorer
from tests.commands import wrong
from tests.reffree.judges.tiny_judges import write_classifier
from tests.reffree.tiny_bert import write_tiny_bert
from tests.row_files import write_rows

N = 40
KEPT = ("document_id", "source", "candidate")

pytestmark = pytest.mark.usefixtures("one_thread")


def rows_of(n, *, prefix="d"):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        words = [f"word{k}" for k in rng.permutation(40)[:8]]
        reference = f"{' '.join(words[:4])} {prefix}{i}."
        source = f"{' '.join(words)}. Then {' '.join(words[:4])} end{prefix}{i}."
        rows.append({"document_id": f"{prefix}{i}", "source": source, "reference": reference})
    return rows


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return f"hf:{write_tiny_bert(tmp_path_factory.mktemp('tiny'))}"


@pytest.fixture
def pairs(tmp_path):
    return write_rows(tmp_path / "pairs.parquet", rows_of(N))


@pytest.fixture
def train(encoder, pairs, tmp_path):
    """Run `assay train` and return exit status and folder."""

    def call(*options, out="scorer", corpus=pairs):
        folder = tmp_path / out
        fixed = ["--encoder", encoder, "--epochs", "2", "--batch-size", "8"]
        if "--scorer" not in options:
            fixed += ["--scorer", "bert", "--max-pieces", "60"]
        arguments = ["train", str(corpus), "--out", str(folder), *fixed, "--quiet"]
        return run([*arguments, *map(str, options)]), folder

    return call


@pytest.fixture
def judged(tmp_path):
    """Run `assay evaluate` and return its figures."""

    def call(*arguments):
        path = tmp_path / "figures.json"
        assert run(["evaluate", *map(str, arguments), "--json", str(path), "--quiet"]) == 0
        return json.loads(path.read_text())

    return call


def settings_of(folder):
    return json.loads((folder / "scorer.json").read_text())


def weights_of(folder):
    return load_scorer(folder)._pairs._model.state_dict()


def news(n=30):
    """Documents of sentences that can be told apart, and what to say of them."""
    rows = []
    for i in range(n):
        said = [
            f"Mayor Bell{i} opened the northern bridge on Monday.",
            f"It had cost {i + 2} million euros since May.",
            f"Carl Dunn{i} said the {i + 3} trains would not return.",
            f"Rain fell on the quiet town{i} all day long.",
            f"Nobody{i} was hurt when the {i + 5} lamps went out.",
        ]
        reference = f"Mayor Bell{i} opened a bridge. It cost {i + 2} million euros."
        rows.append({"document_id": f"n{i}", "source": " ".join(said), "reference": reference})
    return rows


@pytest.fixture
def stories(tmp_path):
    return write_rows(tmp_path / "stories.parquet", news())


def test_default_is_a_head_for_each_aspect_also_of_a_table(stories, judged, tmp_path, capsys):
    assert run(["train", str(stories), "--out", str(tmp_path / "scorer"), "--quiet"]) == 0
    settings = settings_of(tmp_path / "scorer")
    assert "|heads:coherence+consistency+fluency+relevance|" in settings["signature"]
    assert settings["trained_on"]["negatives"]["positives"] == ["reference", "lead", "extract"]
    assert settings["held_out"]["consistency: exchange"]["accuracy"] is None
    assert [path.name for path in (tmp_path / "scorer").iterdir()] == ["scorer.json"]
    assert "relevance: cross-pair" in capsys.readouterr().out
    (result,) = judged(f"{tmp_path}/scorer.fluency", stories, "--negatives", "swap")
    assert set(result["kinds"]) == {"swap"}
    table, other = tmp_path / "table.parquet", tmp_path / "other"
    assert run(["negatives", str(stories), "--out", str(table), "--quiet"]) == 0
    assert run(["train", str(table), "--out", str(other), "--quiet"]) == 0
    for part in ("model", "held_out"):
        assert settings_of(other)[part] == settings[part]


@pytest.mark.slow
def test_recipe_is_chosen_by_a_development_set(stories, tmp_path, capsys):
    rows, ratings = rated()
    dev = ["--dev-corpus", str(write_rows(tmp_path / "corpus.parquet", rows))]
    given = ["train", str(stories), "--out", str(tmp_path / "s"), "--quiet", *dev]
    assert "belong together; give both" in wrong(capsys, (run(given), None))
    people = write_rows(tmp_path / "ratings.parquet", ratings)
    assert run([*given, "--dev-ratings", str(people)]) == 0
    printed = capsys.readouterr().out
    assert "Tried 4 recipes on the development set (rank correlation inside documents" in printed
    tried = settings_of(tmp_path / "s")["trained_on"]["recipes"]
    assert set(tried) == set(RECIPES)
    assert list(tried.values()) == sorted(tried.values(), reverse=True)
    names, sources, texts = ([row[name] for row in rows] for name in KEPT)
    scores = load_scorer(tmp_path / "s").score(sources, texts).scores
    lengths = np.array([float(len(text.split())) for text in texts])
    quality = np.array([rating["quality"] for rating in ratings])  # in the same order
    reached = agreement_inside(scores, quality, lengths, np.unique(names, return_inverse=True)[1])
    assert reached == pytest.approx(max(tried.values()), abs=1e-9)


def test_agreement_inside_documents_matches_scipy():
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(4), 6)
    scores, ratings, given = rng.normal(size=(3, 24))
    three = np.array([scores, ratings, given]).reshape(3, 4, 6)
    ranks = (rankdata(three, axis=2) - 3.5).reshape(3, 24)
    left = [ranked - ranks[2] * (ranked @ ranks[2]) / (ranks[2] @ ranks[2]) for ranked in ranks[:2]]
    expected = pearsonr(*left).statistic
    assert agreement_inside(scores, ratings, given, documents) == pytest.approx(expected)
    assert np.isnan(agreement_inside(np.ones(24), ratings, given, documents))
    alike = agreement_inside(scores, ratings, np.ones(24), documents)
    assert alike == pytest.approx(pearsonr(ranks[0], ranks[1]).statistic)


@pytest.mark.slow
def test_metrics_of_the_configuration_become_features(stories, tmp_path, capsys):
    config, out = tmp_path / "c.toml", tmp_path / "s"
    config.write_text(
        f'metrics = ["pair@nli"]\n[models.nli]\npath = "{write_classifier(tmp_path / "nli")}"\n'
    )
    given = ["train", str(stories), "--out", str(out), "--config", str(config), "--quiet"]
    assert run(given) == 0
    features = settings_of(out)["model"]["features"]
    assert features["names"][-1] == "pair@nli"
    assert features["paths"] == {"pair@nli": str(tmp_path / "nli")}
    config.write_text('metrics = ["pair@nli"]\nmodels.nli = "s3://bucket/nli"\n')
    given[3] = str(tmp_path / "other")
    assert "`pair@nli` must name files on a disk" in wrong(capsys, (run(given), None))


def rated(n=12):
    """Candidates of six systems, rated by how much of the reference they have."""
    rows, ratings = [], []
    for row in news(n):
        words = row["reference"].split()
        for k in range(6):
            ids = {"document_id": row["document_id"], "system_id": f"s{k}"}
            text = " ".join(words[: len(words) - k]) + " zyx" * k
            rows.append({**ids, "candidate": text, "source": row["source"]})
            ratings.append({**ids, "quality": 5.0 - k})
    return rows, ratings


@pytest.mark.parametrize(
    ("scorer", "settings", "name"),
    [
        ("features", {"max_pieces": 8}, "max_pieces"),
        ("word", {"max_pieces": 8}, "max_pieces"),
        ("sentence with the head cnn", {"head": "cnn", "dropout": 0.5}, "dropout"),
        ("bert", {"dropout": 0.5}, "dropout"),
        ("features", {"preset": "bao2020"}, "preset"),
        ("word", {"preset": "general"}, "preset"),
    ],
)
def test_option_that_would_not_be_read_is_rejected(scorer, settings, name):
    asked = TrainSettings(out="o", scorer=scorer.split()[0], **settings)
    with pytest.raises(ValueError, match=f"`{name}` is not for the scorer {scorer}.*; leave it ou"):
        asked.recipe()


def test_recipes_follow_from_the_settings():
    def recipe(**settings):
        return TrainSettings(out="o", **settings).recipe()

    # naming the default negatives changes nothing
    assert recipe(scorer="bert") == recipe(scorer="bert", negatives=("cross-pair",))
    kinds = recipe().negatives.kinds
    assert recipe(negatives=kinds).negatives.kinds == kinds
    drawn = recipe(scorer="bert", negatives=("cross-pair-hard=2", "delete=1"))
    assert drawn.negatives.proportions == (2.0, 1.0)
    training = drawn.training
    assert (training.loss, training.learning_rate, training.epochs) == ("bce", 5e-5, 10)
    # the preset trains heads over vectors by RMSprop, and does not calibrate unless asked
    published = recipe(preset="bao2020", scorer="sentence")
    assert (published.training.optimiser, published.training.learning_rate) == ("rmsprop", 1e-3)
    assert recipe(preset="bao2020").training.optimiser == "adamw"
    assert recipe(scorer="bert", negatives=("add",)).model.is_calibrated
    assert not published.model.is_calibrated
    assert recipe(preset="bao2020", calibration=True).model.is_calibrated
    general = recipe(preset="general")
    assert general.heads == GENERAL_HEADS
    assert general.negatives.kinds == GENERAL_HEADS.all_kinds
    assert (general.is_by_kind, recipe().is_by_kind) == (True, False)


def test_kinds_of_text_count_the_same_whatever_their_number(tmp_path, monkeypatch):
    """Their documents have the same names, and are not compared with each other."""
    fitted = {}

    def spy(examples, *given, **options):
        fitted["examples"] = examples
        return fit_scorer(examples, *given, **options)

    monkeypatch.setattr("pipelines.train_features.fit_scorer", spy)
    files = []
    for name, n in (("many", 60), ("few", 30)):
        rows = [row | {"source": f"{name} said so. {row['source']}"} for row in news(n)]
        files.append(write_rows(tmp_path / f"{name}.jsonl", rows))
    assay.train(files, out=tmp_path / "scorer", preset="general")
    examples = fitted["examples"]
    weight_of, documents = Counter(), {}
    for one in examples:
        kind = one.source.split()[0]
        documents.setdefault(kind, set()).add(one.document_id)
        weight_of[one.document_id] = one.weight
    n_documents = {kind: len(ids) for kind, ids in documents.items()}
    assert n_documents["many"] > n_documents["few"]
    assert not documents["many"] & documents["few"]
    sums = [sum(weight_of[name] for name in ids) for ids in documents.values()]
    assert sums[0] == pytest.approx(sums[1])
    assert list(load_scorer(tmp_path / "scorer").heads) == list(GENERAL_HEADS.kinds)


def test_another_device_or_precision_does_not_go_on(pairs):
    inputs = with_content(list_inputs([str(pairs)]))
    asked = [
        TrainSettings(out="o", scorer="bert", precision=precision, **machines)
        for precision in ("fp32", "bf16")
        for machines in ({"device": "cpu"}, {"gpus_per_worker": 1.0})
    ]
    assert len({train_fingerprint(inputs, one.recipe(), one) for one in asked}) == 4


def test_trained_folder_can_be_loaded_and_judged(train, pairs, judged, capsys):
    status, folder = train("--negatives", "cross-pair,add,delete,replace")
    assert status == 0
    assert "scorer:bert" in capsys.readouterr().out
    settings = settings_of(folder)
    assert sum(settings["trained_on"]["pairs"].values()) == N
    assert set(settings["held_out"]) == {"cross-pair", "add", "delete", "replace"}
    assert {"accuracy", "auc", "mse", "pearson"} <= set(settings["held_out"]["add"])
    assert [path.name for path in (folder / "training").iterdir()] == ["metrics.jsonl"]
    (result,) = judged(folder, pairs)
    assert {"score~length", "score~density", "score~label|traits"} <= set(result["confounders"])
    for kind, held_out in settings["held_out"].items():
        assert result["kinds"][kind] == pytest.approx(held_out, abs=1e-6)


@pytest.mark.slow
def test_calibrated_unless_asked_otherwise(train):
    _, plain = train("--no-calibration", out="plain")
    _, folder = train()
    scale, shift = settings_of(folder)["trained_on"]["calibration"].values()
    assert (scale, shift) != (1.0, 0.0)
    texts = [[row[name] for row in rows_of(3, prefix="x")] for name in ("source", "reference")]
    bare, found = (logit(load_scorer(one).score(*texts).scores) for one in (plain, folder))
    assert found == pytest.approx(scale * bare + shift, abs=1e-5)
    assert "calibration" not in settings_of(plain)["trained_on"]
    assert load_scorer(plain).signature != load_scorer(folder).signature


@pytest.mark.slow
def test_matrix_of_domains(train, pairs, judged, tmp_path, capsys):
    _, folder = train("--negatives", "cross-pair,add")
    (tmp_path / "other").mkdir()
    other = write_rows(tmp_path / "other" / "pairs.parquet", rows_of(30, prefix="e"))
    _, second = train("--negatives", "add", "--seed", 1, out="second")
    capsys.readouterr()
    results = judged(folder, pairs, other, "--also", second)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    accuracies = [f"{result['kinds']['cross-pair']['accuracy']:.3f}" for result in results[:2]]
    # files of one name are told apart
    assert lines[0] == ["cross-pair,", "accuracy", f"{tmp_path.name}/pairs", "other/pairs"]
    assert lines[1] == [str(folder), *accuracies]
    assert lines[2] == [str(second), "–", "–"]
    line = wrong(capsys, (run(["evaluate", str(folder), str(pairs), str(pairs)]), None))
    assert "the files of pairs must have different names" in line


def test_documents_it_was_trained_on_are_not_judged(train, tmp_path, capsys):
    sides = ["train"] * 20 + ["validation"] * 5 + ["test"] * (N - 25)
    rows = [{**row, "split": side} for row, side in zip(rows_of(N), sides, strict=True)]
    corpus = write_rows(tmp_path / "split.parquet", rows)
    status, folder = train("--negatives", "cross-pair", "--split-anew", corpus=corpus)
    assert status == 0
    capsys.readouterr()
    line = wrong(capsys, (run(["evaluate", str(folder), str(corpus), "--quiet"]), None))
    assert "was trained on some documents of" in line
    assert run(["evaluate", str(folder), str(corpus), "--split-anew", "--quiet"]) == 0


def test_negatives_that_nobody_knows_are_refused_in_one_line(pairs, tmp_path, capsys):
    folder = tmp_path / "scorer"
    folder.mkdir()
    settings = json.loads((PACKAGED / "news" / "scorer.json").read_text())
    settings["trained_on"]["negatives"]["per_positive"] = 2
    (folder / "scorer.json").write_text(json.dumps(settings))
    line = wrong(capsys, (run(["evaluate", str(folder), str(pairs), "--quiet"]), None))
    assert f"`{folder}/scorer.json` must be as this version of assay writes it, got another" in line
    assert "per_positive" in line


def resumed(train, options, capsys, module, name, is_reached):
    """Train, interrupted where `is_reached`, refused with another seed, and go on to the end."""
    learn = getattr(module, name)

    def interrupted(*job, **given):
        def stop(news):
            if is_reached(news):
                raise KeyboardInterrupt

        return learn(*job, **given | {"on_news": stop})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, name, interrupted)
        status, _ = train(*options, out="stopped")
    assert status == 130
    assert "run the same command (without `--fresh`) to continue" in capsys.readouterr().err
    other = train(*options, "--seed", 1, out="stopped")
    assert "other data, options" in wrong(capsys, other)
    status, stopped = train(*options, out="stopped")
    assert status == 0
    return stopped


@pytest.mark.slow
def test_interrupted_training_goes_on_to_the_same_weights(train, capsys):
    options = ("--checkpoint-steps", 5)
    _, expected = train(*options, out="expected")
    stopped = resumed(train, options, capsys, module, "learn", lambda news: news.step >= 12)
    first, second = map(weights_of, (expected, stopped))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_sentence_scorers_are_judged_together_as_alone(train, pairs, judged):
    options = ("--scorer", "sentence", "--head", "lstm", "--negatives", "cross-pair")
    folders = [train(*options, "--seed", seed, out=f"of-{seed}")[1] for seed in (0, 1)]
    model = settings_of(folders[0])["model"]
    assert (model["document_length"], model["summary_length"]) == (2, 1)
    assert not (folders[0] / "training" / "embeddings").exists()
    alone = [result for folder in folders for result in judged(folder, pairs)]
    assert judged(folders[0], pairs, "--also", folders[1]) == alone


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--scorer", "tree"), "`scorer` must be one of bert, sentence, word, features"),
        (("--workers", "0"), "`workers` must be at least 1, got 0"),
        (("--negatives", "sentence-shuffle"), "no negatives can be made for"),
        (("--limit", "2"), "train, validation and test must have pairs"),
        (("--seed", str(2**64)), "`seed` must be from 0 to 4294967295, got 18446744073709551616"),
        (("--ema-decay", "1"), "`ema_decay` must be in [0, 1), got 1"),
        (("--scorer", "word", "--encoder", "st:x"), "must have vectors of words for the scorer w"),
        (("--learning-curve", "6,12"), "`learning_curve` belongs to `ratings`; give both"),
    ],
)
def test_wrong_request_leaves_nothing(options, rule, train, capsys, tmp_path):
    assert rule in wrong(capsys, train(*options))
    assert not (tmp_path / "scorer").exists()


def test_workers_without_ray_train_rejected(train, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.train", None)
    monkeypatch.setattr(
        "pipelines.training_runs.call_apart", lambda function, *given, **_: function(*given, print)
    )
    line = wrong(capsys, train("--workers", 2))
    assert "`--workers` needs Ray Train; pip install 'assay[train]'" in line
    assert not (tmp_path / "scorer").exists()
