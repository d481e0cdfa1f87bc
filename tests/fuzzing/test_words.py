"""Texts that differ in a word that counts never score exactly 1, whatever the encoder knows.

Ten scripts that the default encoder's tokeniser does not know, words it does not know for other
reasons, and words it cannot tell apart, alone and among English ones.
"""

# ruff: noqa: RUF001  (letters that look like others are what this is about)

from __future__ import annotations

import numpy as np
import pytest

from sms import score_texts
from sms.scoring import ScoringConfig, SummaryScorer, to_rows

SCRIPTS = {
    "Amharic": "ፖሊስ ሌባ መንገድ ከተማ ባንክ",
    "Burmese": "ရဲ သူခိုး လမ်း မြို့ ဘဏ်",
    "Cherokee": "ᏗᏓᏂᏱᏍᎩ ᎦᏃᏍᎩᏍᎩ ᎦᎳᏅᏛ ᎦᏚᎲ",
    "Chinese": "捕 偷 察 银 释",
    "Gujarati": "પોલીસ ચોર શેરી શહેર બેંક",
    "Khmer": "ប៉ូលិស ចោរ ផ្លូវ ទីក្រុង ធនាគារ",
    "Lao": "ຕຳຫຼວດ ໂຈນ ຖະໜົນ ເມືອງ ທະນາຄານ",
    "Malayalam": "പോലീസ് കള്ളൻ തെരുവ് നഗരം ബാങ്ക്",
    "Telugu": "పోలీసు దొంగ వీధి నగరం బ్యాంకు",
    "Thai": "ตำรวจ โจร ถนน ธนาคาร",
}
"""Police, thief, street, city, bank; the tokeniser knows none of them."""
OTHERS = {
    "over 100 characters": " ".join(letter * 120 for letter in "abcde"),
    "accents": "ano año anó cote coté",
    "vowel signs": "कल कुल कूल दिन दीन",
    "mathematical letters": "𝐩𝐨𝐥𝐢𝐜𝐞 𝐭𝐡𝐢𝐞𝐟 𝐬𝐭𝐫𝐞𝐞𝐭 𝐜𝐢𝐭𝐲 𝐛𝐚𝐧𝐤",
    "full width": "ｐｏｌｉｃｅ ｔｈｉｅｆ ｓｔｒｅｅｔ ｃｉｔｙ ｂａｎｋ",
    "circled digits": "① ② ③ ④ ⑤",
    "ligatures": "ﬀord oﬀer oﬃce aﬀair eﬀect",
    "English": "police thief street city bank",
}
FRAMES = (
    "{}",
    "{}.",
    "{} {} {}",
    "The {} arrested the man near Boston.",
    "It was {}. The cat sat on the mat. It was {}, not {}.",
    "A man near Boston sells {} online. {} {}.",
)
NAMES = ("sms", "wms", "s+wms", "cosine")
METRICS = tuple(f"{name}@{alias}" for alias in ("minilm", "few") for name in NAMES)
N_PAIRS = 20


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "few.txt"
    path.write_text("man 1 2 0\nBoston 3 4 1\ncat 0 1 1\npolice 2 2 1\nthief 5 0 1\n", "utf-8")
    encoders = {"minilm": "minilm", "few": f"glove:{path}"}
    return SummaryScorer(ScoringConfig(metrics=METRICS, encoders=encoders))


def drawn_pairs(words, rng):
    """Fill frames with words; in the second text one word is another one."""
    for k in range(N_PAIRS):
        frame = FRAMES[k % len(FRAMES)]
        first = rng.choice(words, size=frame.count("{}")).tolist()
        second = list(first)
        place = int(rng.integers(len(first)))
        second[place] = rng.choice([word for word in words if word != first[place]])
        if sorted(first) != sorted(second):
            yield frame.format(*first), frame.format(*second)


@pytest.mark.parametrize("name", [*SCRIPTS, *OTHERS])
def test_texts_that_differ_in_a_word_never_score_1(name, scorer):
    words = (SCRIPTS | OTHERS)[name].split()
    first, second = zip(*drawn_pairs(words, np.random.default_rng(7)), strict=True)
    table = scorer.score(to_rows(first, references=second))
    for a, b, row in zip(first, second, table.to_pylist(), strict=True):
        for metric in METRICS:
            score = row[metric]
            assert score != 1.0, (a, b, metric)
            if score is None:
                alias = metric.partition("@")[2]
                reasons = (f"no_known_words@{alias}", f"same_to@{alias}")
                assert any(reason in row["status"] for reason in reasons)


@pytest.mark.parametrize("name", SCRIPTS)
def test_default_encoder_does_not_know_these_scripts(name, scorer):
    words = SCRIPTS[name].split()
    table = scorer.score(to_rows([*words, "The man."], references=[*words, "The man."]))
    *unknown, known = table.to_pylist()
    assert [row["coverage@minilm"] for row in unknown] == [0.0] * len(words)
    for row in unknown:
        assert {row[f"{name}@minilm"] for name in NAMES} == {None}
        for side in ("candidate", "reference"):
            assert f"{side}:no_known_words@minilm" in row["status"]
    assert (known["sms@minilm"], known["coverage@minilm"]) == (1.0, 1.0)


COMPATIBLE = ("mathematical letters", "full width", "circled digits", "ligatures")


@pytest.mark.parametrize("name", COMPATIBLE)
def test_compatibility_forms_are_known(name, scorer):
    table = scorer.score(to_rows(OTHERS[name].split(), references=["The man."] * 5))
    assert table["coverage@minilm"].to_pylist() == [1.0] * 5
    assert table["sms@minilm"].null_count == 0


def test_order_copies_case_and_width_are_no_other_words():
    text = "The 警察 arrested a man. Nobody saw the 小偷 there."
    same = [
        "Nobody saw the 小偷 there. The 警察 arrested a man.",
        f"{text} {text}",
        text.replace("Nobody", "nobody"),
        text.replace("man", "ｍａｎ"),
    ]
    rows = score_texts([text] * 4, same, metrics=NAMES).to_pylist()
    assert [row["status"] for row in rows] == [None] * 4
    for row in rows[:2]:
        for name in NAMES:
            assert row[name] == pytest.approx(1.0, abs=1e-5)
