"""A metric as a reward: its values, what null text gives, what it costs, how TRL calls it."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from sms.reward import Reward, candidate_texts
from sms.scoring import score_texts

CANDIDATES = [
    "The bridge is closed. Cars must use the ring road.",
    "A cat sat on the mat.",
    "The bridge will close for eleven weeks.",
]
REFERENCES = ["The bridge closes for eleven weeks."] * 3
SEVERAL = [[*REFERENCES[:1], "Cars must take the ring road."]] * 3


def said(text, role="assistant"):
    return {"role": role, "content": text}


@pytest.fixture(scope="module")
def reward():
    return Reward("sms", encoder="minilm", device="cpu")


@pytest.mark.parametrize("metric", ["s+wms", "cosine", "rougeL_f:source"])
@pytest.mark.parametrize("batch_rows", [1, 2, 512])
def test_rewards_are_the_metric(metric, batch_rows):
    texts = {"references": SEVERAL, "sources": REFERENCES}
    found = Reward(metric, device="cpu", batch_rows=batch_rows)(CANDIDATES, **texts)
    expected = score_texts(CANDIDATES, **texts, metrics=(metric,))[metric].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert all(type(value) is float for value in found)


def test_identical_text_gets_the_upper_bound(reward):
    assert reward(CANDIDATES, references=CANDIDATES) == [1.0, 1.0, 1.0]
    assert (reward.bounds, reward.higher_is, reward.__name__) == ((0.0, 1.0), "closer", "sms")
    assert reward.signature.startswith("sms|enc:all-MiniLM-L6-v2")


def test_misspelt_keyword_of_score_is_refused(reward):
    assert reward.score(CANDIDATES, references=REFERENCES) == reward(
        CANDIDATES, references=REFERENCES
    )
    with pytest.raises(TypeError, match="refernces"):
        reward.score(CANDIDATES, refernces=REFERENCES)


NOTHING = [None, "", "  \n", ". . !"]


def test_candidate_without_a_word_gets_the_lower_bound(reward):
    assert reward(NOTHING, references=[REFERENCES[0]] * 4) == [0.0] * 4
    assert Reward("cosine", device="cpu")(NOTHING, references=["A."] * 4) == [-1.0] * 4
    penal = Reward("rouge1_f", undefined=-0.5)
    assert penal([*NOTHING, "A cat."], references=["A cat."] * 5) == [-0.5] * 4 + [1.0]
    assert penal.counters() == {"rewards": 5, "undefined": 4}


def test_reference_without_a_word_gives_a_group_one_value(reward):
    for nothing in ("", [], [None]):
        assert reward(CANDIDATES, references=[nothing] * 3) == [0.0] * 3


def test_rows_that_are_not_for_a_reward_get_none():
    """As TRL hands over a data set of several tasks, of which some have no reference."""
    told = {}
    reward = Reward("rouge1_f - .5*repetition")
    references = [None, "A cat sat.", None]
    found = reward(
        completions=["A.", "A cat sat.", ""], reference=references, log_metric=told.__setitem__
    )
    assert found == [None, 1.0, None]
    assert (reward.counters()["rewards"], reward.counters()["undefined"]) == (1, 0)
    assert told == {"reward/rouge1_f": 1.0, "reward/repetition": 0.0}
    assert Reward("rouge1_p:source")(["A cat."], source=[None]) == [None]
    of_another_kind = [{"id": 1}]
    assert Reward("rouge1_f")(["A."], reference=["A."], source=of_another_kind) == [1.0]


THINKING = [
    ("A dog? No.</think>A cat sat.", "A cat sat."),
    ("<think>One.</think> Two. <think>Three.</think>\n\nA cat sat.\n", "A cat sat."),
    ("<think>A cat sat. A cat", None),
    ("A cat sat.", None),
    ("", None),
    (None, None),
    ([said("<think>A dog?</think>A cat sat.")], "A cat sat."),
    ([said([{"type": "text", "text": "No.</think>A cat sat."}])], "A cat sat."),
    ([said("A cat sat.") | {"reasoning_content": "A dog?"}], "A cat sat."),
    ([said("") | {"thinking": "A dog? Or"}], ""),
    ([said("A cat sat.") | {"reasoning_content": None}], None),
]  # fmt: skip


@pytest.mark.parametrize(("completion", "answer"), THINKING)
def test_what_stands_after_the_last_closing_tag_is_scored(completion, answer):
    assert candidate_texts(None, [completion], "</think>") == [answer]
    reward = Reward("rouge1_f", answer_after="</think>")
    expected = [1.0 if answer else 0.0]
    assert reward(completions=[completion], references=["A cat sat."]) == expected
    assert reward.score([completion], references=["A cat sat."]) == expected
    assert reward.parts([completion], references=["A cat sat."])["rouge1_f"].size == 1


def test_called_as_verl_does():
    """With what the reward managers `naive` and `batch` of verl 0.9 hand over."""
    reward = Reward("rouge1_r + rouge1_p:source", answer_after="</think>")
    info = {"source": "A cat sat on a mat.", "num_turns": None, "rollout_reward_scores": {}}
    one = {
        "data_source": "news",
        "solution_str": "Hm.</think>A cat sat.",
        "ground_truth": np.array(["A cat sat.", "A dog."], dtype=object),
        "extra_info": info,
    }
    assert reward.compute_score(**one, reward_router_address="host:1") == 2.0
    found = reward.compute_scores(
        data_sources=np.array(["news"] * 3, dtype=object),
        solution_strs=["Hm.</think>A cat sat.", "Hm.</think>", "Hm"],
        ground_truths=["A cat sat.", "A cat sat.", None],
        extra_infos=np.array([info, info, info], dtype=object),
    )
    assert found == [2.0, 0.0, 0.0]
    assert all(type(value) is float for value in found)
    alone = Reward("rouge1_r")
    assert alone.compute_score("news", "A cat.", "A cat.", {"source": {"id": 1}}) == 1.0
    assert Reward("length", undefined=0).compute_score("math", "A cat.", {"answer": 4}) == 2.0


def test_threads_share_a_reward(reward):
    """As verl calls it from threads of its event loop."""
    expected = [reward([text], references=REFERENCES[:1]) for text in CANDIDATES]
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda text: reward([text], references=REFERENCES[:1]), CANDIDATES * 3)
        assert list(found) == expected * 3


def test_references_are_encoded_once():
    """A group of 4 candidates a reference, twice, as a policy is asked again in the next epoch."""
    reward = Reward("sms", device="cpu")
    references = [f"Reference {letter} has one sentence." for letter in "abcd" for _ in range(4)]
    for n_cached, which in ((0, "first"), (4, "second")):  # every reference, no candidate
        reward([f"Candidate {i} of the {which} round." for i in range(16)], references=references)
        assert reward.counters()["encoder1.cached"] == n_cached
    assert reward.counters()["encoder1.sentences"] == 16 + 4 + 16 + 4


def test_called_as_trl_does(reward):
    found = reward(
        prompts=["Sum up."] * 3,
        completions=CANDIDATES,
        completion_ids=[[1, 2]] * 3,
        references=REFERENCES,
        trainer_state=object(),
        log_metric=print,
    )
    assert found == reward(CANDIDATES, references=REFERENCES)


CONVERSATIONS = [
    ([said("A text.")], "A text."),
    ([said("Think."), said("tool", "tool"), said("Answer.")], "Answer."),
    ([said("First."), said("Then?", "user")], "First."),
    ([said([{"type": "text", "text": "A text."}])], "A text."),
    ([said([{"type": "text", "text": "A "}, {"type": "text", "text": "text."}])], "A text."),
    ([said([])], ""),
    ([said(None)], None),
    ([{"role": "assistant", "tool_calls": []}], None),
    ([said("Only a question?", "user")], None),
    ([], None),
    ("A text.", "A text."),
    (None, None),
]  # fmt: skip


@pytest.mark.parametrize(("completion", "text"), CONVERSATIONS)
def test_text_of_a_completion(completion, text):
    assert candidate_texts(None, [completion]) == [text]


def test_pickled_reward_is_small_and_gives_the_same(reward):
    expected = reward(CANDIDATES, references=REFERENCES)
    pickled = pickle.dumps(reward)
    assert len(pickled) < 10_000
    again = pickle.loads(pickled)
    assert again(CANDIDATES, references=REFERENCES) == expected
    assert (again.__name__, again.bounds, again.signature) == ("sms", (0.0, 1.0), reward.signature)


class Shares:
    """A trained scorer in small: the share of words that are `good`, null for no text."""

    input_columns = ("candidate",)
    score_fields = ("good",)

    def prepare(self, rows):
        return rows["candidate"].to_pylist()

    def compare(self, texts):
        words = [(text or "").split() for text in texts]
        shares = [each.count("good") / len(each) if each else None for each in words]
        return pa.table({"good": pa.array(shares, pa.float64()), "status": [None] * len(texts)})

    def counters(self):
        return {"asked": 1}


def test_any_scorer_is_a_reward():
    reward = Reward(Shares(), bounds=(0.0, 1.0))
    assert reward(["good", "good one", None]) == [1.0, 0.5, 0.0]
    assert (reward.__name__, reward.signature, reward.higher_is) == ("good", "good", "better")
    assert reward.counters() == {"rewards": 3, "undefined": 1, "asked": 1}
    assert pickle.loads(pickle.dumps(reward))(["good"]) == [1.0]


def test_bounds_that_are_given_count_for_names_too():
    reward = Reward("bertscore_f", bounds=(-1.0, 1.0), device="cpu")
    assert (reward.bounds, reward.undefined) == ((-1.0, 1.0), -1.0)
    assert reward(["", "A cat."], references=["A cat."] * 2) == [-1.0, pytest.approx(1, abs=1e-6)]
    both = Reward("rouge1_f - .1*length", bounds=(-9.0, 1.0))
    assert (both.bounds, both(["..."], references=["A cat."])) == ((-9.0, 1.0), [-9.0])


SUM = "rouge1_f + .5*length - 2*repetition"
WEIGHTS = {"rouge1_f": 1.0, "length": 0.5, "repetition": -2.0}


def test_sum_is_the_weighted_sum_of_its_metrics():
    texts = [*CANDIDATES, "one two three four one two three", ""]
    references = [REFERENCES[0]] * 5
    table = score_texts(texts, references, metrics=tuple(WEIGHTS))
    expected = sum(weight * table[name].to_numpy() for name, weight in WEIGHTS.items())
    told = {}
    for reward in (Reward(asked, undefined=-3.0) for asked in (SUM, WEIGHTS)):
        found = reward(texts, references=references, log_metric=told.__setitem__)
        np.testing.assert_array_equal(found, [*expected[:4], -3.0])
        assert reward.bounds == (-2.0, math.inf)
        assert reward.higher_is == "better"
        assert reward.__name__ == "rouge1_f + 0.5*length - 2*repetition"
    means = {f"reward/{name}": np.nanmean(table[name].to_numpy()) for name in WEIGHTS}
    assert told == pytest.approx(means)
    lowest = Reward("rouge1_f - .25*repetition")
    assert (lowest.bounds, lowest.undefined) == ((-0.25, 1.0), -0.25)


WRONG = [
    ({"metric": "smss"}, "unknown metric 'smss'; did you mean `sms`"),
    ({"metric": "rouge1_f", "undefined": math.nan}, "`undefined` must be a finite number for"),
    ({"metric": "sms", "precision": "fp8"}, "`precision` must be one of"),
    ({"metric": "rougeL"}, "a reward must be one column, got rougeL_p, rougeL_r, rougeL_f"),
    ({"metric": "sms - .1*length"}, r"`undefined` must be a finite number for sms - 0.1\*length"),
    ({"metric": Shares()}, "`undefined` must be a finite number for good, got -inf"),
    ({"metric": "sms + half*length"}, r"must be METRIC or NUMBER\*METRIC, got 'half\*length'"),
    ({"metric": "rouge1_f + rouge1_f"}, "a reward must name each metric once"),
    ({"metric": {}}, "a reward must name each metric once"),
    ({"metric": object()}, "`metric` must be the name of a metric, .*no `input_colu"),
    ({"metric": {"sms": 0.0}}, "the weight of sms must be a number other than 0, got 0"),
    ({"metric": Shares(), "bounds": (1.0, 0.0)}, "`bounds` must be a lower and a higher value"),
    ({"metric": "rouge1_f", "batch_rows": 0}, "`batch_rows` must be at least 1, got 0"),
    ({"metric": "sms", "encoder": "glove:nowhere"}, "nowhere"),
    ({"metric": "rouge1_f", "answer_after": ""}, "`answer_after` must be a text such as </think>"),
    ({"metric": "sms", "encoder": ["glove:v", "minilm"]}, "`encoder` must be one for 'sms', got 2"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_reward_rejected(options, message):
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        Reward(**options)


WRONG_CALLS = [
    ({"sources": REFERENCES}, "`references` must be given for rouge1_f"),
    ({"references": REFERENCES[:2]}, "`references` and `candidates` must be equally many, got 2"),
    ({"candidates": None}, "`candidates` or `completions` must be given, got neither"),
    ({"completions": CANDIDATES}, "`candidates` or `completions` must be given, got both"),
    ({"candidates": "A text."}, "`candidates` must be a list of texts, got one text"),
    ({"candidates": [["A text."]]}, r"a text or a list of messages .*, got a list: "),
    ({"candidates": [math.nan]}, r"a text or a list of messages .*, got a float: nan"),
    ({"candidates": [[said(["hi"])]]}, r"a message's `content` must be a text, .*, got 'hi'"),
    ({"candidates": [[said(3)]]}, r"`content` must be a text, or parts like .*, got 3"),
    ({"candidates": [[said([{"type": "image", "text": "A"}])]]}, r"got \{'type': 'image'"),
    ({"candidates": [[said([{"type": "text", "text": None}])]]}, r"got \{'type': 'text'"),
    ({"references": [{"text": "A"}] * 3}, r"must be a text or a list of texts, got \{'text'"),
]


@pytest.mark.parametrize(("columns", "message"), WRONG_CALLS)
def test_wrong_call_rejected(columns, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Reward("rouge1_f")(**{"candidates": CANDIDATES, **columns})
