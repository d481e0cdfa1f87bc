"""What a scorer is: rows in, columns of scores out; and mover's similarity of lists of texts.

Unlike a run over files, which gives a text that cannot be scored a null and a status, it raises: a
list has no place for a status. `scoring.score_texts` returns both, under any metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from sms.scoring import Against, Candidate


class Scorer(Protocol):
    """Turns rows into scores in two steps, so that the steps of two batches may overlap.

    `SummaryScorer` is one, and so is a trained one; runs over files, rewards and explanations take
    any. `prepare` and `compare` may run in different threads, each in one thread at a time. A
    scorer may also have `bounds`, the lowest and highest possible score, and by column `signatures`
    and, where a higher score does not mean "closer", `meanings`.
    """

    @property
    def input_columns(self) -> tuple[str, ...]:
        """What is read besides the ids: out of `candidate`, `references`, `sources`."""

    @property
    def score_fields(self) -> tuple[str, ...]:
        """Names of the score columns."""

    def prepare(self, rows: pa.Table) -> Any:  # noqa: ANN401  (private to the scorer)
        """Handle and encode the text of some rows of the canonical table."""

    def compare(self, prepared: Any) -> pa.Table:  # noqa: ANN401
        """Return `score_fields` as float64 and `status`, null when fine; one row per row."""

    def counters(self) -> Mapping[str, int]:
        """Return what was done so far by name, as numbers that may be added up."""


class SentenceMover:
    """Word or sentence mover's similarity (Clark, Celikyilmaz and Smith 2019).

    Parameters
    ----------
    kind : {"sms", "wms", "s+wms"}
        Move sentences, words, or both.
    encoder : str
        As in `assay encoders`, for example `minilm` or `glove:PATH`.
    against : {"reference", "source"}
    **options
        Other fields of `ScoringConfig`, for example `language="de"` or `multi_reference="mean"`.

    Examples
    --------
    >>> mover = SentenceMover("sms")
    >>> mover.score(["A cat sat on the mat."], ["A cat sat on the mat."])
    array([1.])
    """

    def __init__(
        self,
        kind: str = "sms",
        *,
        encoder: str = "minilm",
        against: str = "reference",
        **options: Any,  # noqa: ANN401
    ) -> None:
        if kind not in ("sms", "wms", "s+wms"):
            raise ValueError(f"`kind` must be sms, wms or s+wms, got {kind!r}")
        # here, so that a module that only needs `Scorer` loads neither numpy nor pyarrow
        from sms.config import ScoringConfig
        from sms.scoring import SummaryScorer

        config = ScoringConfig(
            metrics=(kind if against == "reference" else f"{kind}:{against}",),
            encoders={"encoder1": encoder},
            **options,
        )
        self._scorer = SummaryScorer(config)
        self._column = config.asked[0].written
        (self._side,) = config.asked[0].sides

    @property
    def signature(self) -> str:
        """Metric, parameters and versions as one string."""
        return self._scorer.signatures[self._column]

    def score(self, candidates: Sequence[Candidate], against: Sequence[Against]) -> np.ndarray:
        """Return the similarity of each candidate to its reference or source.

        Parameters
        ----------
        candidates : sequence of str
            With `sentences="given"` of list of str, the sentences.
        against : sequence of str or of list of str
            References or sources, as many as candidates; a candidate with several has a list. With
            `sentences="given"` a list of str is one text, and a list of such lists is several.

        Returns
        -------
        ndarray, shape (n,)
            Higher is closer.

        Raises
        ------
        ValueError
            If a text has nothing to score, naming the first one, or lengths differ.
        """
        from sms.scoring import to_rows

        references, sources = (against, None) if self._side == "references" else (None, against)
        sentences = self._scorer.config.sentences
        table = self._scorer.score(to_rows(candidates, references, sources, sentences=sentences))
        scores = table[self._column]
        if scores.null_count:
            first = scores.is_null().index(True).as_py()
            raise ValueError(
                f"`candidates` and what they are compared with must have words, got "
                f"{table['status'][first].as_py()} in row {first}; leave the row out, or use "
                "`score_texts`, which returns a status"
            )
        return scores.to_numpy()
