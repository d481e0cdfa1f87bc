"""`assay preferences`."""

from __future__ import annotations

from pipelines import verbs
from pipelines.cli.common import show, terminal
from pipelines.cli.options import command
from pipelines.settings.preferences import PreferencesSettings


@command(PreferencesSettings, "[JUDGEMENTS...]")
def preferences(judgements: tuple[str, ...], settings: PreferencesSettings) -> None:
    """Say which system people prefer, from their JUDGEMENTS.

    A judgement compares two texts. A file (Parquet, CSV, JSONL) has one row per judgement:
    `document_id`, `system_a`, `system_b`, `winner` (one of the two systems, or tie), and
    optionally `judge` and `criterion`. Instead, a file may hold counts: `system_a`, `system_b`,
    and the `wins`, `losses` and `ties` of `system_a`. Or it is a sheet made by `--make-sheet`,
    filled with left, right or =, and read with its `--key`.
    """
    made = verbs.preferences(judgements, settings)
    from pipelines.judging_sheet import JudgingSheet
    from pipelines.reports.preferences import preferences_sheet

    if not isinstance(made, JudgingSheet):
        show(preferences_sheet(made).text(**terminal()))
        return
    print(
        f"Sheet: {made.sheet}, {made.n_rows:,} rows on {made.n_documents:,} of "
        f"{made.n_eligible:,} documents"
    )
    if made.n_equal:
        print(f"Rows with the same text on both sides: {made.n_equal:,}")
    print(f"Key: {made.key}; keep it from the judges")
    print("Judges write left, right or = under each criterion; give each a copy named after them")
