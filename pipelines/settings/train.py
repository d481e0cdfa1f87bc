"""Settings of `assay train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pipelines.settings.form import shared_fields
from pipelines.settings.negatives import negatives_config
from pipelines.settings.pairs import MachineSettings, PairSettings
from sms.language_codes import language_code
from sms.naming import AnyPath
from sms.options import models_of

if TYPE_CHECKING:
    from reffree.neural.training import Recipe
    from reffree.scorers.fitting import LinearRecipe

FEATURES = "features"
GENERAL = "general"
"""The preset of the scorer of features, `reffree@general`; others are of neural scorers."""
OF_MODELS = (
    "head", "dropout", "loss", "calibration", "epochs", "batch_size", "learning_rate",
    "max_pieces", "patience", "ema_decay", "checkpoint_steps", "precision",
    "workers", "gpus_per_worker", "address", "encoder",
)  # fmt: skip
"""Settings that the scorer of features does not read."""
OF_FEATURES = ("metrics", "models", "dev_corpus", "dev_ratings")
"""Settings that no other scorer reads."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings(PairSettings, MachineSettings):
    """A scorer without references, and what it learns from."""

    out: Annotated[AnyPath, "DIR"]
    """Write the scorer to this new folder, which all workers must see."""
    scorer: Literal["bert", "sentence", "word", "features"] | None = None
    """Kind of scorer: for each aspect a weighted sum of features (features), a transformer
    over document and summary (bert), or a head over vectors of sentences or words (sentence,
    word). Default: features; bert with `--preset bao2020`."""
    encoder: Annotated[str | None, "SPEC"] = None
    """Start from this encoder; `assay encoders` lists them. `bert` takes only minilm or hf:PATH.
    Default: minilm; the scorer `features` uses none."""
    language: Annotated[str, "CODE", language_code] = "en"
    """Language of the texts, by its ISO 639 code, or und for several. The scorer `features` is for
    English only."""
    metrics: Annotated[Sequence[str], "rare"] = ()
    """Also use the scores of these metrics as features, such as likelihood@ALIAS, pair@ALIAS or
    sms:source. They must not need a reference."""
    models: Annotated[Mapping[str, Any] | None, "ALIAS=MODEL", "rare", models_of] = None
    """Tables [models.ALIAS] for the metrics in `metrics`, as in `assay score`."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """Read human ratings of the candidates in PAIRS from FILE, and fit a head to each aspect. PAIRS
    then need the columns that `assay score` reads."""
    raters: Annotated[Sequence[str], "rare"] = ()
    """Average these raters, given as names or patterns such as `expert-*`. Default: all. Required
    if the names show several pools, such as expert-1 and turker-1."""
    dev_corpus: Annotated[AnyPath | None, "FILE", "rare"] = None
    """Try four recipes for `features`, and keep the one that agrees best with `--dev-ratings` on
    the summaries in FILE, within documents and with length held fixed. FILE is read as by `assay
    score`."""
    dev_ratings: Annotated[AnyPath | None, "FILE", "rare"] = None
    """Read human ratings of the summaries in `--dev-corpus` from FILE; `raters` applies, too."""
    head: Annotated[Literal["fc", "cnn", "lstm"], "rare"] = "fc"
    """Head over the vectors of `sentence` and `word`."""
    dropout: Annotated[float | None, "rare"] = None
    """Dropout rate of the head `fc` over vectors: the share of inputs and hidden units that a step
    leaves out. Default: 0.3; 0 with a preset."""
    negatives: Sequence[str] | None = None
    """Make these kinds of negatives (wrong summaries), one of each for every pair. With weights
    (add=2,cross-pair=1), make one for every pair, of a random kind. Default: the kinds that the
    heads of `features` learn from; cross-pair for other scorers."""
    preset: Literal["bao2020", "general"] | None = None
    """Use the recipe of Bao et al. (bao2020), or that of `reffree@general` (general): `features`
    with a few features that are not about news. Then each of PAIRS must hold one kind of text."""
    loss: Annotated[Literal["bce", "mse"] | None, "rare"] = None
    """Loss to minimise. Default: mse if all negatives are edits, otherwise bce."""
    calibration: Annotated[bool | None, "rare"] = None
    """Scale and shift the scores after training to fit the validation documents. Default: yes; no
    with a preset."""
    epochs: int | None = None
    """Stop after N epochs. Default: 10."""
    batch_size: Annotated[int, "rare"] = 32
    """Take N examples in each step, over all workers."""
    learning_rate: Annotated[float | None, "rare"] = None
    """Peak learning rate. Default: 5e-5 for bert, 1e-3 for the others."""
    max_pieces: Annotated[int | None, "rare"] = None
    """Read at most N word pieces of document and summary together; `bert` only. Default: 512."""
    patience: Annotated[int, "rare"] = 3
    """Stop after N validations without a better loss."""
    ema_decay: Annotated[float, "rare"] = 0.0
    """Validate and save an exponential moving average of the weights with this decay; 0.995
    averages about 200 steps."""
    checkpoint_steps: Annotated[int, "rare"] = 200
    """Save a checkpoint every N steps."""
    precision: Annotated[Literal["auto", "fp32", "bf16"], "rare"] = "auto"
    """Number format in which the model computes; auto is bf16 on a GPU and fp32 elsewhere."""
    seed: Annotated[int, "rare"] = 0
    """Seed of all random numbers."""
    fresh: bool = False
    """Replace the interrupted training in DIR instead of continuing it."""
    learning_curve: Annotated[Sequence[int], "rare"] = ()
    """With `ratings`, also report how good a scorer is that is fitted to only N rated documents,
    for each N of this list, for example 5,10,20."""
    on_news: Annotated[Callable[..., None] | None, "python"] = None
    """Called with every figure that is logged."""

    def recipe(self) -> Recipe | LinearRecipe:
        """Return the recipe of the scorer."""
        is_neural = self.preset not in (None, GENERAL)
        scorer = self.scorer or ("bert" if is_neural else FEATURES)
        self._check_options_of(scorer)
        if scorer == FEATURES and self.language != "en":
            raise ValueError(
                "the scorer features counts English words, got `language` "
                f"{self.language}; give another scorer and an encoder for the language, such as "
                "`--scorer bert --encoder hf:xlm-roberta-base`, or `--scorer sentence --encoder "
                "muse`"
            )
        if scorer == FEATURES:
            from reffree.features.aspects import GENERAL_HEADS, NEWS_HEADS
            from reffree.scorers.fitting import LinearRecipe

            is_general = self.preset == GENERAL
            heads = GENERAL_HEADS if is_general else NEWS_HEADS
            kinds = self.negatives or heads.all_kinds
            negatives = negatives_config(kinds, positives=heads.positives, seed=self.seed)
            return LinearRecipe(
                negatives=negatives,
                metrics=tuple(self.metrics),
                models=self.models or {},
                heads=heads,
                is_by_kind=is_general,
            )
        return self._recipe_of_model(scorer)

    def _recipe_of_model(self, scorer: str) -> Recipe:
        from reffree.neural.models import MODEL_PRESETS, ModelConfig
        from reffree.neural.training import Recipe, TrainConfig, default_loss

        kinds = self.negatives or (() if self.preset else ("cross-pair",))
        given = {"positives": ("reference",), "seed": self.seed, "language": self.language}
        negatives = negatives_config(kinds, self.preset, **given)
        published: dict[str, Any] = dict(MODEL_PRESETS[self.preset]) if self.preset else {}
        if self.dropout is not None:
            published["dropout"] = self.dropout
        model = ModelConfig(
            scorer=scorer,
            encoder=self.encoder or "minilm",
            language=self.language,
            head=self.head,
            max_pieces=512 if self.max_pieces is None else self.max_pieces,
            is_calibrated=self.preset is None if self.calibration is None else self.calibration,
            **published,
        )
        training = shared_fields(TrainConfig, self)
        defaults = {
            "loss": default_loss(negatives.kinds),
            "learning_rate": 5e-5 if scorer == "bert" else 1e-3,
            "epochs": 10,
        }
        training |= {name: each for name, each in defaults.items() if training[name] is None}
        optimiser = "rmsprop" if self.preset and scorer != "bert" else "adamw"
        config = TrainConfig(optimiser=optimiser, **training)
        return Recipe(model=model, negatives=negatives, training=config)

    def _check_options_of(self, scorer: str) -> None:
        wrong = [] if scorer == "bert" else ["max_pieces"]
        if scorer == "bert" or self.head != "fc":
            wrong.append("dropout")
        wrong += OF_MODELS if scorer == FEATURES else OF_FEATURES
        if (scorer == FEATURES) != (self.preset == GENERAL):
            wrong.append("preset")
        if self.learning_curve and self.ratings is None:
            raise ValueError("`learning_curve` belongs to `ratings`; give both, or leave it out")
        defaults = {one.name: one.default for one in fields(self)}
        for name in wrong:
            if getattr(self, name) != defaults[name]:
                raise ValueError(
                    f"`{name}` is not for the scorer {scorer}"
                    f"{f' with the head {self.head}' if name == 'dropout' else ''}; leave it out, "
                    "or choose another scorer"
                )
