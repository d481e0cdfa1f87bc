"""Pair models against plain implementations of the judges that they are."""

import numpy as np
import pytest

import tests.reffree.pair.published_judges as published
from reffree.pair.judge import PairModel
from reffree.pair.presets import PRESETS
from tests.reffree.pair import tiny_judges as tiny

ATOL = 1e-5

# preset, aspect, what writes the folder, the judge
JUDGES = {
    "summac-zs": ("summac-zs", None, tiny.write_classifier, published.summac_zs),
    "summac-conv": ("summac-conv", None, tiny.write_summac_conv, published.summac_conv),
    "alignscore": ("alignscore", None, tiny.write_alignscore, published.alignscore),
    "minicheck": ("minicheck", None, tiny.write_t5, published.minicheck),
    "minicheck-roberta": (
        "minicheck-roberta",
        None,
        lambda folder: tiny.write_classifier(folder, "roberta", id2label={0: "no", 1: "yes"}),
        published.minicheck_classifier,
    ),
    "minicheck-deberta": (
        "minicheck-deberta",
        None,
        lambda folder: tiny.write_classifier(folder, "deberta-v2", id2label={0: "no", 1: "yes"}),
        published.minicheck_classifier,
    ),
    "hhem": ("hhem", None, tiny.write_hhem, published.hhem),
    "trueteacher": ("trueteacher", None, tiny.write_t5, published.true),
    "seahorse": ("seahorse", None, tiny.write_t5, published.true),
    **{
        f"unieval {aspect}": ("unieval", aspect, tiny.write_t5, getattr(published, aspect))
        for aspect in PRESETS["unieval"].aspects
    },
}

CUT = {"unieval coherence", "unieval consistency", "unieval relevance"}
"""Judges that read only the beginning of the long document; their own code cuts it alike."""


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Write a judge's folder once."""
    written = {}

    def folder(name):
        _, _, write, _ = JUDGES[name]
        if write not in written:
            written[write] = tmp_path_factory.mktemp("judge") / "tiny"
            written[write].mkdir()
            write(written[write])
        return written[write]

    return folder


def table_of(name):
    preset, aspect, _, _ = JUDGES[name]
    return {"preset": preset, **({"aspect": aspect} if aspect else {})}


def test_every_preset_is_tested():
    assert {preset for preset, *_ in JUDGES.values()} == set(PRESETS)


@pytest.mark.parametrize("name", JUDGES)
@pytest.mark.parametrize("document", [tiny.NEWS, tiny.LONG], ids=["short", "long"])
def test_presets_are_as_published(folder_of, name, document):
    folder, judge = folder_of(name), JUDGES[name][3]
    model = PairModel(str(folder), table_of(name))
    found = model.score([document] * len(tiny.SUMMARIES), tiny.SUMMARIES)
    expected = [judge(folder, document, summary) for summary in tiny.SUMMARIES]
    atol = ATOL * np.abs(expected).max()
    np.testing.assert_allclose(found.scores, expected, atol=atol, rtol=0)
    assert np.ptp(expected) > 100 * atol, "random weights must tell the summaries apart"
    assert found.is_cut.all() == found.is_cut.any() == (document == tiny.LONG and name in CUT)
    low, high = model.settings.bounds
    assert ((found.scores >= low) & (found.scores <= high)).all()
