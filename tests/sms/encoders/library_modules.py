"""The parts of a sentence-transformers model, by names that the library has had since 5.4."""

from __future__ import annotations

__all__ = ["Dense", "Normalize", "Pooling", "Transformer", "pooling"]

try:
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
except ImportError:
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer


def pooling(width: int, *modes: str) -> Pooling:
    """Pool in one way, or in several whose vectors stand one after the other."""
    if len(modes) == 1:
        return Pooling(width, pooling_mode=modes[0])
    try:
        return Pooling(width, pooling_mode=modes)
    except AttributeError:  # a tuple, to a version that takes a name alone
        return Pooling(width, **{f"pooling_mode_{mode}_tokens": True for mode in modes})
