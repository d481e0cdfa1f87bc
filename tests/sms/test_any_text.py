"""Texts as they come: each scores highest against itself, or says why it has no score."""

from __future__ import annotations

import numpy as np
import pytest

from sms.scoring import ScoringConfig, SummaryScorer, to_rows

METRICS = ("sms", "wms", "s+wms", "cosine", "rougeL_f", "chrf", "bertscore_f")
UNRELATED = "Nobody had seen the hen since Tuesday, said her neighbour."
CLAUSES = ", ".join(f"which inspector number {k} saw in March" for k in range(120))

# text, the same written otherwise for the metrics that read words (None: no such text)
TEXTS = [
    pytest.param("Ana: I baked  cookies!\r\nTom: Sure :-)\r\nAna: Fine.",
                 "Ana: I baked cookies!\nTom: Sure :-)\nAna: Fine.", id="dialogue"),
    pytest.param("大桥封闭十一周。行人仍可通过。", None, id="chinese"),
    pytest.param("سيغلق الجسر. يمكن للمشاة العبور؟", None, id="arabic"),
    pytest.param(f"The bridge, {CLAUSES}, is closed.", None, id="one-long-sentence"),
    pytest.param("Closed", "closed", id="one-word"),
    pytest.param("THE BRIDGE IS CLOSED. TRADERS WORRY.",
                 "the bridge is closed. traders worry.", id="capitals"),
    pytest.param("The\u200b bri\u200bdge is\ufeff clo\u00adsed.", "The bridge is closed.",
                 id="invisible"),
    pytest.param("It is closed.\r\nTraders worry.\u2028The bus is free.\x85Done.",
                 "It is closed. Traders worry. The bus is free. Done.", id="line-ends"),
    pytest.param("Cafe\u0301 de\u0301ja\u0300 vu.", "Café déjà vu.", id="decomposed"),
]  # fmt: skip


@pytest.fixture(scope="module")
def scorer():
    return SummaryScorer(ScoringConfig(metrics=METRICS), threads=1)


@pytest.mark.parametrize(("text", "same"), TEXTS)
def test_text_is_nearest_to_itself(text, same, scorer):
    rows = to_rows([text, text, UNRELATED, text], [text, UNRELATED, text, same or text])
    with_itself, other, back, near = scorer.score(rows).to_pylist()
    for name in METRICS:
        if with_itself[name] is None:
            assert with_itself["status"] is not None
            continue
        assert with_itself[name] == pytest.approx(100 if name == "chrf" else 1, abs=1e-6)
        assert other[name] < 0.5 * with_itself[name]
        if name != "chrf":
            np.testing.assert_allclose(back[name], other[name], atol=1e-6)
        if name in ("sms", "wms", "s+wms", "cosine", "bertscore_f"):
            assert near[name] == pytest.approx(1, abs=1e-5)
