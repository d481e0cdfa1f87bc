"""Words that a tokeniser cuts into fragments, and languages whose words an encoder reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from sms.data_files import data_text
from sms.encoders.fragments import in_fragments
from sms.encoders.registry import load_encoder
from sms.language_codes import language_code
from sms.scoring import score_texts, share_read
from sms.text import Segmenter, TextRules
from sms.text.languages import language_of

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def segmented(*texts, language="und"):
    return Segmenter(TextRules(language=language)).segment(pa.array(texts))


def word_pieces(texts: str) -> Tokenizer:
    """Know the words of some texts whole, and all others letter by letter."""
    words = segmented(texts).vocabulary.words
    letters = sorted({*"".join(words), *"abcdefghijklmnopqrstuvwxyzäöüß"})
    vocabulary = [*MARKS, *letters, *(f"##{letter}" for letter in letters), *words]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def sentence_pieces(*words: str) -> Tokenizer:
    """Know some words whole, with the space before each, and all others by letters."""
    letters = sorted({*"".join(words), *"abcdefghijklmnopqrstuvwxyz"})
    pieces = [(mark, 0.0) for mark in MARKS]
    pieces += [("▁", -3.0), *((letter, -5.0) for letter in letters)]
    pieces += [(f"▁{word}", -1.0) for word in words]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


@pytest.fixture
def saved(tmp_path):
    """Write a tiny BERT around a tokeniser."""

    def folder(name: str, tokenizer: Tokenizer) -> Path:
        ends = [(mark, tokenizer.token_to_id(mark)) for mark in MARKS[2:]]
        tokenizer.post_processor = processors.BertProcessing(ends[1], ends[0])
        names = ("pad_token", "unk_token", "cls_token", "sep_token")
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, **dict(zip(names, MARKS, strict=True))
        ).save_pretrained(tmp_path / name)
        config = transformers.BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
        )
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(tmp_path / name)
        return tmp_path / name

    return folder


# word, pieces, whether they are fragments: letters divided by pieces, by hand
BY_HAND = [
    ("a", 1, False),
    ("Verfassung", 3, False),
    ("Verfassung", 4, True),
    ("конституция", 3, False),
    ("конституция", 4, True),
    ("دستور", 2, False),  # vowels are left out
    ("دستور", 3, True),
    ("संविधान", 3, False),  # vowels are marks
    ("संविधान", 4, True),
    ("헌법", 2, False),  # a letter is a syllable
    ("헌법", 3, True),  # its parts
    ("宪", 1, False),
    ("宪", 3, True),  # its bytes
    ("ሕገመንግሥት", 7, False),
    ("2026", 4, True),
]


@pytest.mark.parametrize(("word", "n_pieces", "expected"), BY_HAND)
def test_fragments_by_hand(word, n_pieces, expected):
    vocabulary = segmented(word).vocabulary
    assert vocabulary.words == [word]
    assert in_fragments(vocabulary, np.array([n_pieces])).tolist() == [expected]


def test_minilm_reads_english_and_no_german():
    encoder = load_encoder("minilm")
    texts = segmented("The constitution protects us. Bundesverfassungsgericht. Москва. 宪法")
    read = dict(zip(texts.vocabulary.words, encoder.read_words(texts).tolist(), strict=True))
    assert {word for word in read if read[word]} >= {"The", "constitution", "protects", "us"}
    assert not any(map(read.get, ("Bundesverfassungsgericht", "Москва", "宪法")))
    assert encoder.known_words(texts).sum() > encoder.read_words(texts).sum()


@pytest.mark.parametrize("kind", ["hf", "st"])
def test_space_before_a_word_is_no_piece(kind, saved):
    folder = saved("spaces", sentence_pieces("market", "an"))
    encoder = load_encoder(f"{kind}:{folder}")
    texts = segmented("market an at")
    assert texts.vocabulary.words == ["market", "an", "at"]
    assert encoder.pieces_of_words(texts).tolist() == [1, 1, 2]


def test_encoder_is_accepted_in_the_language_whose_words_it_has(saved):
    german = f"hf:{saved('german', word_pieces(language_of('de').samples()[0]))}"
    texts, how = ["Alle Menschen sind frei."], {"metrics": ("sms",), "encoders": german}
    assert score_texts(texts, texts, **how, language="de")["sms"].to_pylist() == [1.0]
    with pytest.raises(ValueError, match=r"must know Dutch, but it knows only"):
        score_texts(texts, texts, **how, language="nl")


def test_one_of_two_scripts_is_enough(saved):
    cyrillic, latin = language_of("sr").samples()
    assert "људска" in cyrillic
    assert "ljudska" in latin
    for text in (cyrillic, latin):
        encoder = f"hf:{saved(text[:2], word_pieces(text))}"
        score_texts(["Сва. Sva."], ["Сва."], metrics=("sms",), encoders=encoder, language="sr")


def test_samples_are_of_known_languages():
    lines = data_text("samples.tsv").splitlines()
    codes = [line.split("\t")[0] for line in lines]
    assert codes == sorted(codes)
    assert [language_code(code) for code in codes] == codes
    assert {
        "ru", "uk", "bg", "el", "pl", "cs", "tr", "fi", "hu", "pt", "it", "nl", "sv", "id", "vi",
        "sw", "hi", "bn", "ta", "ko", "he", "fa", "ur", "th", "am", "de", "fr", "es", "ar", "zh",
        "ja", "en",
    } <= {*codes}  # fmt: skip
    assert all(len(line.split("\t")[1]) > 75 for line in lines)


def test_encoder_without_a_word_to_read_is_not_refused():
    texts = segmented("... !")
    assert share_read(load_encoder("minilm"), texts) == 1.0
