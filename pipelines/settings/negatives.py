"""Settings of `assay negatives`, and which negatives `assay train` learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pipelines.settings.pairs import PairSettings
from sms.language_codes import language_code
from sms.naming import AnyPath

if TYPE_CHECKING:
    from reffree.negatives import NegativesConfig


@dataclass(frozen=True, kw_only=True)
class NegativesSettings(PairSettings):
    """Which wrong summaries are made from the right ones."""

    out: Annotated[AnyPath, "FILE"]
    """Write the examples to this Parquet file or URL."""
    kinds: Sequence[str] = ()
    """Make these kinds of negatives (wrong summaries), one of each for every good one;
    `all` means all that the language allows. With weights (add=2,cross-pair=1), make one for every
    good one, of a random kind. Default: the kinds that the heads of `assay train` learn from."""
    positives: Annotated[Sequence[str], "rare"] = ()
    """Make negatives from these: reference, lead, extract. Default: the reference; all three
    without `kinds` and `preset`."""
    preset: Literal["bao2020"] | None = None
    """Use the recipe of Bao et al. (bao2020)."""
    language: Annotated[str, "CODE", language_code] = "en"
    """Language of the texts, by its ISO 639 code. negate and opinion are for English only; in
    languages without spaces only kinds that move whole sentences are made."""
    seed: Annotated[int, "rare"] = 0
    """Seed of all random numbers."""

    def config(self) -> NegativesConfig:
        """Return them as `reffree` takes them."""
        positives = tuple(self.positives) or None
        given = {"positives": positives, "seed": self.seed, "language": self.language}
        return negatives_config(self.kinds, self.preset, **given)


def negatives_config(
    kinds: Sequence[str],
    preset: str | None = None,
    **given: Any,  # noqa: ANN401  (fields)
) -> NegativesConfig:
    """Return the negatives of kinds, with weights or without; what is None is not said.

    Where neither kinds nor a preset are named, those that teach the heads of a scorer.
    """
    from reffree.features.aspects import NEWS_HEADS
    from reffree.negatives import PRESETS, NegativesConfig, kinds_for

    possible = kinds_for(given.get("language", "en"))
    kinds_of_heads = tuple(kind for kind in NEWS_HEADS.all_kinds if kind in possible)
    heads = {"kinds": kinds_of_heads, "positives": NEWS_HEADS.positives}
    chosen: dict[str, Any] = dict(PRESETS[preset]) if preset else {} if kinds else heads
    if any("=" in kind for kind in kinds):
        weights = _weights(kinds)
        chosen |= {"kinds": tuple(weights), "proportions": tuple(weights.values())}
    elif kinds:
        chosen["kinds"] = possible if tuple(kinds) == ("all",) else tuple(kinds)
    chosen |= {name: value for name, value in given.items() if value is not None}
    return NegativesConfig(**chosen)


def _weights(items: Sequence[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for item in items:
        kind, _, weight = (part.strip() for part in item.partition("="))
        if kind in weights:
            raise ValueError(f"kinds of negatives must be named once, got `{kind}` twice")
        try:
            weights[kind] = float(weight)
        except ValueError as error:
            raise ValueError(
                f"if one kind of negative has a weight, all must have one, got `{item}`; for "
                "example add=2,cross-pair=1"
            ) from error
    return weights
