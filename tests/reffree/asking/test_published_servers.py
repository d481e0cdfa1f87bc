"""Servers as they are published, with a real model: what they give, and that it is what we have.

The model is SmolLM2-135M-Instruct. `ASSAY_SMOLLM2` names its folder, and `ASSAY_SMOLLM2_GGUF` what
llama.cpp's `convert_hf_to_gguf.py --outtype f32` makes of that folder.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from reffree.asking.model import AskedModel
from reffree.asking.settings import AskOptions
from sms.encoders import EncoderRuntime

pytestmark = [pytest.mark.slow, pytest.mark.extra]

DOCUMENT = "The mayor closed the bridge on Monday. It opens again in May."
SUMMARIES = ["The bridge is closed.", "It opens in May.", "The mayor opened a school.", "No."]
RATE = "{source}\n<<{candidate}>> Good?"
REPEAT = "Repeat this word: {candidate}"
YES_NO = {"Yes": 1, "No": 0}
START_TIMEOUT_S = 300

LLAMA_CPP = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel = 1024, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
# by default it computes attention in half precision
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
server = xllamacpp.Server(params)
print("address", server.listening_address, flush=True)
sys.stdin.read()
"""


def path_in(variable):
    path = os.environ.get(variable)
    if path is None or not Path(path).exists():
        pytest.skip(f"{variable} names nothing")
    return path


def needs(*packages):
    if missing := [name for name in packages if find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")


@contextmanager
def started(command):
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def transformers_serve(folder):
    """Start it on a free port, and wait until it answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    where = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    program = "from transformers.cli.transformers import main; main()"
    with started([sys.executable, "-c", program, "serve", folder, *where]) as process:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, "the server has ended"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def llama_cpp(file):
    with started([sys.executable, "-c", LLAMA_CPP, file]) as process:
        for line in process.stdout:
            if line.startswith("address "):
                break
        else:
            pytest.fail("the server has ended")
        yield f"{line.split()[1]}/v1"


def judged(model, summaries):
    return model.begin([{"{candidate}": s, "{source}": DOCUMENT} for s in summaries]).judgements()


def here_and_there(folder, url, model, cache, summaries, **table):
    """Judge summaries with the folder, and with the server's model."""
    here = AskedModel(folder, AskOptions(**table), EncoderRuntime(device="cpu"))
    options = AskOptions(url=url, model=model, **table)
    there = AskedModel(None, options, EncoderRuntime(cache_folder=str(cache)))
    return judged(here, summaries), judged(there, summaries)


def values(judgements):
    return [each.value for each in judgements]


def test_transformers_serve_gives_answers_and_no_probabilities(tmp_path):
    folder = path_in("ASSAY_SMOLLM2")
    needs("fastapi", "uvicorn", "openai", "accelerate")
    with transformers_serve(folder) as url:
        table = {"prompt": REPEAT, "choices": YES_NO}
        work = (folder, url, folder, tmp_path, ["Yes", "No", "Bridge"])
        here, there = here_and_there(*work, **table, value="top")
        assert values(there) == pytest.approx(values(here), nan_ok=True)
        assert there[0].value == 1.0
        with pytest.raises(ValueError, match=r"the server 127.0.0.1:\d+ sent none .* \"top\""):
            here_and_there(*work, **table)


def test_llama_cpp_gives_the_scores_that_the_folder_gives(tmp_path):
    """To 1e-3 as to words, on a scale that is 4 wide; measured: 1.3e-5."""
    folder, file = path_in("ASSAY_SMOLLM2"), path_in("ASSAY_SMOLLM2_GGUF")
    needs("xllamacpp")
    with llama_cpp(file) as url:
        for summaries, table in [
            (SUMMARIES, {"prompt": RATE, "form": "json"}),
            (SUMMARIES, {"prompt": RATE, "form": "json", "choices": YES_NO}),
            (["Yes", "No"], {"prompt": REPEAT, "choices": YES_NO}),
        ]:
            here, there = here_and_there(
                folder, url, "smollm2", tmp_path, summaries, **table, top_logprobs=1000
            )
            assert values(there) == pytest.approx(values(here), abs=1e-3, nan_ok=True), table
            assert there[0].answers[0].text == here[0].answers[0].text
            assert there[0].why == ""
