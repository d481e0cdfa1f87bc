"""`assay score --metrics likelihood@LM`: directions, values, statuses, explanations and rewards."""

import json

import numpy as np
import polars as pl
import pytest

from pipelines.cli.app import run
from pipelines.explain import open_explainer
from pipelines.score import score_corpus
from pipelines.settings.explain import ExplainSettings
from pipelines.settings.score import ScoreSettings
from reffree.likelihood.model import LanguageModel
from reffree.likelihood.settings import LikelihoodSettings
from sms.reward import Reward
from sms.scoring import ScoringConfig, SummaryScorer, score_texts, to_rows
from tests.commands import page_of
from tests.reinforce.tiny_models import write_tiny_model

SOURCES = [
    "The cat sat on the mat. A dog slept near it. Nobody woke the dog. It was a long day.",
    "The bridge is closed for weeks. Cars use the ring road.",
]
CANDIDATES = ["A cat sat. The dog slept.", "The bridge is closed."]
REFERENCES = [["A cat sat on a mat.", "A dog slept, and the cat sat."], ["Bridge closed."]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("lm") / "llama", "llama", SOURCES)


def table_of(folder, name, candidates, references=None, sources=None, *, settings=None, **options):
    models = {"lm": {"path": str(folder)} | (settings or {})}
    given = {"references": references, "sources": sources}
    return score_texts(candidates, **given, metrics=(name,), models=models, **options)


def means(folder, contexts, texts, prompt=None):
    model = LanguageModel.load(str(folder), LikelihoodSettings(prompt=prompt))
    found = model.log_probabilities(contexts, texts).log_p
    return np.array([found[row].mean() for row in range(len(texts))])


def test_candidate_after_its_source(folder):
    expected = means(folder, SOURCES, CANDIDATES)
    for name in ("likelihood@lm", "likelihood@lm:source", f"likelihood@{folder}:source"):
        table = table_of(folder, name, CANDIDATES, sources=SOURCES)
        np.testing.assert_allclose(table[name].to_numpy(), expected, atol=1e-6)
        assert table.column_names == [name, name.replace("likelihood", "cut"), "status"]
        assert table["status"].to_pylist() == [None, None]
    several = table_of(folder, "likelihood@lm", CANDIDATES[:1], sources=[[*SOURCES, "", None]])
    mean = means(folder, SOURCES, CANDIDATES[:1] * 2).mean()
    assert several["likelihood@lm"].to_pylist() == [pytest.approx(mean, abs=1e-6)]
    cut = table_of(folder, "likelihood@lm", CANDIDATES[:1], sources=SOURCES[:1], source_tokens=4)
    (expected,) = means(folder, ["The cat sat on"], CANDIDATES[:1])
    assert cut["likelihood@lm"].to_pylist() == [pytest.approx(expected, abs=1e-6)]


@pytest.mark.parametrize(
    ("how", "of"), [("best", np.max), ("mean", np.mean), ("first", lambda x: x[0])]
)
def test_reference_goes_both_ways(how, of, folder):
    name, text = "likelihood@lm:reference", CANDIDATES[0]
    table = table_of(folder, name, [text], REFERENCES[:1], multi_reference=how)
    p, r = means(folder, REFERENCES[0], [text] * 2), means(folder, [text] * 2, REFERENCES[0])
    for part, values in (("p", p), ("r", r), ("f", (p + r) / 2)):
        found = table[f"likelihood_{part}@lm:reference"].to_pylist()
        assert found == [pytest.approx(of(values), abs=1e-6)]
    one = table_of(folder, "likelihood_f@lm:reference", [text], REFERENCES[:1], multi_reference=how)
    assert one["likelihood_f@lm:reference"] == table["likelihood_f@lm:reference"]


def test_recall_is_the_lead_after_the_candidate(folder):
    name = "likelihood@lm:recall"
    table = table_of(folder, name, CANDIDATES, sources=SOURCES, settings={"lead": 2})
    leads = ["The cat sat on the mat. A dog slept near it.", SOURCES[1]]
    np.testing.assert_allclose(table[name].to_numpy(), means(folder, CANDIDATES, leads), atol=1e-6)


def test_values_are_what_their_names_say(folder):
    model = LanguageModel.load(str(folder))
    found = model.log_probabilities(SOURCES[:1] * 2, [CANDIDATES[0], "A cat sat."])
    both, n_first = found.log_p[0], found.log_p.lengths[1]
    alone = model.log_probabilities([""], CANDIDATES[:1]).log_p[0]
    worst = min(both[:n_first].mean(), both[n_first:].mean())
    for settings, expected in (
        ({"value": "sum"}, both.sum()),
        ({"value": "worst"}, worst),
        ({"value": "mean"}, both.mean()),
        ({"value": "low"}, np.quantile(both, 0.1)),
        ({"pmi": True}, (both - alone).mean()),
    ):
        given = {"sources": SOURCES[:1], "settings": settings}
        table = table_of(folder, "likelihood@lm", CANDIDATES[:1], **given)
        assert table["likelihood@lm"].to_pylist() == [pytest.approx(expected, abs=1e-5)]
    cut = [["A cat sat.", "The dog slept."]]
    given = {"sources": [[[SOURCES[0]]]], "settings": {"value": "worst"}, "sentences": "given"}
    table = table_of(folder, "likelihood@lm", cut, **given)  # the same text
    assert table["likelihood@lm"].to_pylist() == [pytest.approx(worst, abs=1e-5)]


def test_reference_that_cannot_be_split_leaves_no_score(folder):
    """A text with a mark of the model cannot, where the prompt has one, and might be the best."""
    settings = {"prompt": "Read: {context}<pad>In short: {text}"}
    references = [["A cat <pad> sat.", *REFERENCES[0]], REFERENCES[1]]
    name = "likelihood@lm:reference"
    table = table_of(folder, name, CANDIDATES, references, settings=settings)
    for part in "prf":
        scores = table[f"likelihood_{part}@lm:reference"].to_pylist()
        assert [score is None for score in scores] == [True, False]
    assert table["status"].to_pylist() == ["reference:cannot_be_split@lm:reference", None]


def test_directions_of_one_model_share_it_and_its_counts(folder):
    names = ("likelihood@lm", "likelihood@lm:recall")
    scorer = SummaryScorer(ScoringConfig(metrics=names, models={"lm": str(folder)}))
    assert len({id(model) for model in (metric.model for metric in scorer.metrics)}) == 1
    scorer.score(to_rows(CANDIDATES, sources=SOURCES))
    counts = {"texts": 4, "computed": 4, "cut": 0}
    assert scorer.counters() == {f"likelihood@lm.{name}": n for name, n in counts.items()}
    assert set(scorer.content) == set(names)


def test_rows_that_cannot_be_scored_have_a_status(folder):
    rows = [
        (CANDIDATES[0], [SOURCES[0]], None),
        (None, [SOURCES[0]], "candidate:null"),
        ("!", [SOURCES[0]], "candidate:no_words"),
        (CANDIDATES[0], [], "source:missing"),
        (CANDIDATES[0], [" "], "source:empty"),
        (CANDIDATES[0], [" ".join(SOURCES * 9)], "source:cut@lm"),
        (" ".join(SOURCES * 9), [SOURCES[0]], "candidate:cut@lm"),
    ]
    candidates, sources, statuses = zip(*rows, strict=True)
    table = table_of(folder, "likelihood@lm", candidates, sources=sources)
    assert table["status"].to_pylist() == list(statuses)
    has_none = [score is None for score in table["likelihood@lm"].to_pylist()]
    assert has_none == [False, True, True, True, True, False, False]
    assert table["cut@lm"].to_pylist() == [0.0, None, None, None, None, 1.0, 1.0]


def write_corpus(path, sources=SOURCES):
    ids = {"document_id": ["d0", "d1"], "system_id": ["a", "a"]}
    pl.DataFrame({**ids, "candidate": CANDIDATES, "source": sources}).write_parquet(path)
    return path


def test_aliases_of_the_command_are_in_toml(folder, tmp_path):
    config, out = tmp_path / "run.toml", tmp_path / "out"
    prompt = "Read: {context} Sum up: {text}"
    config.write_text(
        f'[models.lm]\npath = "{folder}"\n[models.asked]\npath = "{folder}"\n'
        f"prompt = {json.dumps(prompt)}\n"
    )
    command = ["score", str(write_corpus(tmp_path / "c.parquet")), "--out", str(out), "--local"]
    metrics = "likelihood@lm,likelihood@asked:source"
    assert run([*command, "--quiet", "--config", str(config), "--metrics", metrics]) == 0
    table = pl.read_parquet(f"{out}/scores/*.parquet")
    for name, asked in (("likelihood@lm", None), ("likelihood@asked:source", prompt)):
        expected = means(folder, SOURCES, CANDIDATES, asked)
        np.testing.assert_allclose(table[name].to_numpy(), expected, atol=1e-6)
    signatures = json.loads((out / "run.json").read_text())["signatures"]
    assert f"|prompt:{json.dumps(prompt)}|value:mean|" in signatures["likelihood@asked:source"]
    assert signatures["likelihood@lm"].startswith("likelihood@lm|of:source|model:llama|hash:")


def test_texts_read_in_part_are_counted_aloud(folder, tmp_path, capsys):
    corpus = write_corpus(tmp_path / "long.parquet", [" ".join(SOURCES * 9), SOURCES[1]])
    command = ["score", str(corpus), "--out", str(tmp_path / "out"), "--local", "--metrics"]
    assert run([*command, f"likelihood@{folder}"]) == 0
    said = f"Texts too long for likelihood@{folder}, which read a part of them: 1\n"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "models", "said"),
    [
        ("likelihood", {}, r"must name a model: likelihood@MODEL"),
        ("likelihood@lm:", {}, "must end in :source or :recall or :reference"),
        ("likelihood@lm:target", {}, "must end in :source or :recall or :reference"),
        ("likelihood@:source", {}, "must name a model: likelihood@MODEL"),
        ("likelihood:source", {}, "must name a model: likelihood@MODEL"),
        ("likelihood_p@lm", {}, "must end in :reference, or be written likelihood@lm"),
        ("likelihood@lm", {"lm": {"path": "x", "vlaue": 1}}, "unknown key `vlaue` of a likelihood"),
        ("length", {"l m": "x"}, "model alias 'l m' must be letters"),
        ("length", {"lm": {"value": "sum"}}, r"`\[models.lm\]` must have the `path` of a model"),
        ("length", ["x"], r"`models` must be tables \[models.ALIAS\]"),
    ],
)
def test_wrong_names_and_tables_rejected(name, models, said):
    with pytest.raises(ValueError, match=said):
        ScoringConfig(metrics=(name,), models=models)


def test_score_is_explained_by_its_tokens(folder, tmp_path):
    corpus, name = write_corpus(tmp_path / "c.parquet"), "likelihood@lm"
    score_corpus(
        corpus,
        ScoreSettings(out=tmp_path / "out", metrics=[name], models={"lm": str(folder)}, local=True),
    )
    explainer = open_explainer(
        (), ExplainSettings(document="", metric=name, scores=tmp_path / "out")
    )
    (explained,) = explainer.explain({"d0": ["a"]})["d0"]
    tokens = explained.explanation.tokens
    read = "".join(token.text for token in tokens)
    assert read.replace(" ", "") == CANDIDATES[0].replace(" ", "")
    assert np.mean([token.score for token in tokens]) == pytest.approx(explained.recorded, abs=1e-6)
    without = means(folder, SOURCES[:1], ["The dog slept."])[0]
    effect = explained.explanation.effects[0]
    assert (effect.side, effect.unit.text) == ("candidate", "A cat sat.")
    assert effect.score == pytest.approx(without, abs=1e-6)
    page = page_of(explainer, "d0")
    assert "The log-probability of each token of the candidate" in page


def test_likelihood_is_a_reward_where_what_is_undefined_gets_is_named(folder):
    reward = Reward(f"likelihood@{folder}", undefined=-10.0, device="cpu")
    expected = means(folder, SOURCES, CANDIDATES)
    found = reward([*CANDIDATES, ""], sources=[*SOURCES, SOURCES[0]])
    assert found == pytest.approx([*expected, -10.0], abs=1e-6)
    assert reward.higher_is == "likelier"
    with pytest.raises(ValueError, match="`undefined` must be a finite number for likelihood@"):
        Reward(f"likelihood@{folder}", device="cpu")
