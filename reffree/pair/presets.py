"""Published judges as settings: one value each, with the file that it was read from.

The sentences are Assay's own; where a judge's code cuts them with NLTK, it says `sentences by
NLTK`. Of a pair that is too long for a model, the document's end gives way here: code that cuts
the joined text at its end would cut the summary off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reffree.pair.settings import HISTOGRAM, SENTENCES, PairSettings, check_keys
from sms.naming import nearest

CONV_FILE = "summac_conv_vitc_sent_perc_e.bin"
"""The trained layers of SummaC-Conv, from the repository tingofurro/summac."""
FOUNDATION = "foundation"
"""Folder, in that of HHEM, of the model whose shape and tokeniser it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One judge."""

    settings: PairSettings
    """Those of all its aspects, and all there is where it has none."""
    source: str
    """Repository and file."""
    needs: str
    """What the folder must hold."""
    aspects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, the settings that an aspect has of its own."""


_SUMMAC = PairSettings(
    document=SENTENCES,
    summary=SENTENCES,
    shortest=11,  # the code keeps those of more than 10 characters
    most_document=100,
    max_tokens=500,
    # `truncation=True` outweighs their `truncation_strategy="only_first"`
    cut="longest",
    negative="contradiction",
    value="difference",
)
_MINICHECK = PairSettings(
    model="generator",
    # The claims of a summary, each by itself, and the least supported of them: the README for all
    # models, and `LLMCheck.score`.
    summary=SENTENCES,
    over_summary="min",
    document="words:500",
    template="predict: {document}{eos}{summary}",
    max_tokens=2048,
    positive="1",  # token 209
    negative="0",  # token 3
    value="share",
)
_MINICHECK_CLASSIFIER = replace(
    _MINICHECK,
    model="classifier",
    document="tokens:400",
    template="{document}{eos}{summary}",
    positive=1,
    negative=None,
    value="probability",
)
_TRUE = PairSettings(
    model="generator",
    template="premise: {document} hypothesis: {summary}",
    max_tokens=2048,
    positive="1",
)
_UNIEVAL = PairSettings(
    model="generator",
    template="question: Is this a fluent paragraph? </s> paragraph: {summary}",
    against="none",
    summary=SENTENCES,
    max_tokens=1024,
    positive="Yes",
    negative="No",
    value="share",
)
_T5 = "a T5 with its tokenizer"

PRESETS: Mapping[str, Preset] = {
    "summac-zs": Preset(
        settings=_SUMMAC,
        source="tingofurro/summac, summac/model_summac.py: SummaCZS(granularity='sentence'); "
        "sentences by NLTK",
        needs="an NLI classifier, such as tals/albert-xlarge-vitaminc-mnli (`vitc`)",
    ),
    "summac-conv": Preset(
        settings=replace(
            _SUMMAC,
            value="probability",
            negative=None,
            most_summary=10,
            over_document=HISTOGRAM,
        ),
        source="tingofurro/summac, summac/model_summac.py: SummaCConv(models=['vitc'], "
        "bins='percentile', granularity='sentence', nli_labels='e', agg='mean'); sentences by NLTK",
        needs=f"tals/albert-xlarge-vitaminc-mnli and the repository's {CONV_FILE}",
    ),
    "alignscore": Preset(
        settings=PairSettings(
            model="alignscore",
            document="even-words:350",
            summary=SENTENCES,
            positive=0,
        ),
        source="yuh-zha/AlignScore, src/alignscore/inference.py: evaluation_mode='nli_sp'; "
        "sentences by NLTK",
        needs="config.json and tokenizer of roberta-base (or -large) and AlignScore-base.ckpt (or "
        "-large)",
    ),
    "minicheck": Preset(
        settings=_MINICHECK,
        source="Liyan06/MiniCheck, minicheck/inference.py: Inferencer, flan-t5-large; sentences by "
        "NLTK",
        needs="lytang/MiniCheck-Flan-T5-Large",
    ),
    "minicheck-roberta": Preset(
        settings=replace(_MINICHECK_CLASSIFIER, max_tokens=512),
        source="Liyan06/MiniCheck, minicheck/inference.py: Inferencer, roberta-large",
        needs="lytang/MiniCheck-RoBERTa-Large",
    ),
    "minicheck-deberta": Preset(
        settings=_MINICHECK_CLASSIFIER,
        source="Liyan06/MiniCheck, minicheck/inference.py: Inferencer, deberta-v3-large",
        needs="lytang/MiniCheck-DeBERTa-v3-Large",
    ),
    "hhem": Preset(
        settings=PairSettings(
            model="hhem",
            template="<pad> Determine if the hypothesis is true given the premise?\n\n"
            "Premise: {document}\n\nHypothesis: {summary}",
            max_tokens=100_000,  # none in the code; T5 has no places that could run out
            positive=1,
        ),
        source="vectara/HCMBench, pipeline/evaluation/hhem.py, and modeling_hhem_v2.py beside the "
        "weights",
        needs="vectara/hallucination_evaluation_model (HHEM-2.1-Open), and in it a folder "
        f"`{FOUNDATION}` with config.json and tokenizer of google/flan-t5-base",
    ),
    "trueteacher": Preset(
        settings=_TRUE,
        source="google/t5_11b_trueteacher_and_anli, README.md; google-research/true",
        needs=f"google/t5_11b_trueteacher_and_anli, or another {_T5[2:]} that answers 1 or 0",
    ),
    "seahorse": Preset(
        settings=_TRUE,
        source="google-research-datasets/seahorse, README.md, and google/seahorse-large-q1 to -q6, "
        "README.md",
        needs="one of google/seahorse-large-q1 to -q6 (or -xxl-), each for one question",
    ),
    "unieval": Preset(
        settings=_UNIEVAL,
        source="maszhongming/UniEval, utils.py: add_question; metric/scorer.py; "
        "metric/evaluator.py: SumEvaluator; sentences by NLTK",
        needs="MingZhong/unieval-sum",
        aspects={
            "coherence": {
                "template": "question: Is this a coherent summary to the document? </s> summary: "
                "{summary} </s> document: {document}",
                "against": "source",
                "summary": "whole",
            },
            "consistency": {
                "template": "question: Is this claim consistent with the document? </s> claim: "
                "{summary} </s> document: {document}",
                "against": "source",
            },
            "fluency": {},
            "relevance": {
                "template": "question: Is this summary relevant to the reference? </s> summary: "
                "{summary} </s> reference: {document}",
                "against": "reference",
                "summary": "whole",
            },
        },
    ),
}


def settings_of(table: Mapping[str, Any]) -> PairSettings:
    """Read a table `[models.ALIAS]` without its path: a preset, and what it has otherwise.

    Raises `ValueError` if a preset, aspect or key is unknown, naming the nearest, or a value is not
    allowed.

    Examples
    --------
    >>> settings_of({"preset": "summac-zs", "over_summary": "min"}).document
    'sentences'
    """
    check_keys(table)
    own = dict(table)
    name, aspect = own.pop("preset", None), own.pop("aspect", None)
    if name is None:
        if aspect is not None:
            raise ValueError("`aspect` of a pair is for a preset that has several, such as unieval")
        return PairSettings(**own)
    if name not in PRESETS:
        raise ValueError(f"unknown `preset` {name!r} of a pair; {nearest(str(name), PRESETS)}")
    preset = PRESETS[name]
    if (aspect is not None or preset.aspects) and aspect not in preset.aspects:
        known = ", ".join(preset.aspects) or "none"
        raise ValueError(f"`aspect` of preset {name} must be one of {known}, got {aspect!r}")
    return replace(preset.settings, **{**preset.aspects.get(aspect or "", {}), **own})


def needs_of(table: Mapping[str, Any]) -> str:
    """Say what the folder of a preset must hold, for the end of a message."""
    name = table.get("preset")
    return f"; preset {name} needs {PRESETS[name].needs}" if name else ""
