"""Makes explanations: scores the rows, then traces their plans or leaves their sentences out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from sms.config import ScoringConfig
from sms.cutting import composed_rows, first_tokens
from sms.explaining.moving import PlanFinder, units_of
from sms.explaining.picture import SCORE_DIGITS, effects_picture, moves_picture
from sms.explaining.records import (
    CANDIDATE,
    LIST_COLUMN,
    REFERENCE,
    Moves,
    SentenceEffect,
    TextUnits,
    Unit,
)
from sms.metric import AskedQuestion, Batch, Evidence, ScorePart, TokenScore
from sms.metrics.movers import Mover
from sms.scoring import Against, SummaryScorer, to_rows
from sms.text import Segmenter, TextRules

SCORE_ATOL = 1e-12
"""How far `exp(-distance)` of the explained plan may lie from the score; the last digits depend on
which other metrics were computed from the same block of distances."""

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """One row under one metric, with what its score is made of."""

    metric: str
    """Name of the score's column."""
    signature: str
    higher_is: str
    """What a higher score means."""
    language: str
    """Of the texts, as in `--language`."""
    score: float | None
    """None where there is none; `status` then says why."""
    status: str | None
    candidate: TextUnits
    others: tuple[TextUnits, ...]
    """The references and sources the candidate is compared with."""
    moves: tuple[Moves, ...] = ()
    """For mover's similarities the plan to each text of `others` that the score is made of: to the
    best only, where the best counts."""
    similarities: tuple[float | None, ...] = ()
    """For mover's similarities the score against each text of `others` alone."""
    effects: tuple[SentenceEffect, ...] = ()
    """For all other metrics, the sentences of the candidate, then of `others`; of the candidate
    alone where there are `tokens`."""
    tokens: tuple[TokenScore, ...] = ()
    """For likelihoods, the tokens whose mean or sum the score is; of several references or sources
    those of the one with the highest score."""
    evidence: tuple[Evidence, ...] = ()
    """For metrics that compare pieces, what decided about each piece of the candidate."""
    questions: tuple[AskedQuestion, ...] = ()
    """For language models that are asked, each question and its answer; there are no `effects`,
    which would be as many questions again."""
    parts: tuple[ScorePart, ...] = ()
    """For weighted sums, what each feature adds; the parts add up to the score, unless that is at
    a bound."""

    @property
    def language_mark(self) -> str:
        """The language for the attribute `lang` of a page; none for what nobody may have chosen."""
        return "" if self.language == "en" else self.language  # "en" is the default

    def name_of(self, text: TextUnits) -> str:
        """Name a text for people: its side, and which one where there are several."""
        n_texts = sum(other.side == text.side for other in self.others)
        name = text.side.capitalize()
        return f"{name} {text.number + 1}" if n_texts > 1 else name

    def svg(
        self,
        *,
        title: str = "",
        number: int = 0,
        highest: float | None = None,
        is_live: bool = False,
    ) -> str:
        """Draw the explanation as an `<svg>` element, which is a document of its own as well.

        `title` is for the head of the picture; the metric is named in any case. `number` is which
        of `moves`; without moves, the picture has the text that matters most to the score.
        `highest` is the cost at the end of the colour scale, by default the highest of the plan.
        `is_live` is for a page with scripts: more sentences, and all moves between them.
        """
        shown = f"{self.metric}: no score ({self.status})"
        if self.score is not None:
            shown = f"{self.metric} = {self.score:.{SCORE_DIGITS}f}"
        if self.moves:
            moves = self.moves[number]
            shown_as = (self.metric, shown, self.name_of(moves.other), title)
            return moves_picture(
                moves, *shown_as, highest=highest, language=self.language_mark, is_live=is_live
            )
        texts = [self.candidate]
        if self.others:
            texts.append(max(self.others, key=self._weight_of))
        named = {self.name_of(text): text for text in texts}
        return effects_picture(
            named, self.effects, self.metric, shown, title,
            language=self.language_mark, is_live=is_live,
        )  # fmt: skip

    def _weight_of(self, text: TextUnits) -> float:
        """Return how much the score depends on a text: the largest effect of a sentence of it."""
        drops = (e.drop for e in self.effects if (e.side, e.number) == (text.side, text.number))
        return max((abs(drop) for drop in drops if drop is not None), default=0.0)

    def _repr_html_(self) -> str:
        pictures = (self.svg(number=k) for k in range(max(1, len(self.moves))))
        return f'<div style="overflow-x:auto">{"".join(pictures)}</div>'


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
        needed=config.input_columns,
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
    metrics = [name for name in columns if not name.startswith(("cut@", "known_words@"))]
    raise ValueError(
        f"`metric` must be one of {', '.join(metrics)}, got {metric!r}; add it to the scores with "
        "`assay score`, or explain the texts without `--scores`"
    )


def explain_rows(scorer: SummaryScorer, rows: pa.Table, column: str) -> list[Explanation]:
    """Explain one score of every row; each explanation has the very number the scorer returns.

    Mover's similarities are explained by their plans, everything else by leaving sentences out.
    `rows` has the columns in `scorer.input_columns`, `column` is one of `scorer.score_fields`.
    """
    if column not in scorer.score_fields:
        raise ValueError(
            f"`column` must be one of {', '.join(scorer.score_fields)}, got {column!r}"
        )
    rows = composed_rows(rows)  # places in texts are those of the composed form, which is shown
    prepared = scorer.prepare(rows)
    scored = scorer.compare(prepared)
    names = scorer.input_columns
    listed = [
        {name: row[name] if name == CANDIDATE else row[name] or [] for name in names}
        for row in rows.to_pylist()
    ]
    sides = tuple(side for side, name in LIST_COLUMN.items() if name in names)
    metric = next((metric for metric in scorer.metrics if column in metric.columns), None)
    about = {
        "metric": column,
        "signature": scorer.signatures[column],
        "higher_is": "known" if metric is None else metric.higher_is,
        "language": scorer.config.language,
    }
    each = zip(scored[column].to_pylist(), scored["status"].to_pylist(), strict=True)
    # the status of a row with a score may be about something else
    known = [
        {**about, "score": score, "status": status if score is None else None}
        for score, status in each
    ]
    details: Mapping[str, Sequence[Any]] = {}
    if metric is not None:
        sides = () if metric.against is None else (metric.against,)
        if isinstance(metric, Mover):
            return list(_by_plans(scorer, prepared, metric, listed, known))
        details = metric.details(prepared, column)
        if "tokens" in details:
            sides = ()  # leaving out sentences would take a forward pass for each
    listed = [_as_read(row, scorer.config) for row in listed]
    omits = "questions" not in details  # a question for each may cost money
    explained = list(_by_omission(scorer, column, sides, listed, known, omits=omits))
    for name, of_rows in details.items():
        pairs = zip(explained, of_rows, strict=True)
        explained = [replace(whole, **{name: detail}) for whole, detail in pairs]
    return explained


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
    metric: Mover,
    rows: Sequence[_Row],
    known: Sequence[Mapping[str, Any]],
) -> Iterator[Explanation]:
    """Explain mover's similarities of a prepared batch by their plans.

    `known` is what an explanation has in any case: metric, signature, score, status.
    """
    finder = PlanFinder(scorer, batch, metric)
    is_best = metric.against == REFERENCE and scorer.config.multi_reference == "best"
    for number, (row, about_row) in enumerate(zip(rows, known, strict=True)):
        score = about_row["score"]
        candidate, *others = finder.placed_texts(number, row)
        moves = [finder.moves(candidate, other) for other in others]
        # one pair that is too large leaves a row without a score, though others have plans
        defined = [move for move in moves if move is not None and score is not None]
        if is_best:
            defined = sorted(defined, key=lambda move: move.distance)[:1]
        explained = sum(move.similarity for move in defined) / max(len(defined), 1)
        if (score is None) != (not defined) or abs(explained - (score or 0.0)) > SCORE_ATOL:
            name, n_plans = about_row["metric"], len(defined)
            raise RuntimeError(f"`{name}` is {score!r}, but its {n_plans} plans give {explained!r}")
        yield Explanation(
            **about_row,
            candidate=candidate[1],
            others=tuple(units for _, units in others),
            moves=tuple(defined),
            similarities=tuple(None if move is None else move.similarity for move in moves),
        )


def _by_omission(
    scorer: SummaryScorer,
    column: str,
    sides: Sequence[str],
    rows: Sequence[_Row],
    known: Sequence[Mapping[str, Any]],
    *,
    omits: bool,
) -> Iterator[Explanation]:
    """Score every row without each of its sentences, all in one batch, or leave none out."""
    texts = [_plain_texts(sides, scorer.config.rules, row) for row in rows]
    left_out = [
        list(_omissions(row, listed)) if omits and about_row["score"] is not None else []
        for row, listed, about_row in zip(rows, texts, known, strict=True)
    ]
    rows_without = [row for omitted in left_out for _, _, row in omitted]
    without = iter(_scores_of(rows_without, scorer, column))
    for (candidate, *others), omitted, about_row in zip(texts, left_out, known, strict=True):
        effects = []
        for text, unit, _ in omitted:
            rest = next(without)
            drop = None if rest is None else about_row["score"] - rest
            effects.append(SentenceEffect(text.side, text.number, unit, rest, drop))
        yield Explanation(
            **about_row, candidate=candidate, others=tuple(others), effects=tuple(effects)
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


def _scores_of(rows: Sequence[_Row], scorer: SummaryScorer, column: str) -> Sequence[float | None]:
    if not rows:
        return []
    lists = pa.list_(pa.string())
    fields = {name: pa.string() if name == CANDIDATE else lists for name in scorer.input_columns}
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(fields))
    scores: list[float | None] = scorer.compare(scorer.prepare(table))[column].to_pylist()
    return scores


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
