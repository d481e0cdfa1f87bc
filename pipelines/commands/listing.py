"""`assay metrics` and `assay encoders`: what there is."""

from __future__ import annotations

import click


@click.command()
def metrics() -> None:
    """List the metrics, what each needs and what a higher value means."""
    from pipelines.summary import table_text
    from sms.metrics import METRICS

    rows = [(m.name, m.higher_is, ", ".join(m.needs) or "–", m.summary) for m in METRICS.values()]
    print(table_text(("metric", "higher means", "needs", "what it is"), rows, n_left=4))
    print("\nWrite METRIC[@ENCODER][:AGAINST], for example sms, wms@glove, cosine:source.")


@click.command()
def encoders() -> None:
    """List the encoders and the vectors each gives."""
    from pipelines.summary import table_text
    from sms.encoders.registry import ENCODERS

    rows = [(e.spec, ", ".join(e.vectors), e.summary) for e in ENCODERS.values()]
    print(table_text(("encoder", "vectors of", "what it is"), rows, n_left=3))
    print("\nWrite --encoder [ALIAS=]SPEC, for example --encoder news=glove:vectors.txt.")
