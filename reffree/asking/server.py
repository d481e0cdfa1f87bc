"""Servers that speak OpenAI's chat completions, asked with many requests under way at once.

The official client library is not used. It takes an address, an organisation and further headers
from the environment and would send them to whatever server is named; it follows redirects; and its
own retries ask a second time where nobody counts. What is needed of it is one POST, for which
aiohttp takes an eighth of the processor's time.

Only the address that was given is contacted. The key is in one header and nowhere else.
"""

from __future__ import annotations

import asyncio
import atexit
import email.utils
import gc
import json
import math
import os
import random
import stat
import threading
import time
import urllib.request
import weakref
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from reffree.asking.answers import REJECTED, Answer, Token
from reffree.asking.settings import AskOptions
from sms.naming import user_path
from sms.urls import keep_secret, redacted

if TYPE_CHECKING:
    import aiohttp

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
"""Before a request is made again: the first and the longest wait, which doubles in between."""
LONGEST_RETRY_AFTER_S = 300.0
"""A server that asks for more patience than this is asked again then."""
CONNECT_TIMEOUT_S = 10.0
FIRST_ATTEMPTS = 3
"""For the first question of all."""
_PASSES = {408, 409, 425, 429, *range(500, 600)}
"""What may pass, by HTTP's status."""
_OF_THE_QUESTION = {400, 413, 422}
"""What the server has against one question."""
_TOO_MANY = {429, 503, 529}
_NO_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
"""Codes of errors that come as 429 and do not pass."""
_SHOWN = 200  # characters of a server's own message

_T = TypeVar("_T")


class Request(NamedTuple):
    """What is sent."""

    body: Mapping[str, Any]
    richer: bytes = b""
    """Key of the same question with probabilities, whose answer serves as well."""


class _MayPass(Exception):
    """A request failed in a way that may pass."""

    def __init__(self, why: str, *, retry_after_s: float = 0.0, is_too_many: bool = False) -> None:
        super().__init__(why)
        self.retry_after_s, self.is_too_many = retry_after_s, is_too_many


_sessions: weakref.WeakSet[aiohttp.ClientSession] = weakref.WeakSet()
_in_use: weakref.WeakValueDictionary[Any, Server] = weakref.WeakValueDictionary()


class Server:
    """A model on a server, the key for it, and the requests that are under way."""

    @classmethod
    def of(cls, options: AskOptions, n_workers: int) -> Server:
        """Return that of a table; metrics of one model share it, and its limit."""
        names = ("url", "model", "api_key_env", "api_key_file", "timeout_s", "attempts")
        most = max(1, options.concurrency // n_workers)
        key = (os.getpid(), most, *(getattr(options, name) for name in names))
        server = _in_use.get(key)
        if server is None:
            server = _in_use[key] = cls(options, most)
        return server

    def __init__(self, options: AskOptions, most: int) -> None:
        if options.url is None:
            raise ValueError("`url` of a question must be given")
        if find_spec("aiohttp") is None:
            raise ValueError("asking a server needs a package; pip install 'assay[ask]'")
        self._options = options
        self._endpoint = f"{options.url.rstrip('/')}/chat/completions"
        self.name = f"the server {urlsplit(options.url).netloc}"
        self.identity = f"{options.url.rstrip('/')} {options.model}"
        self.signature = f"model:{options.model}|at:{urlsplit(options.url).netloc}"
        self._headers = {"Accept": "application/json"}
        if (key := _read_key(options)) is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._gate = _Gate(most)
        self._turn = asyncio.Lock()  # of batches: the first one's questions are asked first
        self._session: aiohttp.ClientSession | None = None
        self._proxy = _proxy_of(options.url)
        self._under_way: dict[bytes, asyncio.Future[Answer]] = {}

    def begin(
        self,
        requests: Mapping[bytes, Request],
        keep: Callable[[Mapping[bytes, Answer]], None],
        counts: Counter[str],
        *,
        is_first: bool = False,
    ) -> Future[dict[bytes, Answer]]:
        """Ask questions by key; `keep` is called with answers before they count as there.

        `counts` are those of `requests` and `retries`. The first question of all is to fail soon.

        The result raises `ValueError` if the server cannot be asked so, and `RuntimeError` if it
        does not answer. Answers that came until then are kept.
        """
        attempts = self._options.attempts
        attempts = min(attempts, FIRST_ATTEMPTS) if is_first else attempts
        batch = _Batch(_Keeper(keep), counts, attempts)
        return _in_background(self._answers(requests, batch))

    async def _answers(
        self, requests: Mapping[bytes, Request], batch: _Batch
    ) -> dict[bytes, Answer]:
        answers: dict[bytes, asyncio.Future[Answer]] = {}
        new: dict[bytes, asyncio.Future[Answer]] = {}
        for key, request in requests.items():
            under_way = self._under_way.get(key) or self._under_way.get(request.richer)
            if under_way is None:
                under_way = asyncio.get_running_loop().create_future()
                self._under_way[key] = new[key] = under_way
            answers[key] = under_way
        async with asyncio.TaskGroup() as group, self._turn:
            for key, answer in new.items():
                await self._gate.enter()
                group.create_task(self._ask(key, requests[key].body, batch, answer))
        found = await asyncio.gather(*answers.values(), return_exceptions=True)
        failed = [each for each in (batch.failure, *found) if isinstance(each, BaseException)]
        if failed:
            raise failed[0]
        return {key: answer.result() for key, answer in answers.items()}

    async def _ask(
        self, key: bytes, body: Mapping[str, Any], batch: _Batch, answer: asyncio.Future[Answer]
    ) -> None:
        """Ask a question that was let in, and put its answer where others wait for it."""
        try:
            found = await self._insisted(body, await self._attempt(body, batch), batch)
            await batch.keeper.keep(key, found)
        except Exception as error:  # noqa: BLE001  (raised to all who wait for the answer)
            batch.failure = batch.failure or error
            answer.set_exception(error)
        else:
            answer.set_result(found)
        finally:
            del self._under_way[key]

    async def _insisted(
        self, body: Mapping[str, Any], outcome: Answer | _MayPass, batch: _Batch
    ) -> Answer:
        """Make a request again while it fails in a way that may pass."""
        made = 1
        while isinstance(outcome, _MayPass):
            if made >= batch.attempts:
                raise RuntimeError(
                    f"{self.name} did not answer in {made} attempts (the last time, {outcome}); "
                    "answers so far are kept: run the same command again to continue"
                )
            longest = min(FIRST_WAIT_S * 2 ** (made - 1), LONGEST_WAIT_S)
            wait_s = max(longest * random.uniform(0.5, 1.0), outcome.retry_after_s)
            await asyncio.sleep(wait_s)
            batch.counts["retries"] += 1
            await self._gate.enter()
            outcome = await self._attempt(body, batch)
            made += 1
        return outcome

    async def _attempt(self, body: Mapping[str, Any], batch: _Batch) -> Answer | _MayPass:
        """Make one request, which the gate has let in."""
        try:
            if batch.failure is not None:  # the others would fail as well
                raise batch.failure
            began = time.monotonic()
            batch.counts["requests"] += 1
            answer = await self._post(body)
        except _MayPass as failure:
            if failure.is_too_many:
                self._gate.slow_down(began, failure.retry_after_s)
            return failure
        else:
            self._gate.speed_up()
            return replace(answer, seconds=time.monotonic() - began)
        finally:
            self._gate.leave()

    async def _post(self, body: Mapping[str, Any]) -> Answer:
        import aiohttp

        if self._session is None:
            self._session = _session(self._headers, self._options.timeout_s)
            weakref.finalize(self, _close, self._session).atexit = False
        try:
            async with self._session.post(
                self._endpoint, json=body, allow_redirects=False, proxy=self._proxy
            ) as response:
                status, headers, sent = response.status, response.headers, await response.read()
        except TimeoutError as error:
            raise _MayPass(f"nothing came in {self._options.timeout_s} s") from error
        except (aiohttp.ClientError, OSError) as error:
            reason = redacted(str(error)) or "the connection was lost"
            raise _MayPass(f"{type(error).__name__}: {reason}") from error
        found = _parsed(sent)
        if status != HTTPStatus.OK:
            return self._refused(status, headers, found)
        try:
            return answer_of(found)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise _MayPass("it sent something other than a chat completion") from error

    def _refused(self, status: int, headers: Mapping[str, str], sent: object) -> Answer:
        """Make of a response that is no answer what it is: of this question, of all, for now."""
        code, said = _error_of(sent)
        told = f" ({said})" if said else ""
        if 300 <= status < 400:
            where = redacted(headers.get("Location", "?"))
            raise ValueError(
                f"{self.name} redirects to {where}, but only `url` is contacted; set `url` to the "
                "other address if you trust it"
            )
        if code in _NO_MONEY:
            raise ValueError(f"{self.name} requires payment{told}; check your account there")
        if status in _PASSES:
            raise _MayPass(
                f"it answered {status}{told}",
                retry_after_s=_retry_after_s(headers.get("Retry-After", "")),
                is_too_many=status in _TOO_MANY,
            )
        if status in _OF_THE_QUESTION:
            return Answer(text="", finish=REJECTED, refusal=f"HTTP {status}{told}")
        hint = {
            401: "set the key in `api_key_env` or `api_key_file`",
            403: "the key may not use this model",
            404: f"check `url` (often it ends in /v1) and `model` ({self._options.model})",
        }.get(status, "check `url` and `model`")
        raise ValueError(f"{self.name} answered {status}{told}; {hint}")


class _Gate:
    """Lets so many requests through at once: half as many after "too many", slowly more again."""

    def __init__(self, most: int) -> None:
        self._most, self._limit = most, float(most)
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._last_cut = self._not_before = -math.inf

    async def enter(self) -> None:
        """Wait until there is room."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._admit()
        await place
        while (wait_s := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)

    def leave(self) -> None:
        """Make room for another one."""
        self._under_way -= 1
        self._admit()

    def _admit(self) -> None:
        """Let in those who have waited longest, as many as there is room for."""
        while self._waiting and self._under_way < int(self._limit):
            self._waiting.popleft().set_result(None)
            self._under_way += 1

    def slow_down(self, began: float, retry_after_s: float) -> None:
        """Halve the limit, unless the request is of before the last time."""
        now = time.monotonic()
        if began > self._last_cut:
            self._limit, self._last_cut = max(self._limit / 2, 1.0), now
        self._not_before = max(self._not_before, now + retry_after_s)

    def speed_up(self) -> None:
        """Raise the limit by one for as many answers as it is high."""
        self._limit = min(self._limit + 1 / self._limit, float(self._most))


@dataclass(eq=False)
class _Batch:
    """What is the same for questions that were asked together."""

    keeper: _Keeper
    counts: Counter[str]
    attempts: int
    failure: Exception | None = None
    """Of the first question that failed."""


class _Keeper:
    """Keeps answers, those that come meanwhile together, before it says that they are there."""

    def __init__(self, keep: Callable[[Mapping[bytes, Answer]], None]) -> None:
        self._keep, self._lock = keep, asyncio.Lock()
        self._waiting: dict[bytes, Answer] = {}

    async def keep(self, key: bytes, answer: Answer) -> None:
        self._waiting[key] = answer
        async with self._lock:
            if key in self._waiting:
                together, self._waiting = self._waiting, {}
                await asyncio.to_thread(self._keep, together)


def _parsed(sent: bytes) -> Any:  # noqa: ANN401
    """Read JSON; None for what is none."""
    # Collected deep inside of nested lists, a session would have no stack left to be closed on.
    collects = gc.isenabled()
    gc.disable()
    try:
        return json.loads(sent)
    except (ValueError, RecursionError):
        return None
    finally:
        if collects:
            gc.enable()


def answer_of(completion: Any) -> Answer:  # noqa: ANN401  (whatever a server sends)
    """Read a chat completion; raises `ValueError`, `TypeError` or `LookupError` if it is none."""
    choice = completion["choices"][0]
    message = choice["message"]
    text, refusal = message.get("content"), message.get("refusal")
    if not isinstance(text, str | None) or not isinstance(refusal, str | None):
        raise TypeError("`content` must be a text")
    usage = completion.get("usage") or {}
    listed = (choice.get("logprobs") or {}).get("content")
    return Answer(
        text=text or "",
        finish=str(choice.get("finish_reason") or "stop"),
        refusal=refusal or "",
        tokens=tuple(_token(each) for each in listed) if listed else None,
        n_read=int(usage.get("prompt_tokens") or 0),
        n_written=int(usage.get("completion_tokens") or 0),
    )


def _token(listed: Mapping[str, Any]) -> Token:
    others = listed.get("top_logprobs") or ()
    return Token(
        _bytes_of(listed), _log_p(listed), tuple((_bytes_of(one), _log_p(one)) for one in others)
    )


def _bytes_of(listed: Mapping[str, Any]) -> bytes:
    given = listed.get("bytes")
    return bytes(given) if given else str(listed["token"]).encode("utf-8", "replace")


def _log_p(listed: Mapping[str, Any]) -> float:
    log_p = listed["logprob"]
    if log_p is None:
        return -math.inf
    if not isinstance(log_p, int | float) or math.isnan(log_p):
        raise ValueError("`logprob` must be a number")
    return float(log_p)


def _error_of(sent: object) -> tuple[str, str]:
    """Return code and message of an error, as far as there are some."""
    error = sent.get("error", sent) if isinstance(sent, Mapping) else None
    if not isinstance(error, Mapping):
        return "", ""
    message = error.get("message") or error.get("detail") or ""  # FastAPI says `detail`
    first = next(iter(str(message).splitlines()), "")
    return str(error.get("code") or ""), redacted(first)[:_SHOWN]


def _retry_after_s(written: str) -> float:
    """Read the header `retry-after`, seconds or a date; 0 if there is none.

    >>> _retry_after_s("3"), _retry_after_s("soon"), _retry_after_s("")
    (3.0, 0.0, 0.0)
    """
    try:
        wait_s = float(written)
    except ValueError:
        try:
            wait_s = email.utils.parsedate_to_datetime(written).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(max(wait_s, 0.0), LONGEST_RETRY_AFTER_S) if math.isfinite(wait_s) else 0.0


def _read_key(options: AskOptions) -> str | None:
    """Return the key of a server; messages never show it."""
    if options.api_key_env:
        where, key = f"the variable {options.api_key_env}", os.environ.get(options.api_key_env, "")
    elif options.api_key_file:
        where, key = _key_file(user_path(options.api_key_file))
    else:
        return None
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"{where} must hold the API key for {options.url}, in one line of ASCII")
    keep_secret(key)
    return key


def _key_file(path: str) -> tuple[str, str]:
    try:
        mode = os.stat(path).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(f"only its owner may read `api_key_file` {path}; run chmod 600 {path}")
        return f"`api_key_file` {path}", Path(path).read_text("utf-8", "replace")
    except OSError as error:
        raise ValueError(f"`api_key_file` {path} cannot be read: {error.strerror}") from error


@cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    """Start the thread that asks; a forked process has none and starts its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"asking {process}", daemon=True).start()
    return loop


def _session(headers: Mapping[str, str], timeout_s: int) -> aiohttp.ClientSession:
    """Open what sends requests; it takes neither keys nor cookies from anywhere else."""
    import aiohttp

    session = aiohttp.ClientSession(
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S),
        connector=aiohttp.TCPConnector(limit=0),  # the gate bounds requests
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # it would send what ~/.netrc has for the host
    )
    if not _sessions:
        atexit.register(_close_all)
    _sessions.add(session)
    return session


def _proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address."""
    parts = urlsplit(url)
    is_direct = urllib.request.proxy_bypass(parts.hostname or "")
    return None if is_direct else urllib.request.getproxies().get(parts.scheme)


def _close(session: aiohttp.ClientSession) -> Future[None]:
    return _in_background(session.close())


def _close_all() -> None:
    """Close what is open when the program ends, or the library complains."""
    for closing in [_close(session) for session in _sessions]:
        with suppress(Exception):
            closing.result(1)


def _in_background(work: Coroutine[Any, Any, _T]) -> Future[_T]:
    return asyncio.run_coroutine_threadsafe(work, _loop_of(os.getpid()))
