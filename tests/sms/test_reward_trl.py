"""The reward inside the real TRL: two steps of GRPO with a tiny random model."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sms.reward import Reward

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "reward_trl.py"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} : {{ message['content'] }} <end> "
    "{% endfor %}{% if add_generation_prompt %}assistant :{% endif %}"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.extra,
    # TRL, transformers and torch warn about each other.
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(
        importlib.util.find_spec("trl") is None, reason="TRL is not installed (extra `reward`)"
    ),
]


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("reward_trl", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorded(Reward):
    """Keeps what it was asked and what it said."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.calls = []

    def __call__(self, *arguments, **columns):
        rewards = super().__call__(*arguments, **columns)
        self.calls.append((columns["completions"], columns["references"], rewards))
        return rewards


def trained(example, folder, prompts, reward, **changes):
    texts = [str(prompt) for prompt in prompts["prompt"]]
    model, tokenizer = example.tiny_model(texts)
    for name, value in changes.items():
        setattr(tokenizer, name, value)
    trainer = example.make_trainer(reward, prompts, model, tokenizer, str(folder), n_steps=2)
    trainer.train()
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def test_grpo_is_rewarded_with_the_metric_and_logs_each_part(example, tmp_path):
    reward = Recorded("sms - .5*repetition", device="cpu")
    log = trained(example, tmp_path, example.summarisation_prompts(), reward)
    assert len(log) == len(reward.calls) == 2
    for entry, (completions, references, rewards) in zip(log, reward.calls, strict=True):
        assert len(completions) == 8
        assert references[0] == references[3] != references[4]  # 4 draws of each of 2 documents
        assert rewards == Reward(reward.weights, device="cpu")(completions, references=references)
        assert entry["reward"] == pytest.approx(np.mean(rewards), abs=1e-5)
        assert entry[f"rewards/{reward.__name__}/mean"] == entry["reward"]
        parts = reward.parts(completions, references=references)
        for name in ("sms", "repetition"):
            assert entry[f"reward/{name}"] == pytest.approx(np.nanmean(parts[name]), abs=1e-5)


def test_grpo_of_conversations_is_rewarded_with_the_reply(example, tmp_path):
    def as_conversation(row):
        return {"prompt": [{"role": "user", "content": row["prompt"]}]}

    prompts = example.summarisation_prompts().map(as_conversation)
    reward = Recorded("rouge1_f")
    log = trained(example, tmp_path, prompts, reward, chat_template=CHAT_TEMPLATE)
    completions, references, rewards = reward.calls[0]
    replies = [completion[-1]["content"] for completion in completions]
    assert rewards == Reward("rouge1_f")(replies, references=references)
    assert log[0]["reward"] == pytest.approx(sum(rewards) / len(rewards), abs=1e-5)


def test_guide_can_be_pasted(example, tmp_path):
    """With a tiny model on a CPU in place of the one that the page names."""
    page = (ROOT / "docs" / "reward.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if "GRPOTrainer(" in block]
    model, tokenizer = example.tiny_model([block])
    tokenizer.chat_template = CHAT_TEMPLATE
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    on_cpu = 'use_cpu=True, bf16=False, max_steps=1, report_to="none", save_strategy="no",'
    changes = {
        "HuggingFaceTB/SmolLM2-135M-Instruct": str(tmp_path / "model"),
        'output_dir="summariser",': f"output_dir={str(tmp_path)!r}, {on_cpu}",
        "logging_steps=10": "logging_steps=1",
    }
    text = block
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    done = {}
    exec(text, done)
    (entry,) = [entry for entry in done["trainer"].state.log_history if "reward" in entry]
    shown = ["sms", "rougeL_f", "repetition"]
    assert {f"reward/{name}" for name in shown} | {"reward_std", "kl"} <= entry.keys()
    assert f"rewards/{done['reward'].__name__}/mean" in entry


def test_example_runs():
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--steps", "2", "--metric", "rougeL_f"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert [line.split(": mean rougeL_f ")[0] for line in lines] == ["step 1", "step 2"]
