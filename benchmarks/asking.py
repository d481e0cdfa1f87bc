"""How busy does `ask` keep a server that takes its time, and how much memory does it take.

The server is another process and sends the same completion every time. The first number is how
long it takes, in seconds, the second how many questions the memory is watched over.
"""

import asyncio
import json
import multiprocessing
import os
import platform
import resource
import sys
import tempfile
import time

import aiohttp
import numpy as np

from reffree.asking.model import AskedModel
from reffree.asking.settings import AskOptions
from sms.encoders import EncoderRuntime

LATENCY_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.2
IN_FLIGHT = 64
N_ASKED = 300 * IN_FLIGHT
N_FOR_MEMORY = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
BATCH_ROWS = 4_096
LIKELIEST = [(str(k), 0.2) for k in range(1, 6)]


def serve(port, latency_s):
    """Answer every request with the same completion after a while."""
    listed = [{"token": text, "logprob": float(np.log(p))} for text, p in LIKELIEST]
    token = {**listed[0], "top_logprobs": listed}
    message = {"role": "assistant", "content": "1"}
    choice = {"message": message, "finish_reason": "stop", "logprobs": {"content": [token]}}
    body = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 500}}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    answer = f"{head}\r\n".encode() + body

    async def answer_all(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                n = next(
                    int(line.partition(b":")[2])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                )
                await reader.readexactly(n)
                await asyncio.sleep(latency_s)
                writer.write(answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    async def run():
        server = await asyncio.start_server(answer_all, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def asked(url, n, folder):
    """Ask in batches, the next begun before one is read; return seconds, CPU seconds and MiB."""
    options = AskOptions(url=url, model="m", prompt="Good? {candidate}", concurrency=IN_FLIGHT)
    model = AskedModel(None, options, EncoderRuntime(cache_folder=folder))
    before, peaks = None, []
    started, cpu = time.perf_counter(), time.process_time()
    for first in range(0, n, BATCH_ROWS):
        numbers = range(first, min(first + BATCH_ROWS, n))
        begun = model.begin([{"{candidate}": f"text {k} " + "word " * 500} for k in numbers])
        if before is not None:
            assert all(each.value == 3.0 for each in before.judgements())
        before = begun
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    assert all(each.value == 3.0 for each in before.judgements())
    seconds = time.perf_counter() - started
    return seconds, time.process_time() - cpu, peaks


def with_server(latency_s, n):
    port = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(port, latency_s), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as folder:
        result = asked(f"http://127.0.0.1:{port.get()}/v1", n, folder)
    server.terminate()
    return result


if __name__ == "__main__":
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"Python {platform.python_version()}, aiohttp {aiohttp.__version__}")
    runs = [with_server(LATENCY_S, N_ASKED)[:2] for _ in range(3)]
    ideal = N_ASKED / IN_FLIGHT * LATENCY_S
    busy = sorted(ideal / seconds for seconds, _ in runs)
    print(f"{N_ASKED:,} questions, {IN_FLIGHT} in flight, {LATENCY_S * 1000:.0f} ms each:")
    print(f"  busy {busy[1]:.1%} ({busy[0]:.1%} to {busy[2]:.1%})")
    print(f"  CPU {np.median([cpu for _, cpu in runs]) / N_ASKED * 1000:.2f} ms a question")
    seconds, _, peaks = with_server(0.0, N_FOR_MEMORY)
    print(f"{N_FOR_MEMORY:,} questions without a wait: {N_FOR_MEMORY / seconds:,.0f} a second")
    for k in np.linspace(1, len(peaks) - 1, min(6, len(peaks) - 1)).round().astype(int):
        print(f"  after {(k + 1) * BATCH_ROWS:>9,}: peak {peaks[k]:,.0f} MiB")
