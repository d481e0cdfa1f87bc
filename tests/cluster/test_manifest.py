"""The folder of a run: fingerprint, `run.json` and back, differences in words, what is ours."""

from dataclasses import replace

import pytest

from cluster import InputFile, Piece, Shard
from cluster.manifest import (
    Manifest,
    delete_own_files,
    differences,
    read_manifest,
    refusal,
    write_manifest,
)
from pipelines.score import is_only_more_metrics

FILE = InputFile("/data/a.jsonl", 120, "ab12")
PIECE = Piece(path="/data/a.jsonl", first_row=0, n_rows=3, text_bytes=120)
MANIFEST = Manifest(
    configuration={"metrics": ["sms", "wms"], "limit": None, "precision": "fp32"},
    signatures={"sms": "sms|enc:glove"},
    encoders={"glove": "c0ffee"},
    versions={"assay": "0.1.0", "numpy": "2.4.0"},
    inputs=[FILE],
    shards=[Shard(index=0, pieces=(PIECE,))],
)


def with_configuration(**changes):
    return replace(MANIFEST, configuration={**MANIFEST.configuration, **changes})


NEWER = {"versions": {"assay": "0.1.0", "numpy": "2.5.1"}}
OTHER_VECTORS = {"encoders": {"glove": "x"}}
OTHER_FILE = {"inputs": [replace(FILE, content="cd34")]}
ONE_MORE = {"inputs": [FILE, InputFile("/data/b.jsonl", 1, "ef")]}
ANOTHER_WAY = {"signatures": {"sms": "sms|enc:glove|v:2"}}
# what changes, what is said about it
CHANGES = [
    (with_configuration(metrics=["sms"]), '`metrics` was ["sms", "wms"] and is ["sms"]'),
    (with_configuration(language="de"), '`language` was absent and is "de"'),
    (replace(MANIFEST, **OTHER_VECTORS), "the vectors of encoder `glove` have changed"),
    (replace(MANIFEST, **ANOTHER_WAY), "`sms` would now be computed in another way"),
    (replace(MANIFEST, **NEWER), "numpy was 2.4.0 and is 2.5.1"),
    (replace(MANIFEST, **OTHER_FILE), "input file changed: /data/a.jsonl"),
    (replace(MANIFEST, **ONE_MORE), "input file added: /data/b.jsonl"),
    (replace(MANIFEST, inputs=[], shards=[]), "input file removed: /data/a.jsonl"),
]


@pytest.mark.parametrize(("changed", "expected"), CHANGES)
def test_differences_name_what_changed(changed, expected):
    assert differences(MANIFEST, changed) == [expected]
    assert changed.fingerprint != MANIFEST.fingerprint


def test_metrics_may_be_added_if_all_else_is_the_same():
    more = replace(
        with_configuration(metrics=["wms", "length", "sms"]),
        signatures={**MANIFEST.signatures, "length": "length"},
        encoders={**MANIFEST.encoders, "more": "ab"},
    )
    assert is_only_more_metrics(MANIFEST, more)
    assert not is_only_more_metrics(MANIFEST, MANIFEST)
    limited = {"configuration": {**more.configuration, "limit": 5}}
    for change in (limited, {"signatures": {"length": "length"}}, OTHER_VECTORS, NEWER, OTHER_FILE):
        assert not is_only_more_metrics(MANIFEST, replace(more, **change))


def test_fingerprint_ignores_what_scores_do_not_depend_on():
    same = with_configuration(**dict(reversed(MANIFEST.configuration.items())))
    same = replace(same, result={"n_rows": 3})
    assert same.fingerprint == MANIFEST.fingerprint
    assert differences(MANIFEST, same) == []


def test_manifest_survives_its_file(tmp_path):
    write_manifest(str(tmp_path), MANIFEST)
    assert read_manifest(str(tmp_path)) == MANIFEST  # and so its fingerprint
    assert read_manifest(str(tmp_path / "new")) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"format": 6', r"run\.json is damaged .* choose another folder"),
        ('{"format": 6}', r"run\.json is damaged .* choose another folder"),
        ("[]", r"run\.json is damaged .* choose another folder"),
        ("", r"run\.json is damaged .* choose another folder"),
        ('{"format": 99}', "has format 99, but this version of assay reads"),
    ],
)
def test_foreign_or_damaged_run_json_rejected(tmp_path, data, message):
    (tmp_path / "run.json").write_text(data)
    with pytest.raises(ValueError, match=message):
        read_manifest(str(tmp_path))


def test_refusal_is_one_line_and_shows_the_first_differences():
    changed = with_configuration(a=1, b=2, c=3, d=4)
    assert refusal("scores", MANIFEST, changed) == (
        "scores holds another run: `a` was absent and is 1; `b` was absent and is 2; "
        "`c` was absent and is 3; and 1 more; use `--fresh` to replace it, or another `--out` "
        "folder"
    )


def test_own_files_deleted_and_no_others(tmp_path):
    ours = [
        "_SUCCESS",
        "scores/part-000000-0123456789ab.parquet",
        "scores/part-1000000-0123456789ab.parquet.0f0f.partial",
        "errors/part-000000-0123456789ab.jsonl",
    ]
    others = ["run.json", "notes.txt", "scores/part-0.parquet", "scores/mine.parquet"]
    for name in ours + others:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    delete_own_files(str(tmp_path))
    left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert left == set(others)
