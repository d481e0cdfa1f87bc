"""How likely a pretrained model finds a text after another, token by token.

What a score is made of is in `likelihood_settings`, how it is computed fast in `prefix_scoring`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tokenizers import Encoding

from reffree.language_models import GENERATOR, Remembered, load_pretrained
from reffree.likelihood.prefixes import PrefixScorer
from reffree.likelihood.settings import CONTEXT, TEXT, LikelihoodSettings
from sms.encoders import EncoderRuntime
from sms.encoders.pieces import attempt_each, marks_for, without_marks
from sms.encoders.pretrained import Pretrained, in_use
from sms.ragged import Ragged
from sms.text.words import CANNOT_BE_SPLIT

AFTER = "likelihood@"  # what stands before a model's path, for messages
STEPS = 32
"""A context that is too long gives way to a text in steps of one in so many of the tokens that a
model reads: texts of about the same length then follow the same part of it."""
_ANCHOR = "."
"""Stands before a text where the prompt has nothing there: a tokeniser may treat the beginning of
what it reads in another way."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Log-probabilities of the tokens of some texts."""

    log_p: Ragged
    """By text, of its tokens, float64; none of a text that has none or cannot be split."""
    spans: Ragged
    """By text, first character of every token and the one past its last, int64, shape (n, 2)."""
    cut: np.ndarray
    """Whether the text, and the context, was too long and only its beginning was read; bool, shape
    (n_texts, 2)."""
    reasons: Mapping[int, tuple[str, str]]  # by row, `context` or `text` and why it has no tokens

    @property
    def is_cut(self) -> np.ndarray:
        """Whether one of the two was cut, bool, shape (n_texts,)."""
        return self.cut[:, 0] | self.cut[:, 1]


class LanguageModel:
    """A causal model, or one of an encoder and a decoder, with a prompt.

    Instances of the same model share its weights, and what they computed lately.
    """

    def __init__(self, shared: SharedModel, prompt: str) -> None:
        self.prompt = prompt
        self._shared, self._pretrained = shared, shared.pretrained
        self._tokenizer = self._pretrained.tokenizer.backend_tokenizer
        self._before, _, between = prompt.removesuffix(TEXT).partition(CONTEXT)
        self._between, self._glue = between, ""
        if not self._pretrained.has_encoder and between.endswith(" "):
            # a word's first token has the space before it
            self._between, self._glue = between[:-1], " "
        self._marks = marks_for(self._tokenizer, prompt)
        self.counts: Counter[str] = Counter(texts=0, computed=0, cut=0)
        (nothing,) = self._read_contexts([""]).values()
        if nothing is None or nothing.ids.size * 4 > self._pretrained.max_tokens:
            raise ValueError(
                f"the prompt of a likelihood must leave room in the {self._pretrained.max_tokens} "
                f"tokens that {self._pretrained.folder.name} reads, got {prompt!r}"
            )

    @classmethod
    def load(
        cls,
        path: str,
        settings: LikelihoodSettings | None = None,
        *,
        runtime: EncoderRuntime = EncoderRuntime(),  # noqa: B008  (it is frozen)
    ) -> LanguageModel:
        """Load a model from a transformers folder, or by its id on the hub."""
        shared = SharedModel.load(path, runtime)
        settings = settings or LikelihoodSettings()
        return cls(shared, settings.prompt_for(has_encoder=shared.pretrained.has_encoder))

    @property
    def content_hash(self) -> str:
        """Hash of the weights and vocabularies."""
        return self._pretrained.folder.content_hash

    @property
    def signature(self) -> str:
        """Name of the model, the beginning of its hash and its number format."""
        folder = self._pretrained.folder
        return f"model:{folder.name}|hash:{folder.content_hash[:12]}{folder.machine.signature}"

    def state(self) -> Mapping[str, int]:
        """Return counts of the texts asked for, and of those computed and cut."""
        return self.counts

    def log_probabilities(self, contexts: Sequence[str], texts: Sequence[str]) -> TokenScores:
        """Return the log-probability of every token of each text after its context.

        An empty context gives that of a text after the prompt alone. The special tokens that the
        tokeniser of an encoder-decoder model puts around a text count as the text's, as in
        BARTScore; a causal model's texts have none.
        """
        before, tokens = self._read_contexts(contexts), self._read_texts(texts)
        n = len(texts)
        cut, reasons = np.zeros((n, 2), dtype=bool), {}
        keys: list[str] = [""] * n
        spans = [np.empty((0, 2), dtype=np.int64)] * n
        wanted: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for row, (context, text) in enumerate(zip(contexts, texts, strict=True)):
            prefix, read = before[context], tokens[text]
            if prefix is None or read is None:
                side = "text" if read is None else "context"
                reasons[row] = (side, CANNOT_BE_SPLIT)
                continue
            short_prefix, short = self._cut(prefix, read)
            cut[row] = short is not read, short_prefix is not prefix
            spans[row] = short.spans
            if short.ids.size:
                keys[row] = short_prefix.key + short.key
                wanted[keys[row]] = (short_prefix.ids, short.ids)
        log_p, n_computed = self._shared.log_probabilities(wanted)
        self.counts.update(texts=n, computed=n_computed, cut=int(cut.any(axis=1).sum()))
        rows = [log_p[key] if key else np.empty(0) for key in keys]
        lengths = np.array([len(each) for each in spans], dtype=np.int64)
        packed = Ragged.from_lengths(np.concatenate([np.empty((0, 2), np.int64), *spans]), lengths)
        return TokenScores(Ragged.from_rows(rows, float), packed, cut, reasons)

    def _cut(self, prefix: _Tokens, text: _Tokens) -> tuple[_Tokens, _Tokens]:
        """Cut a context and a text to what the model reads."""
        most = self._pretrained.max_tokens
        if self._pretrained.has_encoder:
            return prefix.cut(most), text.cut(most)
        short = text.cut(most // 2)
        step = max(most // STEPS, 1)
        return prefix.cut(most - -(-short.ids.size // step) * step), short

    def _read_contexts(self, contexts: Sequence[str]) -> dict[str, _Tokens | None]:
        """Cut contexts, in the prompt, into tokens; None where that fails."""

        def prefix(encoding: Encoding, context: str) -> _Tokens:
            tokens = _Tokens.of(encoding, end=len(self._before) + len(context))
            if self._pretrained.has_encoder:
                return tokens
            n_special = _n_special_at_end(encoding)  # tokens that mark the end of a text
            ids = tokens.ids[: tokens.ids.size - n_special]
            if not ids.size:  # something must be left that a text follows
                tokenizer = self._pretrained.tokenizer
                starts = (tokenizer.bos_token_id, tokenizer.eos_token_id, 0)
                ids = np.array([next(start for start in starts if start is not None)])
            return _Tokens(ids, tokens.spans, max(tokens.n_tail - n_special, 0))

        return self._read(contexts, self._before, self._between, prefix)

    def _read_texts(self, texts: Sequence[str]) -> dict[str, _Tokens | None]:
        """Cut texts into tokens as they follow the prompt; None where that fails."""
        if self._pretrained.has_encoder:
            return self._read(
                texts, "", "", lambda encoding, text: _Tokens.of(encoding, end=len(text))
            )
        anchor = self._between or _ANCHOR
        before = f"{anchor}{self._glue}"

        def follows(encoding: Encoding, _text: str) -> _Tokens:
            return _Tokens.after(encoding, len(anchor), len(before))

        return self._read(texts, before, "", follows, plain=True)

    def _read(
        self,
        texts: Sequence[str],
        before: str,
        behind: str,
        taken: Callable[[Encoding, str], _Tokens],
        *,
        plain: bool = False,
    ) -> dict[str, _Tokens | None]:
        """Cut distinct texts in a prompt; None for one that could be part of the prompt."""
        distinct = list(dict.fromkeys(texts))
        self._tokenizer.encode_special_tokens = not self._marks
        encode = partial(self._tokenizer.encode_batch, add_special_tokens=not plain)
        encoded = attempt_each(encode, [f"{before}{text}{behind}" for text in distinct])
        read = zip(distinct, without_marks(encoded, distinct, self._marks), strict=True)
        return {
            text: None if encoding is None else taken(encoding, text) for text, encoding in read
        }


class SharedModel:
    """A model that several metrics ask: its weights, and what was computed lately."""

    def __init__(self, pretrained: Pretrained, cache_folder: str | None = None) -> None:
        self.pretrained = pretrained
        self._scorer = PrefixScorer(pretrained)
        content = f"{pretrained.folder.content_hash}{pretrained.machine.signature}"
        self._remembered = Remembered(f"{AFTER}{content}", cache_folder)

    @classmethod
    def load(cls, path: str, runtime: EncoderRuntime) -> SharedModel:
        """Load a model, or return it where it is in use."""

        def load() -> SharedModel:
            loaded = load_pretrained(path, GENERATOR, runtime=runtime, after=AFTER)
            return cls(loaded, runtime.cache_folder)

        return in_use((cls,), path, runtime, load)

    def log_probabilities(
        self, wanted: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> tuple[dict[str, np.ndarray], int]:
        """Return those of texts after prefixes by name, and how many were computed."""

        def compute(names: list[str]) -> dict[str, np.ndarray]:
            prefixes: dict[bytes, int] = {}
            owner = [
                prefixes.setdefault(wanted[name][0].tobytes(), len(prefixes)) for name in names
            ]
            log_p = self._scorer.log_probabilities(
                [np.frombuffer(prefix, dtype=np.int64) for prefix in prefixes],
                [wanted[name][1] for name in names],
                np.array(owner, dtype=np.int64),
            )
            return dict(zip(names, log_p, strict=True))

        sizes = {name: text.size for name, (_, text) in wanted.items()}
        return self._remembered.values(sizes, compute)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A text as a tokeniser cuts it."""

    ids: np.ndarray  # int64
    spans: np.ndarray  # first character of every token and the one past its last, int64, (n, 2)
    n_tail: int  # tokens at the end that stay when it is cut: of the prompt, and special ones

    @classmethod
    def of(cls, encoding: Encoding, *, end: int) -> _Tokens:
        """Take all tokens; those from character `end` on stay."""
        ids = np.array(encoding.ids, dtype=np.int64)
        spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        n_special = _n_special_at_end(encoding)
        spans[ids.size - n_special :] = end  # the library has them at 0
        is_tail = spans[:, 0] >= end
        return cls(ids, spans, int(np.argmin(np.append(is_tail[::-1], False))))

    @classmethod
    def after(cls, encoding: Encoding, end: int, shift: int) -> _Tokens:
        """Take the tokens that end after character `end`, and count characters from `shift` on."""
        spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        taken = spans[:, 1] > end
        ids = np.array(encoding.ids, dtype=np.int64)[taken]
        return cls(ids, np.maximum(spans[taken] - shift, 0), 0)

    def cut(self, most: int) -> _Tokens:
        """Keep the beginning, and the tail, where there are more tokens than that."""
        if self.ids.size <= most:
            return self
        kept = np.arange(self.ids.size)
        kept = np.concatenate([kept[: most - self.n_tail], kept[kept.size - self.n_tail :]])
        return _Tokens(self.ids[kept], self.spans[kept], self.n_tail)

    @property
    def key(self) -> str:
        """What identifies the tokens."""
        return hashlib.blake2b(self.ids.tobytes(), digest_size=16).hexdigest()


def _n_special_at_end(encoding: Encoding) -> int:
    return int(np.argmin(np.append(encoding.special_tokens_mask[::-1], 0)))
