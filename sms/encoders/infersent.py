"""InferSent (Conneau et al. 2017): the largest states of a BiLSTM over word vectors.

Reads the published state dicts and, for their words, GloVe (version 1) or fastText (version 2)
text files. Words are cut as in the published code, by NLTK's Treebank rules and with their case;
those without a vector are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from nltk.tokenize import NLTKWordTokenizer
from torch import nn
from torch.nn.utils import rnn

from sms.encoders import EncoderRuntime
from sms.encoders.base import SentenceEncoder
from sms.encoders.batches import Batches
from sms.encoders.devices import Machine
from sms.encoders.static import WordTable, open_table
from sms.file_hashes import hash_of_files
from sms.text import SegmentedTexts

BATCH_WORDS = 4096
"""Words that are read together, padding included; about 30 KB each at the published width."""
PUBLISHED = "https://dl.fbaipublicfiles.com/infersent/infersent1.pkl"
MARKERS = {"1": ("<s>", "</s>"), "2": ("<p>", "</p>")}
"""What stands before and after every sentence, where it has a vector, by version."""


class InferSentEncoder(SentenceEncoder):
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
        version: str,
        signature: str,
        content_hash: str,
        device: torch.device,
    ) -> None:
        super().__init__(
            signature=signature, content_hash=content_hash, dimension=2 * lstm.hidden_size
        )
        self.batches = Batches(BATCH_WORDS)
        self._lstm, self._device = lstm.to(device).eval(), device
        self._lstm.flatten_parameters()
        self._table, self._vectors = table, torch.from_numpy(table.vectors)
        self._version = version
        self._tokenizer = NLTKWordTokenizer()

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words have a vector, or a part that has one."""
        return texts.vocabulary.column(
            f"known:{self.content_hash}:{self._version}",
            lambda words: np.array([bool(self._rows_of(word)) for word in words], dtype=bool),
        )

    def inputs_of(self, texts: SegmentedTexts, wanted: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Return the rows of some sentences' words, and how many they are."""
        rows = [self._rows_of(texts.sentences[k]) for k in wanted.tolist()]
        return rows, np.array([len(row) for row in rows], dtype=np.int64)

    def _rows_of(self, sentence: str) -> list[int]:
        """Return the vectors to read, by row; none unless a word, not only a mark, is known."""
        tokens = self._tokenizer.tokenize(sentence)
        if self._version == "2":  # as Moses splits: `don 't`
            tokens = " ".join(tokens).replace(" n't ", "n 't ").split()
        first, last = MARKERS[self._version]
        rows = self._table.rows_of([first, *tokens, last]).tolist()
        known = [token for token, row in zip(tokens, rows[1:-1], strict=True) if row >= 0]
        if not any(character.isalnum() for character in "".join(known)):
            return []
        return [row for row in rows if row >= 0]

    @torch.inference_mode()
    def embed(self, inputs: list[Any]) -> np.ndarray:
        """Return the largest state of each dimension for each sentence."""
        words = [self._vectors[torch.tensor(rows)].to(self._device) for rows in inputs]
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            states, _ = self._lstm(rnn.pack_sequence(words))
        padded, _ = rnn.pad_packed_sequence(states, padding_value=-torch.inf)
        return padded.amax(dim=0).cpu().numpy()


def load_infersent(
    path: str, *, runtime: EncoderRuntime, vectors: str, version: str = "1"
) -> InferSentEncoder:
    """Load InferSent from a state dict, as `infersent1.pkl`; nothing in the file is executed.

    `vectors` is the path of the word vectors it was trained with, a GloVe or fastText text file.
    """
    device = Machine.choose(runtime).device
    model_path, vectors_path = Path(path), Path(vectors)
    lstm = _read_lstm(model_path)
    table = _read_words(vectors_path)
    if table.vectors.shape[1] != lstm.input_size:
        raise ValueError(
            f"`{vectors_path}` must hold vectors of {lstm.input_size} values for `{model_path}`, "
            f"got {table.vectors.shape[1]}"
        )
    return InferSentEncoder(
        lstm,
        table,
        version=version,
        signature=f"infersent{version}-{model_path.stem}|vectors:{vectors_path.stem}|oov:drop"
        "|pool:mean",
        content_hash=hash_of_files([model_path, vectors_path]),
        device=device,
    )


def _read_lstm(path: Path) -> nn.LSTM:
    """Make the BiLSTM of a state dict, its widths read from it."""
    if not path.is_file():
        raise ValueError(
            f"no state dict at `{path}`; download one to that path, for example {PUBLISHED}"
        )
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        tensors = {name.removeprefix("enc_lstm."): x.float() for name, x in state.items()}
        width, d_in = tensors["weight_ih_l0"].shape
        lstm = nn.LSTM(d_in, width // 4, bidirectional=True, device="meta")
        lstm.load_state_dict(tensors, assign=True)
    # a damaged or strange file fails in every way there is
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"`{path}` must be a whole state dict of InferSent and hold nothing but tensors, "
            f"got {type(error).__name__}: {reason[:200]}"
        ) from error
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(
                f"`{path}` must hold finite values, but `{name}` has others; download it again"
            )
    return lstm


def _read_words(path: Path) -> WordTable:
    if not path.is_file():
        raise ValueError(f"no vector file at `{path}`; check the path after `vectors=`")
    with path.open("rb") as file:
        head = file.readline(1 << 16).split()
    has_header = len(head) == 2 and all(part.isdigit() for part in head)
    return open_table(path, "fasttext" if has_header else "glove")[0]
