"""How a likelihood becomes a score: the prompt, and what is made of the tokens' log-probabilities.

The presets are those of Yuan, Neubig and Liu 2021 (neulab/BARTScore, `bart_score.py`) and of Fu et
al. 2023 (jinlanfu/GPTScore, `opt_score.py`, `flan_score.py` and `score_d2t.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from sms.settings import AtLeast, Settings

CONTEXT, TEXT = "{context}", "{text}"
LOW_SHARE = 0.1  # of the tokens, those below the value `low`
CAUSAL_PROMPT = f"{CONTEXT}\nTL;DR: {TEXT}"
ENCODER_PROMPT = f"{CONTEXT}{TEXT}"
PRESETS = {"bartscore": ENCODER_PROMPT, "gptscore": f"{CONTEXT} In other words , {TEXT}"}
"""Their prompts; both take the mean over tokens. `bart_score.py` cuts source and target to 1,024
tokens, all that BART reads, and counts the special tokens of the target."""


@dataclass(frozen=True, kw_only=True)
class LikelihoodSettings(Settings):
    """How a score is made of log-probabilities: the keys of a table `[models.ALIAS]`."""

    about = " of a likelihood"

    preset: Literal["bartscore", "gptscore"] | None = None
    """Use the prompt of BARTScore or GPTScore."""
    prompt: str | None = None
    """What the model reads, with `{context}` and, at its end, `{text}`. In an encoder-decoder
    model, the encoder reads all before `{text}`. Default: `{context}\\nTL;DR: {text}` for a causal
    model, the context alone for an encoder-decoder model."""
    value: Literal["mean", "sum", "worst", "low"] = "mean"
    """Of the tokens' log-probabilities: their mean or sum, the mean of the worst sentence, or their
    tenth percentile (`low`)."""
    pmi: bool = False
    """Subtract the log-probabilities that the same prompt gives without the context."""
    lead: Annotated[int, AtLeast(1)] = 3
    """Number of leading sentences of the document whose likelihood `:recall` takes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preset and self.prompt is not None:
            raise ValueError("a likelihood takes `preset` or `prompt`, got both; leave one out")
        if self.prompt is not None:
            parts = [self.prompt.count(part) for part in (CONTEXT, TEXT)]
            if parts != [1, 1] or not self.prompt.endswith(TEXT):
                raise ValueError(
                    f"`prompt` of a likelihood must hold `{CONTEXT}` once and end in `{TEXT}`, got "
                    f"{self.prompt!r}"
                )

    def prompt_for(self, *, has_encoder: bool) -> str:
        """Return the prompt for a model."""
        if self.preset == "bartscore" and not has_encoder:
            raise ValueError(
                "preset `bartscore` needs a model with an encoder and a decoder, such as "
                "facebook/bart-large-cnn, got a causal one"
            )
        asked = PRESETS[self.preset] if self.preset else self.prompt
        return asked or (ENCODER_PROMPT if has_encoder else CAUSAL_PROMPT)

    def signature(self, prompt: str) -> str:
        """Name what changes a score, after the model."""
        pmi = "|pmi" if self.pmi else ""
        return f"prompt:{json.dumps(prompt, ensure_ascii=False)}|value:{self.value}{pmi}"

    def score(self, log_p: np.ndarray, sentence: np.ndarray | None = None) -> float:
        """Return the score of a text by its tokens' log-probabilities (and sentences); or NaN.

        Examples
        --------
        >>> log_p, sentence = np.array([-1.0, -3.0, -0.5]), np.array([0, 0, 1])
        >>> values = ("mean", "sum", "worst", "low")
        >>> [LikelihoodSettings(value=value).score(log_p, sentence) for value in values]
        [-1.5, -4.5, -2.0, -2.6]
        """
        if not log_p.size:
            return float("nan")
        if self.value == "sum":
            return float(log_p.sum())
        if self.value == "mean":
            return float(log_p.mean())
        if self.value == "low":
            return float(np.quantile(log_p, LOW_SHARE))
        numbers = np.zeros(log_p.size) if sentence is None else sentence
        return float(min(log_p[numbers == each].mean() for each in np.unique(numbers)))
