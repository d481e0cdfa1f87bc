"""The data sets that can be imported, by name."""

from __future__ import annotations

from pipelines.datasets import (
    asap_sas,
    bigpatent,
    chaganty2018,
    cnn_dailymail,
    duc,
    mt_metrics_eval,
    newsroom,
    newsroom_human,
    realsumm,
    sacrerouge,
    summeval,
    tac2010,
    xsum,
)
from pipelines.datasets.source import DataSource
from sms.naming import nearest

SOURCES: dict[str, DataSource] = {
    source.name: source
    for source in (
        cnn_dailymail.SOURCE,
        newsroom.SOURCE,
        bigpatent.SOURCE,
        xsum.SOURCE,
        newsroom_human.SOURCE,
        duc.DUC2001,
        duc.DUC2002,
        tac2010.SOURCE,
        chaganty2018.SOURCE,
        asap_sas.SOURCE,
        summeval.SOURCE,
        realsumm.SOURCE,
        sacrerouge.SOURCE,
        mt_metrics_eval.SOURCE,
    )
}


def find_source(name: str) -> DataSource:
    """Find a data set by its name.

    Raises
    ------
    ValueError
        If there is none of that name; the message has the nearest one.
    """
    if name not in SOURCES:
        raise ValueError(f"unknown data set `{name}`; {nearest(name, SOURCES)}")
    return SOURCES[name]
