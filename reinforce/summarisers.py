"""The paper's network as a summariser, which is trained with a reward.

A summariser turns documents and references into a batch of tensors, gives the log-probability of
every word of a summary, and writes summaries. `hugging_face` has the other one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pad_sequence

from reffree.neural.checkpoint import replace_file
from reinforce.decoding import beam_search, write
from reinforce.documents import END, PAD, SPECIAL, UNK, Document, Vocabulary, text_of, words_of
from reinforce.network import Encoded, NetworkConfig, PointerGenerator

SUMMARISER_FILE = "summariser.json"
WEIGHTS_FILE = "weights.safetensors"


@dataclass(frozen=True, slots=True)
class SummaryBatch:
    """Documents and one reference of each, as tensors."""

    inputs: dict[str, Any]  # arguments of the module, but for `targets`
    target: torch.Tensor  # words of the references, int64, (n, n_steps)
    documents: tuple[Document, ...]
    unknown: tuple[tuple[str, ...], ...] = ()
    """Words of each document that are not in the vocabulary."""

    def document_ids(self) -> list[str]:
        """Name the documents, each once."""
        return list(dict.fromkeys(document.document_id for document in self.documents))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is read and written."""

    source_words: int
    """First words of a document that are read (pieces, for a model of transformers)."""
    summary_words: int
    """Words of a summary, at most, and first words of a reference that are learnt from."""


class PointerSummariser:
    """The paper's network with its vocabulary.

    `module` is what is trained: called with a batch's inputs and `targets`, a list of summaries,
    it gives the log-probabilities of their words, each (n, n_steps).
    """

    def __init__(self, network: PointerGenerator, vocabulary: Vocabulary, limits: Limits) -> None:
        self.module, self.vocabulary, self.limits = network, vocabulary, limits

    def batch(
        self, documents: Sequence[Document], references: Sequence[str], device: str
    ) -> SummaryBatch:
        """Make tensors of word numbers; a document's words of its own come after the vocabulary."""
        sources, copied, targets, unknown = [], [], [], []
        for document, reference in zip(documents, references, strict=True):
            words = words_of(document.source)[: self.limits.source_words]
            summary = words_of(reference)[: self.limits.summary_words]
            ids = self.vocabulary.ids(words)
            unknown_words = dict.fromkeys(
                w for w, number in zip(words, ids, strict=True) if number == UNK
            )
            numbers = {word: len(self.vocabulary) + k for k, word in enumerate(unknown_words)}
            sources.append(torch.tensor(ids))
            copied.append(torch.tensor(self.vocabulary.ids(words, numbers)))
            targets.append(torch.tensor([*self.vocabulary.ids(summary, numbers), END]))
            unknown.append(tuple(unknown_words))
        inputs = {
            "source": _padded(sources).to(device),
            "lengths": torch.tensor([len(source) for source in sources]).to(device),
            "copied": _padded(copied).to(device),
            "n_extended": len(self.vocabulary) + max(map(len, unknown)),
        }
        return SummaryBatch(inputs, _padded(targets).to(device), tuple(documents), tuple(unknown))

    def is_counted(self, target: torch.Tensor) -> torch.Tensor:
        """Count all but padding, and words that are neither in the vocabulary nor the document."""
        return (target != PAD) & (target != UNK)

    def greedy_and_drawn(
        self, batch: SummaryBatch, n_drawn: int
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Write the likeliest words, and draw some summaries of each document.

        All in one go: a step for twice the rows costs less than two steps.
        """
        encoded = self._encoded(batch)
        n = len(encoded.words)
        rows = torch.arange(n, device=encoded.words.device).repeat(1 + n_drawn)
        is_drawn = torch.arange(len(rows), device=rows.device) >= n
        every = write(self.module, encoded.rows(rows), is_drawn, self.limits.summary_words)
        greedy, *drawn = every.split(n)
        return greedy, drawn

    def search(self, batch: SummaryBatch, **options: Any) -> torch.Tensor:  # noqa: ANN401
        """Search by a beam; options as for `beam_search`."""
        return beam_search(self.module, self._encoded(batch), self.limits.summary_words, **options)

    def texts(self, batch: SummaryBatch, summaries: torch.Tensor) -> list[str]:
        """Return the words as text, without the end."""
        n_known = len(self.vocabulary)
        return [
            text_of(
                self.vocabulary.words[word] if word < n_known else others[word - n_known]
                for word in row
                if word not in (PAD, END)
            )
            for row, others in zip(summaries.tolist(), batch.unknown, strict=True)
        ]

    def save(self, folder: Path) -> None:
        """Write `summariser.json` and the weights."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {k: v.contiguous().cpu() for k, v in self.module.state_dict().items()}
        replace_file(folder / WEIGHTS_FILE, lambda path: save_file(weights, path))
        settings = {
            "model": "pointer",
            "network": asdict(self.module.config),
            "limits": asdict(self.limits),
            "words": self.vocabulary.words,
        }
        text = json.dumps(settings, ensure_ascii=False)
        replace_file(folder / SUMMARISER_FILE, lambda path: path.write_text(text, "utf-8"))

    def _encoded(self, batch: SummaryBatch) -> Encoded:
        with torch.no_grad():
            return self.module.encode(**batch.inputs)


def load_pointer(folder: Path, settings: dict[str, Any], limits: Limits) -> PointerSummariser:
    """Load what `PointerSummariser.save` wrote."""
    vocabulary = Vocabulary(settings["words"][len(SPECIAL) :])
    network = PointerGenerator(NetworkConfig(**settings["network"]))
    try:
        network.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except RuntimeError as error:
        raise ValueError(
            f"`{folder / WEIGHTS_FILE}` must hold the weights of this version's network; train the "
            "summariser again"
        ) from error
    return PointerSummariser(network, vocabulary, limits)


def _padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    return pad_sequence(list(rows), batch_first=True, padding_value=PAD)
