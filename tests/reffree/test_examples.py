"""Examples: the same for a document whatever surrounds it, in any order, on any process."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from reffree import buckets
from reffree.buckets import read_bucket
from reffree.examples import Examples
from reffree.negatives import KINDS, POSITIVE, NegativesConfig
from reffree.pairs import Pair
from tests.reffree.conftest import make_pairs, write_buckets

VOCABULARY = ("xylem", "xenon", "xerox")
OWN_KINDS = tuple(
    kind
    for kind in KINDS
    if not kind.startswith("cross")
    and kind not in ("sentence-replace", "claim", "negate", "exchange")
)
"""Kinds that look at no other document."""


@pytest.fixture
def examples(tmp_path):
    """Make the examples of pairs."""
    n_made = 0

    def make(pairs, vocabulary=VOCABULARY, **config):
        nonlocal n_made
        n_made += 1
        paths = write_buckets(tmp_path / f"pairs{n_made}", pairs)
        return Examples(paths, NegativesConfig(**config), vocabulary)

    return make


def listed(examples, epoch=0, **options):
    return [example for group in examples.epoch(epoch, **options) for example in group]


def as_set(examples, **options):
    found = listed(examples, **options)
    assert len(set(found)) == len(found)
    return set(found)


def test_examples_of_a_document_do_not_depend_on_the_others(examples):
    pairs = make_pairs(20)
    alone = as_set(examples(pairs[:1], kinds=OWN_KINDS, per_positive=2))
    together = as_set(examples(pairs, kinds=OWN_KINDS, per_positive=2))
    assert alone == {example for example in together if example.document_id == "d0"}
    assert {example.kind for example in alone} == {POSITIVE, *OWN_KINDS}


def test_cross_pair_is_the_reference_of_another_document(examples):
    pairs = make_pairs(10)
    references = {pair.document_id: pair.reference for pair in pairs}
    for example in listed(examples(pairs, kinds=("cross-pair",), per_positive=5)):
        assert (example.candidate == references[example.document_id]) == (example.kind == POSITIVE)
        assert example.candidate in references.values()
        assert example.label == (example.kind == POSITIVE)


def test_epoch_is_reproducible_and_differs_from_the_next(examples):
    made = examples(make_pairs(8), kinds=("add", "delete"))
    assert listed(made, epoch=1) == listed(made, epoch=1)
    assert listed(made, epoch=1) != listed(made, epoch=2)
    negatives = [
        {example for example in as_set(made, epoch=epoch) if example.kind != POSITIVE}
        for epoch in (1, 2)
    ]
    assert len(negatives[0] & negatives[1]) < 4  # of 16


def test_several_buckets_hold_every_pair_once(examples, monkeypatch):
    monkeypatch.setattr(buckets, "BUCKET_PAIRS", 10)
    made = examples(make_pairs(100), kinds=("delete",))
    assert len(made._paths) == 10
    found = as_set(made, epoch=1)
    assert {e.document_id for e in found if e.kind == POSITIVE} == {f"d{i}" for i in range(100)}
    assert len(found) + made.left_out.total() == 200


def test_rows_of_one_name_share_no_random_numbers(examples):
    pairs = make_pairs(40)
    others = [replace(pair, reference=f"{pair.reference} Once more.") for pair in pairs]
    both = examples([*pairs, *others], kinds=("cross-pair",))
    groups = list(both.epoch(0, in_order=True))
    names = [(group[0].document_id, group[0].number) for group in groups]
    assert len(set(names)) == len(names) == 80
    drawn = {}
    for group in groups:
        drawn.setdefault(group[0].document_id, set()).add(group[1].candidate.split()[0])
    assert sum(len(donors) == 1 for donors in drawn.values()) < 10  # all 40 with shared numbers
    # A pair that is alone with its name has the partners it always had.
    alone = examples(pairs, kinds=("cross-pair",))
    assert {group[0].number for group in alone.epoch(0, in_order=True)} == {0}


def test_partners_are_drawn_uniformly(tmp_path):
    (path,) = write_buckets(tmp_path / "pairs", make_pairs(40))
    bucket = read_bucket(path)
    rng = np.random.default_rng(0)
    chosen = Counter(bucket.other_than(0, rng) for _ in range(39_000))
    assert 0 not in chosen
    assert len(chosen) == 39
    # 1,000 each; a ring of hashes gave one of them six times its share
    assert max(abs(n - 1_000) for n in chosen.values()) < 150


def test_positives_have_negatives_of_their_own(examples):
    pairs = make_pairs(12)
    made = examples(pairs, kinds=("delete", "cross-pair"), positives=("reference", "lead"))
    groups = list(made.epoch(0, in_order=True))
    assert [group[0].base for group in groups] == ["reference", "lead"] * 12
    leads = {group[0].candidate for group in groups[1::2]}
    for group in groups:
        positive, delete, cross = group
        assert {example.base for example in group} == {positive.base}
        assert len(delete.candidate) < len(positive.candidate)
        assert {word.strip(".") for word in delete.candidate.split()} <= {
            word.strip(".") for word in positive.candidate.split()
        } | {""}
        assert (cross.candidate in leads) == (positive.base == "lead")
        assert cross.candidate != positive.candidate


def test_negative_that_cannot_be_made_is_counted(examples):
    pair = Pair(document_id="d", number=0, side=-1, source="One here.", reference="Alone")
    made = examples([pair], kinds=("delete", "sentence-shuffle", "cross-pair", "unimportant"))
    assert [example.kind for example in listed(made)] == [POSITIVE]
    assert made.left_out == {
        ("delete", "one word only"): 1,
        ("sentence-shuffle", "one sentence only"): 1,
        ("cross-pair", "no other document"): 1,
        ("unimportant", "too few sentences in the source"): 1,
    }


def test_punctuation_alone_and_unchanged_text_are_no_negatives(examples):
    pairs = [
        Pair(document_id=f"d{i}", number=0, side=-1, source="One here.", reference=text)
        for i, text in enumerate(["Alone !", "Twice. Twice."])
    ]
    made = examples(pairs, kinds=("delete", "sentence-shuffle"), per_positive=20)
    found = listed(made)
    assert made.left_out["delete", "empty"] > 0
    assert made.left_out["sentence-shuffle", "unchanged"] == 20
    candidates = {example.candidate for example in found if example.document_id == "d0"}
    assert candidates == {"Alone !", "Alone"}


def test_document_of_the_same_group_is_no_partner(tmp_path):
    (path,) = write_buckets(tmp_path / "pairs", make_pairs(3), groups=[7, 7, 8])
    bucket = read_bucket(path)
    rows = {name: row for row, name in enumerate(bucket.pairs.column("document_id").to_pylist())}
    drawn = {
        name: {bucket.other_than(rows[name], np.random.default_rng(i)) for i in range(30)}
        for name in ("d0", "d2")
    }
    assert drawn == {"d0": {rows["d2"]}, "d2": {rows["d0"], rows["d1"]}}


def test_hard_cross_pair_is_the_reference_of_a_neighbour(tmp_path):
    (path,) = write_buckets(tmp_path / "pairs", make_pairs(4))
    names = read_bucket(path).pairs.column("document_id").to_pylist()
    near = [[names.index("d1"), -1] if name == "d0" else [-1, -1] for name in names]
    np.save(buckets.neighbours_path(path), np.array(near, dtype=np.int32))
    config = NegativesConfig(kinds=("cross-pair-hard",), per_positive=5)
    made = {
        example.candidate
        for example in listed(Examples([path], config, VOCABULARY))
        if example.document_id == "d0" and example.kind != POSITIVE
    }
    assert made == {make_pairs(2)[1].reference}
