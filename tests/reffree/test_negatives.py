"""Which negatives a pair gets, and negatives brought to the length of their positive."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from reffree.cut_text import cut_text
from reffree.edits import CannotEdit, Draft, Rate
from reffree.negatives import (
    KINDS,
    Material,
    NegativesConfig,
    make_negative,
    match_length,
)


def test_every_kind_for_every_pair():
    config = NegativesConfig(kinds=("add", "delete"), per_positive=2)
    assert config.plan("d", 0, 0) == [("add", 0), ("add", 1), ("delete", 0), ("delete", 1)]


def test_proportions_are_kept_on_average():
    config = NegativesConfig(kinds=("add", "delete"), proportions=(3, 1), per_positive=4)
    plans = [config.plan(f"d{i}", 0, 0) for i in range(2000)]
    drawn = Counter(kind for plan in plans for kind, _ in plan)
    assert drawn["add"] / 8000 == pytest.approx(0.75, abs=0.02)  # four standard deviations
    assert all(len(set(plan)) == 4 for plan in plans)  # no two share their random numbers


def test_plan_changes_with_epoch_and_seed_only():
    config = NegativesConfig(kinds=("add", "delete"), proportions=(1, 1), per_positive=30)
    assert config.plan("d", 0, 0) == config.plan("d", 0, 0)
    other_seed = NegativesConfig(
        kinds=("add", "delete"), proportions=(1, 1), per_positive=30, seed=1
    )
    others = [config.plan("d", 0, 1), config.plan("e", 0, 0), other_seed.plan("d", 0, 0)]
    assert config.plan("d", 0, 0) not in others


def test_random_numbers_belong_to_one_negative():
    config = NegativesConfig(kinds=("add",))
    names = [("add", 0, "d", 0, 0), ("add", 1, "d", 0, 0), ("add", 0, "d", 1, 0)]
    names += [("add", 0, "d", 0, 1), ("delete", 0, "d", 0, 0), ("add", 0, "e", 0, 0)]
    names = [(*name, base) for name in names for base in ("reference", "lead")]
    assert len({config.generator(*name).integers(2**62) for name in names}) == len(names)
    assert config.generator(*names[0]).random() == config.generator(*names[0]).random()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": ()}, "`kinds` must name at least one"),
        ({"kinds": ("replce",)}, "unknown kind of negative `replce`; did you mean `replace`"),
        ({"kinds": ("add", "add")}, "`kinds` must differ"),
        ({"kinds": ("add",), "proportions": (0,)}, "weight of `add` must be positive, got 0"),
        ({"per_positive": 0}, "`per_positive` must be at least 1, got 0"),
        ({"n_neighbours": 0}, "`n_neighbours` must be at least 1, got 0"),
        ({"positives": ("led",)}, "unknown positive `led`; did you mean `lead`"),
        ({"length_tolerance": 1.0}, r"`length_tolerance` must be in \[0, 1\), got 1"),
    ],
)
def test_wrong_configuration_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        NegativesConfig(**{"kinds": ("add",)} | arguments)


REFERENCE = "Anna Bell won the race in Paris. She ran for 40 minutes. Rain fell on the road."
SOURCE = " ".join(f"On day {i} Carl{i} saw {i + 3} {'very ' * (i % 5)}old cats." for i in range(15))
OTHERS = [
    " ".join(f"Strange{i} things{k} do happen here." for k in range(1 + i % 5)) for i in range(9)
]


def draft_of(text, n_before):
    return Draft(cut_text(text), 1, n_before)


# edited text, words wanted, sentences of the document, the result, words that were there
MATCHED = [
    pytest.param(
        "One two three. Four five six. Seven.", 8, [], "One two three. Four five six.", 8, id="long"
    ),
    pytest.param(
        "One two three.", 8, ["Too short.", "This one fits.", "So does that."],
        "One two three. This one fits.", 4, id="the first that reaches",
    ),
    pytest.param(
        "One.", 10, ["Cats sleep.", "Dogs bark and run."], "One. Dogs bark and run. Cats sleep.",
        2, id="two together",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "n_words", "filler", "expected", "n_kept"), MATCHED)
def test_length_is_matched_by_whole_sentences(text, n_words, filler, expected, n_kept):
    sentences = [cut for one in filler for cut in cut_text(one)]
    matched = match_length(draft_of(text, n_words), n_words, 0.1 if not filler else 0.0, sentences)
    assert matched.text == expected
    assert matched.label == n_kept / n_words


def test_length_that_no_sentences_have_is_refused():
    with pytest.raises(CannotEdit, match="length not matched"):
        match_length(draft_of("One two three four five six.", 3), 3, 0.1, [])


@given(st.sampled_from(sorted(KINDS)), st.floats(0, 0.5), st.integers(0, 2**32))
def test_negative_is_as_long_as_its_positive(kind, tolerance, seed):
    reference = cut_text(REFERENCE)
    n_words = sum(map(len, reference))

    def other(rng):
        return cut_text(OTHERS[int(rng.integers(len(OTHERS)))])

    material = Material(
        positive=reference,
        read_source=lambda: cut_text(SOURCE),
        vocabulary=("xylem", "xenon"),
        draw_other=other,
        draw_near=other,
    )
    rng = np.random.default_rng(seed)
    try:
        draft = make_negative(kind, material, Rate(), rng, length_tolerance=tolerance)
    except CannotEdit:
        reject()
    assert abs(draft.n_words - n_words) <= tolerance * n_words + 1e-9
    assert 0 <= draft.label <= 1
    assert (draft.label == 0) or not kind.startswith("cross")
