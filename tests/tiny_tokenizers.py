"""Tokenisers of a few hundred pieces, in two of the ways there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)


def wordpiece(texts: Iterable[str], *, pad_first: bool = True) -> Tokenizer:
    """Make one that knows the short words of some texts; the library's trainer varies."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    normal = map(tokenizer.normalizer.normalize_str, texts)
    split = tokenizer.pre_tokenizer.pre_tokenize_str
    words = sorted({word for text in normal for word, _ in split(text)})
    letters = sorted(set("".join(words)))
    first = ["[PAD]", "[CLS]"] if pad_first else ["[CLS]", "[PAD]"]
    special = [*first, "[SEP]", "[UNK]", "[MASK]"]
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters)]
    pieces += [word for word in words if 1 < len(word) < 10]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer.model = models.WordPiece(vocabulary, unk_token="[UNK]")
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(mark, vocabulary[mark]) for mark in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def byte_level(texts: Iterable[str], size: int, special: Sequence[str]) -> Tokenizer:
    """Train one of so many pieces of bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[*special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
