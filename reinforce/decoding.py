"""Summaries written word by word: the most likely word, one drawn at random, or a beam search."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from reinforce.network import TINY, Encoded, PointerGenerator, State
from reinforce.words import END, PAD, START


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamConfig:
    """How final summaries are searched for."""

    width: int
    """Summaries kept at every step; 1 is greedy."""
    blocks_trigrams: bool
    """Whether no three words may come twice (Paulus et al. 2018, section 2.5)."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"`width` must be at least 1, got {self.width}")


@dataclass(frozen=True, slots=True)
class Found:
    """The summaries that a beam search chose."""

    words: torch.Tensor
    """int64, (n, n_steps), with `END` unless cut, then padding."""
    log_probability: torch.Tensor
    """Of all words of each, `END` included, (n,)."""
    score: torch.Tensor
    """The same divided by the number of words, by which it was chosen, (n,)."""


@torch.no_grad()
def write(
    network: PointerGenerator,
    encoded: Encoded,
    is_drawn: torch.Tensor,
    max_words: int,
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
    network: PointerGenerator, encoded: Encoded, config: BeamConfig, max_words: int
) -> Found:
    """Search for the summary with the highest log-probability per word.

    A summary is done when its end is among the `width` best continuations of its document. The
    search for a document ends when so many are done; if none is after `max_words`, the best of
    those that are not is taken as it stands.
    """
    width = config.width
    n = len(encoded.words)
    rows = encoded.rows(torch.arange(n, device=encoded.words.device).repeat_interleave(width))
    state, previous = rows.start, torch.full_like(rows.words[:, 0], START)
    # All beams of a document begin alike, so only the first counts.
    sums = torch.full((n, width), float("-inf"), device=previous.device)
    sums[:, 0] = 0.0
    words: list[list[list[int]]] = [[[] for _ in range(width)] for _ in range(n)]
    done: list[list[_Summary]] = [[] for _ in range(n)]
    for _ in range(max_words):
        probabilities, state = network.step(rows, previous, state)
        if config.blocks_trigrams:
            _block_trigrams(probabilities, [beam for beams in words for beam in beams])
        n_words = probabilities.shape[1]
        logs = probabilities.clamp_min(TINY).log().masked_fill(probabilities <= 0, float("-inf"))
        totals = (sums[:, :, None] + logs.view(n, width, n_words)).flatten(1)
        best, places = totals.topk(min(2 * width, totals.shape[1]), dim=1)
        kept = _sorted_out(best.tolist(), places.tolist(), n_words, words, done, width)
        if all(len(summaries) >= width for summaries in done):
            break
        previous, sums, state, words = _go_on(kept, words, state, previous)
    return _chosen(words, sums.tolist(), done, previous)


@dataclass(frozen=True, slots=True)
class _Summary:
    words: list[int]
    log_probability: float

    @property
    def score(self) -> float:
        return self.log_probability / max(len(self.words), 1)


_Kept = list[list[tuple[float, int, int]]]
"""Of every document: sum, beam it comes from, next word."""


def _sorted_out(
    best: list[list[float]],
    places: list[list[int]],
    n_words: int,
    words: list[list[list[int]]],
    done: list[list[_Summary]],
    width: int,
) -> _Kept:
    """Put what has ended aside; return what goes on."""
    kept: _Kept = []
    for row, (sums, own_places) in enumerate(zip(best, places, strict=True)):
        alive: list[tuple[float, int, int]] = []
        for rank, (total, place) in enumerate(zip(sums, own_places, strict=True)):
            beam, word = divmod(place, n_words)
            if word != END:
                alive.append((total, beam, word))
            elif rank < width and total > float("-inf") and len(done[row]) < width:
                done[row].append(_Summary([*words[row][beam], END], total))
        alive += [(float("-inf"), 0, PAD)] * (width - len(alive))
        kept.append(alive[:width])
    return kept


def _go_on(
    kept: _Kept, words: list[list[list[int]]], state: State, previous: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, State, list[list[list[int]]]]:
    width = len(kept[0])
    device = previous.device
    sums = torch.tensor([[total for total, _, _ in row] for row in kept], device=device)
    following = torch.tensor([word for row in kept for _, _, word in row], device=device)
    origin = torch.tensor(
        [n * width + beam for n, row in enumerate(kept) for _, beam, _ in row], device=device
    )
    longer = [[[*words[n][beam], word] for _, beam, word in row] for n, row in enumerate(kept)]
    return following, sums, tuple(part[:, origin] for part in state), longer


def _chosen(
    words: list[list[list[int]]],
    sums: list[list[float]],
    done: list[list[_Summary]],
    like: torch.Tensor,
) -> Found:
    """Return the best that is done of every document, or the best that is not if none is."""
    best = [
        max(
            summaries or [_Summary(*beam) for beam in zip(words[row], sums[row], strict=True)],
            key=lambda summary: summary.score,
        )
        for row, summaries in enumerate(done)
    ]
    longest = max(len(summary.words) for summary in best)
    padded = [summary.words + [PAD] * (longest - len(summary.words)) for summary in best]
    return Found(
        torch.tensor(padded, device=like.device),
        torch.tensor([summary.log_probability for summary in best], device=like.device),
        torch.tensor([summary.score for summary in best], device=like.device),
    )


def _block_trigrams(probabilities: torch.Tensor, summaries: list[list[int]]) -> None:
    """Take the chance from every word that would end a trigram the summary has."""
    for row, words in enumerate(summaries):
        last = words[-2:]
        ending = [words[k + 2] for k in range(len(words) - 2) if words[k : k + 2] == last]
        if ending:
            probabilities[row, ending] = 0.0
