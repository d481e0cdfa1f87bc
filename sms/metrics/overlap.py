"""N-grams of packed texts by number, and how often those of one text are in another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sms.metrics.overlap_kernels import counts_of_values_in
from sms.ragged import Ragged, ranges


def number(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """Give distinct int64 keys numbers from 0, in order of appearance; also return how many."""
    encoded = pa.array(keys, pa.int64()).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def number_ngrams(tokens: Ragged, n: int) -> tuple[Ragged, int]:
    """Give each distinct n-gram of a batch a number; return each text's, and how many."""
    token_numbers, n_distinct_tokens = number(tokens.values)
    numbers, n_distinct = token_numbers, n_distinct_tokens
    for extra in range(1, n):
        # Runs over the ends of texts too; `starts` leaves those n-grams out.
        numbers, n_distinct = number(numbers[:-1] * n_distinct_tokens + token_numbers[extra:])
    lengths = np.maximum(tokens.lengths - (n - 1), 0)
    starts = ranges(tokens.offsets[:-1], lengths)
    return Ragged.from_lengths(numbers[starts], lengths), n_distinct


def counts_in(rows: Ragged, n_distinct: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Count how often each value of the row `first` is in the row `second`; int64, flat."""
    return counts_of_values_in(rows.values, rows.offsets, first, second, n_distinct)
