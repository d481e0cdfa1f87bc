"""`score_corpus`: checks first, resumes what is missing, counts what came of it."""

import gc
import json
import math
import os
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipelines.score as MODULE
import sms.scoring
from cluster import run_local, start_processes
from cluster.manifest import Manifest, read_manifest
from pipelines.explain import open_explainer
from pipelines.runs import machines
from pipelines.runs.score_run import RunInterrupted
from pipelines.settings.explain import ExplainSettings
from pipelines.summary import summary_text
from sms.metrics import METRICS as METRICS_BY_NAME
from sms.scoring import SummaryScorer, score_texts
from tests.commands import page_of
from tests.pipelines.corpora import (
    METRICS,
    contents_of,
    files_of,
    rows_of,
    run_json,
    score,
    table_of,
)
from tests.row_files import write_rows


@pytest.fixture
def watched(monkeypatch):
    """Keeps the documents that scorers are shown; lets them fail or be interrupted at one."""
    told = SimpleNamespace(seen=[], n_made=0, fails_on=None, interrupts_on=None)

    class WatchedScorer(SummaryScorer):
        def __init__(self, *arguments, **options):
            told.n_made += 1
            super().__init__(*arguments, **options)

        def prepare(self, rows):
            documents = rows["document_id"].to_pylist()
            told.seen += documents
            if told.fails_on in documents:
                raise RuntimeError(f"cannot score {told.fails_on}")
            if told.interrupts_on in documents:
                raise KeyboardInterrupt
            return super().prepare(rows)

    monkeypatch.setattr("pipelines.fetched.SummaryScorer", WatchedScorer)
    return told


@pytest.fixture
def corpus(tmp_path):
    """Ten rows in five row groups."""
    return write_rows(tmp_path / "corpus.parquet", rows_of(10))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_run_by_hand(corpus, out):
    run = score(corpus, out)
    assert (run.n_rows, run.n_planned_rows, run.n_shards, run.n_new_shards) == (10, 10, 5, 5)
    assert (run.n_with_status, run.failed_shards) == (0, {})
    assert (run.is_complete, run.is_accepted) == (True, True)
    scores = table_of(out)
    assert run.to_arrow().equals(scores)
    # 2 words, then 2 more per row: the even rows are the first system's.
    assert (run.means["s0"]["length"], run.means["s1"]["length"]) == (10.0, 12.0)
    place = ["input_file", "input_row"]
    assert scores.column_names == ["document_id", "system_id", *METRICS, "status", *place]
    assert scores["input_row"].to_pylist() == list(range(10))
    assert scores["document_id"].to_pylist() == [f"d{i}" for i in range(10)]
    assert scores["rouge1_r"].to_pylist() == [0.5] + [1.0] * 9


def test_run_json_says_what_was_done(corpus, out):
    run = score(corpus, out, columns={"reference": "reference"})
    written = run_json(out)
    asked = written["configuration"]
    assert asked["metrics"] == list(METRICS)
    assert asked["columns"] == {"reference": "reference"}
    assert asked["precision"] == "auto"  # nothing depends on it
    assert written["signatures"] == run.signatures
    (file,) = written["inputs"]
    assert (file["path"], file["size"]) == (str(corpus), corpus.stat().st_size)
    assert [shard["n_rows"] for shard in written["shards"]] == [2] * 5
    for index, shard in enumerate(written["result"]["shards"]):
        assert (shard["index"], shard["attempts"]) == (index, 1)
        assert all(shard[name] for name in ("seconds", "node", "processor"))
        assert set(shard["stage_seconds"]) == {"read", "prepare", "compare", "write"}
    assert written["result"]["means"] == run.means
    metadata = pq.read_schema(next(out.glob("scores/*.parquet"))).metadata
    assert json.loads(metadata[b"assay.signatures"]) == run.signatures
    assert metadata[b"assay.fingerprint"].decode() == written["fingerprint"]


@pytest.fixture
def loaded(monkeypatch):
    """How encoders were loaded."""
    runtimes, load = [], sms.scoring.load_encoder

    def watched(spec, runtime):
        runtimes.append(runtime)
        return load(spec, runtime)

    monkeypatch.setattr(sms.scoring, "load_encoder", watched)
    return runtimes


def test_run_json_tells_of_shards_while_a_run_goes_on(corpus, out, monkeypatch):
    """So that time and node are known of what a driver had scored that is killed then."""
    monkeypatch.setattr(MODULE, "WRITE_EVERY_S", 0.0)
    monkeypatch.setattr(MODULE, "WRITE_SHARE", math.inf)
    told = []

    def look(progress):
        if progress.n_done == 8:
            told.extend(run_json(out)["result"]["shards"])

    score(corpus, out, on_progress=look)
    assert [shard["index"] for shard in told] == [0, 1, 2]
    assert all(shard["seconds"] > 0 and shard["node"] for shard in told)


def test_run_json_that_takes_long_to_write_is_seldom_written(corpus, out, monkeypatch):
    monkeypatch.setattr(MODULE, "WRITE_EVERY_S", 0.0)
    monkeypatch.setattr(MODULE, "WRITE_SHARE", 1e-6)
    written, write = [], MODULE.write_manifest

    def slow(*given):
        written.append(time.sleep(0.01))
        write(*given)

    monkeypatch.setattr(MODULE, "write_manifest", slow)
    score(corpus, out)
    assert len(written) == 1  # before the first shard; the last time is when the run is closed


def test_what_an_earlier_run_told_is_not_kept_in_memory(corpus, out):
    score(corpus, out)
    next(out.glob("scores/part-000003-*")).unlink()
    told = []

    def look(progress):
        if progress.n_rows:
            manifests = [one for one in gc.get_objects() if type(one) is Manifest]
            ours = [one for one in manifests if str(corpus) in (file.path for file in one.inputs)]
            told.append([len(one.result.get("shards", ())) for one in ours])

    assert score(corpus, out, on_progress=look).n_new_shards == 1
    assert [[0]] * len(told) == told != []


def test_error_that_ends_a_run_is_told_even_if_run_json_cannot_be_written(corpus, out, monkeypatch):
    def is_away(*_):
        raise OSError("cannot reach the store")

    def end(progress):
        if progress.n_done:
            monkeypatch.setattr(MODULE, "write_manifest", is_away)
            raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        score(corpus, out, on_progress=end)


def test_counts_of_encoders_are_summed(corpus, out):
    """Five shards of two candidates and the reference, which the first shard alone has not seen."""
    run = score(corpus, out, metrics=["cosine"])
    assert (run.counters["minilm.sentences"], run.counters["minilm.cached"]) == (15, 4)
    written = run_json(out)["result"]
    assert written["counters"] == run.counters
    assert [shard["counters"]["minilm.cached"] for shard in written["shards"]] == [0, 1, 1, 1, 1]
    next(out.glob("scores/part-000003-*")).unlink()
    again = score(corpus, out, metrics=["cosine"])
    assert again.n_new_shards == 1
    assert again.counters["minilm.cached"] == 3  # a new encoder's first shard


def test_means_are_those_of_the_scores_files_that_are_there(corpus, out):
    """A score that somebody has changed counts as it is now."""
    whole = score(corpus, out)
    part = sorted(out.glob("scores/*.parquet"))[1]
    table = pq.read_table(part)
    assert table["system_id"].to_pylist() == ["s0", "s1"]
    lengths = pa.array([table["length"][0].as_py() + 5.0, 1.0])
    pq.write_table(table.set_column(2, "length", lengths), part)
    assert score(corpus, out).means["s0"]["length"] == whole.means["s0"]["length"] + 1.0


def test_device_and_cache_reach_the_encoder_and_change_no_run(
    corpus, out, loaded, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    options = {"metrics": ["cosine"], "device": "cpu"}
    score(corpus, out, **options, embedding_cache="kept")
    (runtime,) = loaded  # with a path that is right wherever a worker is; `auto` is fp32 on a CPU
    found = (runtime.device, runtime.cache_folder, runtime.precision)
    assert found == ("cpu", str(tmp_path / "kept"), "fp32")
    assert score(corpus, out, **options).n_new_shards == 0
    assert "kept" not in (out / "run.json").read_text(encoding="utf-8")
    assert "device" not in run_json(out)["configuration"]
    with pytest.raises(ValueError, match=r"holds another run: `precision` was .*use `--fresh`"):
        score(corpus, out, **options, precision="bf16")


def test_driver_of_a_cluster_loads_no_encoder(corpus, out, loaded, monkeypatch):
    there = []

    def run_here(shards, make_scorer, job, on_report, **machines):
        return run_local(shards, make_scorer, job, on_report)

    def described_there(make_scorer, what, folder, options):
        there.append((folder, options.address, "assay" in options.versions))
        assert loaded == []
        return what(make_scorer(1))

    monkeypatch.setattr(machines, "run_ray", run_here)
    monkeypatch.setattr(MODULE, "describe_on_ray", described_there)
    where = {"local": False, "address": "head:6379", "device": "cpu"}
    assert score(corpus, out, metrics=["cosine"], **where).is_complete
    assert there == [(str(out), "head:6379", True)]
    assert len(loaded) == 2  # one for the description, one of the worker


def test_rows_with_a_status_counted_and_refused_when_strict(tmp_path, out):
    rows = rows_of(4)
    rows[1]["candidate"] = None
    rows[2]["candidate"] = " "
    path = write_rows(tmp_path / "some.jsonl", rows)
    path.write_text(path.read_text() + "\n{broken\n")
    run = score(path, out, strict=True)
    assert run.n_rows == 5
    assert run.n_with_status == sum(run.statuses.values()) == 3
    assert run.n_unreadable == 1
    assert run.is_complete
    assert not run.is_accepted
    assert (out / "_SUCCESS").exists()
    assert len(list(out.glob("errors/*.jsonl"))) == 1


@pytest.mark.skipif(find_spec("sudachipy") is None, reason="needs assay[ja]")
def test_row_that_cannot_be_split_costs_its_own_scores_and_no_other_bit(tmp_path):
    """SudachiPy has a limit, and reads three letters in each of these signs."""
    metrics, places = ("length", "rouge1_f", "rougeL_f"), ["document_id", "input_file", "input_row"]
    texts = [f"{noun}は東京で{3 * noun}回眠った。" for noun in "猫犬鳥海"]
    tables = []
    for some in (texts, [*texts[:2], "㌖" * 8_000, *texts[2:]]):
        rows = [{"candidate": text, "reference": "犬は学校で三回眠った。"} for text in some]
        path = write_rows(tmp_path / f"{len(some)}.jsonl", rows)
        run = score(path, tmp_path / f"{len(some)}", metrics=metrics, language="ja")
        tables.append(run.to_arrow().drop_columns(places).to_pylist())
    remark = {"system_id": "system", "status": "candidate:cannot_be_split"}
    assert tables[1].pop(2) == dict.fromkeys(metrics) | remark
    assert tables[0] == tables[1]


def test_duplicate_keys_counted(tmp_path, out):
    """Of 300 rows, 100 documents have one, 100 have two; rows without an id have no key."""
    rows = [{**rows_of(1)[0], "document_id": str(i % 200)} for i in range(300)]
    rows += [{**rows[0], "document_id": None}] * 2
    run = score(write_rows(tmp_path / "twice.parquet", rows, 400), out, rows_per_shard=15)
    assert (run.n_rows, run.n_duplicate_keys) == (302, 100)
    assert run_json(out)["result"]["n_duplicate_keys"] == 100
    assert "Duplicate keys (document_id, system_id): 100" in summary_text(run).splitlines()


def test_interrupted_run_goes_on_and_a_finished_one_is_not_scored_again(corpus, out, watched):
    watched.interrupts_on = "d4"
    with pytest.raises(RunInterrupted, match="2 of 5 shards are committed"):
        score(corpus, out)
    assert not (out / "_SUCCESS").exists()
    watched.interrupts_on = None
    watched.seen.clear()
    run = score(corpus, out)
    assert watched.seen == ["d4", "d5", "d6", "d7", "d8", "d9"]
    assert (run.n_rows, run.n_earlier_rows, run.n_new_shards) == (10, 4, 3)
    once = score(corpus, out.with_name("once"))
    assert (run.to_arrow(), run.means) == (once.to_arrow(), once.means)
    assert all(shard["seconds"] > 0 for shard in run_json(out)["result"]["shards"])
    before = contents_of(out)
    watched.seen.clear()
    again = score(corpus, out)
    assert (watched.seen, again.n_new_shards, again.n_rows) == ([], 0, 10)
    assert again.means == run.means
    assert contents_of(out) == before


def test_failed_shard_reported_the_others_scored(corpus, out, watched):
    watched.fails_on = "d2"
    run = score(corpus, out)
    assert watched.n_made == 3  # one, and one after each attempt but the last
    assert run.failed_shards == {1: f"RuntimeError: cannot score d2 [rows 2 to 3 of {corpus}]"}
    assert not run.is_complete
    assert (run.n_rows, run.n_new_shards) == (8, 4)
    assert not (out / "_SUCCESS").exists()
    watched.fails_on = None
    watched.seen.clear()
    assert score(corpus, out).is_complete
    assert watched.seen == ["d2", "d3"]


def test_fresh_replaces_only_the_earlier_run(corpus, out, watched):
    score(corpus, out)
    old = files_of(out)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    run = score(corpus, out, metrics=("length",), fresh=True)
    assert (run.n_new_shards, run.n_earlier_rows) == (5, 0)
    assert files_of(out) & old == {"run.json", "_SUCCESS"}
    assert "notes.txt" in files_of(out)
    assert table_of(out).column_names[2:4] == ["length", "status"]


def test_other_configuration_refused_and_nothing_touched(corpus, out):
    score(corpus, out)
    before = contents_of(out)
    for options, message in (
        ({"limit": 3}, "`limit` was null and is 3"),
        ({"rows_per_shard": 4}, "`rows_per_shard` was 2 and is 4"),
    ):
        with pytest.raises(ValueError, match=rf"holds another run: {message}.*use `--fresh`"):
            score(corpus, out, **options)
    assert contents_of(out) == before


def test_parquet_replaced_by_other_texts_with_an_equal_footer_refused(out, tmp_path):
    """Size, footer and time of change say nothing; the bytes do."""
    path = tmp_path / "corpus.parquet"

    def write(word):
        rows = [{**row, "candidate": f"{word} {row['document_id']}"} for row in rows_of(10)]
        table = pa.Table.from_pylist(rows)
        pq.write_table(table, path, 4, compression="none", write_statistics=False)
        os.utime(path, ns=(1, 1))
        return path.stat().st_size, path.read_bytes()[-1_000:]

    before = write("mats")
    score(path, out, rows_per_shard=4)
    (out / "_SUCCESS").unlink()
    sorted(out.glob("scores/*.parquet"))[1].unlink()
    assert write("cats") == before
    with pytest.raises(ValueError, match=r"input file changed: .*corpus\.parquet; use `--fresh`"):
        score(path, out, rows_per_shard=4)


def test_file_that_no_row_is_read_of_is_not_hashed(corpus, out, tmp_path):
    """A look at the first rows of a large corpus is quick, and what comes later may change."""
    more = tmp_path / "more.parquet"
    more.write_bytes(corpus.read_bytes())
    assert score([corpus, more], out, limit=3).n_rows == 3
    write_rows(more, rows_of(11))
    assert score([corpus, more], out, limit=3).n_new_shards == 0
    assert [file.path for file in read_manifest(str(out)).inputs] == [str(corpus)]


def test_input_that_changes_meanwhile_is_no_success(corpus, out):
    def append(progress):
        if progress.n_done == 10:
            write_rows(corpus, rows_of(10), 10)

    with pytest.raises(RuntimeError, match=r"corpus\.parquet while it was being scored"):
        score(corpus, out, on_progress=append)
    assert not (out / "_SUCCESS").exists()


def test_folder_of_something_else_refused(corpus, out):
    out.mkdir()
    partial = "progress.json.0a1b.partial"  # which a driver was writing that was killed
    for name in ("thesis.tex", partial):
        (out / name).touch()
    for fresh in (False, True):
        with pytest.raises(ValueError, match=r"not from an assay run \(thesis\.tex\)"):
            score(corpus, out, fresh=fresh)
    assert files_of(out) == {"thesis.tex", partial}
    (out / "thesis.tex").unlink()
    assert score(corpus, out).n_rows == 10


def test_output_inside_the_corpus_refused(corpus, out):
    said = "`--out` must not be inside the corpus"
    with pytest.raises(ValueError, match=said):
        score(corpus.parent, out)  # `out` does not exist yet
    score(corpus, out)
    with pytest.raises(ValueError, match=said):
        score(f"{corpus.parent}/**/*.parquet", out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "`workers` must be at least 1, got 0"),
        ({"limit": 0}, "`limit` must be at least 1, got 0"),
        ({"metrics": ("novelty",)}, "`source` or `sources` is missing .*which has"),
        ({"metrics": ("wms",), "encoders": {"a": "glove:/no/such.txt"}}, "/no/such.txt"),
    ],
)
def test_wrong_request_leaves_no_folder(corpus, out, options, message):
    with pytest.raises(ValueError, match=message):
        score(corpus, out, **options)
    assert not out.exists()


ONE = {name: [text] for name, text in rows_of(1)[0].items()}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**ONE, "candidate": [7]}, r"`candidate` in .*c\.parquet must be text"),
        ({"document_id": ["d"]}, r"missing in .*c\.parquet, which has document_id;"),
        ({name: pa.array([], pa.string()) for name in ONE}, "has no rows"),
        ("", "has no rows"),
        ("{\n[1]\n", r"no line of .*c\.jsonl is a JSON object"),
    ],
)
def test_wrong_corpus_rejected_before_anything_runs(tmp_path, out, content, message):
    path = tmp_path / ("c.jsonl" if isinstance(content, str) else "c.parquet")
    if isinstance(content, str):
        path.write_text(content)
    else:
        pq.write_table(pa.table(content), path)
    with pytest.raises(ValueError, match=message):
        score(path, out)
    assert not (out / "run.json").exists()


def test_progress_counts_rows_and_names_compiling(corpus, out, watched, monkeypatch):
    told = []
    monkeypatch.setattr(MODULE, "is_compiled", lambda: "d2" not in watched.fails_on)
    watched.fails_on = "d2"
    score(corpus, out, on_progress=told.append)
    assert [p.stage for p in told[:2]] == ["reading the inputs", "loading the metrics"]
    assert [(p.n_done, p.n_failed_shards) for p in told[2:]] == [
        (0, 0), (2, 0), (4, 0), (6, 0), (8, 0), (8, 1)
    ]  # fmt: skip
    assert ({p.n_rows for p in told[2:]}, told[2].stage) == ({10}, MODULE.COMPILING)
    watched.fails_on = ""
    told.clear()
    score(corpus, out, on_progress=told.append)
    assert {p.stage for p in told[2:]} == {"scoring"}
    assert [(p.n_done, p.n_earlier) for p in told[2:]] == [(8, 8), (10, 8)]


def test_two_processes_and_one_give_the_same_table(corpus, out, monkeypatch):
    """Workers find vectors by a path relative to the folder of the command, too."""
    vectors = corpus.with_name("vectors.txt")
    vectors.write_text("cats 1 0\nmats 0 1\nsat 1 1\n", encoding="utf-8")
    monkeypatch.chdir(vectors.parent)
    options = {"metrics": ("wms", "rougeL"), "encoders": {"tiny": f"glove:{vectors.name}"}}
    run = score(corpus, out, **options, local=False, workers=2)
    alone = score(corpus, Path(f"{out}-local"), **options)
    assert (run.to_arrow(), run.means) == (alone.to_arrow(), alone.means)
    assert files_of(out) == files_of(Path(f"{out}-local"))


@pytest.fixture
def many_rows(tmp_path):
    """As many rows as get workers without being asked for."""
    words = [f"{i % 7} cats sat on mats" for i in range(machines.ROWS_WORTH_WORKERS)]
    ids = {"document_id": list(map(str, range(len(words)))), "system_id": ["s"] * len(words)}
    table = pa.table({**ids, "candidate": words, "reference": words[::-1]})
    pq.write_table(table, tmp_path / "many.parquet")
    return tmp_path / "many.parquet"


@pytest.fixture
def started(monkeypatch):
    """Numbers of worker processes that are started, on a machine of two cores."""
    numbers = []

    def start(make_scorer, n_workers, *rest, **options):
        numbers.append(n_workers)
        return start_processes(make_scorer, n_workers, *rest, **options)

    monkeypatch.setattr(machines, "start_processes", start)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(machines, "memory_bytes", lambda: 8 << 30)  # a small one would have none
    return numbers


UNSAID = {"local": False, "workers": None, "rows_per_shard": None}


def test_many_rows_of_words_get_a_process_for_each_core(many_rows, out, started):
    metrics = ("length", "rouge1_f")
    run = score(many_rows, out, **UNSAID, metrics=metrics)
    assert started == [2]
    alone = score(many_rows, Path(f"{out}-local"), metrics=metrics, rows_per_shard=None)
    assert started == [2]
    assert run.to_arrow() == alone.to_arrow()


def triple_length(words, candidate):
    return 3.0 * words.lengths[candidate]


def test_metric_that_only_this_program_has_is_computed_here(many_rows, out, started, monkeypatch):
    ours = METRICS_BY_NAME["length"]
    for name, function in (
        ("mine", lambda *texts: 2 * triple_length(*texts)),
        ("my", triple_length),
    ):
        mine = replace(ours, name=name, columns=(name,), of_words=function)
        monkeypatch.setitem(METRICS_BY_NAME, name, mine)
        run = score(many_rows, out, **UNSAID, metrics=[name], fresh=True)
        assert set(run.to_arrow()[name].to_pylist()) == {30.0 if name == "mine" else 15.0}
    with pytest.raises(ValueError, match="workers cannot load what this program itself defines"):
        score(many_rows, out, **UNSAID | {"workers": 2}, metrics=["mine"], fresh=True)


def test_metric_put_in_the_place_of_ours_is_never_computed_elsewhere(
    many_rows, out, started, monkeypatch
):
    mine = replace(METRICS_BY_NAME["length"], of_words=triple_length)
    monkeypatch.setitem(METRICS_BY_NAME, "length", mine)
    run = score(many_rows, out, **UNSAID, metrics=["length"])
    assert (set(run.to_arrow()["length"].to_pylist()), started) == ({15.0}, [])
    with pytest.raises(ValueError, match="this program replaces Assay's `length`"):
        score(many_rows, out, local=False, workers=2, metrics=["length"], fresh=True)


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_corpus_of_given_sentences_scores_as_lists_do(tmp_path, out, format):
    candidates = [["cats sat"], ["cats sat", "dogs ran"]]
    references = [["dogs ran", "cats sat"]] * 2
    ids = {"document_id": ["d0", "d1"], "system_id": ["s", "s"]}
    table = pa.table({**ids, "candidate": candidates, "reference": references})
    path = write_rows(tmp_path / f"corpus.{format}", table.to_pylist())
    metrics = ("length", "rougeLsum_f")
    run = score(path, out, metrics=metrics, sentences="given")
    expected = score_texts(candidates, references, metrics=metrics, sentences="given")
    for name in (*metrics, "status"):
        assert run.to_arrow()[name].to_pylist() == expected[name].to_pylist()
    assert "|split:given|" in run.signatures["rougeLsum_f"]
    explainer = open_explainer(
        (), ExplainSettings(document="", metric="rougeLsum_f", scores=out)
    )  # reads the setting, and agrees
    (explained,) = explainer.explain({"d1": ()})["d1"]
    candidate = explained.explanation.candidate
    assert [unit.text for unit, _ in candidate.sentences()] == ["cats sat", "dogs ran"]
    assert "\x1e" not in page_of(explainer, "d1")


def test_folder_in_which_nothing_was_begun_can_be_used(tmp_path, out):
    """A command that converted its input and then found no rows, or was killed then."""
    path = tmp_path / "corpus.csv"
    path.write_text("document_id,system_id,candidate\n")
    with pytest.raises(ValueError, match="the corpus has no rows"):
        score(path, out, metrics=("length",))
    assert [each.name for each in out.iterdir()] == ["inputs"]
    path.write_text("document_id,system_id,candidate\nd,s,cats sat\n")
    assert score(path, out, metrics=("length",)).n_rows == 1
    assert not (out / "inputs").exists()
    (tmp_path / "other" / "inputs").mkdir(parents=True)
    (tmp_path / "other" / "inputs" / "mine.csv").touch()
    with pytest.raises(ValueError, match="holds files that are not from an assay run"):
        score(path, tmp_path / "other", metrics=("length",))
