"""What `assay score` prints when it is done."""

from pipelines.runs.score_run import ScoreRun
from pipelines.summary import MAX_SYSTEMS, summary_text


def summary_of(is_terminal=False, width=None, **changes):
    values = dict.fromkeys(("n_earlier_rows", "n_with_status", "n_duplicate_keys"), 0)
    values |= {name: {} for name in ("statuses", "signatures", "counters", "failed_shards")}
    values |= dict.fromkeys(("n_rows", "n_planned_rows"), 1_500)
    values |= dict.fromkeys(("n_shards", "n_new_shards"), 2)
    means = {"a": {"sms": 0.5, "length": 12.25}, "b": {"sms": float("nan"), "length": 8.0}}
    values |= {"out": "out", "scores": "out/scores", "means": means, "seconds": 75.0}
    run = ScoreRun(**values | {"metrics": ("sms", "length"), "is_strict": False} | changes)
    return summary_text(run, is_terminal=is_terminal, width=width)


def test_summary_by_hand():
    assert summary_of().splitlines() == [
        "Rows scored: 1,500 of 1,500 in 1 min 15 s",
        "Rows with a status: 0",
        "",
        "mean by system     sms  length",
        "a               0.5000   12.25",
        "b                    –    8.00",
        "Higher means closer, 0 to 1: sms",
        "Higher means longer: length",
        "",
        "Page: out/scores.html",
        "Scores: out/scores/part-*.parquet",
        "Signatures: out/run.json, and in the metadata of every scores file",
    ]


def test_summary_says_how_to_name_systems():
    text = summary_of(means={"system": {"sms": 0.5}})
    assert "add `--columns system_id=NAME`" in text
    assert "system_id" not in summary_of()


def test_summary_of_many_systems_and_statuses_says_how_many_more():
    means = {f"s{i:03}": {"wms@glove": i / 1e6} for i in range(MAX_SYSTEMS + 5)}
    statuses = {f"reason {i:02}": i + 1 for i in range(12)}
    failed = {1: "why"}
    text = summary_of(means=means, statuses=statuses, n_with_status=78, failed_shards=failed)
    lines = text.splitlines()
    assert sum(line.startswith("s0") for line in lines) == MAX_SYSTEMS
    assert "and 5 more systems; all are in out/run.json" in lines
    assert "s039            0.00003900" in lines
    assert "Higher means closer, 0 to 1: wms@glove" in lines
    assert "Rows with a status: 78\n  12  reason 11\n  11  reason 10\n" in text
    assert "  and 2 other statuses\n" in text
    assert "Failed shards: 1 of 2" in text


def test_summary_never_cuts_a_number_or_a_name():
    columns = {f"cosine@a-rather-long-encoder-name-{i}:source": 0.123456 for i in range(12)}
    for is_terminal in (False, True):
        text = summary_of(is_terminal, 60, means={"s": columns})
        assert ("…" in text, text.count("0.1235")) == (False, 12)


def test_summary_says_what_encoders_read():
    counters = {
        **{"minilm.tokens": 999, "minilm.sentences": 8_000, "minilm.cached": 5_040},
        **{"new.name.sentences": 3, "new.name.cached": 0, "idle.sentences": 0, "idle.cached": 0},
        **{"kept.sentences": 1_646, "kept.cached": 0, "kept.from_disk": 823},
        **{"glove.words": 100, "glove.unknown": 6, "few.words": 100, "few.unknown": 5},
        **{"minilm.truncated": 3, "lm.cut": 2, "none.cut": 0},
        **{"de.words": 100, "de.fragments": 21, "en.words": 100, "en.fragments": 20},
    }
    lines = summary_of(counters=counters).splitlines()
    assert sorted(lines[2 : lines.index("")]) == [
        "Sentences that kept had read before: 50% of 1,646, 823 of them on disk",
        "Sentences that minilm had read before: 63% of 8,000",
        "Sentences too long for minilm, which cut them: 3 of 8,000",
        "Texts too long for lm, which read a part of them: 2",
        "Words that de reads in fragments: 21% of 100",
        "Words unknown to glove, which are left out: 6% of 100",
    ]
