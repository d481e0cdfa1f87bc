"""Servers that behave badly, and what comes of every row."""

import json
import logging
import multiprocessing
import os
import signal
import sqlite3
import time
from contextlib import closing, suppress

import numpy as np
import pytest

from reffree.asking import server as asking_server
from reffree.asking.model import AskedModel
from reffree.asking.settings import AskOptions
from sms.encoders import EncoderRuntime
from tests.reffree.asking.stand_in import (
    PROMPT,
    Reply,
    candidate_of,
    completion,
    expected_of,
    good,
    listed,
    one_token,
    rng_of,
    serving,
    shares,
    top_of,
)

KEY = "sk-pLaNtEd0123456789"
PROBE = "A cat sat on the mat."


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(asking_server, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(asking_server, "LONGEST_WAIT_S", 0.01)


@pytest.fixture
def model_of(tmp_path):
    def make(url, **table):
        options = AskOptions(**{"url": url, "model": "m", "prompt": PROMPT, **table})
        return AskedModel(None, options, EncoderRuntime(cache_folder=str(tmp_path / "cache")))

    return make


def asked(model, candidates):
    return model.begin([{"{candidate}": text} for text in candidates]).judgements()


def values(judgements):
    return [each.value for each in judgements]


TEXTS = [f"text {k}" for k in range(20)]
EXPECTED = [expected_of(text) for text in TEXTS]


# One kind of trouble at a time


def broken(kind, body):
    """Return a reply that may pass."""
    whole = good(body)
    data = json.dumps(whole.body).encode()
    no_tokens = completion("4", [{"logprob": "x"}])
    return {
        "too many": Reply({"error": {"message": "slow down"}}, 429, {"Retry-After": "0"}),
        "broken": Reply({"error": {"message": "oops"}}, 500),
        "busy": Reply(raw=b"<html>busy</html>", status=503),
        "closed": Reply(whole.body, sent_share=0.0),
        "half a head": Reply(whole.body, sent_share=0.05),
        "half an answer": Reply(whole.body, sent_share=0.7),
        "half a JSON": Reply(raw=data[: len(data) // 2]),
        "wrong JSON": Reply({"choices": []}),
        "no JSON": Reply(raw=b"[" * 100_000),
        "a list": Reply([1, 2]),
        "null": Reply(None),
        "wrong tokens": Reply(raw=json.dumps(no_tokens).encode()),
        "wrong gzip": Reply(raw=data, headers={"Content-Encoding": "gzip"}),
    }[kind]


PASSING = (
    "too many", "broken", "busy", "closed", "half a head", "half an answer", "half a JSON",
    "wrong JSON", "no JSON", "a list", "null", "wrong tokens", "wrong gzip",
)  # fmt: skip


@pytest.mark.parametrize("kind", PASSING)
def test_what_passes_is_asked_again(model_of, kind):
    def respond(body, n_before):
        return broken(kind, body) if n_before < 2 else good(body)

    with serving(respond) as (server, url):
        model = model_of(url)
        assert values(asked(model, TEXTS)) == pytest.approx(EXPECTED)
    assert all(server.asked[text] == 3 for text in TEXTS)
    assert model.state()["retries"] == 2 * (len(TEXTS) + 1)  # and the first question of all


@pytest.mark.parametrize("kind", PASSING)
def test_what_does_not_pass_ends_with_what_to_do(model_of, kind):
    def respond(body, n_before):
        return good(body) if candidate_of(body) == PROBE else broken(kind, body)

    with serving(respond) as (_, url):
        model = model_of(url, attempts=3)
        with pytest.raises(RuntimeError, match=r"the server 127\.0\.0\.1:\d+ did not answer in 3 "):
            asked(model, TEXTS)


STATUSES = [
    (401, {}, "answered 401 (wrong key); set the key"),
    (403, {}, "answered 403 (wrong key); the key may not"),
    (404, {}, "answered 404 (wrong key); check `url`"),
    (429, {"code": "insufficient_quota"}, "requires payment (wrong key)"),
]


@pytest.mark.parametrize(("status", "more", "message"), STATUSES)
def test_what_cannot_pass_is_asked_once(model_of, status, more, message):
    error = {"error": {"message": "wrong key\nat line 3", **more}}
    with (
        serving(lambda *_: Reply(error, status)) as (server, url),
        pytest.raises(ValueError, match=r"127\.0\.0\.1") as refused,
    ):
        model_of(url)
    assert message in str(refused.value)
    assert server.asked.total() == 1


def test_a_server_that_is_not_there(model_of):
    with pytest.raises(
        RuntimeError, match=r"localhost:9 did not answer in 3 .*ClientConnectorError"
    ):
        model_of("http://localhost:9/v1")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(model_of, status):
    with serving() as (other, there):
        reply = Reply({}, status, {"Location": f"{there}/chat/completions"})
        with (
            serving(lambda *_: reply) as (_, url),
            pytest.raises(ValueError, match=r"redirects to http.*only `url` is contacted"),
        ):
            model_of(url)
    assert not other.requests


def test_a_question_that_the_server_rejects_is_refused_and_not_kept(model_of):
    error = {"error": {"message": "too long", "code": "context_length_exceeded"}}

    def respond(body, _):
        return Reply(error, 400) if candidate_of(body) == TEXTS[3] else good(body)

    with serving(respond) as (server, url):
        for n in (1, 2):
            judged = asked(model_of(url), TEXTS)
            assert [each.why for each in judged] == ["refused" if k == 3 else "" for k in range(20)]
            assert judged[3].answers[0].refusal == "HTTP 400 (too long)"
            assert server.asked[TEXTS[3]] == n
            assert server.asked[TEXTS[4]] == 1


@pytest.mark.parametrize("error", [{"error": {"message": "no field x"}}, {"detail": "no field x"}])
def test_a_server_that_rejects_the_first_question_is_not_asked_again(model_of, error):
    with serving(lambda *_: Reply(error, 422)) as (server, url):
        with pytest.raises(ValueError, match=r"rejects the first question \(HTTP 422 \(no field x"):
            model_of(url)
        assert server.asked.total() == 1


@pytest.mark.parametrize("answer", ["4", "The sentence is good."])
def test_without_log_probabilities_the_first_question_says_what_to_do(model_of, answer):
    def respond(body, _):
        return Reply(completion(answer if body.get("logprobs") else "4"))

    with serving(respond) as (server, url):
        with pytest.raises(ValueError, match=r"the server 127.* sent none.*value = \"top\""):
            model_of(url)
        assert server.asked.total() == 1
        assert values(asked(model_of(url, value="top"), TEXTS)) == [4.0] * 20


def test_retry_after_holds_all_requests_back(model_of):
    told = []

    def respond(body, n_before):
        if body and not told and candidate_of(body) != PROBE:
            told.append(time.monotonic())
            return Reply({}, 429, {"Retry-After": "0.5"})
        starts.append(time.monotonic())
        return Reply(good(body).body, delay_s=0.02)

    starts = []
    with serving(respond) as (_, url):
        assert values(asked(model_of(url, concurrency=4), TEXTS)) == pytest.approx(EXPECTED)
    held = [start for start in starts if 0.05 < start - told[0] < 0.45]
    assert not held  # those that were under way came before


def test_requests_under_way_are_bounded_and_fewer_after_too_many(model_of):
    limit = 5

    def respond(body, _):
        if server.under_way >= limit:
            return Reply({}, 429)
        return Reply(good(body).body, delay_s=0.005)

    texts = [f"text {k}" for k in range(200)]
    with serving(respond) as (server, url):
        model = model_of(url, concurrency=32, attempts=30)
        assert values(asked(model, texts)) == pytest.approx([expected_of(text) for text in texts])
        assert server.most_under_way <= 32
    refused = model.state()["retries"]
    assert 0 < refused < len(texts)


def test_a_slow_server_is_asked_again(model_of):
    def respond(body, n_before):
        is_stuck = candidate_of(body) == TEXTS[0] and n_before == 0
        return Reply(hangs=True) if is_stuck else good(body)

    with serving(respond) as (server, url):
        assert values(asked(model_of(url, timeout_s=1), TEXTS)) == pytest.approx(EXPECTED)
        assert server.asked[TEXTS[0]] == 2


# What is asked, and what is kept


def test_the_same_question_is_asked_once(model_of):
    with serving() as (server, url):
        model = model_of(url)
        asked(model, [*TEXTS, *TEXTS])
        asked(model_of(url), TEXTS)
        top = asked(model_of(url, value="top"), TEXTS)  # it needs no probabilities
        assert values(top) == [top_of(text) for text in TEXTS]
        assert set(server.asked.values()) == {1}
        asked(model_of(url, system="Be strict."), TEXTS[:1])
        asked(model_of(url, model="other"), TEXTS[:1])
        asked(model_of(url, aspect="x", prompt=f"{PROMPT} {{aspect}}"), TEXTS[:1])
        assert server.asked[TEXTS[0]] == 4
    assert model.state()["questions"] == 21  # the first question of all is one, too


def test_batches_that_overlap_ask_the_same_question_once(model_of):
    with serving(lambda body, _: Reply(good(body).body, delay_s=0.01)) as (server, url):
        model = model_of(url, concurrency=2)
        begun = [model.begin([{"{candidate}": text} for text in TEXTS]) for _ in range(3)]
        for each in begun:
            assert values(each.judgements()) == pytest.approx(EXPECTED)
        assert set(server.asked.values()) == {1}


def test_kept_answers_without_probabilities_do_not_serve_expected(model_of):
    with serving() as (server, url):
        asked(model_of(url, value="top"), TEXTS)
        assert values(asked(model_of(url), TEXTS)) == pytest.approx(EXPECTED)
        assert server.asked[TEXTS[0]] == 2


def test_draws_are_several_questions_and_their_mean_is_the_score(model_of):
    def respond(body, n_before):
        assert body["temperature"] == 1.5
        return Reply(completion(str(body["seed"] % 5 + 1)))

    with serving(respond) as (server, url):
        table = {"value": "mean", "samples": 4, "seed": 7, "temperature": 1.5}
        assert values(asked(model_of(url, **table), TEXTS[:2])) == [(3 + 4 + 5 + 1) / 4] * 2
        assert server.asked[TEXTS[0]] == 4
        asked(model_of(url, **table), TEXTS[:2])
        assert server.asked[TEXTS[0]] == 4


def test_pairs_are_asked_in_both_orders(model_of):
    prompt = "Which? A: <<{candidate}>> B: {references}"
    table = {"prompt": prompt, "choices": {"A": 1, "B": 0}, "both_orders": True}

    def respond(body, _):
        """Prefer what comes first, a little, and `good` more."""
        is_good = candidate_of(body) == "good"
        p = 0.8 if is_good else 0.4
        tokens = [listed("A" if p > 0.5 else "B", max(p, 1 - p), [("A", p), ("B", 1 - p)])]
        return Reply(completion(tokens[0]["token"], tokens))

    with serving(respond) as (_, url):
        model = model_of(url, **table)
        pairs = [("good", "bad"), ("bad", "good"), ("bad", "bad")]
        about = [{"{candidate}": one, "{references}": other} for one, other in pairs]
        found = values(model.begin(about).judgements())
    assert found == pytest.approx([(0.8 + 0.6) / 2, (0.4 + 0.2) / 2, 0.5])


def test_requests_say_what_the_table_says(model_of, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    with serving(lambda *_: Reply(completion('{"answer": 4}'))) as (server, url):
        extra = {"reasoning_effort": "low", "max_completion_tokens": 9}
        model_of(url, form="json", value="top", seed=3, system="Be strict.", extra=extra)
    ((line, headers, body),) = server.requests
    assert line == "POST /v1/chat/completions HTTP/1.1"
    assert KEY not in str(headers)
    assert "authorization" not in headers
    assert body["model"] == "m"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert (body["temperature"], body["seed"], body["reasoning_effort"]) == (0, 3, "low")
    assert body["max_completion_tokens"] == 9
    assert {"max_tokens", "logprobs"}.isdisjoint(body)
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"] == {"type": "integer", "enum": [1, 2, 3, 4, 5]}


# Keys


def test_the_key_is_sent_and_never_shown(model_of, monkeypatch, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("JUDGE_KEY", KEY)
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    file.chmod(0o600)
    for table in ({"api_key_env": "JUDGE_KEY"}, {"api_key_file": str(file)}):
        with serving() as (server, url):
            model = model_of(url, **table)
            asked(model, TEXTS)
            assert {headers["authorization"] for _, headers, _ in server.requests} == {
                f"Bearer {KEY}"
            }
        wrong = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
        with (
            serving(lambda *_, wrong=wrong: Reply(wrong, 401)) as (_, url),
            pytest.raises(ValueError, match=r"key provided: \*\*\*") as refused,
        ):
            model_of(url, **table)
        said = f"{refused.value!r} {model.signature} {model.options!r} {caplog.text}"
        assert KEY not in said
    file.unlink()
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


def test_keys_that_cannot_be_used_are_refused(model_of, monkeypatch, tmp_path):
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o644)
    url = "http://localhost:9/v1"
    with pytest.raises(ValueError, match=r"only its owner may read .*; run chmod 600"):
        model_of(url, api_key_file=str(file))
    with pytest.raises(ValueError, match=r"nothing cannot be read"):
        model_of(url, api_key_file=str(tmp_path / "nothing"))
    for wrong in ("", f"{KEY}\r\nX-Other: 1", f"{KEY}é"):
        monkeypatch.setenv("JUDGE_KEY", wrong)
        with pytest.raises(ValueError, match=r"JUDGE_KEY must hold the API key") as refused:
            model_of(url, api_key_env="JUDGE_KEY")
        assert KEY not in str(refused.value)


# Everything at once, in seeded rounds


N_ROUNDS = 50


def mishap(seed, candidate, n_before):
    """Return what goes wrong with the n-th request about a text in a round, or nothing."""
    rng = rng_of(seed, candidate, n_before)
    most = 2 if candidate == PROBE else 4
    return str(rng.choice(PASSING)) if n_before < most and rng.random() < 0.4 else None


def fate(seed, candidate):
    """Return how the answer about a text ends in a round."""
    if candidate == PROBE:
        return "whole"
    kinds = ["whole", "spaced", "doubled", "refused", "cut", "filtered", "unreadable", "rejected"]
    shares_of_kinds = [0.4, 0.1, 0.1, 0.1, 0.1, 0.05, 0.1, 0.05]
    return str(rng_of(seed, candidate).choice(kinds, p=shares_of_kinds))


WHY = {"cut": "cut", "filtered": "refused", "refused": "refused", "rejected": "refused"}
WHY["unreadable"] = "unreadable"


def answer_by(seed, body):
    candidate = candidate_of(body)
    text, tokens = one_token(candidate)
    match fate(seed, candidate):
        case "spaced":
            text, tokens = one_token(candidate, before=" ")
        case "doubled":
            tokens[0]["top_logprobs"] = [tokens[0]["top_logprobs"][0], *tokens[0]["top_logprobs"]]
        case "refused":
            return Reply(completion(None, refusal="I would rather not."))
        case "cut":
            return Reply(completion(text, tokens, finish="length"))
        case "filtered":
            return Reply(completion("", finish="content_filter"))
        case "unreadable":
            return Reply(completion(f"I would say {text}, or 1.", tokens))
        case "rejected":
            return Reply({"error": {"message": "no"}}, 400)
    return Reply(completion(text, tokens), delay_s=float(rng_of(candidate).random()) * 0.003)


@pytest.mark.parametrize("seed", range(N_ROUNDS))
def test_no_row_is_lost_doubled_or_wrong(model_of, seed):
    def respond(body, n_before):
        kind = mishap(seed, candidate_of(body), n_before)
        return answer_by(seed, body) if kind is None else broken(kind, body)

    rng = np.random.default_rng(seed)
    texts = [f"round {seed} text {k}" for k in rng.integers(0, 20, size=24)]
    with serving(respond) as (server, url):
        model = model_of(url, concurrency=int(rng.integers(1, 20)))
        judged = asked(model, texts)
        for text, each in zip(texts, judged, strict=True):
            why = WHY.get(fate(seed, text), "")
            assert each.why == why, fate(seed, text)
            if why:
                assert np.isnan(each.value)
            else:
                assert each.value == pytest.approx(expected_of(text), abs=1e-12)
        again = asked(model_of(url), texts)
        np.testing.assert_array_equal(values(again), values(judged))
    assert max(server.answered.values()) == 1, "an answer that came is not asked for again"


def ask_in_a_process(url, folder, texts):
    options = AskOptions(url=url, model="m", prompt=PROMPT, concurrency=8)
    asked(AskedModel(None, options, EncoderRuntime(cache_folder=folder)), texts)


def n_kept(folder):
    n = 0
    for path in folder.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as database, suppress(sqlite3.OperationalError):
            n += database.execute("SELECT count(*) FROM vectors").fetchone()[0]
    return n


@pytest.fixture(scope="module")
def processes():
    """Quick to start: they are forked from one that has the imports and no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.reffree.asking.test_server"])
    return context


@pytest.mark.parametrize("seed", range(10))
def test_after_a_kill_nothing_is_asked_twice(model_of, processes, tmp_path, seed):
    rng = np.random.default_rng(seed)
    texts = [f"killed {seed} text {k}" for k in range(40)]
    n_answered = int(rng.integers(1, 30))
    is_killed, sent = [], []

    def respond(body, _):
        if not is_killed and len(sent) >= n_answered:
            return Reply(hangs=True)
        sent.append(candidate_of(body))
        return good(body)

    with serving(respond) as (server, url):
        folder = tmp_path / "cache"
        process = processes.Process(target=ask_in_a_process, args=(url, str(folder), texts))
        process.start()
        deadline = time.monotonic() + 30
        while n_kept(folder) < n_answered and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        is_killed.append(True)
        before = list(sent)
        assert len(before) == n_answered
        judged = asked(model_of(url), texts)
        assert values(judged) == pytest.approx([expected_of(text) for text in texts])
        assert all(server.asked[text] == 1 for text in before)
        assert all(server.answered[text] == 1 for text in texts)


def test_processes_share_what_was_answered(model_of, processes, tmp_path):
    texts = [f"shared {k}" for k in range(100)]
    with serving() as (server, url):
        folder = str(tmp_path / "cache")
        ask_in_a_process(url, folder, [])  # the first question of all
        parts = [texts[k::4] for k in range(4)]
        started = [
            processes.Process(target=ask_in_a_process, args=(url, folder, part)) for part in parts
        ]
        for process in started:
            process.start()
        for process in started:
            process.join()
            assert process.exitcode == 0
        assert values(asked(model_of(url), texts)) == pytest.approx(
            [expected_of(text) for text in texts]
        )
        assert set(server.asked.values()) == {1}


def test_shares_add_up_to_what_they_should():
    """The oracle itself: the stand-in lists what `expected_of` averages."""
    _, (token,) = one_token("a")
    p = {other["token"]: np.exp(other["logprob"]) for other in token["top_logprobs"]}
    assert sum(p.values()) == pytest.approx(1.0)
    assert [p[str(k)] for k in range(1, 6)] == pytest.approx(shares("a").tolist())
