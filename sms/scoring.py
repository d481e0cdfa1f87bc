"""Scoring a batch under many metrics at once: texts cut once, each encoder run once.

`SummaryScorer` computes what a `ScoringConfig` says in two steps, `prepare` (text and embeddings)
and `compare` (transport, cosine, overlap), so that a caller may prepare the next batch while this
one is being compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sms.compiling import compile_for
from sms.config import ScoringConfig
from sms.cutting import TextReader, texts_of
from sms.encoders import VECTORS, EncodedSentences, EncoderRuntime
from sms.encoders.base import Encoder, WordEncoder, encode_texts
from sms.encoders.registry import load_encoder
from sms.metric import Batch, BatchTexts, Metric, Model, Setting
from sms.naming import is_unicode
from sms.noticing import MULTILINGUAL
from sms.process import available_threads
from sms.ragged import Ragged
from sms.reasons import CUT, UNREADABLE, Reason, reasons_of, statuses
from sms.text import SegmentedTexts, Segmenter
from sms.text.languages import language_of
from sms.text.sentences import joined
from sms.text.words import CANNOT_BE_SPLIT

Candidate: TypeAlias = str | Sequence[str] | None
"""A text; its sentences where these are given."""
Against: TypeAlias = str | Sequence[str] | Sequence[Sequence[str]] | None
"""One text to compare with, or several."""
_LISTS = pa.list_(pa.string())
LEAST_READ = 0.6
"""Share of the words of a language's sample that an encoder must read, or it is refused for that
language. Chosen between what multilingual models read of their languages (Xhosa 62 %, all but two
others more) and an English one of others (French 54 %, others less): `research/languages.md`."""


class SummaryScorer:
    """Scores batches under a configuration.

    A pickle has the configuration and no weights, which are loaded where it is unpickled.
    `threads` are those of the compiled kernels and of the encoders, `device` (`auto`, `cpu` or
    `cuda`) is where neural encoders run, `cache_folder` that of embeddings that outlive the run,
    and `n_workers` how many processes score at the same time; none of them is in a signature.
    Raises `ValueError` if an encoder's file is missing or damaged, with its path and line, or a
    tokeniser does not know the words of the language.

    Examples
    --------
    >>> scorer = SummaryScorer(ScoringConfig(metrics=("length",)))
    >>> rows = pa.table({"candidate": ["Two words.", None]})
    >>> scorer.compare(scorer.prepare(rows)).to_pylist()
    [{'length': 2.0, 'status': None}, {'length': None, 'status': 'candidate:null'}]
    """

    def __init__(
        self,
        config: ScoringConfig,
        threads: int | None = None,
        *,
        device: str = "auto",
        cache_folder: str | None = None,
        n_workers: int = 1,
    ) -> None:
        self.config = config = config.pinned()
        self._again = partial(
            SummaryScorer,
            config,
            threads,
            device=device,
            cache_folder=cache_folder,
            n_workers=n_workers,
        )
        self.threads = threads or available_threads()
        compile_for(metric.name for metric in config.asked)
        self._reader = TextReader(config)
        runtime = EncoderRuntime(
            zero_unknown=config.preset == "clark2019",
            precision=config.precision,
            device=device,
            threads=self.threads,
            cache_folder=cache_folder,
            n_workers=n_workers,
        )
        self.encoders: dict[str, Encoder] = {
            alias: load_encoder(
                config.specs[alias], replace(runtime, finest=_finest(config.computed, alias))
            )
            for alias in config.used_encoders
        }
        static = frozenset(
            alias for alias, encoder in self.encoders.items() if isinstance(encoder, WordEncoder)
        )
        self._setting = Setting(
            metrics=tuple(_opened(config.computed, runtime)),
            encoders=self.encoders,
            static=static,
            rules=config.rules,
            preset=config.preset,
            multi_reference=config.multi_reference,
            source_tokens=config.source_tokens,
            stemmer=config.stemmer,
            rouge_tokens=config.rouge_tokens or language_of(config.language).rouge_tokens,
            threads=self.threads,
        )
        self._check_language()

    def __reduce__(self) -> tuple[partial[SummaryScorer], tuple[()]]:
        return self._again, ()

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Canonical columns that `prepare` reads."""
        return self.config.input_columns

    @property
    def score_fields(self) -> tuple[str, ...]:
        """Columns that `compare` returns in addition to `status`."""
        return self.config.columns

    @property
    def content(self) -> dict[str, str]:
        """Hash of the weights of every encoder, and of every metric with a model of its own."""
        return {name: loaded.content_hash for name, loaded in self._loaded.items()}

    @cached_property
    def signatures(self) -> Mapping[str, str]:
        """A text for each column that identifies its numbers."""
        by_column: dict[str, str] = {}
        for metric in self.metrics:
            by_column = metric.signatures(self._setting) | by_column
        return {column: by_column[column] for column in self.score_fields}

    def counters(self) -> dict[str, int]:
        """Return counts so far, as `ALIAS.NAME`; a shared model has its first metric's name."""
        first_names = {id(loaded): name for name, loaded in reversed(self._loaded.items())}
        return {
            f"{name}.{what}": n
            for name, loaded in self._loaded.items()
            if first_names[id(loaded)] == name
            for what, n in loaded.state().items()
        }

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics with their models, and what comes along with them."""
        return self._setting.metrics

    @property
    def _loaded(self) -> dict[str, Encoder | Model]:
        models = {
            metric.written: metric.model for metric in self.metrics if metric.model is not None
        }
        return {**self.encoders, **models}

    def _check_language(self) -> None:
        """Refuse encoders that do not read most words of the language.

        Not checked: English, which all models know, languages without a sample, and static vectors,
        which may be about one subject only. What they do not know of a run's texts is counted.
        """
        language = language_of(self.config.language)
        if language.code == "en":
            return
        readers: dict[str, tuple[Any, Sequence[str]]] = {}
        for alias, encoder in self.encoders.items():
            if alias not in self._setting.static:
                given = {alias, self.config.specs[alias]}
                others = [spec for spec in MULTILINGUAL if spec not in given]
                readers[f"encoder `{alias}`"] = encoder, others
        for metric in self.metrics:
            if hasattr(metric.model, "read_words"):
                others = [f"{metric.name}@bert-base-multilingual-cased"]
                readers[f"the model of `{metric.written}`"] = metric.model, others
        samples = [
            Segmenter(self.config.rules).segment(pa.array([text]))
            for text in (language.samples() if readers else ())
        ]
        for what, (reader, fitting) in readers.items():
            shares = [share_read(reader, sample) for sample in samples]
            if shares and max(shares) < LEAST_READ:
                raise ValueError(
                    f"{what} must know {language.name}, but it knows only {max(shares):.0%} of the "
                    "words of a sample, and reads the others in fragments or not at all; use one "
                    f"made for {language.name}, such as {', '.join(fitting)}"
                )

    def score(self, rows: pa.Table) -> pa.Table:
        """Prepare and compare in one step."""
        return self.compare(self.prepare(rows))

    def prepare(self, rows: pa.Table) -> Batch:
        """Cut the distinct texts of a batch and encode their distinct sentences.

        `rows` has `candidate` (string) and, as needed, `references` and `sources` (list of string),
        perhaps `unreadable`, why a row whose texts are null cannot be read.
        """
        read = self._reader.read(rows)
        encoded: dict[str, tuple[EncodedSentences, Ragged]] = {}
        cannot_be_split: dict[str, np.ndarray] = {}
        for alias, encoder in self.encoders.items():
            needed = texts_of(read, self.config.sides_of(alias))
            encoded_sentences, text_sentences, failed = encode_texts(encoder, read.texts, needed)
            encoded[alias], cannot_be_split[alias] = (encoded_sentences, text_sentences), failed
        batch = Batch(
            **{field.name: getattr(read, field.name) for field in fields(BatchTexts)},
            setting=self._setting,
            encoded=encoded,
            cannot_be_split=cannot_be_split,
            unreadable=rows[UNREADABLE].combine_chunks()
            if UNREADABLE in rows.column_names
            else None,
        )
        for metric in self.metrics:
            metric.prepare(batch)
        return batch

    def compare(self, batch: Batch) -> pa.Table:
        """Score a prepared batch.

        Returns one float64 column per name in `score_fields`, null where undefined, and `status`,
        null where every score is defined and no text was cut.
        """
        scores, reasons = self.scored(batch)
        status = statuses(reasons, batch.candidate.size)
        if (why := batch.unreadable) is not None:
            status = pc.coalesce(pc.binary_join_element_wise(UNREADABLE, why, ": "), status)
        columns = {name: pa.array(scores[name], from_pandas=True) for name in self.score_fields}
        return pa.table(columns | {"status": status})

    def scored(self, batch: Batch) -> tuple[dict[str, np.ndarray], list[Reason]]:
        """Return the scores of a prepared batch, NaN where undefined, and what to say of rows."""
        scores: dict[str, np.ndarray] = {}
        for metric in self.metrics:
            scores |= metric.score(batch)
        _leave_out_unsplit(batch, scores)
        for name, values in scores.items():
            # A user's metric may divide by 0, but infinity can be neither averaged nor ranked.
            scores[name] = np.where(np.isinf(values), np.nan, values)
        return scores, list(_reasons(batch, scores))


def share_read(reader: Any, texts: SegmentedTexts) -> float:  # noqa: ANN401  (or a metric's model)
    """Return the share of the different words that count which a model reads, 1 if none do."""
    is_read = reader.read_words(texts)[texts.is_kept]
    return float(is_read.mean()) if is_read.size else 1.0


def _finest(metrics: Sequence[Metric], alias: str) -> str:
    """Return the finest vectors that any metric reads of an encoder."""
    return min((metric.finest for metric in metrics if alias in metric.encoders), key=VECTORS.index)


def _opened(metrics: Sequence[Metric], runtime: EncoderRuntime) -> Iterator[Metric]:
    """Give metrics their models; those of equal paths and settings share one."""
    shared: dict[tuple[str, str | None, str], Model | None] = {}
    for metric in metrics:
        key = (metric.name, metric.path, repr(metric.settings))
        if key not in shared:
            model = shared[key] = metric.open(runtime)
            has_hash = isinstance(getattr(model, "content_hash", None), str)
            if model is not None and not (has_hash and hasattr(model, "state")):
                raise TypeError(
                    f"the model of metric {metric.written!r} must have a `content_hash`, a text, "
                    f"and `state()`, counts by name; {type(model).__name__} has not"
                )
        yield metric.with_model(shared[key])


def _leave_out_unsplit(batch: Batch, scores: dict[str, np.ndarray]) -> None:
    """Give no score where a text that is read cannot be split: of several, it might be the best."""
    failures = batch.texts.cannot_be_split, *batch.cannot_be_split.values()
    if not any(failed.any() for failed in failures):
        return
    for metric in _readers(batch):
        if not metric.needs_sentences(batch.setting.rules):
            continue
        failed = batch.texts.cannot_be_split
        for alias in metric.encoders:
            failed = failed | batch.cannot_be_split[alias]
        in_row = failed[batch.candidate]
        for side in metric.sides:
            in_row = in_row | batch.pairs[side].any(failed[batch.pairs[side].other])
        for column in metric.columns:
            scores[column] = np.where(in_row, np.nan, scores[column])


def _readers(batch: Batch) -> list[Metric]:
    """Return the metrics that read sentences, words or vectors."""
    return [metric for metric in batch.setting.metrics if metric.reads_texts]


def _reasons(batch: Batch, scores: Mapping[str, np.ndarray]) -> Iterator[Reason]:
    """Say why rows have no score, and then which of their texts were read in part."""
    of_batch = [reason for reason in batch.reasons if reason.why != CUT]
    nulls = _nulls(batch, scores)
    of_readers = list(_null_reasons(batch, nulls))
    of_readers += [reason for reason in of_batch if not reason.columns]
    yield from of_readers
    is_unexplained = np.ones(batch.candidate.size, dtype=bool)
    for reason in of_readers:
        is_unexplained &= ~reason.rows
    for column, is_null in nulls.items():
        yield Reason(column, "undefined", is_null & is_unexplained)
    yield from (reason for reason in of_batch if reason.columns)
    yield from _cut_texts(batch)
    yield from (reason for reason in batch.reasons if reason.why == CUT)


def _nulls(batch: Batch, scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tell by column which rows lack a score that a metric reads texts for; no column of none."""
    nulls = {
        column: np.isnan(scores[column]) for metric in _readers(batch) for column in metric.columns
    }
    return {column: is_null for column, is_null in nulls.items() if is_null.any()}


def _null_reasons(batch: Batch, nulls: Mapping[str, np.ndarray]) -> Iterator[Reason]:
    """Say which texts of rows without a score are to blame."""
    if not nulls:
        return
    readers, is_null = _readers(batch), np.any([*nulls.values()], axis=0)
    bad = _text_reasons(batch)
    for why, of, flags in bad:
        yield Reason("candidate", why, is_null & flags[batch.candidate], of)
    for side in dict.fromkeys(side for metric in readers for side in metric.sides):
        name, pairs = side.removesuffix("s"), batch.pairs[side]
        yield from reasons_of(name, batch.sides[side], bad, is_null)
        for why, of, flags in bad:
            if why == CANNOT_BE_SPLIT:  # of several texts one that failed might be the best
                yield Reason(name, why, is_null & pairs.any(flags[pairs.other]), of)


def _cut_texts(batch: Batch) -> Iterator[Reason]:
    """Tell which rows have a text that an encoder read in part."""
    for alias in batch.encoded:
        if not (is_cut := batch.is_cut(alias)).any():
            continue
        yield Reason("candidate", CUT, is_cut[batch.candidate], alias)
        read = {
            s for metric in batch.setting.metrics if alias in metric.encoders for s in metric.sides
        }
        for side, of in batch.pairs.items():
            if side in read:
                yield Reason(side.removesuffix("s"), CUT, of.any(is_cut[of.other]), alias)


def _text_reasons(batch: Batch) -> list[tuple[str, str, np.ndarray]]:
    """Return why texts cannot be scored, of which encoder, and which; the most basic first."""
    texts, readers = batch.texts, _readers(batch)
    has_words = texts.sentence_words.sums(texts.is_kept[texts.sentence_words.values]) > 0
    n_with_words = texts.text_sentences.sums(has_words[texts.text_sentences.values])
    not_written = batch.why_not_written()
    basic = {
        "null": not_written["null"],
        CANNOT_BE_SPLIT: texts.cannot_be_split,
        "empty": not_written["empty"] | (batch.is_split & (texts.text_sentences.lengths == 0)),
        "no_words": not_written["no_words"] | (batch.is_split & (n_with_words == 0)),
    }
    found, is_said = [], np.zeros(len(texts.text_sentences), dtype=bool)
    for why, flags in basic.items():
        found.append((why, "", flags & ~is_said))
        is_said |= flags
    others = []
    for alias, (encoded, of_texts) in batch.encoded.items():
        n_known = of_texts.sums(encoded.weights[of_texts.values])
        others.append(("no_known_words", alias, (of_texts.lengths > 0) & (n_known == 0)))
    others += [(CANNOT_BE_SPLIT, alias, flags) for alias, flags in batch.cannot_be_split.items()]
    of_metrics: dict[str, np.ndarray] = {}
    for metric in readers:
        of_metrics |= metric.text_reasons(batch)
    others += [(why, "", flags) for why, flags in of_metrics.items()]
    return found + [(why, of, flags & ~is_said) for why, of, flags in others]


def score_texts(
    candidates: Sequence[Candidate],
    references: Sequence[Against] | None = None,
    sources: Sequence[Against] | None = None,
    **options: Any,  # noqa: ANN401
) -> pa.Table:
    """Score a list of texts: one float64 column per metric and `status`.

    Parameters
    ----------
    candidates : sequence of str
        With `sentences="given"` of list of str, the sentences.
    references, sources : sequence of str or of list of str, optional
        As many as candidates; several for one candidate as a list. With `sentences="given"` a list
        of str is one text, and a list of such lists is several.
    **options
        Fields of `ScoringConfig`, for example `metrics=("sms", "rougeL")`.

    Raises
    ------
    ValueError
        If lengths differ or an option is wrong.
    TypeError
        If one text is given where a list belongs, or an option is of the wrong type.

    Examples
    --------
    >>> table = score_texts(["A cat sat."], ["The cat sat down."], metrics=("rouge1_r",))
    >>> table["rouge1_r"].to_pylist()
    [0.5]
    """
    config = ScoringConfig(**options)
    needed = config.input_columns
    rows = to_rows(candidates, references, sources, sentences=config.sentences, needed=needed)
    missing = [name for name in needed if name not in rows.column_names]
    if missing:
        raise ValueError(f"`{missing[0]}` must be given for {', '.join(config.metrics)}")
    return SummaryScorer(config).score(rows)


def to_rows(
    candidates: Sequence[Candidate],
    references: Sequence[Against] | None = None,
    sources: Sequence[Against] | None = None,
    *,
    sentences: str = "split",
    needed: Sequence[str] = ("references", "sources"),
) -> pa.Table:
    """Make the table that `SummaryScorer` reads from lists of texts, as in `score_texts`.

    Sides that are not `needed` are left out. A row with a text that is no valid Unicode has nulls,
    and a reason in a column `unreadable`.
    """
    is_given = sentences == "given"
    given = {"candidates": candidates, "references": references, "sources": sources}
    for name, texts in given.items():
        if isinstance(texts, str):  # a sequence too, of one-letter texts
            raise TypeError(f"`{name}` must be a list of texts, got one text; put it in a list")
    read = [_text(text, f"`candidates` in row {k}", is_given) for k, text in enumerate(candidates)]
    cells: dict[str, list[Any]] = {"candidate": read}
    for name, side in (("references", references), ("sources", sources)):
        if side is None:
            continue
        if len(side) != len(candidates):
            raise ValueError(
                f"`{name}` and `candidates` must be equally many, got {len(side)} and "
                f"{len(candidates)}"
            )
        listed = [_texts(item, f"`{name}` in row {k}", is_given) for k, item in enumerate(side)]
        if name in needed:
            cells[name] = listed
    types = {name: pa.string() if name == "candidate" else _LISTS for name in cells}
    try:
        return pa.table({name: pa.array(column, types[name]) for name, column in cells.items()})
    except UnicodeEncodeError:  # half a character, as at the end of a cut-off generation
        why = [
            _why_unreadable(dict(zip(cells, row, strict=True)))
            for row in zip(*cells.values(), strict=True)
        ]
    readable = {
        name: [None if reason else cell for reason, cell in zip(why, column, strict=True)]
        for name, column in cells.items()
    }
    columns = {name: pa.array(column, types[name]) for name, column in readable.items()}
    return pa.table({**columns, UNREADABLE: pa.array(why, pa.string())})


def _why_unreadable(row: Mapping[str, Any]) -> str | None:
    """Name the first side of a row with a text that is no valid Unicode."""
    for name, cell in row.items():
        texts = [cell] if isinstance(cell, str) else cell or []
        if not all(is_unicode(text or "") for text in texts):
            return f"`{name.removesuffix('s')}` is not valid UTF-8"
    return None


def _text(text: Candidate, where: str, is_given: bool) -> str | None:
    """Return a text as the tables have it."""
    if text is None or isinstance(text, str):
        return text
    if not is_given:
        raise TypeError(
            f"{where} must be a text, got a {type(text).__name__}; for lists of sentences say "
            '`sentences="given"`'
        )
    sentences = [sentence for sentence in text if sentence is not None]
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise TypeError(f"{where} must be a text or a list of sentences, got {text!r:.60}")
    return joined(sentences)


def _texts(item: Against, where: str, is_given: bool) -> list[str | None] | None:
    """Return the texts a candidate is compared with."""
    if item is None:
        return None
    if isinstance(item, Mapping):
        raise TypeError(f"{where} must be a text or a list of texts, got {item!r:.60}")
    is_one = isinstance(item, str) or (
        is_given and all(text is None or isinstance(text, str) for text in item)
    )
    texts = [item] if is_one else item
    return [_text(cast("Candidate", text), where, is_given) for text in texts]
