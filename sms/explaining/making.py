"""Makes explanations: scores the rows, then traces their plans or leaves their sentences out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from sms.config import ScoringConfig
from sms.cutting import first_tokens
from sms.explaining.explanation import Explanation
from sms.explaining.moving import PlanFinder
from sms.explaining.records import (
    CANDIDATE,
    LIST_COLUMN,
    REFERENCE,
    Moves,
    SentenceEffect,
    TextUnits,
    Unit,
)
from sms.explaining.units import units_of
from sms.metric import Batch, MetricRequest
from sms.movers import Mover
from sms.scorers import Scorer
from sms.scoring import Against, SummaryScorer, to_rows
from sms.text import Segmenter, TextRules

SCORE_ATOL = 1e-12
"""How far `exp(-distance)` of the explained plan may lie from the score; the last digits depend on
which other metrics were computed from the same block of distances."""

_Row = Mapping[str, Any]


def explain(
    candidate: str | Sequence[str],
    reference: Against = None,
    source: Against = None,
    *,
    metric: str = "s+wms",
    encoder: str = "minilm",
    **options: Any,  # noqa: ANN401
) -> Explanation:
    """Explain the score of one candidate; in a notebook the explanation shows itself.

    `reference` and `source` are one text or several, as in `score_texts`; `metric` is a metric's
    name (of a ROUGE variant without a part, the F measure), `options` are further fields of
    `ScoringConfig`.

    Raises
    ------
    ValueError
        If the metric needs a text that is not given, or an option is wrong.

    Examples
    --------
    >>> explanation = explain("A cat sat.", "The cat sat down.", metric="wms")
    >>> flow = explanation.moves[0].flows[0]
    >>> explanation.moves[0].candidate.points[flow.candidate].text
    'sat'
    """
    config = ScoringConfig(metrics=(metric,), encoders={"encoder": encoder}, **options)
    rows = to_rows(
        [candidate],
        references=None if reference is None else [reference],
        sources=None if source is None else [source],
        sentences=config.sentences,
    )
    for name in config.input_columns:
        if name not in rows.column_names:
            raise ValueError(f"`{name.removesuffix('s')}` must be given for metric `{metric}`")
    return explain_rows(SummaryScorer(config), rows, column_of(metric, config.columns))[0]


def column_of(metric: str, columns: Sequence[str]) -> str:
    """Choose the score column that a metric's name stands for; raises `ValueError` without one."""
    if metric in columns:
        return metric
    head, colon, against = metric.partition(":")
    f_measure = f"{head}_f{colon}{against}"
    if f_measure in columns:
        return f_measure
    metrics = [name for name in columns if not name.startswith(("cut@", "coverage@"))]
    raise ValueError(
        f"`metric` must be one of {', '.join(metrics)}, got {metric!r}; add it to the scores with "
        "`assay score`, or explain the texts without `--scores`"
    )


def explain_rows(scorer: Scorer, rows: pa.Table, column: str) -> list[Explanation]:
    """Explain one score of every row; each explanation has the very number the scorer returns.

    Mover's similarities of a `SummaryScorer` are explained by their plans, everything else by
    leaving sentences out. `rows` has the columns in `scorer.input_columns`, `column` is one of
    `scorer.score_fields`.
    """
    if column not in scorer.score_fields:
        raise ValueError(
            f"`column` must be one of {', '.join(scorer.score_fields)}, got {column!r}"
        )
    prepared = scorer.prepare(rows)
    scored = scorer.compare(prepared)
    listed = [_row(row, scorer.input_columns) for row in rows.to_pylist()]
    scores = [
        # the status of a row with a score may be about something else
        (score, None if score is not None else status or f"`{column}` is not a number")
        for score, status in zip(
            _numbers(scored[column]), scored["status"].to_pylist(), strict=True
        )
    ]
    signature = dict(getattr(scorer, "signatures", {})).get(column, column)
    sides = tuple(side for side, name in LIST_COLUMN.items() if name in scorer.input_columns)
    if not isinstance(scorer, SummaryScorer):
        about = _About(
            column, signature, dict(getattr(scorer, "meanings", {})).get(column, "closer")
        )
        return list(_by_omission(scorer, about, sides, TextRules(), listed, scores))
    request = next((r for r in scorer.config.requests if column in r.columns), None)
    about = _About(column, signature, "known" if request is None else request.metric.higher_is)
    details: dict[str, Sequence[Any] | None] = {}
    if request is not None:
        metric, sides = request.metric, () if request.against is None else (request.against,)
        if isinstance(metric, Mover):
            return list(_by_plans(scorer, prepared, about, request, listed, scores))
        details = {
            "tokens": metric.tokens(request, prepared, column),
            "evidence": metric.evidence(request, prepared),
            "parts": metric.parts(request, prepared),
        }
        if details["tokens"] is not None:
            sides = ()  # what a source adds would take a pass for each sentence
    if request is None or request.metric.reads_texts:
        listed = [_as_read(row, scorer.config) for row in listed]
    explained = list(_by_omission(scorer, about, sides, scorer.config.rules, listed, scores))
    for name, of_rows in details.items():
        if of_rows is not None:
            each = zip(explained, of_rows, strict=True)
            explained = [replace(whole, **{name: own}) for whole, own in each]
    return explained


def _numbers(scores: pa.ChunkedArray) -> list[float | None]:
    """Return scores, None for those that are null or not a number, as runners write them."""
    return [
        None if score is None or math.isnan(score) else float(score) for score in scores.to_pylist()
    ]


class _About(NamedTuple):
    """What an explanation says of the metric behind a column."""

    metric: str
    signature: str
    higher_is: str


def _row(row: _Row, columns: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] if name == CANDIDATE else row[name] or [] for name in columns}


def _as_read(row: dict[str, Any], config: ScoringConfig) -> dict[str, Any]:
    """Drop what is not read, or a sentence left out would let other text take its place."""
    read = dict(row)
    if config.multi_reference == "first" and "references" in row:
        read["references"] = row["references"][:1]
    if config.source_tokens is not None and "sources" in row:
        sources = pa.array(row["sources"], pa.string())
        read["sources"] = first_tokens(sources, config.source_tokens).to_pylist()
    return read


def _by_plans(
    scorer: SummaryScorer,
    batch: Batch,
    about: _About,
    request: MetricRequest,
    rows: Sequence[_Row],
    scores: Sequence[tuple[float | None, str | None]],
) -> Iterator[Explanation]:
    """Explain mover's similarities of a prepared batch by their plans."""
    finder = PlanFinder(scorer, batch, request)
    is_best = request.against == REFERENCE and scorer.config.multi_reference == "best"
    for number, (row, (score, status)) in enumerate(zip(rows, scores, strict=True)):
        candidate, *others = finder.placed_texts(number, row)
        moves = [finder.moves(candidate, other) for other in others]
        # one pair that is too large leaves a row without a score, though others have plans
        defined = [move for move in moves if move is not None and score is not None]
        if is_best:
            defined = sorted(defined, key=lambda move: move.distance)[:1]
        _check_score(about.metric, score, defined)
        yield Explanation(
            **about._asdict(),
            score=score,
            status=status,
            candidate=candidate.units,
            others=tuple(other.units for other in others),
            moves=tuple(defined),
            similarities=tuple(None if move is None else move.similarity for move in moves),
        )


def _check_score(column: str, score: float | None, moves: Sequence[Moves]) -> None:
    """Hold the plans to the score they explain."""
    if score is None and not moves:
        return
    explained = sum(move.similarity for move in moves) / max(len(moves), 1)
    if score is None or not moves or abs(explained - score) > SCORE_ATOL:
        raise RuntimeError(
            f"`{column}` is {score!r}, but its {len(moves)} plans give {explained!r}"
        )


def _by_omission(
    scorer: Scorer,
    about: _About,
    sides: Sequence[str],
    rules: TextRules,
    rows: Sequence[_Row],
    scores: Sequence[tuple[float | None, str | None]],
) -> Iterator[Explanation]:
    """Score every row without each of its sentences, all in one batch."""
    texts = [_plain_texts(sides, rules, row) for row in rows]
    left_out = [
        list(_omissions(row, own)) if score is not None else []
        for row, own, (score, _) in zip(rows, texts, scores, strict=True)
    ]
    rows_without = [row for own in left_out for _, _, row in own]
    without = iter(_scores_of(rows_without, scorer, about.metric))
    for (candidate, *others), own, (score, status) in zip(texts, left_out, scores, strict=True):
        effects = []
        for text, unit, _ in own:
            rest = next(without)
            drop = None if rest is None or score is None else score - rest
            effects.append(SentenceEffect(text.side, text.number, unit, rest, drop))
        yield Explanation(
            **about._asdict(),
            score=score,
            status=status,
            candidate=candidate,
            others=tuple(others),
            effects=tuple(effects),
        )


def _omissions(row: _Row, texts: Sequence[TextUnits]) -> Iterator[tuple[TextUnits, Unit, _Row]]:
    """Leave every sentence of the texts of a row out, one at a time: its text, itself, the row."""
    for text in texts:
        sentences = [unit for unit, _ in text.sentences()]
        bounds = [*(unit.start for unit in sentences), len(text.text)]
        for unit, (start, end) in zip(sentences, pairwise(bounds), strict=True):
            rest = text.text[:start] + text.text[end:]
            if text.side == CANDIDATE:
                yield text, unit, {**row, CANDIDATE: rest}
                continue
            column = LIST_COLUMN[text.side]
            listed = list(row[column])
            listed[text.number] = rest
            yield text, unit, {**row, column: listed}


def _scores_of(rows: Sequence[_Row], scorer: Scorer, column: str) -> Sequence[float | None]:
    if not rows:
        return []
    lists = pa.list_(pa.string())
    fields = {name: pa.string() if name == CANDIDATE else lists for name in scorer.input_columns}
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(fields))
    return _numbers(scorer.compare(scorer.prepare(table))[column])


def _plain_texts(sides: Sequence[str], rules: TextRules, row: _Row) -> list[TextUnits]:
    """Return the candidate and what it is compared with, cut up; no word is dropped."""
    given = [(CANDIDATE, 0, row[CANDIDATE] or "")]
    for side in sides:
        given += [(side, k, text or "") for k, text in enumerate(row[LIST_COLUMN[side]])]
    distinct = list(dict.fromkeys(text for _, _, text in given))
    segmented = Segmenter(rules).segment(pa.array(distinct, pa.string()))
    units = {
        text: tuple(replace(u, dropped=None) for u in units_of(text, segmented, number, rules))
        for number, text in enumerate(distinct)
    }
    return [TextUnits(side, number, text, units[text]) for side, number, text in given]
