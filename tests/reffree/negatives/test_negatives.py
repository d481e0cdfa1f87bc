"""Which negatives a pair gets: the same whatever surrounds it, in any order, on any process."""

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest

from reffree.negatives import KINDS, POSITIVE, NegativesConfig
from reffree.training_pairs import buckets
from reffree.training_pairs.buckets import (
    find_neighbours,
    nearest_others,
    neighbours_path,
    read_bucket,
)
from reffree.training_pairs.examples import Examples
from reffree.training_pairs.rows import Pair
from tests.reffree.conftest import make_pairs, write_buckets

VOCABULARY = ("xylem", "xenon", "xerox")
OF_OTHERS = ("cross-pair", "cross-pair-hard", "sentence-replace", "claim")
OF_RICHER_TEXTS = ("negate", "exchange", "term", "opinion")
OWN_KINDS = tuple(kind for kind in KINDS if kind not in (*OF_OTHERS, *OF_RICHER_TEXTS))
"""Kinds that look at no other document, and that the plain documents of these tests have."""


@pytest.fixture
def examples(tmp_path):
    """Make the examples of pairs."""
    n_made = 0

    def make(pairs, **config):
        nonlocal n_made
        n_made += 1
        paths = write_buckets(tmp_path / f"pairs{n_made}", pairs)
        return Examples(paths, NegativesConfig(**config), VOCABULARY)

    return make


def listed(examples, epoch=0, **options):
    found = [example for group in examples.epoch(epoch, **options) for example in group]
    assert len(set(found)) == len(found)
    return found


def negatives(examples, epoch):
    return {example for example in listed(examples, epoch) if example.kind != POSITIVE}


@pytest.mark.slow
def test_drawn_kinds_keep_their_proportions_and_change_with_epoch_and_seed():
    config = NegativesConfig(kinds=("add", "delete"), proportions=(3, 1))
    plans = [config.plan(f"d{i}", 0, 0) for i in range(8000)]
    assert {len(plan) for plan in plans} == {1}
    drawn = Counter(kind for plan in plans for kind in plan)
    assert drawn["add"] / 8000 == pytest.approx(0.75, abs=0.02)  # four standard deviations
    assert [config.plan(f"d{i}", 0, 0) for i in range(8000)] == plans
    for other, epoch in ((config, 1), (replace(config, seed=1), 0)):
        assert [other.plan(f"d{i}", 0, epoch) for i in range(8000)] != plans


def test_random_numbers_belong_to_one_negative():
    config = NegativesConfig(kinds=("add",))
    names = [("add", "d", 0, 0), ("add", "d", 1, 0), ("add", "d", 0, 1)]
    names += [("delete", "d", 0, 0), ("add", "e", 0, 0)]
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
        ({"n_neighbours": 0}, "`n_neighbours` must be at least 1, got 0"),
        ({"positives": ("led",)}, "unknown positive `led`; did you mean `lead`"),
    ],
)
def test_wrong_configuration_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        NegativesConfig(**{"kinds": ("add",)} | arguments)


def test_negatives_are_read_as_they_were_saved():
    config = NegativesConfig(kinds=("add", "delete"), proportions=(1.0, 2.0), seed=3)
    assert NegativesConfig.of(json.loads(json.dumps(asdict(config)))) == config


def test_examples_of_a_document_do_not_depend_on_the_others(examples):
    pairs = make_pairs(20)
    alone = set(listed(examples(pairs[:1], kinds=OWN_KINDS)))
    together = listed(examples(pairs, kinds=OWN_KINDS))
    assert alone == {example for example in together if example.document_id == "d0"}
    assert {example.kind for example in alone} == {POSITIVE, *OWN_KINDS}


def test_epoch_is_reproducible_and_differs_from_the_next(examples):
    made = examples(make_pairs(8), kinds=("add", "delete"))
    assert listed(made, epoch=1) == listed(made, epoch=1)
    assert listed(made, epoch=1) != listed(made, epoch=2)
    assert len(negatives(made, 1) & negatives(made, 2)) < 4  # of 16


def test_several_buckets_hold_every_pair_once(examples, monkeypatch):
    monkeypatch.setattr(buckets, "BUCKET_PAIRS", 10)
    made = examples(make_pairs(100), kinds=("delete",))
    assert len(made._paths) == 10
    found = listed(made, epoch=1)
    assert {e.document_id for e in found if e.kind == POSITIVE} == {f"d{i}" for i in range(100)}
    assert len(found) + made.left_out.total() == 200


def test_rows_of_one_name_share_no_random_numbers(examples):
    pairs = make_pairs(40)
    others = [replace(pair, reference=f"{pair.reference} Once more.") for pair in pairs]
    groups = list(examples([*pairs, *others], kinds=("cross-pair",)).epoch(0, in_order=True))
    names = [(group[0].document_id, group[0].number) for group in groups]
    assert len(set(names)) == len(names) == 80
    drawn = {}
    for group in groups:
        drawn.setdefault(group[0].document_id, set()).add(group[1].candidate.split()[0])
    assert sum(len(donors) == 1 for donors in drawn.values()) < 10  # all 40 with shared numbers
    # A pair that is alone with its name has the partners it always had.
    assert {one.number for one in listed(examples(pairs, kinds=("cross-pair",)))} == {0}


def test_partners_are_drawn_uniformly_and_never_of_the_same_group(tmp_path):
    (path,) = write_buckets(tmp_path / "many", make_pairs(40))
    bucket = read_bucket(path)
    rng = np.random.default_rng(0)
    chosen = Counter(bucket.other_than(0, rng) for _ in range(39_000))
    assert 0 not in chosen
    assert len(chosen) == 39
    # 1,000 each; a ring of hashes gave one of them six times its share
    assert max(abs(n - 1_000) for n in chosen.values()) < 150
    (path,) = write_buckets(tmp_path / "grouped", make_pairs(3), groups=[7, 7, 8])
    bucket = read_bucket(path)
    rows = {name: row for row, name in enumerate(bucket.pairs.column("document_id").to_pylist())}
    drawn = [{bucket.other_than(rows[name], rng) for _ in range(30)} for name in ("d0", "d2")]
    assert drawn == [{rows["d2"]}, {rows["d0"], rows["d1"]}]


def test_positives_have_negatives_of_their_own(examples):
    made = examples(make_pairs(12), kinds=("delete", "cross-pair"), positives=("reference", "lead"))
    groups = list(made.epoch(0, in_order=True))
    assert [group[0].base for group in groups] == ["reference", "lead"] * 12
    leads = {group[0].candidate for group in groups[1::2]}
    for positive, delete, cross in groups:
        assert delete.base == cross.base == positive.base
        assert len(delete.candidate) < len(positive.candidate)
        left, whole = (set(one.candidate.replace(".", "").split()) for one in (delete, positive))
        assert left <= whole
        assert (cross.candidate in leads) == (positive.base == "lead")
        assert cross.candidate != positive.candidate


def test_negative_that_cannot_be_made_is_counted(examples):
    texts = ["Alone", "Alone !", "Twice. Twice."]
    pairs = [
        Pair(document_id=f"d{k}", number=0, side=-1, source="One here.", reference=text)
        for k, text in enumerate(texts)
    ]
    made = examples(pairs[:1], kinds=("delete", "sentence-shuffle", "cross-pair", "unimportant"))
    assert [example.kind for example in listed(made)] == [POSITIVE]
    assert made.left_out == {
        ("delete", "one word only"): 1,
        ("sentence-shuffle", "one sentence only"): 1,
        ("cross-pair", "no other document"): 1,
        ("unimportant", "too few sentences in the source"): 1,
    }
    # neither punctuation alone nor the text as it was is a negative
    made = examples(pairs[1:], kinds=("delete", "sentence-shuffle"))
    found = {one for epoch in range(20) for one in listed(made, epoch)}
    assert made.left_out["delete", "empty"] > 0
    assert made.left_out["sentence-shuffle", "unchanged"] == 20
    assert {one.candidate for one in found if one.document_id == "d1"} == {"Alone !", "Alone"}


# The nearest other documents

TEXTS = [
    "the bridge closed in may after cracks",
    "the bridge closed in may after cracks .",  # nearly the same
    "cracks in the bridge of the town",
    "a cat slept on the warm stones",
    "zyx",
]


def test_nearest_by_hand():
    found = nearest_others(TEXTS, np.arange(5, dtype=np.uint64), 2)
    assert found[:2].tolist() == [[2, 3], [2, 3]]  # not each other
    assert found[4].tolist() == [-1, -1]
    assert 4 not in found
    groups = np.array([7, 8, 7, 9, 10], dtype=np.uint64)  # of the same group is no neighbour
    assert nearest_others(TEXTS, groups, 1)[:, 0].tolist() == [3, 2, 1, 2, -1]


def test_hard_cross_pair_is_the_reference_of_a_neighbour(tmp_path):
    (path,) = write_buckets(tmp_path / "pairs", make_pairs(4))
    find_neighbours(tmp_path / "pairs", ("train",), k=2)
    found = np.load(neighbours_path(path))
    assert found.shape == (4, 2)
    assert not (found == np.arange(4)[:, None]).any()
    names = read_bucket(path).pairs.column("document_id").to_pylist()
    near = [[names.index("d1"), -1] if name == "d0" else [-1, -1] for name in names]
    np.save(neighbours_path(path), np.array(near, dtype=np.int32))
    made = Examples([path], NegativesConfig(kinds=("cross-pair-hard",)), VOCABULARY)
    (one,) = negatives(made, 0)
    assert (one.document_id, one.candidate) == ("d0", make_pairs(2)[1].reference)
