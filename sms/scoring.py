"""Scoring a batch under many metrics at once: texts cut once, each encoder run once.

`ScoringConfig` says what to compute, `SummaryScorer` computes it in two steps, `prepare` (text
and embeddings) and `compare` (transport, cosine, overlap), so that a caller may prepare the
next batch while this one is being compared.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from sms.encoders import PRECISIONS, EncoderRuntime, encode_texts
from sms.encoders.registry import kinds_with, load_encoder, parse_spec
from sms.languages import LANGUAGES
from sms.metrics import ALL, MetricRequest, parse_metric
from sms.naming import several
from sms.ragged import Ragged
from sms.sentences import joined
from sms.text import ChunkTable, SegmentedTexts, Segmenter, TextRules

if TYPE_CHECKING:
    from sms.encoders import EncodedSentences, Encoder

Candidate: TypeAlias = str | Sequence[str] | None
"""A text; its sentences where these are given."""
Against: TypeAlias = str | Sequence[str] | Sequence[Sequence[str]] | None
"""One text to compare with, or several."""
PRESETS = ("default", "clark2019")
MULTI_REFERENCE = ("best", "mean", "first")
LEAST_KNOWN = 0.5
"""Share of a language's sample that an encoder must know, or it is refused for that language."""
SIDES = ("candidate", "references", "sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringConfig:
    """What to compute for every row."""

    metrics: tuple[str, ...] = ("sms", "wms", "s+wms", "cosine", "rougeL")
    """Names as in `metrics.parse_metric`, or one of them."""
    encoders: Mapping[str, str] = field(default_factory=lambda: {"minilm": "minilm"})
    """Alias and specification, as in `registry.parse_spec`, of every encoder; the first is the
    default."""
    preset: str = "default"
    """`clark2019` reproduces the text handling of the released sentence mover code."""
    multi_reference: str = "best"
    """With several references: the best, their mean, or the first. Sources are averaged."""
    language: str = "en"
    """Chooses sentence rules, words and stop list; ROUGE then counts those words, where for
    English it counts the tokens of `rouge-score`, which knows no other letters than a to z."""
    sentences: str = "split"
    """`split`, or `given`: every text is a list of sentences, which are taken as they are. Several
    references or sources are then a list of such lists, and a text is one sentence."""
    source_tokens: int | None = None
    """Read only this many whitespace-separated tokens of each source, whatever the metric (Sun and
    Nenkova, figure 2); other texts stay whole."""
    precision: str = "auto"
    """What neural encoders compute in, one of `sms.encoders.PRECISIONS`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", tuple(several(self.metrics)))
        for name, choices in (
            ("preset", PRESETS),
            ("multi_reference", MULTI_REFERENCE),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(choices)}, got {getattr(self, name)!r}"
                )
        if self.source_tokens is not None:
            if not isinstance(self.source_tokens, int) or isinstance(self.source_tokens, bool):
                raise TypeError(f"`source_tokens` must be an integer, got {self.source_tokens!r}")
            if self.source_tokens < 1:
                raise ValueError(f"`source_tokens` must be at least 1, got {self.source_tokens}")
        if not self.metrics:
            raise ValueError("`metrics` must name at least one metric; see `assay metrics`")
        _check_encoders(self.encoders)
        columns = self.columns
        if len(set(columns)) != len(columns):
            twice = next(column for column in columns if columns.count(column) > 1)
            raise ValueError(f"`metrics` must not give a column twice, got {twice!r}")
        for request in self.requests:
            _check_vectors(request, self.encoders)
        _ = self.rules
        if self.source_tokens is not None and not LANGUAGES[self.language].has_spaces:
            raise ValueError(
                f"`source_tokens` counts what stands between spaces, which language "
                f"{self.language!r} does not write; cut the sources beforehand"
            )

    @property
    def requests(self) -> tuple[MetricRequest, ...]:
        """The metrics, read."""
        return tuple(parse_metric(name, list(self.encoders)) for name in self.metrics)

    @property
    def rules(self) -> TextRules:
        """How text is cut."""
        words = "clark2019" if self.preset == "clark2019" else "default"
        return TextRules(language=self.language, words=words, sentences=self.sentences)

    @property
    def used_encoders(self) -> tuple[str, ...]:
        """Aliases that some metric reads, in the order of `encoders`."""
        named = {alias for request in self.requests for alias in request.encoders}
        return tuple(alias for alias in self.encoders if alias in named)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns: the metrics', then one of coverage per encoder of words."""
        asked = tuple(column for request in self.requests for column in request.columns)
        with_words = [
            alias
            for alias in self.used_encoders
            if "words" in parse_spec(self.encoders[alias]).kind.vectors
        ]
        return asked + tuple(f"coverage@{alias}" for alias in with_words)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Canonical columns that must be there: candidate and what the metrics compare with."""
        reads = set()
        for request in self.requests:
            if request.against == "reference":
                reads.add("references")
            elif request.against == "source" or "source" in request.metric.needs:
                reads.add("sources")
        return tuple(side for side in SIDES if side == "candidate" or side in reads)

    def sides_of(self, alias: str) -> tuple[str, ...]:
        """Return what the metrics of an encoder compare with, of `references` and `sources`."""
        reads = {_side(request) for request in self.requests if alias in request.encoders}
        return tuple(side for side in SIDES if side in reads)

    def as_dict(self) -> dict[str, Any]:
        """Return the configuration as JSON-able values, every encoder in its canonical form."""
        encoders = {alias: str(parse_spec(spec)) for alias, spec in self.encoders.items()}
        return asdict(self) | {"encoders": encoders, "metrics": list(self.metrics)}


def _check_encoders(encoders: Mapping[str, str]) -> None:
    if not isinstance(encoders, Mapping):
        raise TypeError(
            "`encoders` must map aliases to specifications, as {'minilm': 'minilm'}, got "
            f"{encoders!r}"
        )
    if not encoders:
        raise ValueError("`encoders` must name at least one encoder; see `assay encoders`")
    for alias, spec in encoders.items():
        if alias == ALL:
            raise ValueError(
                f"encoder alias {alias!r} is taken: METRIC@all means the mean over all encoders"
            )
        if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", alias):
            raise ValueError(f"encoder alias {alias!r} must be letters, digits, `.`, `-`, `_`")
        if not isinstance(spec, str):
            raise TypeError(f"encoder `{alias}` must be a text such as 'minilm', got {spec!r}")
        parse_spec(spec)


def _check_vectors(request: MetricRequest, encoders: Mapping[str, str]) -> None:
    """Refuse a metric over words or sentences with an encoder that has none."""
    for alias in request.encoders:
        spec = parse_spec(encoders[alias])
        kind = spec.kind
        if request.metric.family == "mover" and spec.values.get("unit") == "text":
            raise ValueError(
                f"metric {request.name!r} compares sentences, but encoder `{alias}` reads whole "
                "texts; leave out `unit=text`"
            )
        if "words" in request.metric.needs and "words" not in kind.vectors:
            raise ValueError(
                f"metric {request.name!r} needs word vectors, which `{kind.kind}` has not; "
                f"encoders with word vectors are {kinds_with('words')}"
            )


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch after text handling and encoding."""

    texts: SegmentedTexts
    candidate: np.ndarray
    """Text of every row's candidate, int64, shape (n_rows,)."""
    sides: Mapping[str, Ragged]
    """Texts of every row's references and sources."""
    is_null: np.ndarray
    """Texts that were null, bool, shape (n_texts,)."""
    encoded: Mapping[str, tuple[EncodedSentences, Ragged]]
    """By encoder: its sentences, and the texts in terms of them."""
    cannot_be_split: Mapping[str, np.ndarray]
    """By encoder, the texts that its tokeniser failed on, bool, shape (n_texts,)."""
    rouge_tokens: Ragged | None
    """ROUGE tokens of every sentence."""


class SummaryScorer:
    """Scores batches under a configuration.

    Parameters
    ----------
    config : ScoringConfig
    threads : int, optional
        Threads of the compiled kernels and of the encoders.
    device : {"auto", "cpu", "cuda"}
        Where neural encoders run; the scores' signatures do not name it.
    cache_folder : str, optional
        Folder of embeddings that outlive the run.

    Raises
    ------
    ValueError
        If an encoder's file is missing or damaged, with its path and line, or a tokeniser does not
        know the words of the language.

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
    ) -> None:
        from sms.compiled import available_threads

        self.config = config
        self.threads = threads or available_threads()
        self._segmenter = Segmenter(config.rules)
        self._requests = config.requests
        self._rouge = ChunkTable(_plain_rouge_tokens)
        self.seconds = {"text": 0.0, "encode": 0.0, "transport": 0.0, "overlap": 0.0}
        """Time spent in each stage so far."""
        runtime = EncoderRuntime(
            zero_unknown=config.preset == "clark2019",
            precision=config.precision,
            device=device,
            threads=self.threads,
            cache_folder=cache_folder,
        )
        self.encoders: dict[str, Encoder] = {
            alias: load_encoder(config.encoders[alias], runtime) for alias in config.used_encoders
        }
        self._check_language()

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Canonical columns that `prepare` reads."""
        return self.config.input_columns

    @property
    def score_fields(self) -> tuple[str, ...]:
        """Columns that `compare` returns beside `status`."""
        return self.config.columns

    @property
    def content(self) -> dict[str, str]:
        """Hash of every encoder's weights."""
        return {alias: encoder.content_hash for alias, encoder in self.encoders.items()}

    @property
    def signatures(self) -> dict[str, str]:
        """What identifies each column's numbers, from the configuration alone."""
        from sms.signature import signatures

        return signatures(self.config, self.encoders)

    def state(self) -> dict[str, Any]:
        """Return what was done so far: seconds by stage, and tokens and cache hits by encoder."""
        encoders = {alias: dict(encoder.state()) for alias, encoder in self.encoders.items()}
        return {"seconds": dict(self.seconds), "encoders": encoders}

    def counters(self) -> dict[str, int]:
        """Return every encoder's counts so far, as `ALIAS.NAME`."""
        return {
            f"{alias}.{name}": n
            for alias, encoder in self.encoders.items()
            for name, n in encoder.state().items()
        }

    def _check_language(self) -> None:
        """Refuse encoders to which most words of the language would be one unknown word.

        English is what all models know; files of static vectors may be about one subject only. Of
        both, the summary of a run says how many words are unknown.
        """
        config = self.config
        learned = {
            alias: encoder
            for alias, encoder in self.encoders.items()
            if not parse_spec(config.encoders[alias]).kind.is_static
        }
        if config.language == "en" or not learned:
            return
        sample = Segmenter(config.rules).segment(pa.array([LANGUAGES[config.language].sample()]))
        for alias, encoder in learned.items():
            share = float(encoder.known_words(sample)[sample.is_kept].mean())
            if share < LEAST_KNOWN:
                raise ValueError(
                    f"encoder `{alias}` must know the words of language {config.language!r}, but "
                    f"knows {share:.0%} of those of a sample; use one made for it, such as "
                    "hf:bert-base-multilingual-cased, hf:xlm-roberta-base or a fasttext: file of "
                    "that language"
                )

    def score(self, rows: pa.Table) -> pa.Table:
        """Prepare and compare in one step."""
        return self.compare(self.prepare(rows))

    def prepare(self, rows: pa.Table) -> Prepared:
        """Cut the distinct texts of a batch and encode their distinct sentences.

        Parameters
        ----------
        rows : pyarrow.Table
            `candidate` (string) and, as needed, `references` and `sources` (list of string).
        """
        started = time.perf_counter()
        texts, candidate, sides, is_null = _distinct_texts(rows, self.config)
        segmented = self._segmenter.segment(texts)
        rouge_tokens = None
        if any(request.metric.family == "rouge" for request in self._requests):
            rouge_tokens = self._rouge_tokens(segmented)
        self.seconds["text"] += time.perf_counter() - started
        started = time.perf_counter()
        encoded: dict[str, tuple[EncodedSentences, Ragged]] = {}
        cannot_be_split: dict[str, np.ndarray] = {}
        for alias, encoder in self.encoders.items():
            needed = np.zeros(len(segmented.text_sentences), dtype=bool)
            needed[candidate] = True
            for side in self.config.sides_of(alias):
                needed[sides[side].values] = True
            own, text_sentences, failed = encode_texts(encoder, segmented, needed)
            encoded[alias], cannot_be_split[alias] = (own, text_sentences), failed
        self.seconds["encode"] += time.perf_counter() - started
        return Prepared(
            segmented, candidate, sides, is_null, encoded, cannot_be_split, rouge_tokens
        )

    def _rouge_tokens(self, segmented: SegmentedTexts) -> Ragged:
        """Return the tokens of `rouge-score`, or words where it would lose letters."""
        if self.config.language != "en":
            return segmented.lower_words
        if self._rouge.is_full:
            self._rouge = ChunkTable(_plain_rouge_tokens)
        return segmented.tokens(self._rouge)

    def compare(self, batch: Prepared) -> pa.Table:
        """Score a prepared batch.

        Returns
        -------
        pyarrow.Table
            One float64 column per name in `score_fields`, null where undefined, and `status`,
            null where every score is defined and no text was cut.
        """
        from sms.comparing import compare_batch

        return compare_batch(self, batch)


def _side(request: MetricRequest) -> str:
    return "references" if request.against == "reference" else "sources"


def _plain_rouge_tokens(chunk: str) -> list[str]:
    from sms.overlap import rouge_tokens

    return rouge_tokens(chunk, stem=False)


def _distinct_texts(
    rows: pa.Table, config: ScoringConfig
) -> tuple[pa.StringArray, np.ndarray, dict[str, Ragged], np.ndarray]:
    """Give the distinct texts of a batch numbers, and each row's texts by number."""
    columns: list[pa.Array] = [_combined(rows["candidate"]).cast(pa.string())]
    offsets = {}
    for side in config.input_columns[1:]:
        lists = _combined(rows[side])
        lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        offsets[side] = lengths.astype(np.int64)
        values = lists.flatten().cast(pa.string())  # a null list has no values
        if side == "references" and config.multi_reference == "first":
            has = offsets[side] > 0
            starts = np.cumsum(offsets[side]) - offsets[side]
            values = values.take(pa.array(starts[has]))
            offsets[side] = has.astype(np.int64)
        if side == "sources" and config.source_tokens is not None:
            values = first_tokens(values, config.source_tokens)
        columns.append(values)
    encoded = pa.chunked_array(columns, pa.string()).combine_chunks().dictionary_encode("encode")
    numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    is_null = encoded.dictionary.is_null().to_numpy(zero_copy_only=False)
    n_rows = len(rows)
    sides, at = {}, n_rows
    for side, lengths in offsets.items():
        size = int(lengths.sum())
        sides[side] = Ragged.from_lengths(numbers[at : at + size], lengths)
        at += size
    return encoded.dictionary, numbers[:n_rows], sides, is_null


def _combined(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def first_tokens(texts: pa.Array, n_tokens: int) -> pa.Array:
    """Keep the first `n_tokens` whitespace-separated tokens of each text, spacing untouched."""
    found = []
    for text in texts.to_pylist():
        # a text has no more tokens than characters
        parts = text.split(maxsplit=min(n_tokens, len(text))) if text else []
        if len(parts) > n_tokens:
            text = text[: -len(parts[n_tokens])].rstrip()
        found.append(text)
    return pa.array(found, pa.string())


def score_texts(
    candidates: Sequence[Candidate],
    references: Sequence[Against] | None = None,
    sources: Sequence[Against] | None = None,
    **options: Any,  # noqa: ANN401
) -> pa.Table:
    """Score a list of texts.

    Parameters
    ----------
    candidates : sequence of str
        With `sentences="given"` of list of str, the sentences.
    references, sources : sequence of str or of list of str, optional
        As many as candidates; several references or sources for one candidate as a list. With
        `sentences="given"` a list of str is one text, and a list of such lists is several.
    **options
        Fields of `ScoringConfig`, for example `metrics=("sms", "rougeL")`.

    Returns
    -------
    pyarrow.Table
        One float64 column per metric and `status`, as many rows as candidates.

    Raises
    ------
    ValueError
        If lengths differ or an option is wrong.
    TypeError
        If one text is given where a list of texts belongs, or an option is of another kind.

    Examples
    --------
    >>> table = score_texts(["A cat sat."], ["The cat sat down."], metrics=("rouge1_r",))
    >>> table["rouge1_r"].to_pylist()
    [0.5]
    """
    config = ScoringConfig(**options)
    rows = to_rows(candidates, references, sources, sentences=config.sentences)
    missing = [name for name in config.input_columns if name not in rows.column_names]
    if missing:
        raise ValueError(f"`{missing[0]}` must be given for {', '.join(config.metrics)}")
    return SummaryScorer(config).score(rows)


def to_rows(
    candidates: Sequence[Candidate],
    references: Sequence[Against] | None = None,
    sources: Sequence[Against] | None = None,
    *,
    sentences: str = "split",
) -> pa.Table:
    """Make the table that `SummaryScorer` reads from lists of texts.

    Parameters
    ----------
    candidates, references, sources
        As in `score_texts`.
    sentences : {"split", "given"}
        As in `ScoringConfig`.

    Raises
    ------
    ValueError
        If lengths differ.
    TypeError
        If something else is given where a text belongs.
    """
    is_given = sentences == "given"
    for name, given in (
        ("candidates", candidates),
        ("references", references),
        ("sources", sources),
    ):
        if isinstance(given, str):  # a sequence too, of one-letter texts
            raise TypeError(f"`{name}` must be a list of texts, got one text; put it in a list")
    texts = [_text(text, f"`candidates` in row {k}", is_given) for k, text in enumerate(candidates)]
    columns: dict[str, pa.Array] = {"candidate": pa.array(texts, pa.string())}
    for name, side in (("references", references), ("sources", sources)):
        if side is None:
            continue
        if len(side) != len(candidates):
            raise ValueError(
                f"`{name}` must be as many as candidates, got {len(side)} and {len(candidates)}"
            )
        listed = [_texts(item, f"`{name}` in row {k}", is_given) for k, item in enumerate(side)]
        columns[name] = pa.array(listed, pa.list_(pa.string()))
    return pa.table(columns)


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
    is_one = isinstance(item, str) or (
        is_given and all(text is None or isinstance(text, str) for text in item)
    )
    texts = [item] if is_one else item
    return [_text(cast("Candidate", text), where, is_given) for text in texts]
