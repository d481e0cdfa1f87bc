"""The summariser of Clark et al. (2019, section 5): LSTMs, attention, copying.

A bidirectional LSTM of two layers reads the document, an LSTM of two layers writes. At every word
it attends to the document (additive attention, Bahdanau et al. 2015) and either writes a word of
its vocabulary or copies one (pointer-generator, See et al. 2017, equations 8 and 9). Words of the
document that are not in the vocabulary get numbers beyond it, so that they can be copied.

The decoder reads the last word and the context of the last step, as in the code that See et al.
published (their paper does not mention the context).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from reinforce.documents import END, PAD, START, UNK

TINY = 1e-10  # probabilities are taken to be no smaller in logarithms; a copied word never is

State = tuple[torch.Tensor, ...]
"""Of the decoder: hidden and cell, each (layers, n, hidden), and the context, (1, n, 2 hidden)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Sizes of the network."""

    n_words: int  # vocabulary, special words included
    n_dimensions: int  # of the word vectors
    n_hidden: int  # of each direction of the encoder, and of the decoder
    n_layers: int
    dropout: float  # of word vectors and between layers; the paper names none


@dataclass(frozen=True, slots=True)
class Encoded:
    """Documents that have been read."""

    states: torch.Tensor  # of every word, (n, length, 2 hidden)
    keys: torch.Tensor  # the same, projected once for the attention, times 2, (n, length, hidden)
    is_word: torch.Tensor  # bool, (n, length)
    words: torch.Tensor
    """Numbers for copying, beyond the vocabulary for words not in it, (n, length)."""
    start: State
    n_extended: int  # words that can be written: the vocabulary, and the others of these documents

    def rows(self, chosen: torch.Tensor) -> Encoded:
        """Return some of the documents, in any order, perhaps several times."""
        return replace(
            self,
            states=self.states[chosen],
            keys=self.keys[chosen],
            is_word=self.is_word[chosen],
            words=self.words[chosen],
            start=tuple(part[:, chosen] for part in self.start),
        )


class BothWays(nn.Module):
    """A bidirectional LSTM over texts of different lengths.

    Each direction is an LSTM of its own that reads its texts from the left (for the way back they
    are turned round within their lengths), so that padding comes last and no state depends on
    it. `nn.LSTM` does the same with packed sequences, by a path that is several times slower on
    CPUs. Dropout is between layers.
    """

    def __init__(self, n_inputs: int, n_hidden: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        sizes = [n_inputs, *[2 * n_hidden] * (n_layers - 1)]
        self.forth = nn.ModuleList(nn.LSTM(n, n_hidden, batch_first=True) for n in sizes)
        self.back = nn.ModuleList(nn.LSTM(n, n_hidden, batch_first=True) for n in sizes)
        self.dropped = nn.Dropout(dropout)

    def forward(
        self, vectors: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read texts, shape (n, length, n_inputs).

        Returns the states of the last layer, shape (n, length, 2 n_hidden), anything at padding,
        and those after the whole text, of both ways, shape (n_layers, n, 2 n_hidden).
        """
        places = torch.arange(vectors.shape[1], device=vectors.device)
        last = (lengths - 1)[:, None]
        # Reversing twice restores the order: the same places serve both times.
        turned = torch.where(places <= last, last - places, places)[..., None]
        ends = []
        for number, (forth, back) in enumerate(zip(self.forth, self.back, strict=True)):
            if number:
                vectors = self.dropped(vectors)
            ahead, _ = forth(vectors)
            behind, _ = back(vectors.gather(1, turned.expand_as(vectors)))
            end = last[..., None].expand(-1, -1, ahead.shape[2])
            ends.append(torch.cat([ahead.gather(1, end), behind.gather(1, end)], dim=2)[:, 0])
            behind = behind.gather(1, turned.expand_as(behind))
            vectors = torch.cat([ahead, behind], dim=2)
        return vectors, torch.stack(ends)


class PointerGenerator(nn.Module):
    """Encoder, decoder, attention and copying."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        hidden, dropout = config.n_hidden, config.dropout if config.n_layers > 1 else 0.0
        self.vectors = nn.Embedding(config.n_words, config.n_dimensions, padding_idx=PAD)
        self.encoder = BothWays(config.n_dimensions, hidden, config.n_layers, dropout)
        self.decoder = nn.LSTM(
            config.n_dimensions, hidden, config.n_layers, dropout=dropout, batch_first=True
        )
        self.fed = nn.Linear(config.n_dimensions + 2 * hidden, config.n_dimensions)
        self.bridge = nn.Linear(2 * hidden, 2 * hidden)
        self.key = nn.Linear(2 * hidden, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden)
        self.weight = nn.Linear(hidden, 1, bias=False)
        self.joined = nn.Linear(3 * hidden, hidden)
        self.output = nn.Linear(hidden, config.n_words)
        self.switch = nn.Linear(3 * hidden + config.n_dimensions, 1)
        self.dropped = nn.Dropout(config.dropout)
        # Never written: padding, a word that is not one, and the start.
        unwritten = torch.zeros(config.n_words)
        unwritten[[PAD, UNK, START]] = float("-inf")
        self.register_buffer("unwritten", unwritten, persistent=False)

    def forward(
        self,
        source: torch.Tensor,
        lengths: torch.Tensor,
        copied: torch.Tensor,
        n_extended: int,
        targets: list[torch.Tensor],
    ) -> list[torch.Tensor]:
        """Return the log-probability of every word of some summaries of the documents.

        Words of `source`, shape (n, length), that the vocabulary lacks are `UNK`; in `copied` they
        have numbers beyond it, below `n_extended`. Each of `targets`, shape (n, n_steps), is a
        summary of every document, with `END`, padded. The result has these shapes and is anything
        at padding.
        """
        encoded = self.encode(source, lengths, copied, n_extended)
        return [self.log_probabilities(encoded, target) for target in targets]

    def encode(
        self, source: torch.Tensor, lengths: torch.Tensor, copied: torch.Tensor, n_extended: int
    ) -> Encoded:
        """Read documents; see `forward`."""
        states, last = self.encoder(self.dropped(self.vectors(source)), lengths)
        is_word = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return Encoded(states, 2 * self.key(states), is_word, copied, self._start(last), n_extended)

    def _start(self, last: torch.Tensor) -> State:
        """Make the decoder's first state of the encoder's last ones, layer by layer."""
        hidden, cell = torch.tanh(self.bridge(last)).chunk(2, dim=2)
        return hidden.contiguous(), cell.contiguous(), torch.zeros_like(last[:1])

    def log_probabilities(self, encoded: Encoded, target: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of every word of one summary a document."""
        start = torch.full_like(target[:, :1], START)
        inputs = torch.cat([start, target[:, :-1]], dim=1)
        known = torch.where(inputs < self.config.n_words, inputs, UNK)
        attention, logits, log_write, log_copy, _ = self._steps(encoded, known, encoded.start)
        is_written = target < self.config.n_words
        place = torch.where(is_written, target, END)[..., None]
        log_written = functional.log_softmax(logits, dim=-1).gather(2, place).squeeze(2)
        never = torch.isneginf(log_written) | ~is_written
        log_written = torch.where(never, torch.full_like(log_written, -1e9), log_written)
        is_copy = encoded.words[:, None, :] == target[:, :, None]
        share = (attention * is_copy).sum(dim=2)
        log_copied = torch.where(share > 0, share.clamp_min(TINY).log(), -1e9)
        return torch.logaddexp(log_write + log_written, log_copy + log_copied)

    def step(
        self, encoded: Encoded, previous: torch.Tensor, state: State
    ) -> tuple[torch.Tensor, State]:
        """Return the probabilities of the next word, shape (n, n_extended), and the next state.

        The words before, int64, shape (n,), may be beyond the vocabulary.
        """
        known = torch.where(previous < self.config.n_words, previous, UNK)[:, None]
        attention, logits, log_write, log_copy, state = self._steps(encoded, known, state)
        written = functional.softmax(logits[:, 0], dim=-1) * log_write.exp()
        n_more = encoded.n_extended - self.config.n_words
        probabilities = functional.pad(written, (0, n_more)) if n_more else written
        copied = attention[:, 0] * log_copy.exp()
        return probabilities.scatter_add(1, encoded.words, copied), state

    def _steps(
        self, encoded: Encoded, inputs: torch.Tensor, state: State
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, State]:
        """Attention (n, steps, length), logits, and log-probabilities of writing and copying."""
        vectors = self.dropped(self.vectors(inputs))
        *memory, context = state
        steps = []
        for vector in vectors.unbind(dim=1):
            read = self.fed(torch.cat([vector, context[0]], dim=1))
            output, memory = self.decoder(read[:, None], tuple(memory))
            attention = self._attention(encoded, output)
            context = (attention @ encoded.states).transpose(0, 1)
            steps.append((output, attention, context.transpose(0, 1)))
        outputs, attention, contexts = (
            torch.cat(parts, dim=1) for parts in zip(*steps, strict=True)
        )
        seen = torch.cat([outputs, contexts], dim=2)
        logits = self.output(self.dropped(torch.tanh(self.joined(seen)))) + self.unwritten
        switch = self.switch(torch.cat([seen, vectors], dim=2)).squeeze(2)
        return (
            attention, logits, functional.logsigmoid(switch), functional.logsigmoid(-switch),
            (*memory, context),
        )  # fmt: skip

    def _attention(self, encoded: Encoded, outputs: torch.Tensor) -> torch.Tensor:
        # tanh x = 2 sigmoid(2x) - 1, and a softmax does not see the -1: on CPUs, tanh is slow.
        halves = torch.sigmoid(2 * self.query(outputs)[:, :, None, :] + encoded.keys[:, None, :, :])
        energies = 2 * self.weight(halves).squeeze(3)
        energies = energies.masked_fill(~encoded.is_word[:, None, :], float("-inf"))
        return functional.softmax(energies, dim=2)
