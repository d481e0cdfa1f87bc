"""Which negatives a pair gets."""

from collections import Counter

import pytest

from reffree.edits import Rate
from reffree.mixture import PRESETS, NegativesConfig


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
    config = NegativesConfig()
    names = [("add", 0, "d", 0, 0), ("add", 1, "d", 0, 0), ("add", 0, "d", 1, 0)]
    names += [("add", 0, "d", 0, 1), ("delete", 0, "d", 0, 0), ("add", 0, "e", 0, 0)]
    assert len({config.generator(*name).integers(2**62) for name in names}) == len(names)
    assert config.generator(*names[0]).random() == config.generator(*names[0]).random()


def test_bao2020_is_the_papers_recipe():
    config = NegativesConfig(**PRESETS["bao2020"])
    assert config.plan("d", 0, 0) == [("cross-pair", 0), ("add", 0), ("delete", 0), ("replace", 0)]
    assert config.is_balanced
    assert config.rate == Rate(0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": ()}, "`kinds` must name at least one"),
        ({"kinds": ("replce",)}, "unknown kind of negative `replce`; did you mean `replace`"),
        ({"kinds": ("add", "add")}, "`kinds` must differ"),
        ({"kinds": ("add",), "proportions": (1, 2)}, "one weight per kind, got 2 for 1"),
        ({"kinds": ("add",), "proportions": (0,)}, "weight of `add` must be positive, got 0"),
        ({"per_positive": 0}, "`per_positive` must be at least 1, got 0"),
        ({"n_neighbours": 0}, "`n_neighbours` must be at least 1, got 0"),
        ({"length_tolerance": 1.0}, r"`length_tolerance` must be in \[0, 1\), got 1"),
    ],
)
def test_wrong_configuration_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        NegativesConfig(**arguments)
