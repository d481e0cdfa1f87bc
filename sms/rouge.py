"""ROUGE as metrics: whose tokens are counted, and each variant's three columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata

import numpy as np
from rouge_score.tokenize import tokenize

from sms.metric import EITHER, Batch, Metric, MetricRequest, Setting
from sms.overlap import Overlap, rouge_l, rouge_lsum, rouge_n, rouge_w
from sms.ragged import Ragged
from sms.text import ChunkTable


@dataclass(frozen=True, kw_only=True)
class Rouge(Metric):
    """A variant of ROUGE: precision, recall and F."""

    compare: Callable[..., Overlap]
    """Called with `tokens` of every text and the text numbers of each pair."""
    by_sentence: bool = False
    """Whether `compare` is given tokens by sentence, and sentences by text."""

    def signature_parts(self, request: MetricRequest, setting: Setting) -> Sequence[str]:
        """Name the tokens."""
        if setting.rules.language != "en":
            return ["count:words|stem:no"]
        return [f"tok:rouge-score|stem:no|rs:{metadata.version('rouge-score')}"]

    def prepare(self, request: MetricRequest, batch: Batch) -> None:
        """Cut the sentences into tokens."""
        _tokens(batch)

    def score(self, request: MetricRequest, batch: Batch) -> Mapping[str, np.ndarray]:
        """Score every row; of several references the one with the highest F counts."""
        (side,) = request.sides
        shares = batch.once((Rouge, self.name, side), lambda: self._shares(side, batch))
        return {column: shares[column.partition(":")[0][-1]] for column in request.columns}

    def _shares(self, side: str, batch: Batch) -> dict[str, np.ndarray]:
        of, (by_sentence, by_text) = batch.pairs[side], _tokens(batch)
        tokens = (by_sentence, batch.texts.text_sentences) if self.by_sentence else (by_text,)
        shares = self.compare(*tokens, of.candidate, of.other)
        return of.joined_by(shares.f, {"p": shares.precision, "r": shares.recall, "f": shares.f})

    def text_reasons(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Name texts that have words and no token."""
        return {"no_rouge_tokens": _tokens(batch)[1].lengths == 0}


def _tokens(batch: Batch) -> tuple[Ragged, Ragged]:
    """Return by sentence and text the tokens of `rouge-score`, or words where it loses letters."""

    def cut() -> tuple[Ragged, Ragged]:
        memory = batch.setting.memory
        if batch.setting.rules.language != "en":
            tokens = batch.texts.lower_words
        else:
            if "rouge" not in memory or memory["rouge"].is_full:
                memory["rouge"] = ChunkTable(rouge_tokens)
            tokens = batch.texts.tokens(memory["rouge"])
        return tokens, batch.texts.text_sentences.expand(tokens)

    return batch.once("rouge tokens", cut)


def rouge_tokens(chunk: str) -> list[str]:
    """Return rouge-score's tokens, runs of ``a-z0-9``; none crosses white space."""
    return tokenize(chunk, None)  # without a stemmer


def _variant(
    name: str, summary: str, compare: Callable[..., Overlap], *, by_sentence: bool = False
) -> Rouge:
    return Rouge(
        name=name,
        summary=summary,
        higher_is="closer, 0 to 1",
        needs=(EITHER,),
        columns=(f"{name}_p", f"{name}_r", f"{name}_f"),
        bounds=(0.0, 1.0),
        compare=compare,
        by_sentence=by_sentence,
    )


ROUGE = (
    _variant("rouge1", "ROUGE-1: shared words", partial(rouge_n, n=1)),
    _variant("rouge2", "ROUGE-2: shared pairs of words", partial(rouge_n, n=2)),
    _variant("rouge4", "ROUGE-4: shared runs of four words", partial(rouge_n, n=4)),
    _variant("rougeL", "ROUGE-L: longest common subsequence", rouge_l),
    _variant("rougeLsum", "ROUGE-Lsum: the same by sentence, united", rouge_lsum, by_sentence=True),
    _variant("rougeW", "ROUGE-W-1.2: the same, runs weigh more", rouge_w),
)
