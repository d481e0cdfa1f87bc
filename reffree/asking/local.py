"""A language model in this process, asked as a server is: what it answers is read in the same way.

The beginning that several questions share, most often a document, is read once. With the form json
only answers on the scale can be said, as with a server that enforces the schema.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer

from reffree.asking.answers import REJECTED, Answer, Token
from reffree.asking.server import Request
from reffree.asking.settings import ANSWER, AskOptions
from reffree.language_models import GENERATOR, load_pretrained
from reffree.likelihood.prefixes import PrefixScorer
from sms.encoders import EncoderRuntime
from sms.encoders.pieces import attempt_each, marks_for
from sms.encoders.pretrained import Pretrained, in_use

AFTER = "ask@"  # what stands before a model's path, for messages
SHARED_LEAST = 0.5
"""Share of a question that the next one must begin with, for the two to be read together."""

Keep = Callable[[Mapping[bytes, Answer]], None]


@dataclass(frozen=True, slots=True)
class Done:
    """Answers that are there."""

    answers: Mapping[bytes, Answer]

    def result(self) -> Mapping[bytes, Answer]:
        """Return them."""
        return self.answers


@dataclass
class _Saying:
    """A question, and what the model has said so far."""

    prompt: np.ndarray
    tokens: list[Token] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    is_ended: bool = False

    @property
    def read(self) -> np.ndarray:
        """What the model reads next: the question, and what it has said."""
        return np.concatenate([self.prompt, np.array(self.ids, dtype=np.int64)])

    @property
    def said(self) -> bytes:
        """The answer so far."""
        return b"".join(token.text for token in self.tokens)


class _Next(NamedTuple):
    """The likeliest next tokens, the best first."""

    ids: list[int]
    log_p: list[float]


class LocalModel:
    """A causal language model with a chat template."""

    def __init__(self, shared: _SharedModel, options: AskOptions) -> None:
        self._shared, self._options = shared, options
        folder = shared.pretrained.folder
        self.name = folder.name
        self.identity = f"{folder.content_hash}{folder.machine.signature}"
        self.signature = (
            f"model:{folder.name}|hash:{folder.content_hash[:12]}{folder.machine.signature}"
        )
        self._labels = [label.encode() for label in options.numbers]
        quote = '"' if options.choices is not None else ""
        self._start, self._end = f'{{"{ANSWER}": {quote}', f"{quote}}}".encode()

    @classmethod
    def load(cls, path: str, options: AskOptions, runtime: EncoderRuntime) -> LocalModel:
        """Load a model, or share it with a metric that has it."""

        def load() -> _SharedModel:
            return _SharedModel(load_pretrained(path, GENERATOR, runtime=runtime, after=AFTER))

        return cls(in_use((_SharedModel,), path, runtime, load), options)

    def begin(
        self,
        requests: Mapping[bytes, Request],
        keep: Keep,
        counts: Counter[str],
        *,
        is_first: bool = False,
    ) -> Done:
        """Answer questions; they are there when it returns."""
        began = time.monotonic()
        prompts = self._prompts([request.body["messages"] for request in requests.values()])
        asked = {key: prompt for key, prompt in zip(requests, prompts, strict=True)}
        answers = {
            key: Answer(text="", finish=REJECTED, refusal=prompt)
            for key, prompt in asked.items()
            if isinstance(prompt, str)
        }
        sayings = {
            key: _Saying(prompt) for key, prompt in asked.items() if not isinstance(prompt, str)
        }
        self._say(list(sayings.values()))
        each_s = (time.monotonic() - began) / max(1, len(sayings))
        for key, saying in sayings.items():
            answers[key] = replace(self._answer(saying), seconds=each_s)
        counts["requests"] += len(sayings)
        keep(answers)
        return Done(answers)

    def _prompts(self, messages: Sequence[Sequence[Mapping[str, str]]]) -> list[np.ndarray | str]:
        """Return the tokens of every question; or why it cannot be asked."""
        shared, is_json = self._shared, self._options.form == "json"
        texts = [shared.written(each) + (self._start if is_json else "") for each in messages]
        shared.tokenizer.encode_special_tokens = False  # those of the template
        encode = partial(shared.tokenizer.encode_batch, add_special_tokens=False)
        most = shared.pretrained.max_tokens - self._options.most_tokens
        prompts: list[np.ndarray | str] = []
        for each, encoding in zip(messages, attempt_each(encode, texts), strict=True):
            mark = next((m for m in shared.marks if any(m in one["content"] for one in each)), None)
            if encoding is None:
                prompts.append("the tokeniser failed on it")
            elif mark is not None:
                prompts.append(f"it holds {mark}, which has a meaning in the model's chats")
            elif len(encoding.ids) > most:
                prompts.append(f"it has {len(encoding.ids):,} tokens, the model reads {most:,}")
            else:
                prompts.append(np.array(encoding.ids, dtype=np.int64))
        return prompts

    def _say(self, sayings: Sequence[_Saying]) -> None:
        """Have the model say its answers, token by token, the likeliest each."""
        prefixes, owner = shared_beginnings([saying.prompt for saying in sayings])
        going = list(range(len(sayings)))
        for _ in range(self._options.most_tokens):
            if not going:
                return
            texts = [sayings[k].read[prefixes[owner[k]].size :] for k in going]
            allowed = [self._allowed(sayings[k].said) for k in going]
            take = partial(_likeliest, allowed=allowed, most=self._options.top_logprobs)
            read = sorted({owner[k] for k in going})
            numbers = {prefix: number for number, prefix in enumerate(read)}
            owners = np.array([numbers[owner[k]] for k in going], dtype=np.int64)
            found = self._shared.scorer.next_tokens(
                [prefixes[p] for p in read], texts, owners, take
            )
            for k, following in zip(going, found, strict=True):
                self._add(sayings[k], following)
            going = [k for k in going if not sayings[k].is_ended]

    def _allowed(self, said: bytes) -> torch.Tensor | None:
        """Return the tokens that may come next, None if all may."""
        if self._options.form == "text":
            return None
        return self._shared.tokens_towards(said, (*self._labels,), self._end)

    def _add(self, saying: _Saying, following: _Next) -> None:
        """Add the likeliest next token, unless it is the end; and see whether more is needed."""
        token = following.ids[0]
        words = self._shared.words
        pairs = zip(following.ids, following.log_p, strict=True)
        others = tuple((words[number], log_p) for number, log_p in pairs)
        saying.tokens.append(Token(words[token], following.log_p[0], others))
        saying.ids.append(token)
        said = saying.said.strip()
        if self._options.form == "json":
            is_open = any(label.startswith(said) and label != said for label in self._labels)
        else:  # an answer, or its beginning, may go on
            is_open = any(label.startswith(said.removesuffix(b".")) for label in self._labels)
        saying.is_ended = token in self._shared.ends or not is_open

    def _answer(self, saying: _Saying) -> Answer:
        is_marked = saying.ids[-1] in self._shared.ends
        tokens = tuple(saying.tokens)
        said = b"".join(token.text for token in (tokens[:-1] if is_marked else tokens))
        if self._options.form == "json":
            said_labels = (label for label in self._labels if said.startswith(label))
            # none where the model has no tokens for it, as one that knows small letters only
            label = max(said_labels, key=len, default=b"")
            rest = self._end.removeprefix(said[len(label) :])
            tokens = (Token(self._start.encode(), 0.0), *tokens, Token(rest, 0.0))
            said = self._start.encode() + label + self._end
        return Answer(
            text=said.decode("utf-8", "replace"),
            finish="stop" if saying.is_ended else "length",
            tokens=tokens,
            n_read=saying.prompt.size,
            n_written=len(saying.ids),
        )


class _SharedModel:
    """A model that several metrics ask, and what is known of its tokens."""

    def __init__(self, pretrained: Pretrained) -> None:
        template = getattr(pretrained.tokenizer, "chat_template", None)
        if pretrained.has_encoder or not template:
            raise ValueError(
                f"`{pretrained.folder.folder}` must be a causal model with a chat template, which "
                "models that follow instructions have"
            )
        self.pretrained = pretrained
        self.scorer = PrefixScorer(pretrained)
        self.tokenizer: Tokenizer = pretrained.tokenizer.backend_tokenizer
        self.marks = marks_for(self.tokenizer, self.written([{"role": "user", "content": ""}]))
        self.words = token_bytes(self.tokenizer)
        ends = getattr(pretrained.model.generation_config, "eos_token_id", None)
        listed = ends if isinstance(ends, list) else [ends]
        known = (*listed, pretrained.tokenizer.eos_token_id)
        self.ends = frozenset(number for number in known if number is not None)
        self._towards: dict[tuple[bytes, ...], torch.Tensor] = {}

    def written(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return messages as the model reads them, up to where its answer begins."""
        text: str = self.pretrained.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        return text

    def tokens_towards(self, said: bytes, labels: Sequence[bytes], end: bytes) -> torch.Tensor:
        """Return the tokens that begin or complete one of some answers, or end a whole one."""
        key = (said, end, *labels)
        if key not in self._towards:
            rests = [label[len(said) :] for label in labels if label.startswith(said)]
            is_whole = b"" in rests
            numbers = [
                number
                for number, word in enumerate(self.words)
                if word
                and (
                    any(rest.startswith(word) for rest in rests)
                    or (is_whole and (end.startswith(word) or word.startswith(end)))
                )
            ]
            self._towards[key] = self.pretrained.machine.send(np.array(numbers, dtype=np.int64))
        return self._towards[key]


def _likeliest(
    log_p: torch.Tensor,
    numbers: Sequence[int],
    allowed: Sequence[torch.Tensor | None],
    most: int,
) -> Iterator[_Next]:
    """Return the likeliest tokens after every text, the best of those that are allowed first."""
    for row, number in zip(log_p, numbers, strict=True):
        ids = allowed[number]
        found = row.topk(min(most, len(row))).indices
        if ids is not None:  # they count even where others are likelier
            found = torch.cat([ids[row[ids].topk(min(most, len(ids))).indices], found])
        yield _Next(found.tolist(), row[found].double().tolist())


def shared_beginnings(prompts: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[int]]:
    """Return beginnings of prompts, and which is whose; what is left has a token at least.

    Questions about one document share it where it comes first in the prompt.

    >>> texts = [np.array(ids) for ids in ([1, 2, 3, 4], [9, 8], [1, 2, 3, 5, 6])]
    >>> beginnings, owners = shared_beginnings(texts)
    >>> [ids.tolist() for ids in beginnings], owners
    ([[1, 2, 3], [9]], [0, 1, 0])
    """
    order = sorted(range(len(prompts)), key=lambda k: prompts[k].astype(">i8").tobytes())
    beginnings: list[np.ndarray] = []
    owners = [0] * len(prompts)
    for k in order:
        prompt = prompts[k]
        if beginnings:
            n = _n_shared(beginnings[-1], prompt[:-1])
            if n >= SHARED_LEAST * prompt.size:
                beginnings[-1] = beginnings[-1][:n]
                owners[k] = len(beginnings) - 1
                continue
        beginnings.append(prompt[:-1])
        owners[k] = len(beginnings) - 1
    return beginnings, owners


def _n_shared(one: np.ndarray, other: np.ndarray) -> int:
    n = min(one.size, other.size)
    return int(np.argmin(np.append(one[:n] == other[:n], False)))


def token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    r"""Return the bytes that each token stands for, by its number.

    >>> from tokenizers import models
    >>> token_bytes(Tokenizer(models.BPE({"\u2581the": 0, "<0x0A>": 1, "a": 2}, [])))
    [b' the', b'\n', b'a']
    """
    decoder = json.loads(tokenizer.to_str()).get("decoder") or {}
    of_letters = _bytes_of_letters() if "ByteLevel" in json.dumps(decoder) else None
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    words = [b""] * tokenizer.get_vocab_size()
    for token, number in tokenizer.get_vocab().items():
        if token in added:
            word = token.encode()
        elif of_letters is not None:
            word = b"".join(of_letters.get(letter, letter.encode()) for letter in token)
        elif len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            word = bytes.fromhex(token[3:5])
        else:
            word = token.replace("\u2581", " ").encode()
        if number < len(words):
            words[number] = word
    return words


@cache
def _bytes_of_letters() -> dict[str, bytes]:
    """Return the byte that each letter of byte-level tokens stands for."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    plain += range(ord("®"), ord("ÿ") + 1)
    others = [byte for byte in range(256) if byte not in plain]
    letters = [*map(chr, plain), *(chr(256 + number) for number in range(len(others)))]
    return {letter: bytes([byte]) for letter, byte in zip(letters, [*plain, *others], strict=True)}
