"""ELMo from TensorFlow Hub (Peters et al. 2018): word vectors that depend on the sentence.

`layers="mean"` gives the vectors of Clark et al. (2019), the mean of the three layers;
`layers="concat"` those of Sun and Nenkova (2019), where `pooling` is *ELMo-a* or *ELMo-m*.
"""

from __future__ import annotations

import numpy as np

from sms.encoders import EncoderRuntime
from sms.encoders.contextual import ContextualEncoder
from sms.encoders.tf_hub import HubModel, load_model
from sms.ragged import Ragged, offsets_of, owners_of, places_of
from sms.text import SegmentedTexts

BATCH_WORDS = 1024
"""Words that are read together, padding included; a longer sentence is read in windows of as
many. The published model's convolutions over letters take about 200 KB a word."""
PUBLISHED = "https://tfhub.dev/google/elmo/3"

_LAYERS = ("word_emb", "lstm_outputs1", "lstm_outputs2")


class ElmoEncoder(ContextualEncoder):
    """Word vectors of ELMo; a text's vector is their mean or maximum, over all its words.

    The lowest layer is half as wide as the others and counts as if written twice, as in the
    published model's own average of layers. Raises `ValueError` if the model is not ELMo, naming
    its path.
    """

    def __init__(self, model: HubModel, *, layers: str = "mean", pooling: str = "mean") -> None:
        if "tokens" not in model.loaded.signatures:
            raise ValueError(
                f"`{model.path}` must have the signature tokens, got "
                f"{', '.join(model.loaded.signatures) or 'none'}; ELMo is {PUBLISHED}"
            )
        self._tensorflow = model.tensorflow
        self._signature = model.loaded.signatures["tokens"]
        self._concatenates = layers == "concat"
        super().__init__(
            signature=f"elmo-{model.name}|layers:{layers}|pool:{pooling}",
            content_hash=model.content_hash,
            has_words=True,
            dimension=self._width(model) * (len(_LAYERS) if self._concatenates else 1),
            pooling=pooling,
        )
        self._batches = model.batches(BATCH_WORDS)

    def _width(self, model: HubModel) -> int:
        """Return the width of the upper layers, after a first call."""
        use = f"give {', '.join(_LAYERS)} for tokens and sequence_len"
        tokens = np.array([["A", "probe"], ["One", ""]], dtype=object)
        low, *upper = model.probe(use, lambda: self._call(tokens, np.array([2, 1])))
        width = 2 * low.shape[-1]
        shapes = [layer.shape for layer in (low, *upper)]
        if shapes != [(2, 2, width // 2), (2, 2, width), (2, 2, width)]:
            raise ValueError(
                f"`{model.path}` must {use}, the lowest half as wide as the others, got shapes "
                f"{', '.join(map(str, shapes))} for 2 sentences of 2 words"
            )
        return width

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch, longest first."""
        words = texts.sentence_words.take(wanted)
        self.counts["tokens"] += words.values.size
        vocabulary = texts.vocabulary.words
        tokens = np.array([vocabulary[word] for word in words.values.tolist()], dtype=object)
        sentence_of_window, windows = _windows(words.lengths)
        row_of_word = np.cumsum(kept.values) - 1
        vectors = np.empty((int(kept.values.sum()), self.dimension), dtype=np.float32)
        is_max = self.pooling == "max"
        combine = np.maximum if is_max else np.add
        pooled = np.full((wanted.size, self.dimension), -np.inf if is_max else 0, dtype=np.float32)

        def compute(batch: np.ndarray) -> None:
            part = windows.take(batch)
            states = self._states(Ragged(tokens[part.values], part.offsets))
            is_kept = kept.values[part.values]
            vectors[row_of_word[part.values[is_kept]]] = states[is_kept]
            combine.at(
                pooled, sentence_of_window[batch], combine.reduceat(states, part.offsets[:-1])
            )

        self._batches.run(windows.lengths, compute)
        if is_max:
            pooled[words.lengths == 0] = 0  # nothing to take the largest of
        else:
            pooled /= np.maximum(words.lengths, 1)[:, None].astype(np.float32)
        return vectors, pooled

    def _states(self, sentences: Ragged) -> np.ndarray:
        """Return the vector of every word, shape (n_words, d)."""
        rows = sentences.owners
        columns = places_of(sentences.lengths)
        padded = np.full((len(sentences), int(sentences.lengths.max())), "", dtype=object)
        padded[rows, columns] = sentences.values
        low, *upper = (layer[rows, columns] for layer in self._call(padded, sentences.lengths))
        layers = [np.concatenate([low, low], axis=1), *upper]
        return np.concatenate(layers, axis=1) if self._concatenates else sum(layers) / len(layers)

    def _call(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the three layers, each of shape (n_sentences, n_words, d_layer)."""
        constant = self._tensorflow.constant
        layers = self._signature(
            tokens=constant(tokens), sequence_len=constant(lengths.astype(np.int32))
        )
        return tuple(layers[name].numpy() for name in _LAYERS)


def _windows(lengths: np.ndarray) -> tuple[np.ndarray, Ragged]:
    """Cut sentences into windows; return each window's sentence and the places of its words."""
    n_windows = -(-lengths // BATCH_WORDS)
    sentence = owners_of(n_windows)
    n_before = places_of(n_windows) * BATCH_WORDS
    sizes = np.minimum(lengths[sentence] - n_before, BATCH_WORDS)
    return sentence, Ragged(np.arange(int(lengths.sum())), offsets_of(sizes))


def load_elmo(
    path: str, *, runtime: EncoderRuntime, layers: str = "mean", pooling: str = "mean"
) -> ElmoEncoder:
    """Load ELMo from a folder or URL."""
    model = load_model("elmo", path, published=PUBLISHED, runtime=runtime)
    return ElmoEncoder(model, layers=layers, pooling=pooling)
