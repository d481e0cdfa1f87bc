"""Hashes that are the same in every process, so that no draw depends on what else there is."""

from __future__ import annotations

import hashlib

import numpy as np

_N_SEEDS = 1 << 32


def check_seed(seed: int) -> None:
    """Check that every library can take a seed."""
    if not 0 <= seed < _N_SEEDS:
        raise ValueError(f"`seed` must be from 0 to {_N_SEEDS - 1}, got {seed}")


def hash64(text: str) -> int:
    """Hash a text to 64 bits."""
    return int.from_bytes(_digest(text, 8), "little")


def generator_of(*parts: str | int) -> np.random.Generator:
    """Return the random numbers that belong to these names and numbers, and to nothing else."""
    # Each part with its length, so that no two lists of parts read the same.
    named = "".join(f"{len(str(part))}:{part}" for part in parts)
    return np.random.Generator(np.random.PCG64(int.from_bytes(_digest(named, 16), "little")))


def mixed(keys: np.ndarray, salt: int) -> np.ndarray:
    """Hash 64-bit keys once more, so that one use of them says nothing about another.

    The finaliser of SplitMix64 (Steele, Lea and Flood 2014); uint64, the shape of `keys`.
    """
    with np.errstate(over="ignore"):
        z = keys.astype(np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()
