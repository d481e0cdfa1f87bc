"""Signatures: built from the configuration, and different whenever the numbers are."""

from __future__ import annotations

import hashlib
from importlib import metadata

import pytest

from sms.scoring import ScoringConfig, SummaryScorer
from sms.signature import version, without_content
from tests.sms.scoring_cases import glove_file

METRICS = ("sms", "wms", "s+wms", "cosine", "rougeL", "length", "novelty", "sms:source")


@pytest.fixture(scope="module")
def glove(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    return glove_file(path, {"cat": (1, 2), "dog": (3, 4)})


def hash_part(glove: str) -> str:
    with open(glove.partition(":")[2], "rb") as file:
        return f"hash:{hashlib.file_digest(file, 'blake2b').hexdigest()[:12]}"


def signatures(glove: str, **options) -> dict[str, str]:
    options = {"metrics": METRICS, "encoders": {"glove": glove}} | options
    return SummaryScorer(ScoringConfig(**options)).signatures


def test_signature_by_hand(glove):
    found = signatures(glove)
    sentencex = metadata.version("sentencex")
    split = f"lines1+english1+sentencex-{sentencex}"
    rules = f"norm:nfc+unmarked|lang:en|split:{split}|tok:v1|stop:nltk179+clitics|v:{version()}"
    encoder = f"enc:glove-small-2x2|pool:mean|oov:drop|{hash_part(glove)}"
    mover = "sim:exp-emd|cost:l2|weight:count|solver:exact"
    assert found["sms"] == f"sms|{encoder}|{mover}|ref:best|{rules}"
    assert found["sms:source"] == f"sms:source|{encoder}|{mover}|source:mean|first:all|{rules}"
    assert found["cosine"] == f"cosine|{encoder}|weight:kept-words|ref:best|{rules}"
    rouge = f"tok:rouge-score|stem:no|rouge-score-rs:{metadata.version('rouge-score-rs')}"
    assert found["rougeL_f"] == f"rougeL_f|{rouge}|ref:best|{rules}"
    assert found["length"] == f"length|detok:v1|{rules}"
    assert found["novelty"] == f"novelty|detok:v1|source:mean|first:all|{rules}"
    both = "ref:all|source:all|first:all"
    assert found["known_words@glove"] == f"known_words@glove|{encoder}|{both}|{rules}"


def test_every_column_has_a_signature_of_its_own_without_a_path(glove):
    config = ScoringConfig(metrics=METRICS, encoders={"glove": glove})
    found = SummaryScorer(config).signatures
    assert tuple(found) == config.columns
    assert len(set(found.values())) == len(found)
    folder = glove.partition(":")[2].rpartition("/")[0]
    assert not any(folder in signature for signature in found.values())


AGAINST_REFERENCES = {"sms", "wms", "s+wms", "cosine", "rougeL_p", "rougeL_r", "rougeL_f"}
# option, columns whose numbers it changes
CHANGES = {
    "multi_reference=mean": AGAINST_REFERENCES,
    "multi_reference=first": AGAINST_REFERENCES | {"known_words@glove"},
    "source_tokens=100": {"sms:source", "novelty", "known_words@glove"},
}


@pytest.mark.parametrize("option", CHANGES)
def test_setting_changes_the_signatures_of_the_numbers_it_changes(glove, option):
    name, _, value = option.partition("=")
    before = signatures(glove)
    after = signatures(glove, **{name: int(value) if value.isdigit() else value})
    assert {column for column in before if before[column] != after[column]} == CHANGES[option]
    preset = signatures(glove, preset="clark2019")
    assert not any(preset[c] == before[c] for c in before if not c.startswith("rouge"))


def test_signature_knows_files_of_one_name_by_their_content(tmp_path):
    paths = [tmp_path / folder / "v.txt" for folder in "ab"]
    for number, path in enumerate(paths, start=1):
        path.parent.mkdir()
        path.write_text(f"cat {number} 2\ndog 3 4\n")
    first, second = (signatures(f"glove:{path}") for path in paths)
    for column in ("sms", "cosine", "sms:source", "known_words@glove"):
        assert first[column] != second[column]
        assert without_content(first[column]) == without_content(second[column])
    assert first["rougeL_f"] == second["rougeL_f"]
    paths[1].write_bytes(paths[0].read_bytes())
    assert signatures(f"glove:{paths[1]}") == first


def test_average_names_every_encoder(glove, tmp_path):
    other = glove_file(tmp_path / "larger.txt", {"cat": (1, 2, 3), "dog": (3, 4, 5)})
    encoders = {"a": glove, "b": other}
    found = signatures(glove, metrics=("cosine@all", "cosine"), encoders=encoders)
    both = "|".join(
        f"enc:glove-{name}|pool:mean|oov:drop|{hash_part(path)}|weight:kept-words"
        for name, path in (("small-2x2", glove), ("larger-2x3", other))
    )
    assert found["cosine@all"].startswith(
        f"cosine@all|mean-of:2|{both}|ref:best|norm:nfc+unmarked|lang:en|"
    )
    turned = signatures(glove, metrics=("cosine@all",), encoders={"a": other, "b": glove})
    assert turned["cosine@all"] != found["cosine@all"]


def test_minilm_signature(glove):
    metrics = ("sms", "cosine", "sms@glove")
    found = signatures(glove, metrics=metrics, encoders={"minilm": "minilm", "glove": glove})
    encoder = "enc:all-MiniLM-L6-v2|layer:last|words:mean|oov:nfkc+drop|pool:mean+unit|hash:"
    assert found["sms"].startswith(f"sms|{encoder}")
    assert "|weight:all-words|ref:best|" in found["cosine"]
    assert "|weight:all-words|" not in found["sms"]
    assert "enc:glove-small" in found["sms@glove"]
    assert all(signature.endswith(f"|v:{version()}") for signature in found.values())
