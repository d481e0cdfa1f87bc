"""InferSent (Conneau et al. 2017): the largest states of a BiLSTM over word vectors.

Reads the published state dicts and, for their words, GloVe (version 1) or fastText (version 2)
text files. Words are cut as in the published code, by NLTK's Treebank rules and with their case;
those without a vector are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from nltk.tokenize import NLTKWordTokenizer
from safetensors.torch import load_file
from torch import nn
from torch.nn.utils import rnn

from sms.encoders import EncoderRuntime
from sms.encoders.batches import Batches
from sms.encoders.contextual import ContextualEncoder
from sms.encoders.devices import Machine
from sms.encoders.static import open_table
from sms.encoders.word_table import WordTable
from sms.file_hashes import hash_of_files
from sms.ragged import Ragged
from sms.text import SegmentedTexts

BATCH_WORDS = 4096
"""Words that are read together, padding included; about 30 KB each at the published width."""

PUBLISHED = "https://dl.fbaipublicfiles.com/infersent/infersent1.pkl"

_LSTM = "enc_lstm."


@dataclass(frozen=True, slots=True)
class InferSentVersion:
    """How a version treats a sentence's words."""

    first: str
    """Stands before every sentence, where it has a vector."""
    last: str
    """Stands after it."""
    splits_negation_as_moses: bool
    """Whether `do n't` becomes `don 't`."""


VERSIONS = {
    "1": InferSentVersion("<s>", "</s>", splits_negation_as_moses=False),
    "2": InferSentVersion("<p>", "</p>", splits_negation_as_moses=True),
}
"""The published versions."""


class InferSentEncoder(ContextualEncoder):
    """Sentence vectors of InferSent, always computed in fp32.

    A sentence is read alone. The published code pads a batch with zeros, which in version 1 take
    part in the maximum: there, a vector depends on the other sentences of its batch. This is
    what that code gives for a batch of one. A sentence without a word that has a vector has none
    here and does not count; there, it has that of an empty sentence.
    """

    def __init__(
        self,
        lstm: nn.LSTM,
        table: WordTable,
        *,
        version: InferSentVersion,
        signature: str,
        content_hash: str,
        device: torch.device,
    ) -> None:
        super().__init__(
            signature=signature,
            content_hash=content_hash,
            has_words=False,
            dimension=2 * lstm.hidden_size,
        )
        self._lstm = lstm.to(device).eval()
        self._lstm.flatten_parameters()
        self._device = device
        self._table = table
        self._vectors = torch.from_numpy(table.vectors)
        self._version = version
        self._tokenizer = NLTKWordTokenizer()
        self._batches = Batches(BATCH_WORDS)

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words have a vector, or a part that has one."""
        return texts.vocabulary.column(
            f"known:{self.content_hash}:{self._version.last}",
            lambda words: np.array([bool(self._rows_of(word)) for word in words], dtype=bool),
        )

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch, longest first; zeros where no word is known."""
        rows = [self._rows_of(texts.sentences[k]) for k in wanted.tolist()]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        filled = np.flatnonzero(lengths)
        self.counts["tokens"] += int(lengths.sum())
        vectors = np.zeros((wanted.size, self.dimension), dtype=np.float32)

        def compute(batch: np.ndarray) -> None:
            vectors[filled[batch]] = self._read([rows[k] for k in filled[batch].tolist()])

        self._batches.run(lengths[filled], compute)
        return np.empty((0, self.dimension), dtype=np.float32), vectors

    def _rows_of(self, sentence: str) -> list[int]:
        """Return the vectors to read, by row; none unless a word, not only a mark, is known."""
        tokens = self._tokenizer.tokenize(sentence)
        if self._version.splits_negation_as_moses:
            tokens = " ".join(tokens).replace(" n't ", "n 't ").split()
        marked = [self._version.first, *tokens, self._version.last]
        rows = self._table.rows_of(marked).tolist()
        known = [token for token, row in zip(tokens, rows[1:-1], strict=True) if row >= 0]
        if not any(character.isalnum() for token in known for character in token):
            return []
        return [row for row in rows if row >= 0]

    @torch.inference_mode()
    def _read(self, sentences: list[list[int]]) -> np.ndarray:
        """Return the largest state of each dimension, shape (n_sentences, d)."""
        rows = torch.tensor([row for sentence in sentences for row in sentence])
        words = self._vectors[rows].to(self._device)
        packed = rnn.pack_sequence(words.split([len(sentence) for sentence in sentences]))
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            states, _ = self._lstm(packed)
        padded, _ = rnn.pad_packed_sequence(states, padding_value=-torch.inf)
        return padded.amax(dim=0).cpu().numpy()


def load_infersent(
    path: str, *, runtime: EncoderRuntime, vectors: str, version: str = "1"
) -> InferSentEncoder:
    """Load InferSent from a state dict, as `infersent1.pkl`, or its tensors in a safetensors file.

    Nothing in a pickled file is executed. `vectors` is the path of the word vectors it was trained
    with, a GloVe or fastText text file. Raises `ValueError` if a file is missing, damaged or of
    another kind, the word vectors have not the width that the model reads, or a GPU is asked for
    and absent.
    """
    device = Machine.choose(runtime).device
    model_path, vectors_path = Path(path).expanduser(), Path(vectors).expanduser()
    lstm = _lstm_of(model_path, _read_state(model_path))
    table = _read_words(vectors_path)
    if table.vectors.shape[1] != lstm.input_size:
        raise ValueError(
            f"`{vectors_path}` must hold vectors of {lstm.input_size} values for `{model_path}`, "
            f"got {table.vectors.shape[1]}"
        )
    return InferSentEncoder(
        lstm,
        table,
        version=VERSIONS[version],
        signature=f"infersent{version}-{model_path.stem}|vectors:{vectors_path.stem}|oov:drop"
        "|pool:mean",
        content_hash=hash_of_files([model_path, vectors_path]),
        device=device,
    )


def _read_state(path: Path) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise ValueError(
            f"no state dict at `{path}`; download one to that path, for example {PUBLISHED}"
        )
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    # a damaged file fails in every way there is
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"`{path}` must be a whole state dict and hold nothing but tensors, got "
            f"{type(error).__name__}: {reason[:120]}"
        ) from error
    if not isinstance(state, dict) or not all(torch.is_tensor(x) for x in state.values()):
        raise ValueError(f"`{path}` must be a dict of tensors, got a {type(state).__name__}")
    return state


def _lstm_of(path: Path, state: dict[str, torch.Tensor]) -> nn.LSTM:
    """Make the BiLSTM whose tensors these are, its widths read from them."""
    expected = _shapes(state)
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name in sorted(expected.keys() | shapes.keys()):
        if expected.get(name) != shapes.get(name):
            raise ValueError(
                f"`{path}` must be the state dict of InferSent, with `{name}` of shape "
                f"{expected.get(name, 'none')}, got {shapes.get(name, 'none')}"
            )
        if not state[name].isfinite().all():
            raise ValueError(
                f"`{path}` must hold finite values, but `{name}` has others; download it again"
            )
    width, d_in = expected[_LSTM + "weight_ih_l0"]
    lstm = nn.LSTM(d_in, width // 4, bidirectional=True, device="meta")
    tensors = {name.removeprefix(_LSTM): tensor.float() for name, tensor in state.items()}
    lstm.load_state_dict(tensors, assign=True)
    return lstm


def _shapes(state: dict[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a BiLSTM as wide as the first of these."""
    first = state.get(_LSTM + "weight_ih_l0", torch.empty(4, 1))
    width, d_in = first.shape if first.dim() == 2 else (4, 1)
    parts = {
        "weight_ih_l0": (width, d_in),
        "weight_hh_l0": (width, width // 4),
        "bias_ih_l0": (width,),
        "bias_hh_l0": (width,),
    }
    return {
        f"{_LSTM}{part}{direction}": shape
        for direction in ("", "_reverse")
        for part, shape in parts.items()
    }


def _read_words(path: Path) -> WordTable:
    if not path.is_file():
        raise ValueError(f"no vector file at `{path}`; check the path after `vectors=`")
    with path.open("rb") as file:
        head = file.readline(1 << 16).split()
    has_header = len(head) == 2 and all(part.isdigit() for part in head)
    return open_table(path, "fasttext" if has_header else "glove")[0]
