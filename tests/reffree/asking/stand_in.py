"""A server of chat completions that behaves as badly as it is told to."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

CANDIDATE = re.compile(r"<<(.*?)>>", re.DOTALL)
PROMPT = "Rate <<{candidate}>>"
FILLER = [("the", 0.01), ("**", 0.005)]


def rng_of(*parts):
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def candidate_of(body):
    found = CANDIDATE.search(body["messages"][-1]["content"])
    return found[1] if found else ""


def shares(candidate, n=5):
    """The probability of each answer from 1 to n; together .985, the rest is `FILLER`."""
    return rng_of("shares", candidate).dirichlet(np.ones(n)) * 0.985


def expected_of(candidate, n=5):
    """The mean answer, worked out from the probabilities themselves."""
    return float(np.average(np.arange(1, n + 1), weights=shares(candidate, n)))


def top_of(candidate, n=5):
    return int(np.argmax(shares(candidate, n))) + 1


def listed(text, p, others=()):
    entry = {"token": text, "logprob": math.log(p), "bytes": [*text.encode()]}
    return entry | {"top_logprobs": [listed(*other) | {} for other in others]}


def one_token(candidate, before="", after=""):
    """The answer as one token among all others, perhaps within other tokens."""
    p = shares(candidate)
    others = [(str(k + 1), share) for k, share in enumerate(p)] + FILLER
    others.sort(key=lambda other: -other[1])
    answer = str(top_of(candidate))
    tokens = [
        listed(part, 0.9, [(part, 0.9), ("3", 0.1)]) for part in re.findall(r"\S+|\s", before)
    ]
    tokens.append(listed(answer, p.max(), others))
    tokens += [listed(part, 0.9, [(part, 0.9), ("5", 0.1)]) for part in after]
    return before + answer + "".join(after), tokens


def completion(text, tokens=None, finish="stop", refusal=None):
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": refusal},
        "finish_reason": finish,
        "logprobs": None if tokens is None else {"content": tokens},
    }
    return {
        "object": "chat.completion",
        "choices": [choice],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1},
    }


@dataclass
class Reply:
    body: object = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    delay_s: float = 0.0
    raw: bytes | None = None
    sent_share: float = 1.0  # of the body, before the connection is closed
    hangs: bool = False


def good(body, n_before=0):
    """Answer as a well-behaved server does."""
    candidate = candidate_of(body)
    text, tokens = one_token(candidate)
    return Reply(completion(text, tokens if body.get("logprobs") else None))


class StandIn:
    """Counts what it is asked, and answers as `respond(body, n_before)` says."""

    def __init__(self, respond):
        self.respond = respond
        self.asked = Counter()  # requests by candidate
        self.answered = Counter()  # of these, whole good answers
        self.requests = []  # headers and bodies
        self.under_way = self.most_under_way = 0
        self._writers = set()

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        try:
            while (reply := await self._one(reader, writer)) is not None:
                if reply.sent_share < 1.0:
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side has gone, or the test has ended
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        line, *lines = head.decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (each.partition(":") for each in lines)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        candidate = candidate_of(body) if "messages" in body else ""
        reply = self.respond(body, self.asked[candidate])
        self.asked[candidate] += 1
        self.requests.append((line, headers, body))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if reply.hangs:
                await asyncio.sleep(3600)
            await asyncio.sleep(reply.delay_s)
            data = json.dumps(reply.body).encode() if reply.raw is None else reply.raw
            sent = {"Content-Type": "application/json", "Content-Length": len(data)} | reply.headers
            start = f"HTTP/1.1 {reply.status} X\r\n"
            start += "".join(f"{name}: {value}\r\n" for name, value in sent.items())
            whole = f"{start}\r\n".encode() + data
            writer.write(whole[: math.floor(len(whole) * reply.sent_share)])
            await writer.drain()
        finally:
            self.under_way -= 1
        is_whole = reply.status == 200 and reply.raw is None and reply.sent_share == 1.0
        self.answered[candidate] += (
            is_whole and isinstance(reply.body, dict) and bool(reply.body.get("choices"))
        )
        return reply


@contextmanager
def serving(respond=good):
    """Serve on a port of this machine; gives the server and its address."""
    server, loop, ready = StandIn(respond), asyncio.new_event_loop(), threading.Event()
    place = {}

    async def start():
        place["server"] = await asyncio.start_server(server._serve, "127.0.0.1", 0)
        place["port"] = place["server"].sockets[0].getsockname()[1]
        ready.set()

    async def stop():
        place["server"].close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield server, f"http://127.0.0.1:{place['port']}/v1"
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
