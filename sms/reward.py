"""A metric as a reward for training a summariser, as Clark et al. (2019, section 5) use it.

Here is the reward of texts, and how the arguments of TRL's trainers are read. Training is not
here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sms.naming import several

if TYPE_CHECKING:
    import numpy as np

# What takes a moment to import is imported when a reward is made.

ROLE = "assistant"
"""Whose last message of a conversation is the candidate."""

_UNBOUNDED = (-math.inf, math.inf)

Message = Mapping[str, Any]
Completion = str | Sequence[Message] | None
"""A text, or the messages of a conversation; null counts as no text."""
Against = Sequence[str | Sequence[str] | None] | None
"""References or sources: one text per candidate, or several."""


class Reward:
    """A metric, or a weighted sum of metrics, as the reward of each candidate.

    Made for TRL's `reward_funcs`, too: called with `completions` (texts, or conversations, whose
    last message of the assistant counts) and the data set's columns. It reads `references` or
    `sources` and ignores all others.

    A candidate without a word (a policy will write some) gets `undefined`, never NaN, of which TRL
    makes an advantage of 0, so that an empty text goes unpunished. Where it is the reference that
    has no word, all candidates of the group get the same value, so that no advantage comes of it.

    Parameters
    ----------
    metric : str
        A column of `assay metrics`, such as `sms` or `rougeL_f`, or a sum of several, such as `sms
        + .5*rouge2_f:source - .1*repetition`.
    encoder : str or sequence of str
        As in `assay encoders`; several for `cosine@all`.
    undefined : float, optional
        Reward where some part has nothing to score, finite; the lower bound by default.
    multi_reference, language, precision, models
        As in `sms.config.ScoringConfig`.
    batch_rows : int
        Longer calls are cut into batches of so many rows.
    threads, device
        As in `sms.scoring.SummaryScorer`.

    Raises
    ------
    ValueError
        If a metric is unknown or has several columns, a reward without a lower bound has no
        `undefined`, or an option is wrong.

    Examples
    --------
    >>> reward = Reward("rouge1_f")
    >>> reward(["A cat sat.", ""], references=["A cat sat.", "A dog."])
    [1.0, 0.0]
    >>> chat = [[{"role": "assistant", "content": "A dog."}]]
    >>> reward(prompts=["Sum up."], completions=chat, references=["A dog."])
    [1.0]
    >>> reward.bounds, reward.higher_is
    ((0.0, 1.0), 'closer')
    """

    def __init__(
        self,
        metric: str = "sms",
        *,
        encoder: str | Sequence[str] = "minilm",
        undefined: float | None = None,
        multi_reference: str = "best",
        language: str = "en",
        precision: str = "auto",
        batch_rows: int = 512,
        models: Mapping[str, Any] | None = None,
        threads: int | None = None,
        device: str = "auto",
    ) -> None:
        from sms.config import ScoringConfig
        from sms.scoring import SummaryScorer

        if batch_rows < 1:
            raise ValueError(f"`batch_rows` must be at least 1, got {batch_rows}")
        self._batch_rows = batch_rows
        self.weights, named = weights_of(metric), several(encoder)
        self.column = written(self.weights)
        config = ScoringConfig(
            metrics=tuple(self.weights),
            encoders={f"encoder{k}": spec for k, spec in enumerate(named, 1)},
            multi_reference=multi_reference,
            language=language,
            precision=precision,
            models=models or {},
        )
        if len(named) > 1 and not any(request.is_average for request in config.requests):
            raise ValueError(
                f"`encoder` must be one for {self.column!r}, got {len(named)}; `cosine@all` takes "
                "several"
            )
        for request in config.requests:
            if len(request.columns) > 1:
                names = ", ".join(request.columns)
                raise ValueError(f"a reward must be one column, got {names}; name one of them")
        self.scorer = SummaryScorer(config, threads, device=device)
        is_alone = list(self.weights.values()) == [1.0]
        meaning = config.requests[0].metric.higher_is if is_alone else "better"
        self.higher_is = meaning.partition(",")[0]
        ends = [
            sorted(self.weights[r.name] * end for end in r.metric.bounds_of(r) or _UNBOUNDED)
            for r in config.requests
        ]
        self.bounds = math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)
        """Lowest and highest reward, `undefined` aside; infinite where there is none."""
        self.undefined = self.bounds[0] if undefined is None else undefined
        """Reward where there is nothing to score."""
        if not math.isfinite(self.undefined):
            raise ValueError(
                f"`undefined` must be given, and finite, for {self.column}, got "
                f"{self.undefined:g}; name the reward of a text that cannot be scored, as low as "
                "the worst text's"
            )
        self.__name__ = self.column  # what TRL calls it in its logs
        self._counts: Counter[str] = Counter(rewards=0, undefined=0)

    @property
    def signature(self) -> str:
        """Metric, parameters and versions as one string."""
        signatures = self.scorer.signatures
        return written({signatures[name]: weight for name, weight in self.weights.items()})

    def __call__(
        self,
        candidates: Sequence[Completion] | None = None,
        references: Against = None,
        sources: Against = None,
        *,
        completions: Sequence[Completion] | None = None,
        log_metric: Callable[[str, float], object] | None = None,
        **_columns: object,
    ) -> list[float]:
        """Return the reward of each candidate: higher is better, `undefined` where there is none.

        Parameters
        ----------
        candidates : sequence of str
            Or as `completions`, the name that TRL gives them, texts or lists of messages.
        references, sources : sequence of str or of list of str
            What the metric compares with, as many as candidates.
        log_metric : callable, optional
            Told the mean of each part of a sum, without its weight; TRL hands one over.
        **_columns
            Whatever else TRL hands over; not read.

        Raises
        ------
        ValueError
            If what the metric compares with is missing, or lengths differ.
        """
        texts = candidate_texts(candidates, completions)
        parts = self.parts(texts, references=references, sources=sources)
        if log_metric is not None and len(parts) > 1:
            for name, values in parts.items():
                if (finite := values[abs(values) < math.inf]).size:
                    log_metric(f"reward/{name}", float(finite.mean()))
        return self.combined(parts)

    def parts(
        self,
        candidates: Sequence[str | None],
        *,
        references: Against = None,
        sources: Against = None,
    ) -> dict[str, np.ndarray]:
        """Return each metric of the sum, float64, without its weight, NaN where it is undefined."""
        import numpy as np

        from sms.scoring import to_rows

        rows = to_rows(candidates, references=references, sources=sources)
        for name in self.scorer.input_columns:
            if name not in rows.column_names:
                raise ValueError(
                    f"`{name}` must be given for {self.column}; in a data set for TRL it is a "
                    "column of that name"
                )
        starts = range(0, len(rows), self._batch_rows)
        tables = [
            self.scorer.compare(self.scorer.prepare(rows.slice(start, self._batch_rows)))
            for start in starts
        ]
        return {
            name: np.concatenate([np.empty(0), *(table[name].to_numpy() for table in tables)])
            for name in self.weights
        }

    def combined(self, parts: Mapping[str, np.ndarray]) -> list[float]:
        """Add the parts up by their weights; `undefined` where one is."""
        import numpy as np

        total = np.sum([weight * parts[name] for name, weight in self.weights.items()], axis=0)
        # A scorer may write NaN for null; infinity would spoil a loss just as well.
        is_defined = np.isfinite(total)
        self._counts["rewards"] += len(total)
        self._counts["undefined"] += int((~is_defined).sum())
        return np.where(is_defined, total, self.undefined).tolist()

    def counters(self) -> dict[str, int]:
        """Return how many rewards there were, how many undefined, and what the encoders did."""
        return {**self._counts, **self.scorer.counters()}


def candidate_texts(
    candidates: Sequence[Completion] | None, completions: Sequence[Completion] | None
) -> list[str | None]:
    """Return the texts of the argument that is given; raises if both are, or one is no text."""
    given = candidates if completions is None else completions
    if given is None or (candidates is not None and completions is not None):
        which = "neither" if given is None else "both"
        raise ValueError(f"`candidates` or `completions` must be given, got {which}")
    if isinstance(given, str):
        raise TypeError("`candidates` must be a list of texts, got one text; put it in a list")
    return [_text_of(completion) for completion in given]


def _text_of(completion: Completion) -> str | None:
    """Return a completion's text; of a conversation the assistant's last message."""
    if completion is None or isinstance(completion, str):
        return completion
    try:
        said = [message.get("content") for message in completion if message["role"] == ROLE]
    except (AttributeError, KeyError, TypeError) as error:
        raise TypeError(
            "a completion must be a text or a list of messages with `role` and `content`, got a "
            f"{type(completion).__name__}: {completion!r:.60}"
        ) from error
    text = said[-1] if said else None
    if text is None or isinstance(text, str):
        return text
    raise TypeError(f"a message's `content` must be a text, got {type(text).__name__}")


def weights_of(metric: str) -> dict[str, float]:
    """Read a sum of metrics, each with its weight, such as `s+wms + .5*rougeL_f - repetition`.

    Raises `ValueError` if a term is no metric with or without a number before it, a weight is 0 or
    not finite, or a metric stands twice.
    """
    terms = ["+", *re.split(r"\s+([+-])\s+", metric.strip())]
    pairs = [_term(*each) for each in zip(terms[::2], terms[1::2], strict=True)]
    weights = dict(pairs)
    if len(weights) < len(pairs):
        raise ValueError(f"a reward must name each metric once, got {metric!r}")
    for name, weight in weights.items():
        if not weight or not math.isfinite(weight):
            raise ValueError(f"the weight of {name} must be a number other than 0, got {weight:g}")
    return weights


def _term(sign: str, term: str) -> tuple[str, float]:
    number, times, name = term.rpartition("*")
    try:
        weight = float(number) if times else 1.0
    except ValueError:
        raise ValueError(
            f"a term of a reward must be METRIC or NUMBER*METRIC, got {term!r}"
        ) from None
    return name.strip(), -weight if sign == "-" else weight


def written(weights: Mapping[str, float]) -> str:
    """Write a sum as `weights_of` reads it."""
    terms = [
        f"{'-' if weight < 0 else '+'} {'' if abs(weight) == 1 else f'{abs(weight):g}*'}{name}"
        for name, weight in weights.items()
    ]
    return " ".join(terms).removeprefix("+ ")
