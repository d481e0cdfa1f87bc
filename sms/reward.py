"""A metric as a reward for training a summariser, as Clark et al. (2019, section 5) use it.

Here is the reward of texts, and how the arguments of TRL's trainers are read. Training is not
here, and neither is a reward that runs in another process (`pipelines.remote_reward`).
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sms.naming import several
from sms.scorers import Scorer

if TYPE_CHECKING:
    import numpy as np

    from sms.config import ScoringConfig
    from sms.metric import Metric

# numpy, pyarrow and the scorer are imported inside functions: importing this module is quick.

logger = logging.getLogger(__name__)

Message = Mapping[str, Any]
"""Has a `role` and a `content`: a text, or parts of the type `text`, which are joined."""
Completion = str | Sequence[Message] | None
"""A text, or the messages of a conversation; null counts as no text."""
Against = Sequence[str | Sequence[str] | None] | None
"""References or sources: one text per candidate, or several."""


class Reward:
    """A metric, or a weighted sum of metrics, as the reward of each candidate.

    Made for TRL's `reward_funcs`, too: called with `completions` (texts, or conversations, whose
    last message of the assistant counts) and the data set's columns. It reads `references` or
    `sources` and ignores all others.

    **Sums.** `"sms + .5*rouge2_f:source - .1*repetition"`, or the same as a mapping from metric to
    weight, is one reward; TRL's log has the mean of each part. A reward alone is gamed: a policy
    finds what the metric does not see. A second part that sees it holds the policy back.

    **Never NaN.** A candidate without a word (a policy will write some) gets `undefined`, by
    default the worst reward: of a NaN TRL makes an advantage of 0 or a reward of 0, so that an
    empty text goes unpunished. Where it is the reference that has no word, all candidates of the
    group get the same value, so that no advantage comes of it.

    **Cost.** A call encodes the distinct sentences that the encoder does not remember (nearly all
    of the time on a CPU) and then solves one small transport problem per candidate. Remembered
    embeddings take up to 256 MiB per encoder. A pickled reward takes no weights along and loads
    them again when it is first called.

    Parameters
    ----------
    metric : str, mapping of str to float, or Scorer
        A column of `assay metrics`, such as `sms`, `cosine@all`, `rougeL_f`, `sms:source`,
        `reffree@news`, `length`; a sum of several, with a space on either side of + and -; or any
        scorer with one column, such as `assay.load_scorer` returns.
    encoder : str or sequence of str
        As in `assay encoders`; several for `cosine@all`. Not for a scorer.
    undefined : float, optional
        Reward where some part has nothing to score, finite; the lower bound by default.
    bounds : (float, float), optional
        Lowest and highest reward; by default those of the metrics, or of the trained scorer.
    multi_reference : {"best", "mean", "first"}
    language : str
        Language of the texts, as in `sms.text.languages`.
    precision : {"auto", "fp32", "bf16", "fp16"}
        What the encoder computes in; `auto` is fp32 on a CPU and bf16 on a GPU. A reward can do
        with bf16, which is faster on processors that have it.
    batch_rows : int
        Longer calls are cut into batches of so many rows.
    models : mapping, optional
        By alias the model of a likelihood or pair and its settings, as in `assay score`.
    threads : int, optional
        Threads of the compiled kernels and the encoders; all by default.
    device : {"auto", "cpu", "cuda"}
        Where the encoder runs. `auto` takes the learner's GPU if there is one.

    Raises
    ------
    ValueError
        If a metric is unknown or has several columns, a reward without a lower bound has no
        `undefined`, or an option is wrong.
    TypeError
        If it is neither a name nor such a scorer.

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
        metric: str | Mapping[str, float] | Scorer = "sms",
        *,
        encoder: str | Sequence[str] = "minilm",
        undefined: float | None = None,
        bounds: tuple[float, float] | None = None,
        multi_reference: str = "best",
        language: str = "en",
        precision: str = "auto",
        batch_rows: int = 512,
        models: Mapping[str, Any] | None = None,
        threads: int | None = None,
        device: str = "auto",
    ) -> None:
        if batch_rows < 1:
            raise ValueError(f"`batch_rows` must be at least 1, got {batch_rows}")
        self._batch_rows = batch_rows
        self._load: Callable[[], Scorer] | None = None  # makes the scorer; None where one was given
        self._language_to_check: str | None = None  # until the first texts have come
        self.higher_is = "better"
        if isinstance(metric, str | Mapping):
            self.weights = weights_of(metric)
            config = _config_of(
                self.weights,
                encoder,
                multi_reference=multi_reference,
                language=language,
                precision=precision,
                models=models or {},
            )
            columns = [_only_column(metric.columns) for metric in config.asked]
            bounds = bounds or _bounds_of_sum(config.asked, self.weights)
            if list(self.weights.values()) == [1.0]:
                self.higher_is = config.asked[0].higher_is.partition(",")[0]
            from sms.scoring import SummaryScorer

            self._load = partial(SummaryScorer, config, threads, device=device)
            self._language_to_check = config.language
            scorer: Scorer = self._load()
        else:
            scorer = _checked_scorer(metric)
            columns = [_only_column(scorer.score_fields)]
            self.weights = dict.fromkeys(columns, 1.0)
            bounds = bounds or getattr(scorer, "bounds", None) or (-math.inf, math.inf)
        self._scorer: Scorer | None = scorer
        self.column = written(self.weights)
        if not bounds[0] < bounds[1]:
            raise ValueError(f"`bounds` must be a lower and a higher value, got {bounds}")
        self.bounds = bounds
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
    def scorer(self) -> Scorer:
        """The scorer behind it, loaded if this reward comes out of a pickle."""
        if self._scorer is None:
            assert self._load is not None, "a foreign scorer is in its pickle"  # noqa: S101
            self._scorer = self._load()
        return self._scorer

    @property
    def signature(self) -> str:
        """Metric, parameters and versions as one string; the column's name for a foreign scorer."""
        signatures: Mapping[str, str] = getattr(self.scorer, "signatures", {})
        return written({signatures.get(name, name): w for name, w in self.weights.items()})

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
            Or as `completions`, the name that TRL gives them.
        references, sources : sequence of str or of list of str
            What the metric compares with, as many as candidates.
        completions : sequence of str or of list of messages
        log_metric : callable, optional
            Told the mean of each part of a sum, without its weight; TRL hands one over.
        **_columns
            Whatever else TRL hands over; not read.

        Returns
        -------
        list of float
            One per candidate.

        Raises
        ------
        ValueError
            If what the metric compares with is missing, or lengths differ.
        """
        texts = candidate_texts(candidates, completions)
        parts = self.parts(texts, references=references, sources=sources)
        if log_metric is not None and len(parts) > 1:
            for name, values in parts.items():
                if (defined := values[abs(values) < math.inf]).size:
                    log_metric(f"reward/{name}", float(defined.mean()))
        return self.combined(parts)

    def score(
        self,
        candidates: Sequence[str | None],
        *,
        references: Against = None,
        sources: Against = None,
    ) -> list[float]:
        """Return the reward of each text, as `__call__` does; no other keyword is accepted."""
        return self.combined(self.parts(candidates, references=references, sources=sources))

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

        needed = self.scorer.input_columns
        rows = to_rows(candidates, references=references, sources=sources, needed=needed)
        for name in needed:
            if name not in rows.column_names:
                raise ValueError(
                    f"`{name}` must be given for {self.column}; in a data set for TRL it is a "
                    "column of that name"
                )
        self._check_language(candidates)
        starts = range(0, len(rows), self._batch_rows)
        tables = [
            self.scorer.compare(self.scorer.prepare(rows.slice(start, self._batch_rows)))
            for start in starts
        ]
        return {
            name: np.concatenate([np.empty(0), *(table[name].to_numpy() for table in tables)])
            for name in self.weights
        }

    def _check_language(self, texts: Sequence[str | None]) -> None:
        """Say, once, that the first texts are not in the language that they should be in."""
        if self._language_to_check is None or not any(texts):
            return
        from sms.noticing import other_language

        if remark := other_language(texts, self._language_to_check):
            logger.warning("%s", remark)
        self._language_to_check = None

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

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | ({} if self._load is None else {"_scorer": None})


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
        said = [message.get("content") for message in completion if message["role"] == "assistant"]
    except (AttributeError, KeyError, TypeError) as error:
        raise TypeError(
            "a completion must be a text or a list of messages with `role` and `content`, got a "
            f"{type(completion).__name__}: {completion!r:.60}"
        ) from error
    content = said[-1] if said else None
    if content is None or isinstance(content, str):
        return content
    return "".join(map(_text_of_part, content if isinstance(content, list | tuple) else [content]))


def _text_of_part(part: object) -> str:
    """Return the text of a part of a message, as trainers of vision models write it."""
    said = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
    if isinstance(said, str):
        return said
    raise TypeError(
        "a message's `content` must be a text, or parts like {'type': 'text', 'text': ...}, got "
        f"{part!r:.60}"
    )


def weights_of(metric: str | Mapping[str, float]) -> dict[str, float]:
    """Read a sum of metrics, each with its weight, such as `s+wms + .5*rougeL_f - repetition`.

    Raises `ValueError` if a term is no metric with or without a number before it, a weight is 0 or
    not finite, or a metric stands twice.
    """
    if isinstance(metric, str):
        terms = ["+", *re.split(r"\s+([+-])\s+", metric.strip())]
        pairs = [_term(*each) for each in zip(terms[::2], terms[1::2], strict=True)]
    else:
        pairs = [(name, float(weight)) for name, weight in metric.items()]
    weights = dict(pairs)
    if len(weights) < len(pairs) or not weights:
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


def _config_of(
    weights: Mapping[str, float],
    encoder: str | Sequence[str],
    **options: Any,  # noqa: ANN401
) -> ScoringConfig:
    from sms.config import ScoringConfig

    named = several(encoder)
    encoders = {f"encoder{k}": spec for k, spec in enumerate(named, 1)}
    config = ScoringConfig(metrics=tuple(weights), encoders=encoders, **options)
    if len(named) > 1 and not any(metric.is_average for metric in config.asked):
        raise ValueError(
            f"`encoder` must be one for {written(weights)!r}, got {len(named)}; `cosine@all` takes "
            "several"
        )
    return config


def _bounds_of_sum(metrics: Sequence[Metric], weights: Mapping[str, float]) -> tuple[float, float]:
    """Return the lowest and highest value that a sum can have."""
    ends = []
    for metric in metrics:
        lowest, highest = metric.find_bounds() or (-math.inf, math.inf)
        weight = weights[metric.written]
        ends.append(sorted((weight * lowest, weight * highest)))
    return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)


def _checked_scorer(scorer: Scorer) -> Scorer:
    needed = ("input_columns", "score_fields", "prepare", "compare", "counters")
    if missing := [name for name in needed if not hasattr(scorer, name)]:
        raise TypeError(
            "`metric` must be the name of a metric, such as 'sms', or a scorer of batches "
            "(`SummaryScorer`, or what `assay.load_scorer` returns), got "
            f"{type(scorer).__name__}, which has no {', '.join(f'`{name}`' for name in missing)}"
        )
    return scorer


def _only_column(columns: Sequence[str]) -> str:
    if len(columns) != 1:
        raise ValueError(
            f"a reward must be one column, got {', '.join(columns) or 'none'}; name one of them"
        )
    return columns[0]
