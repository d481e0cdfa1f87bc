"""Summaries written word by word: the most likely word, one drawn at random, or a beam search."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from reinforce.documents import END, PAD, START
from reinforce.network import TINY, Encoded, PointerGenerator

_NEVER = float("-inf")
_Summary = tuple[list[int], float]  # words, and the log-probability of all of them


@torch.no_grad()
def write(
    network: PointerGenerator, encoded: Encoded, is_drawn: torch.Tensor, max_words: int
) -> torch.Tensor:
    """Write one summary a document, each word the likeliest or drawn at random.

    Drawn are those of the rows `is_drawn`, bool, shape (n,). Gives int64, shape (n, at most
    max_words), with `END` unless cut, then padding.
    """
    state = encoded.start
    previous = torch.full_like(encoded.words[:, 0], START)
    is_open = torch.ones_like(is_drawn)
    drawn_rows = is_drawn.nonzero().squeeze(1)
    steps = []
    for _ in range(max_words):
        probabilities, state = network.step(encoded, previous, state)
        word = probabilities.argmax(dim=1)
        if drawn_rows.numel():
            word = word.index_copy(0, drawn_rows, draw(probabilities[drawn_rows]))
        previous = torch.where(is_open, word, PAD)
        steps.append(previous)
        is_open = is_open & (word != END)
        if not is_open.any():
            break
    return torch.stack(steps, dim=1)


def draw(probabilities: torch.Tensor) -> torch.Tensor:
    """Draw a number from every row, by one random number each.

    `torch.multinomial` takes one for every probability, which is slow for a vocabulary. A row, of
    shape (n, m), need not sum to 1; what has probability 0 is never drawn.
    """
    sums = probabilities.double().cumsum(dim=1)
    points = torch.rand(len(sums), 1, dtype=torch.float64, device=sums.device) * sums[:, -1:]
    return torch.searchsorted(sums, points, right=True).squeeze(1)


@torch.no_grad()
def beam_search(
    network: PointerGenerator,
    encoded: Encoded,
    max_words: int,
    *,
    width: int,
    blocks_trigrams: bool = False,
) -> torch.Tensor:
    """Search for the summary with the highest log-probability per word, (n, n_steps).

    A summary is done when its end is among the `width` best continuations of its document. The
    search for a document ends when so many are done; if none is after `max_words`, the best of
    those that are not is taken as it stands. With `blocks_trigrams` no three words come twice
    (Paulus et al. 2018, section 2.5).
    """
    n, device = len(encoded.words), encoded.words.device
    rows = encoded.rows(torch.arange(n, device=device).repeat_interleave(width))
    state, previous = rows.start, torch.full_like(rows.words[:, 0], START)
    # All beams of a document begin alike, so only the first counts.
    beams: list[list[_Summary]] = [[([], 0.0), *[([], _NEVER)] * (width - 1)] for _ in range(n)]
    done: list[list[_Summary]] = [[] for _ in range(n)]
    for _ in range(max_words):
        probabilities, state = network.step(rows, previous, state)
        if blocks_trigrams:
            _block_trigrams(probabilities, [words for row_beams in beams for words, _ in row_beams])
        logs = probabilities.clamp_min(TINY).log().masked_fill(probabilities <= 0, _NEVER)
        sums = torch.tensor(
            [[total for _, total in row_beams] for row_beams in beams], device=device
        )
        n_words = logs.shape[1]
        totals = (sums[:, :, None] + logs.view(n, width, n_words)).flatten(1)
        best, places = totals.topk(min(2 * width, totals.shape[1]), dim=1)
        origin = []
        for row, (row_best, row_places) in enumerate(
            zip(best.tolist(), places.tolist(), strict=True)
        ):
            kept = list(
                _going_on(zip(row_best, row_places, strict=True), n_words, beams[row], done[row])
            )
            kept = (kept + [(0, PAD, _NEVER)] * width)[:width]
            beams[row] = [([*beams[row][beam][0], word], total) for beam, word, total in kept]
            origin += [row * width + beam for beam, _, _ in kept]
        if all(len(summaries) >= width for summaries in done):
            break
        previous = torch.tensor(
            [words[-1] for row_beams in beams for words, _ in row_beams], device=device
        )
        state = tuple(part[:, torch.tensor(origin, device=device)] for part in state)
    chosen = [
        max(ended or open_ones, key=lambda summary: summary[1] / max(len(summary[0]), 1))[0]
        for ended, open_ones in zip(done, beams, strict=True)
    ]
    longest = max(map(len, chosen))
    padded = [words + [PAD] * (longest - len(words)) for words in chosen]
    return torch.tensor(padded, device=device)


def _going_on(
    best: Iterator[tuple[float, int]], n_words: int, beams: list[_Summary], done: list[_Summary]
) -> Iterator[tuple[int, int, float]]:
    """Put what has ended aside; yield the beam, next word and sum of what goes on."""
    for rank, (total, place) in enumerate(best):
        beam, word = divmod(place, n_words)
        if word != END:
            yield beam, word, total
        elif rank < len(beams) and total > _NEVER and len(done) < len(beams):
            done.append(([*beams[beam][0], END], total))


def _block_trigrams(probabilities: torch.Tensor, summaries: list[list[int]]) -> None:
    """Take the chance from every word that would end a trigram the summary has."""
    for row, words in enumerate(summaries):
        last = words[-2:]
        ending = [words[k + 2] for k in range(len(words) - 2) if words[k : k + 2] == last]
        if ending:
            probabilities[row, ending] = 0.0
