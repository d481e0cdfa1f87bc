"""A language model that is asked: questions in, what their answers come to out.

Every answer is kept in a folder, under a hash of the model and of all that is sent; what is there
is not asked again, by another metric, run or process.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Any, Protocol

from reffree.asking.answers import Answer, Reading, lacks_probabilities, read, shortened
from reffree.asking.server import Request, Server
from reffree.asking.settings import (
    CANDIDATE,
    PLACES,
    REFERENCES,
    AskOptions,
)
from sms.encoders import EncoderRuntime
from sms.encoders.vector_cache import BlobCache
from sms.metric import AskedQuestion
from sms.naming import cache_folder

ANSWERS_FOLDER = "answers"  # in the folder of caches, where none is named
_PROBE = "A cat sat on the mat."
_AGAIN = -1  # number of a draw that is compared with the first
_OF_PROBABILITIES = ("logprobs", "top_logprobs")  # fields of a request that change no answer

Texts = Mapping[str, str]
"""By place of the prompt, the text that stands there."""
Keep = Callable[[Mapping[bytes, Answer]], None]


class Pending(Protocol):
    """Answers that are on their way."""

    def result(self) -> Mapping[bytes, Answer]:
        """Wait for them."""


class Backend(Protocol):
    """What answers: a server, or a model here."""

    name: str
    """For messages."""
    identity: str
    """What answers are kept by."""
    signature: str

    def begin(
        self,
        requests: Mapping[bytes, Request],
        keep: Keep,
        counts: Counter[str],
        *,
        is_first: bool = False,
    ) -> Pending:
        """Ask questions by key, and give `keep` the answers as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the answers about some texts come to."""

    questions: Sequence[str]
    """One, or the two orders."""
    answers: Sequence[Answer]
    """To each question as many as were drawn."""
    readings: Sequence[Reading]
    value: float = math.nan
    why: str = ""
    """Why there is no value."""

    @property
    def asked(self) -> tuple[AskedQuestion, ...]:
        """Each question with its answers one by one."""
        n_each = len(self.answers) // len(self.questions)
        return tuple(
            AskedQuestion(
                question=self.questions[number // n_each],
                answer=answer.refusal or answer.text,
                score=None if math.isnan(reading.value) else reading.value,
                why=reading.why,
                probabilities=dict(sorted(reading.probabilities.items())),
            )
            for number, (answer, reading) in enumerate(
                zip(self.answers, self.readings, strict=True)
            )
        )


class AskedModel:
    """A model and how it is asked.

    Raises `ValueError` where it cannot be asked so, which one question in advance finds out, and
    `RuntimeError` where it does not answer.
    """

    def __init__(self, path: str | None, options: AskOptions, runtime: EncoderRuntime) -> None:
        self.options = options
        self._backend = _backend(path, options, runtime)
        self._kept: BlobCache | None = None
        folder = runtime.cache_folder
        if folder is None and path is None:  # a server's answers may cost money
            folder = str(cache_folder() / ANSWERS_FOLDER)
        if folder is not None:
            self._kept = BlobCache(folder, owner=f"ask\n{self._backend.identity}")
        self._counts = Counter(questions=0, kept=0, tokens_read=0, tokens_written=0)
        self._requests: Counter[str] = Counter(requests=0, retries=0)
        self._seconds = 0.0  # of all answers, one after the other
        self._counting = Lock()  # answers are counted where they come
        places = dict.fromkeys(PLACES, _PROBE)
        (first,) = self.begin([places], is_first=True).judgements()
        self._check(first.answers[0])

    @property
    def content_hash(self) -> str:
        """Hash of the weights; of a model on a server, of its address and name."""
        return blake2b(self._backend.identity.encode(), digest_size=16).hexdigest()

    @property
    def signature(self) -> str:
        """Name of the model and how it is asked."""
        return f"{self._backend.signature}|{self.options.signature()}"

    def state(self) -> Mapping[str, int]:
        """Return counts of questions, those kept from before, tokens, requests, cost, and time.

        The cost is in millionths: prices are those of a million tokens. The time is that of all
        answers, kept ones too, where as many as may be are under way at once.
        """
        counts, options = self._counts, self.options
        at_once = 1 if options.url is None else options.concurrency
        cost = options.price_read * counts["tokens_read"]
        cost += options.price_written * counts["tokens_written"]
        return {
            **counts,
            **self._requests,
            "cost_millionths": round(cost),
            "milliseconds": round(1e3 * self._seconds / at_once),
        }

    def begin(self, about: Sequence[Texts], *, is_first: bool = False) -> Asked:
        """Ask about texts, and do not wait for the answers."""
        questions = [self._questions(texts) for texts in about]
        asked = {question: self._requests_for(question) for each in questions for question in each}
        wanted = {key: request for each in asked.values() for key, request in each.items()}
        again: dict[bytes, bytes] = {}
        if not is_first and self.options.repeat_share:
            again, repeated = self._repeated([next(iter(each.items())) for each in asked.values()])
            wanted |= repeated
        kept = self._read(wanted)
        left = {key: request for key, request in wanted.items() if key not in kept}
        pending = self._backend.begin(left, self._keep, self._requests, is_first=is_first)
        with self._counting:
            self._counts.update(questions=len(wanted), kept=len(kept))
            self._seconds += sum(answer.seconds for answer in kept.values())
        keys = {question: list(each) for question, each in asked.items()}
        return Asked(self, questions, keys, again, kept, pending)

    def judge(self, questions: Sequence[str], answers: Sequence[Answer]) -> Judgement:
        """Make a score of the answers to some questions, equally many to each."""
        try:
            readings = [read(answer, self.options) for answer in answers]
        except ValueError as error:
            raise self._no_probabilities() from error
        lowest, highest = self.options.bounds
        n_each = len(answers) // len(questions)
        values = [
            reading.value if number < n_each else lowest + highest - reading.value
            for number, reading in enumerate(readings)
        ]
        why = next((reading.why for reading in readings if reading.why), "")
        value = math.nan if why else math.fsum(values) / len(values)
        return Judgement(
            questions=questions, answers=answers, readings=readings, value=value, why=why
        )

    def _check(self, first: Answer) -> None:
        """Refuse to go on where the first question shows that none will have an answer."""
        if first.is_rejected:
            hint = "; it may not support `value`, `form`, `seed` or `extra`: change the table"
            raise ValueError(
                f"{self._backend.name} rejects the first question ({first.refusal})"
                f"{hint if self.options.url else ''}"
            )
        # one that is no answer would pass for a model's mistake, and so would all others
        lacks = self.options.value == "expected" and first.tokens is None
        if lacks and first.text and not first.refusal:
            raise self._no_probabilities()

    def _no_probabilities(self) -> ValueError:
        return ValueError(
            f"value expected needs log-probabilities, and {self._backend.name} sent none for model "
            f'{self.options.model}; set value = "top" or value = "mean" in its table'
        )

    def compare(self, first: Answer, second: Answer) -> None:
        """Count how far two answers to the same question agree."""
        one, other = read(first, self.options), read(second, self.options)
        far = abs(one.value - other.value)
        with self._counting:
            self._counts.update(
                repeated=1,
                repeated_same=int((one.label, one.why) == (other.label, other.why)),
                repeated_millionths=0 if math.isnan(far) else round(far * 1e6),
            )

    def _repeated(
        self, firsts: Sequence[tuple[bytes, Request]]
    ) -> tuple[dict[bytes, bytes], dict[bytes, Request]]:
        """Choose questions that are asked once more: their keys, and the requests for that."""
        again: dict[bytes, bytes] = {}
        repeated: dict[bytes, Request] = {}
        for key, request in firsts:
            # by the question itself, so that every run and worker chooses the same ones
            if int.from_bytes(key[:4], "big") < self.options.repeat_share * 2**32:
                plain, richer = _keys_of(request.body, _AGAIN)
                again[key] = richer if key == request.richer else plain
                repeated[again[key]] = Request(request.body, richer)
        return again, repeated

    def _questions(self, texts: Texts) -> list[str]:
        questions = [self.options.filled(texts)]
        if self.options.both_orders:
            exchanged = {CANDIDATE: texts[REFERENCES], REFERENCES: texts[CANDIDATE]}
            questions.append(self.options.filled({**texts, **exchanged}))
        return questions

    def _requests_for(self, question: str) -> dict[bytes, Request]:
        """Return the requests for one question, by key."""
        options = self.options
        messages = [{"role": "user", "content": question}]
        if options.system:
            messages.insert(0, {"role": "system", "content": options.system})
        is_drawn = options.value == "mean"
        body: dict[str, Any] = {
            "model": options.model,
            "messages": messages,
            "temperature": options.temperature if is_drawn else 0.0,
            "max_tokens": options.most_tokens,
        }
        if options.form == "json":
            schema = {"name": "answer", "strict": True, "schema": options.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if options.value == "expected":
            body |= {"logprobs": True, "top_logprobs": options.top_logprobs}
        body |= options.extra or {}
        if "max_completion_tokens" in body:  # the later name of the same
            body.pop("max_tokens", None)
        requests = {}
        for draw in range(options.samples if is_drawn else 1):
            sent = body if options.seed is None else {**body, "seed": options.seed + draw}
            key, richer = _keys_of(sent, draw)
            is_rich = options.value == "expected"
            requests[richer if is_rich else key] = Request(sent, richer)
        return requests

    def _read(self, wanted: Mapping[bytes, Request]) -> dict[bytes, Answer]:
        """Return the answers that were kept and have what is needed of them."""
        if self._kept is None:
            return {}
        blobs = self._kept.read([request.richer for request in wanted.values()])
        keys = list(wanted)
        others = [place for place in range(len(keys)) if place not in blobs]
        plain = self._kept.read([keys[place] for place in others])
        blobs |= {others[place]: blob for place, blob in plain.items()}
        answers = {keys[place]: Answer.from_bytes(blob) for place, blob in blobs.items()}
        return {
            key: each
            for key, each in answers.items()
            if not lacks_probabilities(each, self.options)
        }

    def _keep(self, answers: Mapping[bytes, Answer]) -> None:
        with self._counting:
            for answer in answers.values():
                self._counts.update(tokens_read=answer.n_read, tokens_written=answer.n_written)
                self._seconds += answer.seconds
        if self._kept is not None:
            self._kept.write(
                {
                    key: shortened(answer, self.options).to_bytes()
                    for key, answer in answers.items()
                    if not answer.is_rejected
                }
            )


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Questions about texts, of whose answers some may be on their way."""

    model: AskedModel
    questions: Sequence[Sequence[str]]
    """About each of the texts."""
    keys: Mapping[str, Sequence[bytes]]
    """Of the requests for a question."""
    again: Mapping[bytes, bytes]
    """Of questions that are asked twice, the key of the second request by that of the first."""
    kept: Mapping[bytes, Answer]
    pending: Pending

    def judgements(self) -> list[Judgement]:
        """Wait for the answers and read them."""
        answers = {**self.kept, **self.pending.result()}
        for first, second in self.again.items():
            self.model.compare(answers[first], answers[second])
        return [
            self.model.judge(each, [answers[key] for one in each for key in self.keys[one]])
            for each in self.questions
        ]


def _keys_of(body: Mapping[str, Any], draw: int) -> tuple[bytes, bytes]:
    """Return what an answer is kept under, and the same answer with probabilities."""
    sent = {name: value for name, value in body.items() if name not in _OF_PROBABILITIES}
    text = json.dumps([sent, draw], sort_keys=True)
    key = blake2b(text.encode(), digest_size=16).digest()
    return key, key + b"p"


def _backend(path: str | None, options: AskOptions, runtime: EncoderRuntime) -> Backend:
    if path is None:
        return Server.of(options, runtime.n_workers)
    from reffree.asking.local import LocalModel  # brings torch, which a server does not need

    return LocalModel.load(path, options, runtime)
