"""A path may be text or `Path`, and one stands for a list of paths or names.

Both are settled where they enter: in the settings of a verb, in the door's functions of them, and
in what `sms` and `cluster` offer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import assay
import cluster
from pipelines.cli.app import app
from pipelines.settings.correlate import CorrelateSettings
from reffree.negatives import NegativesConfig
from reffree.scorers.scorer import load_scorer
from sms import ScoringConfig, score_texts
from sms.reward import Reward

SETTINGS = {
    (name, setting.name): setting
    for name, command in app.commands.items()
    for setting in getattr(command, "settings", ())
    if setting.form in ("one", "list") and setting.kind is str and setting.reader is None
}


@pytest.mark.parametrize(("verb", "name"), SETTINGS)
def test_one_name_or_several_and_text_or_path_are_a_setting(verb, name):
    setting = SETTINGS[verb, name]
    value = setting.choices[0] if setting.choices else "a/b.csv"
    expected = (value,) if setting.form == "list" else value
    several = [[value], (value,), iter([value])] if setting.form == "list" else []
    for given in [value, *([] if setting.choices else [Path(value)]), *several]:
        assert setting.checked(given) == expected


def test_path_may_be_text_or_path(tmp_path):
    (tmp_path / "corpus.csv").write_text("candidate\nA cat sat.\n")
    for call, file in (
        (load_scorer, "none"),
        (assay.status, "none"),
        (cluster.list_inputs, "corpus.csv"),
        (lambda path: cluster.write_whole(path, b""), "written"),
        (lambda path: assay.score(path, out=f"{path}-s", metrics="length").n_rows, "corpus.csv"),
    ):
        outcomes = []
        for given in (tmp_path / file, str(tmp_path / file)):
            try:
                outcomes.append(call(given))
            except ValueError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: NegativesConfig(kinds=x("delete")),
        lambda x: ScoringConfig(metrics=x("length")),
        lambda x: score_texts(["A cat."], metrics=x("length")).to_pydict(),
        lambda x: CorrelateSettings(ratings="r", levels=x("system")),
        lambda x: Reward("rouge1_f", encoder=x("minilm")).signature,
    ],
)
def test_one_name_or_several(call):
    expected = call(lambda name: [name])
    assert call(lambda name: name) == expected
    assert call(lambda name: (name,)) == expected
