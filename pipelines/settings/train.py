"""Settings of `assay train`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pipelines.settings.negatives import negatives_config
from pipelines.settings.pairs import MachineSettings, PairSettings
from sms.naming import AnyPath

if TYPE_CHECKING:
    from reffree.training import Recipe

_LEARNING_RATES = {"features": 3e-3, "bert": 5e-5}


@dataclass(frozen=True, kw_only=True)
class TrainSettings(PairSettings, MachineSettings):
    """What a scorer without references is, and what it learns from."""

    out: Annotated[AnyPath, "DIR"]
    """New folder for the scorer; all workers must see it."""
    scorer: Literal["bert", "sentence", "word", "features"] | None = None
    """A transformer over document and summary, a head over vectors of sentences or words, or
    nothing but the metrics of `--features`. Default: features, bert with a preset."""
    encoder: Annotated[str, "SPEC"] = "minilm"
    """What it begins with; see `assay encoders`. `bert` takes minilm and hf:PATH."""
    head: Literal["fc", "cnn", "lstm", "match"] = "fc"
    """Over the vectors of `sentence` and `word`; `match`, which compares, is not in the paper."""
    dropout: Annotated[float | None, "rare"] = None
    """Share of the inputs and hidden units that a step leaves out; `fc` over vectors only.
    Default: 0.3, 0 with a preset."""
    features: Sequence[str] | None = None
    """Untrained metrics that are read as well, for example coverage,sms:source; `standard` for a
    choice of them. Default: none, standard for the scorer features."""
    negatives: Sequence[str] | None = None
    """Kinds separated by commas, each for every pair; with weights (add=2,cross-pair=1) they are
    drawn. Default: cross-pair,sentence-delete,replace."""
    per_positive: Annotated[int | None, "rare"] = None
    """Negatives of a pair: of each kind, or in all where they are drawn. Default: 1."""
    preset: Literal["bao2020"] | None = None
    """`bao2020` is the recipe of Bao et al."""
    length_tolerance: Annotated[float | None, "rare"] = None
    """Negatives as long as their positive, within this share of its words."""
    loss: Annotated[Literal["bce", "mse", "ranking"] | None, "rare"] = None
    """What is minimised. Default: ranking; with `--negatives` or a preset mse if all are edits,
    else bce."""
    calibration: Annotated[bool | None, "rare"] = None
    """Scale and shift the scores to fit the validation documents, once trained. Default:
    calibrated; not with the loss ranking or a preset."""
    epochs: int | None = None
    """Stop after N epochs. Default: 1 for features, 10 for the others."""
    batch_size: Annotated[int, "rare"] = 32
    """Examples of a step, of all workers."""
    learning_rate: Annotated[float | None, "rare"] = None
    """Peak value. Default: 3e-3 for features, 5e-5 for bert, 1e-3 for the others."""
    max_pieces: int | None = None
    """Word pieces of document and summary together; `bert` only. Default: 512."""
    frozen_layers: Annotated[int, "rare"] = 0
    """First layers that are not trained; `bert` only."""
    patience: Annotated[int, "rare"] = 3
    """Validations without a better loss after which training stops."""
    ema_decay: Annotated[float, "rare"] = 0.0
    """Validate and keep a running mean of the weights, in which the past counts D; 0.995 is a
    mean over some 200 steps."""
    checkpoint_steps: Annotated[int, "rare"] = 200
    """Steps between checkpoints."""
    precision: Annotated[Literal["auto", "fp32", "bf16"], "rare"] = "auto"
    """Of the model's products; auto is bf16 on a GPU, fp32 elsewhere."""
    seed: Annotated[int, "rare"] = 0
    """Of all draws."""
    fresh: bool = False
    """Replace the interrupted training that is in DIR, instead of going on with it."""
    neighbour_encoder: Annotated[str, "SPEC", "rare"] = "minilm"
    """Finds the nearest documents for cross-pair-hard; see `assay encoders`."""
    embedding_cache: Annotated[AnyPath | None, "DIR", "rare"] = None
    """Folder that keeps the vectors of `sentence` and `word` for later runs."""
    learning_curve: Annotated[Sequence[int], "rare"] = ()
    """Train on so many documents each, for example 100,300,1000, and write how good each is."""
    on_news: Annotated[Callable[..., None] | None, "python"] = None
    """Told of every figure that is logged."""

    def recipe(self) -> Recipe:
        """Return what decides what the scorer becomes."""
        from reffree.losses import compares_candidates, default_loss
        from reffree.models import MODEL_PRESETS, ModelConfig
        from reffree.training import Recipe, TrainConfig

        negatives = negatives_config(
            self.negatives or (),
            per_positive=self.per_positive,
            preset=self.preset,
            length_tolerance=self.length_tolerance,
            seed=self.seed,
        )
        scorer = self.scorer or ("bert" if self.preset else "features")
        self._check_options_of_bert(scorer)
        published: dict[str, Any] = dict(MODEL_PRESETS[self.preset]) if self.preset else {}
        if self.dropout is not None:
            published["dropout"] = self.dropout
        loss: str | None = self.loss
        if loss is None:
            is_named = self.negatives is not None or self.preset is not None
            loss = default_loss(negatives.kinds) if is_named else "ranking"
        has_threshold = not compares_candidates(loss)
        model = ModelConfig(
            scorer=scorer,
            encoder=self.encoder,
            head=self.head,
            max_pieces=512 if self.max_pieces is None else self.max_pieces,
            frozen_layers=self.frozen_layers,
            features=self._features(scorer),
            is_calibrated=has_threshold and self.preset is None
            if self.calibration is None
            else self.calibration,
            **published,
        )
        training = TrainConfig(
            loss=loss,
            learning_rate=_LEARNING_RATES.get(scorer, 1e-3)
            if self.learning_rate is None
            else self.learning_rate,
            epochs=(1 if scorer == "features" else 10) if self.epochs is None else self.epochs,
            batch_size=self.batch_size,
            patience=self.patience,
            ema_decay=self.ema_decay,
            checkpoint_steps=self.checkpoint_steps,
            precision=self.precision,
            seed=self.seed,
        )
        return Recipe(model=model, negatives=negatives, training=training)

    def _features(self, scorer: str) -> tuple[str, ...]:
        from reffree.features import STANDARD

        given = self.features
        if given is None:
            given = ("standard",) if scorer == "features" else ()
        return tuple(chain.from_iterable(STANDARD if n == "standard" else (n,) for n in given))

    def _check_options_of_bert(self, scorer: str) -> None:
        for name in ("max_pieces", "frozen_layers"):
            if getattr(self, name) and scorer != "bert":
                raise ValueError(
                    f"`{name}` is for the scorer bert, got the scorer {scorer}; say that the "
                    f"scorer is bert, or leave `{name}` out"
                )
