"""A BERT of two layers and width 32, written as a model's folder, and pairs to train it on."""

import torch

from reffree.hashing import generator_of
from reffree.training_pairs.examples import Example
from tests.tiny_tokenizers import wordpiece

WORDS = [f"word{i}" for i in range(40)]


def write_tiny_bert(folder, *, n_positions=64, dropout=0.1):
    """Write a model's folder with weights that are the same every time."""
    from transformers import BertConfig, BertModel

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = wordpiece([" ".join(WORDS), "Aa bb cc."])
    tokenizer.save(str(folder / "tokenizer.json"))
    with torch.random.fork_rng():
        torch.manual_seed(7)
        config = BertConfig(
            vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=64, max_position_embeddings=n_positions,
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        )  # fmt: skip
        model = BertModel(config)
    model.save_pretrained(folder)
    return folder


def make_groups(n, *, seed=0):
    """Pairs whose reference repeats words of the source, each with the reference of another."""
    rng = generator_of("pairs", seed)
    drawn = [rng.permutation(WORDS)[: 3 + int(rng.integers(6))].tolist() for _ in range(n)]
    texts = [(" ".join(words * 2), " ".join(words[:3])) for words in drawn]
    return [
        [
            Example(f"d{i}", 0, "positive", 0, source, reference, 1.0, 0),
            Example(f"d{i}", 0, "cross-pair", 0, source, texts[(i + 1) % n][1], 0.0, 1),
        ]
        for i, (source, reference) in enumerate(texts)
    ]


class TinyData:
    """Prepared pairs with the same examples in every epoch."""

    def __init__(self, groups):
        self.groups, self.n_pairs = groups, {"train": len(groups)}

    def examples(self, side, negatives):
        return self

    def epoch(self, epoch):
        return self.groups

    def held_out(self):
        return self.groups[:4]
