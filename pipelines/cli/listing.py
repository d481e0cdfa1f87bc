"""`assay metrics` and `assay encoders`: what there is."""

from __future__ import annotations

import click


@click.command()
def metrics() -> None:
    """List the metrics, what each needs and how to read it."""
    from pipelines.reports.terminal import table_text
    from sms.metrics import all_metrics

    rows = [
        (m.spec or m.name, m.higher_is, ", ".join(m.needs) or "–", m.summary)
        for m in all_metrics().values()
    ]
    print(table_text(("metric", "higher means", "needs", "what it is"), rows, n_left=4))
    print("\nWrite METRIC[@ENCODER][:AGAINST], for example sms, wms@glove, cosine:source,")
    print("or cosine@all, the mean over the encoders of the run.")


@click.command()
def encoders() -> None:
    """List the encoders, their options and what they need."""
    from pipelines.reports.terminal import table_text
    from sms.encoders.registry import ENCODERS, Option

    def written(option: Option) -> str:
        values = "|".join(option.choices) or "PATH"
        return f"{option.name}={values}"

    rows = [
        (e.spec, ", ".join(e.vectors), f"extra {e.extra}" if e.extra else "–", e.summary)
        for e in ENCODERS.values()
    ]
    print(table_text(("encoder", "vectors of", "needs", "what it is"), rows, n_left=4))
    options = [
        (e.kind, written(option), option.default or "must be given", option.summary)
        for e in ENCODERS.values()
        for option in e.options
    ]
    print()
    print(table_text(("encoder", "option", "default", "what it is"), options, n_left=4))
    print("\nWrite --encoder [ALIAS=]SPEC[,OPTION=VALUE...], for example")
    print("--encoder news=glove:vectors.txt,pooling=max, or in the file of --config:")
    print('[encoders.news]  kind = "glove"  path = "vectors.txt"  pooling = "max"  (one per line)')
    print("An extra is installed with: pip install 'assay[EXTRA]'")
