"""Every command takes local paths, file:// and stores alike, or refuses one in one line.

In the tables `@NAME` is a file or folder in the place that a command reads from and writes to.
"""

import json
import os
import re
from uuid import uuid4

import polars as pl
import pytest

from cluster.listing import find_files
from cluster.store import join, open_input, write_whole
from pipelines.cli.app import app, run
from tests.object_stores import bucket_of, s3_environment

pytest.importorskip("moto", reason="no S3 server: install the extra `dev`")

N_PAIRS = 30
NOUNS = ("cats", "dogs", "hens", "cows", "pigs", "mice", "mats", "trees")
VERBS = ("sat", "ran", "ate", "slept", "swam", "hid", "sang")

# command, then the files or folders that it writes
COMMANDS = {
    "example": ("example --out @new", ["new/quality_ladder.jsonl", "new/written_quality.csv"]),
    "score": (
        "score @in/*.jsonl --out @new --metrics rouge1,length --local",
        ["new/_SUCCESS", "new/run.json"],
    ),
    "compare": (
        "compare @scores @scores --systems-a good --systems-b vague --out @new.csv",
        ["new.csv"],
    ),
    "correlate": (
        "correlate @scores --ratings @ratings.csv --out @new --resamples 20"
        " --metrics length --all-tables",
        [
            *("new/report.json", "new/correlations.csv", "new/correlations.parquet"),
            "new/report.html",
            *("new/tables/long/*.csv", "new/tables/long/*.parquet"),
        ],
    ),
    "judge": (
        "judge @in/*.jsonl --ratings @ratings.csv --out @new --resamples 20",
        ["new/rated.parquet", "new/report/correlations.parquet", "new/scores/_SUCCESS"],
    ),
    "explain": (
        "explain --scores @scores --document harbour-bridge --metric length --out @new.html",
        ["new.html"],
    ),
    "preferences": ("preferences @judgements.jsonl --out @new.md", ["new.md"]),
    "preferences, a sheet": (
        "preferences --make-sheet @in --systems good,vague --n 4 --out @new.csv",
        ["new.csv", "new.key.csv"],
    ),
    "preferences of a sheet": (
        "preferences @sheet.csv --key @sheet.key.csv --out @new.json",
        ["new.json"],
    ),
    "import": (
        "import summeval @summeval.jsonl --out @new.parquet --ratings @new-ratings.parquet",
        ["new-ratings.parquet", "new.parquet"],
    ),
    "negatives": ("negatives @pairs.jsonl --kinds delete --out @new.parquet", ["new.parquet"]),
    "evaluate": ("evaluate @scorer @pairs.jsonl --json @new.json", ["new.json"]),
    "export": (
        "export scorer @scorer --to @new --licence mit",
        ["new/README*", "new/scorer.json"],  # the card names the folder
    ),
    "reproduce": (
        "reproduce clark2019-table6 --out @new",
        [f"new/clark2019-table6.{suffix}" for suffix in ("csv", "json", "md")],
    ),
}
CASES = [(name, where) for name in COMMANDS for where in ("file", "s3")]
CASES += [("compare", "s3 of the URL"), ("score", "s3 of the URL")]
SLOW = {("judge", "s3"), ("correlate", "s3"), ("score", "s3 of the URL")}
FOLDERS_ONLY = {
    "train": "train @pairs.jsonl --out @new",
    "reinforce": "reinforce @pairs.jsonl --out @new",
    "score, vectors": "score @in --out local --embedding-cache @new --local",
    "reproduce, data": "reproduce sun2019-table1 --data @new",
    "reproduce, scorers": "reproduce bao2020-table1 --scorers @new",
}
ENCODERS = [
    "train @pairs.jsonl --out local --scorer word --encoder glove:@vectors.txt",
    "train @pairs.jsonl --out local --scorer sentence --encoder st:@encoder",
    "reinforce @pairs.jsonl --out local --vectors glove:@vectors.txt",
    "reinforce @pairs.jsonl --out local --model hf:@encoder",
    "reinforce @pairs.jsonl --out local --encoder glove:@vectors.txt",
]
ON_DISK = [
    (text, "be a folder, got s3://.*; name one on a disk.*") for text in FOLDERS_ONLY.values()
]
ON_DISK += [(text, "name files on a disk that all workers see, got .*") for text in ENCODERS]
NO_FILES = {"status", "metrics", "encoders"}  # `status` has tests on stores of its own


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What the commands read."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "in").mkdir()
    assert run(["example", "--out", str(folder)]) == 0
    os.rename(folder / "quality_ladder.jsonl", folder / "in" / "corpus.jsonl")
    os.rename(folder / "written_quality.csv", folder / "ratings.csv")
    told = [f"{NOUNS[i % 8]} {VERBS[i % 7]} by house {i}." for i in range(N_PAIRS)]
    pairs = {
        "document_id": [f"d{i}" for i in range(N_PAIRS)],
        "source": [f"The {each} Nobody saw it {i} times." for i, each in enumerate(told)],
        "reference": [f"Some {each} All was quiet." for each in told],
    }
    pl.DataFrame(pairs).write_ndjson(folder / "pairs.jsonl")
    judged = [
        {"document_id": f"d{i}", "system_a": "a", "system_b": "b", "winner": "ab"[i % 3 == 0]}
        for i in range(9)
    ]
    pl.DataFrame(judged).write_ndjson(folder / "judgements.jsonl")
    aspects = dict.fromkeys(("coherence", "consistency", "fluency", "relevance"), 3)
    annotations = {f"{pool}_annotations": [aspects] for pool in ("expert", "turker")}
    texts = {"id": "d", "model_id": "a", "decoded": "Hot.", "references": ["Hot."]}
    (folder / "summeval.jsonl").write_text(json.dumps(texts | annotations), encoding="utf-8")

    def do(text):
        words = [text.split()[0], *(word.replace("@", f"{folder}/") for word in text.split()[1:])]
        assert run(words) == 0

    do("score @in/corpus.jsonl --out @scores --metrics rouge1,length --local --quiet")
    do("preferences --make-sheet @in --systems good,vague --n 4 --out @sheet.csv")
    sheet = pl.read_csv(folder / "sheet.csv")
    filled = sheet.with_columns(pl.lit("left").alias(name) for name in ("focus", "overall"))
    filled.write_csv(folder / "sheet.csv")
    do("train @pairs.jsonl --out @scorer --split-anew --negatives delete --quiet")
    return folder


@pytest.fixture(scope="module")
def bucket(server, files):
    return bucket_of(server, files)


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch, server):
    """An empty working directory, in which nothing may appear, and the keys of the store."""
    folder = tmp_path / "working directory"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, value in s3_environment(server).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    yield
    assert os.listdir(folder) == []


@pytest.fixture
def places(files, bucket, server, tmp_path):
    """Folders with the files, by what they are called; writing is done elsewhere in them."""
    for name in os.listdir(files):
        (tmp_path / name).symlink_to(files / name)
    return {
        "path": str(tmp_path),
        "file": f"file://{tmp_path}",
        "s3": f"s3://{bucket}",
        "s3 of the URL": f"s3://{bucket}?endpoint_override={server}&scheme=http",
    }


@pytest.fixture
def two_metrics(monkeypatch):
    """Judge two metrics instead of all that are usual."""
    monkeypatch.setattr("pipelines.judge.USUAL", ("length", "rouge1"))


def words_of(text, place, new):
    """Put the place into a command, and the name of what is new."""
    return [
        re.sub("@(.*)", lambda name: join(place, re.sub("^new", new, name[1])), word)
        for word in text.split()
    ]


def matches_of(pattern, place, new):
    found, _ = find_files(join(place, re.sub("^new", new, pattern)))
    return {path.partition(new)[2].partition("?")[0]: path for path in found}


@pytest.mark.usefixtures("two_metrics")
@pytest.mark.parametrize(
    ("name", "where"),
    [pytest.param(*case, marks=pytest.mark.slow if case in SLOW else ()) for case in CASES],
)
def test_command_does_the_same_everywhere(places, where, name, monkeypatch, capsys):
    text, written = COMMANDS[name]
    new = f"new-{uuid4().hex}"
    assert run(words_of(text, places["path"], new)) == 0
    if where == "s3 of the URL":
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    capsys.readouterr()
    there = f"{new}-there"
    assert run(words_of(text, places[where], there)) == 0, capsys.readouterr().err
    for pattern in written:
        expected = matches_of(pattern, places["path"], new)
        found = matches_of(pattern, places[where], there)
        assert found.keys() == expected.keys()
        for file in found if pattern.endswith((".csv", ".md", ".jsonl")) else ():
            with open_input(found[file]) as stream, open(expected[file], "rb") as local:
                assert stream.read() == local.read()


@pytest.mark.parametrize(("text", "rule"), ON_DISK)
def test_what_must_be_on_a_disk_is_refused_before_anything_begins(
    places, proxy, text, rule, capsys
):
    assert run(words_of(text, places["s3"], "new")) == 2
    assert not proxy.weather.seen
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf"assay: `[a-z_-]+` must {rule}", line)


@pytest.mark.parametrize("name", [*COMMANDS, *FOLDERS_ONLY])
def test_place_that_is_not_known_is_refused_in_one_line(places, name, capsys):
    text = FOLDERS_ONLY.get(name) or COMMANDS[name][0]
    words = words_of(text, places["file"], "new")
    words = [re.sub(r"^file://.*/(?=new)", "ftp://host/", word) for word in words]
    assert run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "ftp://host/new" in line
    assert "must begin with one of file, s3" in line


def test_table_names_every_command():
    texts = [*(text for text, _ in COMMANDS.values()), *FOLDERS_ONLY.values()]
    assert {text.split()[0] for text in texts} | NO_FILES == set(app.commands)


@pytest.mark.slow
@pytest.mark.usefixtures("two_metrics")
def test_nothing_is_written_over_and_a_configuration_is_read_from_anywhere(places, capsys):
    new = f"new-{uuid4().hex}"
    for name in ("preferences, a sheet", "import", "negatives"):
        words = words_of(COMMANDS[name][0], places["s3"], f"{name[:3]}-{new}")
        assert run(words) == 0
        capsys.readouterr()
        assert run(words) == 2
        assert "must not exist yet" in capsys.readouterr().err
    words = words_of(COMMANDS["correlate"][0], places["s3"], new)
    assert run(words) == 0
    assert run(words) == 2
    assert "holds a report already; use `--fresh`" in capsys.readouterr().err
    assert run([*words[:-1], "--fresh"]) == 0  # without `--all-tables`
    with pytest.raises(FileNotFoundError):
        matches_of("new/tables/long/*", places["s3"], new)
    assert matches_of("new/report.json", places["s3"], new)
    write_whole(join(places["s3"], "config.toml"), b'metrics = "length"\nlocal = true\n')
    words = words_of("score @in --out @new --quiet --config @config.toml", places["s3"], f"s-{new}")
    assert run(words) == 0
    assert "length" in capsys.readouterr().out
