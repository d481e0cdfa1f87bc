"""A metric as a reward for training a summariser, as Clark et al. (2019, section 5) use it.

Here is the reward of texts, and how the arguments of TRL's and verl's trainers are read. Training
is not here, and neither is a reward that runs in another process (`pipelines.remote_reward`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sms.naming import several
from sms.scorers import HeldScorer, Scorer

if TYPE_CHECKING:
    import numpy as np

    from sms.config import ScoringConfig
    from sms.metric import Metric

# numpy, pyarrow and the scorer are imported inside functions: importing this module is quick.

Message = Mapping[str, Any]
"""Has a `role` and a `content`: a text, or parts of the type `text`, which are joined."""
Completion = str | Sequence[Message] | None
"""A text, or the messages of a conversation; null counts as no text."""
Against = Sequence[str | Sequence[str] | None] | None
"""References or sources: one text per candidate, or several; null where the reward is not meant."""
_THINKING = ("reasoning_content", "reasoning", "thinking")
"""Where a message has its thinking, if it has it apart."""


class Reward:
    """A metric, or a weighted sum of metrics, as the reward of each candidate.

    Made for TRL's `reward_funcs`, too: called with `completions` (texts, or conversations, whose
    last message of the assistant counts) and the data set's columns. It reads `references` or
    `sources` (or `reference`, `source`) and ignores all others. For verl there are `compute_score`
    and `compute_scores`. A reward loads its models once, and may be called by several threads,
    which take turns.

    **Rows of other tasks.** A row whose `references` (or `sources`) are None is not for this
    reward: it gets None, and TRL counts its other rewards alone.

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
    them again when it is first called, as it does in a forked process.

    Parameters
    ----------
    metric : str, mapping of str to float, or Scorer
        A column of `assay metrics`, such as `sms`, `cosine@all`, `rougeL_f`, `sms:source`,
        `reffree@news`, `length`; a sum of several, with a space on either side of + and -; or any
        scorer with one column, such as a `SummaryScorer`.
    encoder : str or sequence of str
        As in `assay encoders`; several for `cosine@all`. Not for a scorer.
    undefined : float, optional
        Reward where some part has nothing to score, finite; the lower bound by default.
    bounds : (float, float), optional
        Lowest and highest reward; by default those of the metrics.
    answer_after : str, optional
        Score what stands after the last of these, for example `</think>`. A text without it has not
        come to its answer and counts as no text. It does not matter to a message that has its
        thinking apart, as `reasoning_content`.
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
        answer_after: str | None = None,
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
        if answer_after is not None and not answer_after:
            raise ValueError("`answer_after` must be a text such as </think>, got ''")
        self._batch_rows, self.answer_after = batch_rows, answer_after
        expected_language: str | None = None
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
            ).pinned()
            columns = [_only_column(metric.columns) for metric in config.asked]
            bounds = bounds or _bounds_of_sum(config.asked, self.weights)
            if list(self.weights.values()) == [1.0]:
                self.higher_is = config.asked[0].higher_is.partition(",")[0]
            from sms.scoring import SummaryScorer

            expected_language = config.language
            load: Callable[[], Scorer] = partial(SummaryScorer, config, threads, device=device)
        else:
            load = partial(_checked_scorer, metric)
            columns = [_only_column(load().score_fields)]
            self.weights = dict.fromkeys(columns, 1.0)
            bounds = bounds or (-math.inf, math.inf)
        from sms.noticing import Notices

        self._held = HeldScorer(load)
        self._notices = Notices(expected_language)
        self.column = written(self.weights)
        if not bounds[0] < bounds[1]:
            raise ValueError(f"`bounds` must be a lower and a higher value, got {bounds}")
        self.bounds = bounds
        """Lowest and highest reward, `undefined` aside; infinite where there is none."""
        self.undefined = self.bounds[0] if undefined is None else undefined
        """Reward where there is nothing to score."""
        if not math.isfinite(self.undefined):
            raise ValueError(
                f"`undefined` must be a finite number for {self.column}, got {self.undefined:g}; "
                "set it to the reward of a text that cannot be scored, such as the worst reward"
            )
        self.__name__ = self.column  # what TRL calls it in its logs
        self._counts: Counter[str] = Counter(rewards=0, undefined=0)
        with self._held.in_use() as scorer:  # what cannot be loaded is told here
            self.needed = tuple(scorer.input_columns)
            """What it reads: `candidate`, and perhaps `references` and `sources`."""

    @property
    def signature(self) -> str:
        """Metric, parameters and versions as one string; the column's name for a foreign scorer."""
        with self._held.in_use() as scorer:
            signatures: Mapping[str, str] = getattr(scorer, "signatures", {})
        return written({signatures.get(name, name): w for name, w in self.weights.items()})

    def __call__(
        self,
        candidates: Sequence[Completion] | None = None,
        references: Against = None,
        sources: Against = None,
        *,
        completions: Sequence[Completion] | None = None,
        log_metric: Callable[[str, float], object] | None = None,
        **columns: Any,  # noqa: ANN401
    ) -> list[float | None]:
        """Return the reward of each candidate: higher is better, `undefined` where there is none.

        Parameters
        ----------
        candidates : sequence of str
            Or as `completions`, the name that TRL gives them.
        references, sources : sequence of str or of list of str
            What the metric compares with, as many as candidates; None for a row that is not for
            this reward.
        completions : sequence of str or of list of messages
        log_metric : callable, optional
            Told the mean of each part of a sum, without its weight; TRL hands one over.
        **columns
            Whatever else TRL hands over; of it `reference` and `source` are read.

        Returns
        -------
        list of float or None
            One per candidate; None for a row that is not for this reward.

        Raises
        ------
        ValueError
            If what the metric compares with is missing, or lengths differ.
        """
        texts = candidate_texts(candidates, completions, self.answer_after)
        sides = compared_with(self.needed, references, sources, columns)
        return self.of_texts(texts, **sides, log_metric=log_metric)

    def score(
        self,
        candidates: Sequence[Completion],
        *,
        references: Against = None,
        sources: Against = None,
    ) -> list[float | None]:
        """Return the reward of each text, as `__call__` does; no other keyword is accepted."""
        texts = candidate_texts(candidates, None, self.answer_after)
        return self.of_texts(texts, references=references, sources=sources)

    def compute_score(
        self,
        data_source: str,
        solution_str: str,
        ground_truth: str | Sequence[str] | None,
        extra_info: Mapping[str, Any] | None = None,
        **_given: object,
    ) -> float:
        """Return the reward of one text, as verl asks for it by `custom_reward_function`.

        `ground_truth` is its reference or list of references, `source` in `extra_info` its source.
        """
        (reward,) = self.compute_scores(
            [data_source], [solution_str], [ground_truth], [extra_info or {}]
        )
        return reward

    def compute_scores(
        self,
        data_sources: Sequence[str],
        solution_strs: Sequence[str],
        ground_truths: Sequence[str | Sequence[str] | None],
        extra_infos: Sequence[Mapping[str, Any]],
        **_given: object,
    ) -> list[float]:
        """Return the reward of each text, as verl's reward manager `batch` asks for them.

        verl needs numbers: a row that is not for this reward gets `undefined`.
        """
        sources = None
        if "sources" in self.needed:
            sources = [info.get("source", info.get("sources")) for info in extra_infos]
        references = ground_truths if "references" in self.needed else None
        rewards = self.score(solution_strs, references=references, sources=sources)
        return [self.undefined if reward is None else reward for reward in rewards]

    def parts(
        self,
        candidates: Sequence[Completion],
        *,
        references: Against = None,
        sources: Against = None,
    ) -> dict[str, np.ndarray]:
        """Return each metric of the sum, float64, without its weight, NaN where it is undefined."""
        texts = candidate_texts(candidates, None, self.answer_after)
        return self._parts(texts, references, sources)

    def of_texts(
        self,
        texts: Sequence[str | None],
        *,
        references: Against = None,
        sources: Against = None,
        log_metric: Callable[[str, float], object] | None = None,
    ) -> list[float | None]:
        """Return the reward of each text of `candidate_texts`."""
        is_meant = [True] * len(texts)
        for name, side in (("references", references), ("sources", sources)):
            if name in self.needed and side is not None and len(side) == len(texts):
                is_meant = [m and cell is not None for m, cell in zip(is_meant, side, strict=True)]
        read = [text if meant else None for text, meant in zip(texts, is_meant, strict=True)]
        parts = self._parts(read, references, sources)
        if log_metric is not None and len(parts) > 1:
            for name, values in parts.items():
                if (defined := values[abs(values) < math.inf]).size:
                    log_metric(f"reward/{name}", float(defined.mean()))
        rewards = self.combined(parts, is_meant)
        return [reward if meant else None for reward, meant in zip(rewards, is_meant, strict=True)]

    def combined(
        self, parts: Mapping[str, np.ndarray], is_meant: Sequence[bool] | None = None
    ) -> list[float]:
        """Add the parts up by their weights; `undefined` where one is.

        Rows that are not meant do not count among the rewards.
        """
        import numpy as np

        total = np.sum([weight * parts[name] for name, weight in self.weights.items()], axis=0)
        # A scorer may write NaN for null; infinity would spoil a loss just as well.
        is_defined = np.isfinite(total)
        counted = np.ones(total.size, bool) if is_meant is None else np.array(is_meant, bool)
        self._counts["rewards"] += int(counted.sum())
        self._counts["undefined"] += int((counted & ~is_defined).sum())
        rewards: list[float] = np.where(is_defined, total, self.undefined).tolist()
        return rewards

    def _parts(
        self, texts: Sequence[str | None], references: Against, sources: Against
    ) -> dict[str, np.ndarray]:
        import numpy as np

        from sms.scoring import to_rows

        rows = to_rows(texts, references, sources, needed=self.needed)
        for name in self.needed:
            if name not in rows.column_names:
                raise ValueError(
                    f"`{name}` must be given for {self.column}; in a data set for TRL it is a "
                    "column of that name"
                )
        self._notices.look_at(texts)
        batches = [
            rows.slice(start, self._batch_rows) for start in range(0, len(rows), self._batch_rows)
        ]
        with self._held.in_use() as scorer:
            tables = [scorer.compare(scorer.prepare(batch)) for batch in batches]
        return {
            name: np.concatenate([np.empty(0), *(table[name].to_numpy() for table in tables)])
            for name in self.weights
        }

    def counters(self) -> dict[str, int]:
        """Return how many rewards there were, how many undefined, and what the encoders did."""
        with self._held.in_use() as scorer:
            return {**self._counts, **scorer.counters()}


def compared_with(
    needed: Sequence[str], references: Against, sources: Against, columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Return references and sources; what is needed may be a column in the singular."""
    given = {"references": references, "sources": sources}
    return {
        name: columns.get(name.removesuffix("s")) if side is None and name in needed else side
        for name, side in given.items()
    }


def candidate_texts(
    candidates: Sequence[Completion] | None,
    completions: Sequence[Completion] | None = None,
    answer_after: str | None = None,
) -> list[str | None]:
    """Return the texts of the argument that is given, or what stands after a tag of thinking.

    Raises if both are given, or one is no text.
    """
    given = candidates if completions is None else completions
    if given is None or (candidates is not None and completions is not None):
        which = "neither" if given is None else "both"
        raise ValueError(f"`candidates` or `completions` must be given, got {which}")
    if isinstance(given, str):
        raise TypeError("`candidates` must be a list of texts, got one text; put it in a list")
    return [_text_of(completion, answer_after) for completion in given]


def _text_of(completion: Completion, answer_after: str | None) -> str | None:
    """Return a completion's text; of a conversation the assistant's last message."""
    if completion is None or isinstance(completion, str):
        return _answer(completion, answer_after)
    try:
        said = [message for message in completion if message["role"] == "assistant"]
        content = said[-1].get("content") if said else None
    except (AttributeError, KeyError, TypeError) as error:
        raise TypeError(
            "a completion must be a text or a list of messages with `role` and `content`, got a "
            f"{type(completion).__name__}: {completion!r:.60}"
        ) from error
    if content is not None and not isinstance(content, str):
        parts = content if isinstance(content, list | tuple) else [content]
        content = "".join(map(_text_of_part, parts))
    is_apart = bool(said) and any(said[-1].get(name) for name in _THINKING)
    return content if is_apart else _answer(content, answer_after)


def _answer(text: str | None, answer_after: str | None) -> str | None:
    """Return what stands after the last tag; None if the text has not come so far.

    >>> _answer("<think>A dog?</think> A cat.", "</think>"), _answer("A dog? Or", "</think>")
    ('A cat.', None)
    """
    if text is None or answer_after is None:
        return text
    _, tag, answer = text.rpartition(answer_after)
    return answer.strip() if tag else None


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
    """Return a scorer that was given; raises `TypeError` if it is none."""
    needed = ("input_columns", "score_fields", "prepare", "compare", "counters")
    if missing := [name for name in needed if not hasattr(scorer, name)]:
        raise TypeError(
            "`metric` must be the name of a metric, such as 'sms', or a scorer of batches "
            "such as a `SummaryScorer`, got "
            f"{type(scorer).__name__}, which has no {', '.join(f'`{name}`' for name in missing)}"
        )
    return scorer


def _only_column(columns: Sequence[str]) -> str:
    if len(columns) != 1:
        raise ValueError(
            f"a reward must be one column, got {', '.join(columns) or 'none'}; name one of them"
        )
    return columns[0]
