"""BLEU and chrF of each row as sacreBLEU computes them: its own code, its scale of 0 to 100."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from sms.metric import EITHER, Batch, Metric, MetricRequest, Setting
from sms.sentences import SENTENCE_END


@dataclass(frozen=True, kw_only=True)
class SacreBleu(Metric):
    """A metric of sacreBLEU, which reads several references together."""

    kind: str
    """Its class in `sacrebleu.metrics`."""
    options: Mapping[str, object]
    """Arguments of that class."""
    said: str
    """The same as sacreBLEU's signatures say it."""

    def signature_parts(self, request: MetricRequest, setting: Setting) -> Sequence[str]:
        """Say settings and version as sacreBLEU does."""
        return [self.said, f"sacrebleu:{metadata.version('sacrebleu')}"]

    def score(self, request: MetricRequest, batch: Batch) -> Mapping[str, np.ndarray]:
        """Score every row, against all of its references together unless their mean is asked for.

        Texts without a word are left out.
        """
        import sacrebleu.metrics

        sentence_score = getattr(sacrebleu.metrics, self.kind)(**self.options).sentence_score
        (side,) = request.sides
        texts = [(text or "").replace(SENTENCE_END, " ") for text in batch.strings.to_pylist()]
        has_words = batch.texts.text_sentences.expand(batch.texts.lower_words).lengths > 0
        known: dict[tuple[int, ...], float] = {}

        def scored(*numbers: int) -> float:
            if numbers not in known:
                candidate, *against = (texts[number] for number in numbers)
                known[numbers] = sentence_score(candidate, against).score
            return known[numbers]

        is_best = batch.pairs[side].is_best
        scores = np.full(batch.candidate.size, np.nan)
        for row, candidate in enumerate(batch.candidate.tolist()):
            others = batch.sides[side][row]
            against = others[has_words[others]].tolist()
            if has_words[candidate] and against:
                groups = [against] if is_best else [[text] for text in against]
                scores[row] = np.mean([scored(candidate, *group) for group in groups])
        return {request.name: scores}


BLEU = (
    SacreBleu(
        name="bleu",
        summary="BLEU of one text, by sacreBLEU",
        higher_is="closer, 0 to 100",
        needs=(EITHER,),
        bounds=(0.0, 100.0),
        kind="BLEU",
        options={"effective_order": True},
        said="case:mixed|eff:yes|tok:13a|smooth:exp",
    ),
    SacreBleu(
        name="chrf",
        summary="chrF2: shared runs of characters, by sacreBLEU",
        higher_is="closer, 0 to 100",
        needs=(EITHER,),
        bounds=(0.0, 100.0),
        kind="CHRF",
        options={},
        said="case:mixed|eff:yes|nc:6|nw:0|space:no",
    ),
)
