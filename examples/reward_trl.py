"""Trains a summariser with sentence mover's similarity as its reward, by TRL's GRPO.

Needs the extra `reward` (`pip install 'assay[reward]'`). Without `--model` it makes a tiny random
model, which shows that everything fits together and learns nothing. Nothing is downloaded:

    python examples/reward_trl.py --steps 2
    python examples/reward_trl.py --steps 500 --model path/to/a/causal/model
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)
from trl import GRPOConfig, GRPOTrainer

from sms.reward import Reward

CORPUS = Path(__file__).with_name("quality_ladder.jsonl")
N_POSITIONS = 512


def summarisation_prompts(corpus: Path = CORPUS) -> Dataset:
    """Make a row per document: its prompt, and the references, which the reward reads."""
    rows = {}
    with corpus.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            prompt = f"{row['source']}\n\nSummary:"
            rows[row["document_id"]] = {"prompt": prompt, "references": row["references"]}
    return Dataset.from_list(list(rows.values()))


def tiny_model(texts: list[str]) -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """Make a random model of two layers that knows the words of some texts."""
    split = pre_tokenizers.Whitespace()
    words = sorted({word for text in texts for word, _ in split.pre_tokenize_str(text)})
    vocabulary = {word: i for i, word in enumerate(["<unk>", "<end>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = split
    config = GPT2Config(
        vocab_size=len(vocabulary),
        n_positions=N_POSITIONS,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=1,
        eos_token_id=1,
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<end>", pad_token="<end>"
    )
    return GPT2LMHeadModel(config), wrapped


def make_trainer(
    reward: Reward,
    prompts: Dataset,
    model: GPT2LMHeadModel,
    tokenizer: PreTrainedTokenizerFast,
    out: str,
    n_steps: int,
) -> GRPOTrainer:
    """Make a trainer that draws 4 summaries of each of 2 documents a step and rewards them."""
    config = GRPOConfig(
        output_dir=out,
        max_steps=n_steps,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=48,
        learning_rate=1e-5,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        bf16=False,
        use_cpu=True,
        seed=0,
    )
    return GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=reward,
        args=config,
        train_dataset=prompts,
    )


def main() -> None:
    """Train, and print the mean reward of each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--metric", default="sms", help="as in `assay metrics`")
    parser.add_argument("--encoder", default="minilm", help="as in `assay encoders`")
    parser.add_argument("--model", help="folder of a causal language model")
    options = parser.parse_args()

    prompts = summarisation_prompts()
    if options.model is None:
        model, tokenizer = tiny_model(prompts["prompt"])
    else:
        model = AutoModelForCausalLM.from_pretrained(options.model)
        tokenizer = AutoTokenizer.from_pretrained(options.model)
    reward = Reward(options.metric, encoder=options.encoder)
    with tempfile.TemporaryDirectory() as out:
        trainer = make_trainer(reward, prompts, model, tokenizer, out, options.steps)
        trainer.train()
    for entry in trainer.state.log_history:
        if "reward" in entry:
            print(f"step {entry['step']}: mean {reward.__name__} {entry['reward']:.4f}")  # noqa: T201
    print(reward.counters())  # noqa: T201


if __name__ == "__main__":
    main()
