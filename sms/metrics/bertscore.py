"""BERTScore (Zhang et al. 2020): each token is matched with the nearest one of the other text.

A text is encoded as a whole by one layer of a model, as the authors' library does, so its vectors
are not those of `sms`, which encodes sentences. `bertscore` uses the model of `minilm`,
`bertscore@MODEL` an alias of the run, a folder or a hub id.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sms.data_files import data_tables
from sms.encoders import EncoderRuntime
from sms.file_hashes import hash_of_files
from sms.metric import EITHER, Batch, Metric, MetricName, Setting
from sms.naming import user_path
from sms.reasons import CUT, INDISTINGUISHABLE
from sms.settings import Settings

if TYPE_CHECKING:
    from sms.text import SegmentedTexts

NAME = "bertscore"
PARTS = ("_p", "_r", "_f")
MINILM = "minilm"
KEPT_TOKENS = 65_536
"""Tokens whose vectors are in memory at once, 256 MiB of a model of 1,024 dimensions."""


@dataclass(frozen=True, kw_only=True)
class BertScoreSettings(Settings):
    """The settings of a table [models.ALIAS] for BERTScore."""

    about = f" of {NAME}"

    layer: int | None = None
    """Layer of the vectors, 0 for the embeddings; by default that of the library, or the last."""
    idf: str | None = None
    """Text file, one text a line, whose rare tokens weigh more; without it all weigh the same."""
    baseline: str | None = None
    """The library's file for this model, `rescale_baseline/LANGUAGE/MODEL.tsv`: scores are
    rescaled so that its mean of unrelated texts is 0."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _Encoding:
    """The forward pass of one layer of a model, and the tokens that it reads."""

    model: Any
    max_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class TokenSimilarities:
    """What a model says of pairs of texts."""

    shares: np.ndarray
    """Precision, recall and F, float64, shape (n, 3)."""
    is_cut: np.ndarray
    """Whether each of the two was too long and only its beginning was read, bool, shape (n, 2)."""
    is_same: np.ndarray
    """Whether the model cannot tell them apart, bool, shape (n,)."""
    differs_unread: np.ndarray
    """Whether it could, had it read all of them, bool, shape (n,)."""


class TokenAligner:
    """A model with settings, and the precision, recall and F of texts by their tokens' vectors."""

    def __init__(self, path: str, settings: BertScoreSettings, runtime: EncoderRuntime) -> None:
        from sms.encoders.batches import Batches
        from sms.encoders.bert import BLOCK_TOKENS, minilm_folder
        from sms.encoders.hugging_face import token_model
        from sms.encoders.layers import LayerChoice
        from sms.encoders.pretrained import ModelFolder, in_use, most_tokens

        folder = minilm_folder() if path == MINILM else None
        model_folder = ModelFolder.open(path, after=f"{NAME}@", runtime=runtime, folder=folder)
        self._tokenizer = model_folder.tokenizer
        known = data_tables("bertscore_layers").get(model_folder.name)
        layer = known if settings.layer is None else settings.layer
        chosen = "last" if layer is None else f"concat:{layer}"
        choice = LayerChoice.parse(chosen, int(model_folder.config.num_hidden_layers))

        def load() -> _Encoding:
            model = model_folder.load_encoder()
            most = most_tokens(model, model_folder.tokenizer)
            return _Encoding(
                token_model(model, model_folder.tokenizer, choice, model_folder.machine), most
            )

        # several settings of one layer of a model share its forward pass
        self._shared = in_use((TokenAligner, choice), str(model_folder.folder), runtime, load)
        self._model, self._max_tokens = self._shared.model, self._shared.max_tokens
        # Like bert-score, put a space before the text for models with byte-level pieces.
        self._before = " " if "ByteLevel" in str(self._tokenizer.backend_tokenizer) else ""
        block_tokens = BLOCK_TOKENS[model_folder.machine.device.type]
        self._batches = Batches(block_tokens, is_padded=self._model.is_padded)
        hashes = self._read_weighting(settings, choice.highest)
        self.content_hash = "+".join([model_folder.content_hash, *hashes.values()])
        weighting = [f"{what}:{file_hash}" for what, file_hash in ({"idf": "no"} | hashes).items()]
        parts = [
            model_folder.name,
            f"layer:{choice.highest}",
            f"hash:{model_folder.content_hash[:12]}",
            *weighting,
        ]
        self.signature = "|".join(parts) + model_folder.machine.signature
        self._n_cut = 0

    def _read_weighting(self, settings: BertScoreSettings, layer: int) -> dict[str, str]:
        """Read how tokens weigh and what unrelated texts score; return the files' hashes."""
        self._baseline = np.zeros(3)
        self._idf: dict[int, float] | None = None
        hashes = {}
        if settings.idf:
            file = Path(user_path(settings.idf))
            lines = file.read_text("utf-8").splitlines()
            self._idf = idf_of(self._cut(line)[0] for line in lines)
            self._unseen = math.log(len(lines) + 1)
            hashes["idf"] = hash_of_files([file])[:12]
        if settings.baseline:
            file = Path(user_path(settings.baseline))
            self._baseline = read_baseline(file, layer)
            hashes["baseline"] = hash_of_files([file])[:12]
        return hashes

    def read_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words of the vocabulary it knows and leaves whole or in long pieces; bool."""
        from sms.encoders.fragments import in_fragments

        words = [f"{self._before}{word}" for word in texts.vocabulary.words]
        pieces = self._tokenizer(words, add_special_tokens=False)["input_ids"] if words else []
        unknown = self._tokenizer.unk_token_id
        is_known = np.array([unknown not in of_word for of_word in pieces], dtype=bool)
        n_pieces = np.array([*map(len, pieces)], dtype=np.int64)
        return is_known & ~in_fragments(texts.vocabulary, n_pieces)

    def _cut(self, text: str) -> tuple[list[int], list[int]]:
        """Return the tokens of a text that are read, special ones included, and all of them."""
        cut = partial(self._tokenizer, self._before + text.strip())
        ids: list[int] = cut(verbose=False)["input_ids"]
        if len(ids) <= self._max_tokens:
            return ids, ids
        return cut(truncation=True, max_length=self._max_tokens)["input_ids"], ids

    def _vectors(self, sequences: Sequence[Sequence[int]]) -> list[Any]:
        """Encode sequences, the longest first; vectors of length 1, float32, (n_tokens, d)."""
        import torch

        lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
        vectors: list[Any] = [None] * len(sequences)

        def compute(block: np.ndarray) -> None:
            ids = np.concatenate([np.asarray(sequences[k], dtype=np.int64) for k in block])
            states = self._model.states(ids, lengths[block])
            states = torch.nn.functional.normalize(states, dim=1)
            parts = states.split(lengths[block].tolist())
            for k, part in zip(block.tolist(), parts, strict=True):
                vectors[k] = part

        self._batches.run(lengths, compute)
        return vectors

    def state(self) -> Mapping[str, int]:
        """Return how many texts were read in part."""
        return {"cut": self._n_cut}

    def scores(self, texts: Sequence[str], pairs: np.ndarray) -> TokenSimilarities:
        """Compare texts by number: `pairs` of a candidate and another, int64, shape (n, 2)."""
        cut = {number: self._cut(texts[number]) for number in np.unique(pairs).tolist()}
        too_long = {number for number, (ids, of_text) in cut.items() if len(ids) < len(of_text)}
        self._n_cut += len(too_long)
        sizes = {number: len(ids) for number, (ids, _) in cut.items()}
        similarities, n_tokens, first = np.empty((len(pairs), 3)), 0, 0
        order, seen = np.lexsort((pairs[:, 0], pairs[:, 1])), set[int]()
        for place, pair in enumerate(order.tolist()):
            numbers = set(pairs[pair].tolist())
            if n_tokens and n_tokens + sum(sizes[k] for k in numbers - seen) > KEPT_TOKENS:
                self._fill(similarities, pairs, order[first:place], cut)
                seen, n_tokens, first = set(), 0, place
            n_tokens += sum(sizes[k] for k in numbers - seen)
            seen |= numbers
        self._fill(similarities, pairs, order[first:], cut)
        read = [(*cut[a], *cut[b]) for a, b in pairs.tolist()]
        # equal tokens, or unknown ones only on both sides
        unknown = set(self._tokenizer.all_special_ids)
        is_same = np.array([a == b or {*a, *b} <= unknown for a, _, b, _ in read], dtype=bool)
        differs = np.array([whole != other for _, whole, _, other in read], dtype=bool)
        is_cut = np.isin(pairs, list(too_long))
        rescaled = (similarities - self._baseline) / (1 - self._baseline)
        return TokenSimilarities(rescaled, is_cut, is_same, is_same & differs & is_cut.any(axis=1))

    def _fill(
        self,
        similarities: np.ndarray,
        pairs: np.ndarray,
        rows: np.ndarray,
        cut: Mapping[int, tuple[list[int], list[int]]],
    ) -> None:
        """Compute some pairs, whose texts are encoded and forgotten."""
        numbers = np.unique(pairs[rows]).tolist()
        encoded = self._vectors([cut[k][0] for k in numbers])
        vectors = dict(zip(numbers, encoded, strict=True))
        weights = {k: self._weights(cut[k][0]) for k in numbers}
        for row in rows.tolist():
            a, b = pairs[row].tolist()
            similarity = vectors[a] @ vectors[b].T
            precision = similarity.amax(dim=1).double().cpu().numpy() @ weights[a]
            recall = similarity.amax(dim=0).double().cpu().numpy() @ weights[b]
            similarities[row] = precision, recall, 2 * precision * recall / (precision + recall)

    def _weights(self, ids: Sequence[int]) -> np.ndarray:
        """Return the share of each token; special ones only stand to be matched."""
        special = (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)
        if self._idf is None:
            weights = np.array([0.0 if token in special else 1.0 for token in ids])
        else:
            weights = np.array([self._idf.get(token, self._unseen) for token in ids])
        with np.errstate(invalid="ignore"):
            return weights / weights.sum()  # NaN, and so no score, where nothing weighs


class BertScore(Metric):
    """Precision, recall and F of tokens that are matched greedily (equations 1 to 3)."""

    table = BertScoreSettings

    def model_of(
        self, asked: MetricName, models: Mapping[str, Mapping[str, Any]]
    ) -> tuple[str | None, Any]:
        """Return the model that stands after `@`, or that of `minilm`."""
        return super().model_of(asked._replace(at=MINILM if asked.at is None else asked.at), models)

    @property
    def companion_columns(self) -> tuple[str, ...]:
        """The column that says which rows were read in part."""
        return (f"cut@{NAME}{self.written.removeprefix(self.asked.base)}",)

    def open(self, runtime: EncoderRuntime) -> TokenAligner:
        """Load the model."""
        return TokenAligner(self.path or MINILM, self.settings, runtime)

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Name model, layer and weights of tokens."""
        return [self.model.signature, "highest:each"]

    def prepare(self, batch: Batch) -> None:
        """Run the model."""
        self.score(batch)

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Return the scores; of several references the highest of each, as in the library."""
        return batch.once((BertScore, self.written), partial(self._score, batch))

    def _score(self, batch: Batch) -> dict[str, np.ndarray]:
        (side,) = self.sides
        of = batch.pairs[side]
        texts, has_words = batch.written, batch.is_written
        is_read = has_words[of.candidate] & has_words[of.other]
        distinct, place = np.unique(
            np.stack([of.candidate, of.other], axis=1)[is_read], axis=0, return_inverse=True
        )
        similar = self.model.scores(texts, distinct)
        numbers = np.full(is_read.size, -1)
        numbers[is_read] = place
        shares = _at(numbers, similar.shares, missing=np.nan)
        is_cut = _at(numbers, similar.is_cut, missing=False)
        is_near = _at(numbers, similar.is_same, missing=False)
        named = self.asked.at
        cut_by = f"{NAME}@{named}" if named else NAME
        for read, flags in zip(("candidate", side.removesuffix("s")), is_cut.T, strict=True):
            batch.tell(read, CUT, of.any(flags), of=cut_by)
        is_same = batch.indistinguishable(self.written, of, is_near)
        is_same |= _at(numbers, similar.differs_unread, missing=False)
        is_copied = of.any(of.candidate == of.other).astype(np.float64)
        certain = batch.without_doubtful(
            is_copied, side, INDISTINGUISHABLE, is_same, of=named or MINILM
        )
        joined = {part: of.joined(values) for part, values in zip(PARTS, shares.T, strict=True)}
        of_column = zip(self.columns, self.bases, strict=True)
        columns = {column: joined[base.removeprefix(NAME)] for column, base in of_column}
        (cut,) = self.companion_columns
        columns[cut] = np.where(np.isnan(joined["_f"]), np.nan, of.any(is_cut[:, 0] | is_cut[:, 1]))
        return {column: np.where(np.isnan(certain), np.nan, columns[column]) for column in columns}


def _at(places: np.ndarray, values: np.ndarray, *, missing: float) -> np.ndarray:
    """Return the value at every place, `missing` at -1.

    >>> _at(np.array([1, -1]), np.array([5.0, 6.0]), missing=0.0).tolist()
    [6.0, 0.0]
    """
    last = np.full((1, *values.shape[1:]), missing, dtype=values.dtype)
    return np.concatenate([values, last])[places]


def idf_of(texts: Iterable[Sequence[int]]) -> dict[int, float]:
    """Weigh tokens by -log of the share of texts with them, each count plus 1 (equation 5)."""
    counts: Counter[int] = Counter()
    n_texts = 0
    for ids in texts:
        n_texts += 1
        counts.update(set(ids))
    return {token: math.log((n_texts + 1) / (count + 1)) for token, count in counts.items()}


def read_baseline(path: Path, layer: int) -> np.ndarray:
    """Read the row of a layer of the library's file: precision, recall, F of unrelated texts."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = {int(row["LAYER"]): row for row in csv.DictReader(file)}
        return np.array([float(rows[layer][name]) for name in "PRF"])
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"`baseline` must be a file of LAYER,P,R,F with layer {layer}, got {path} ({error!r})"
        ) from error


BERTSCORE = BertScore(
    name=NAME,
    summary="tokens matched with the most similar of the other text; @MODEL sets the model",
    higher_is="closer",
    needs=(EITHER,),
    columns=tuple(f"{NAME}{part}" for part in PARTS),
    companions={"cut": "more rows were read only in part"},
)
"""BERTScore, with the model of `minilm` unless another is named."""
