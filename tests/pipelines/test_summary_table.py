"""Summarisers compared under every metric: what counts where a summary lacks words or is cut."""

import pyarrow as pa
import pytest

from pipelines.summary_table import LOWEST, compare_summaries

VECTORS = "apples 1 0\npears 0 1\nfell 1 1\n"


@pytest.fixture
def encoder(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(VECTORS)
    return f"glove:{path}"


def table_of(encoder, candidates, **options):
    rows = [
        {"system_id": system, "candidate": text, "references": ["Apples and pears fell."]}
        for system, texts in candidates.items()
        for text in texts
    ]
    summaries = pa.Table.from_pylist(rows)
    found = compare_summaries(
        summaries, baselines=[], encoder=encoder, threads=1, n_resamples=9, **options
    )
    return {(cell.system, cell.metric): cell for cell in found.cells}


def test_summary_of_unknown_words_keeps_what_can_be_told_of_it(encoder):
    cells = table_of(encoder, {"a": ["Apples fell.", "Apples and pears fell."], "b": ["And.", ""]})
    assert cells["b", "wms"].mean == LOWEST  # neither has a word with a vector
    assert cells["b", "wms"].n_empty == 2
    expected = 2 * 1 / (1 + 4)  # F of one word of four, and nothing
    assert cells["b", "rouge1_f"].mean == pytest.approx(expected / 2)
    assert cells["b", "length"].mean == pytest.approx(0.5)
    assert cells["a", "wms"].n_empty == 0


def test_summary_that_was_cut_keeps_its_scores(tmp_path, encoder, monkeypatch):
    from sms.scoring import SummaryScorer

    whole = table_of(encoder, {"a": ["Apples fell.", "Pears fell."]})
    compare = SummaryScorer.compare

    def compare_cut(self, prepared):
        found = compare(self, prepared)
        cut = pa.array(["candidate:cut@encoder"] * len(found), pa.string())
        return found.set_column(found.column_names.index("status"), "status", cut)

    monkeypatch.setattr(SummaryScorer, "compare", compare_cut)
    assert table_of(encoder, {"a": ["Apples fell.", "Pears fell."]}) == whole
