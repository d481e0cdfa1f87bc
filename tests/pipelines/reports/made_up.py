"""A small result of `correlate`, made up, with names that would break a careless page."""

from itertools import combinations, product

from pipelines.tables.records import About, AgreementResult, InputRecord, table

METRICS = ["sms", "rouge_L", "<script>alert(1)</script>", "length"]
ASPECTS = ["relevance", "fluency & flow"]
SYSTEMS = ["M0", "M1", "M2", 'M3"><script>alert(2)</script>']
LEVELS = ["system", "summary", "global"]
COEFFICIENTS = ["pearson", "kendall_b"]
HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(3)> & \u202e"
P_BEST = {"rouge_L": 0.4321, "<script>alert(1)</script>": 0.0123, "length": 0.0002}
UNDEFINED_REASON = "scores are constant in every document"
PLACES = [*product(ASPECTS, LEVELS, COEFFICIENTS)]
COUNTS = {"n_systems": 4, "n_documents": 1234}


def value_of(metric, aspect, level, coefficient):
    """A different number for every row; None where the metric is undefined."""
    if (metric, level) == ("length", "summary"):
        return None
    m, a = METRICS.index(metric), ASPECTS.index(aspect)
    lv, c = LEVELS.index(level), COEFFICIENTS.index(coefficient)
    return 0.81234567 - 0.31 * m - 0.0217 * a - 0.101 * lv - 0.0531 * c


def around(value, below, above):
    """The value and its interval."""
    if value is None:
        return dict.fromkeys(("low", "high"))
    return {"low": value - below, "high": value + above}


def keyed(aspect, level, coefficient):
    return {"aspect": aspect, "level": level, "coefficient": coefficient}


def correlation_rows():
    for place, metric in product(PLACES, METRICS):
        value = value_of(metric, *place)
        is_defined = value is not None
        yield {
            **keyed(*place),
            **around(value, 0.1234, 0.0987),
            **COUNTS,
            "metric": metric,
            "value": value,
            "interval": "bootstrap-both" if is_defined else None,
            "p_value": 0.0004 if metric == "sms" else 0.0321,
            **{"n_cells": 4936, "n_missing": 7, "n_skipped": 3 if place[1] == "summary" else 0},
            "n_undefined": 13,
            "raters": "expert-*",
            "reason": None if is_defined else UNDEFINED_REASON,
            "is_baseline": metric == "length",
            "is_best": metric == "sms",
            "is_tied": metric in ("sms", "rouge_L"),
            "p_best": P_BEST.get(metric) if is_defined else None,
        }


def difference_rows():
    for place, (a, b) in product(PLACES, combinations(METRICS, 2)):
        value_a, value_b = (value_of(each, *place) for each in (a, b))
        is_defined = value_b is not None
        difference = value_a - value_b if is_defined else None
        p_values = {"p_value": 0.004, "p_holm": 0.024}
        row = {
            **keyed(*place),
            **around(difference, 0.1, 0.1),
            **(p_values if is_defined else dict.fromkeys(p_values)),
            **COUNTS,
            **{"metric_a": a, "metric_b": b, "value_a": value_a, "value_b": value_b},
            **{"difference": difference, "test": "perm-both", "against": "all"},
            "reason": None if is_defined else f"{b}: {UNDEFINED_REASON}",
        }
        yield row
        if b == "length":
            yield {**row, "against": "length"}
        if place[1:] == ("system", "pearson"):
            yield {**row, "test": "williams", "statistic": 1.5, "p_holm": 0.5}


def rater_rows():
    common = {"pool": "expert-*", "n_raters": 3, "n_units": 4936, "n_missing": 2}
    for aspect in ASPECTS:
        yield {**common, "aspect": aspect, "statistic": "krippendorff_alpha_ordinal", "value": 0.45}
        of_one = {"statistic": "leave_one_out_pearson", "level": "system", "value": 0.9123}
        yield {**common, "aspect": aspect, **of_one}


def system_rows():
    for i, system in enumerate(SYSTEMS):
        for kind, names in (("rating", ASPECTS), ("metric", METRICS)):
            for j, name in enumerate(names):
                mean = 3.0 + 0.25 * i + 0.01 * j
                row = {"system_id": system, "name": name, "kind": kind, "mean": mean}
                yield {**row, **around(mean, 0.2, 0.2), "n_documents": 1234}


def sample_size_rows():
    for aspect, metric, n_documents in product(ASPECTS, METRICS, (2, 20, 100)):
        mean = value_of(metric, aspect, "system", "pearson") - 1.0 / n_documents
        row = {**keyed(aspect, "system", "pearson"), "metric": metric, "n_documents": n_documents}
        yield {**row, "mean": mean, **around(mean, 0.1, 0.1), "n_draws": 50, "n_undefined": 0}


def disagreement_rows():
    for aspect, metric in product(ASPECTS, METRICS):
        yield {
            **{"aspect": aspect, "metric": metric, "document_id": "doc/1", "system_id": SYSTEMS[3]},
            **{"score": 0.5, "rating": 2.25, "score_rank": 1.0, "rating_rank": 0.25, "gap": 0.75},
        }


def power_rows():
    for aspect, metric in product(ASPECTS, METRICS):
        row = {"aspect": aspect, "metric": metric, **COUNTS, "limit": 0.7654}
        row |= {"systems_for_correlation": 29, "documents_for_correlation": None}
        row["reason"] = "no number of documents brings it that close"
        yield {**row, "value": value_of(metric, aspect, "system", "pearson")}


def make_result():
    """Four metrics, two aspects, three levels, two coefficients, four systems."""
    rows = {
        "correlations": correlation_rows(),
        "differences": difference_rows(),
        "raters": rater_rows(),
        "systems": system_rows(),
        "sample_size": sample_size_rows(),
        "disagreements": disagreement_rows(),
        "power": power_rows(),
    }
    about = About(
        command="assay correlate scores --ratings ratings.csv --out 'a & b'",
        version="0.1.0",
        libraries={"numpy": "2.4.0"},
        seed=17,
        n_resamples=999,
        confidence=0.95,
        inputs=[InputRecord(path="ratings.csv", bytes=4321, sha256="ab" * 32, role="ratings")],
        signatures={"sms": "sms|enc:<tiny>|v:0.1.0"},
        systems=SYSTEMS,
        excluded_systems=["reference"],
        raters="expert-*",
        n_documents=1234,
        n_rows=4929,
        main_level="system",
        main_coefficient="pearson",
        notes=["5 outputs are the same as another system’s <b>here</b>."],
    )
    tables = {name: table(name, each) for name, each in rows.items()}
    return AgreementResult(about=about, score_names=METRICS, aspects=ASPECTS, **tables)
