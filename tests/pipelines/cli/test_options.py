"""Options, files and functions made from settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import mypy.api
import pytest

from pipelines.cli.options import command
from pipelines.settings.form import Settings, as_options, keywords, settings_of
from sms.naming import AnyPath
from sms.options import models_of


@dataclass(frozen=True, kw_only=True)
class Toy(Settings):
    """Of a verb that there is not."""

    out: Annotated[AnyPath, "DIR"]
    """Where to write."""
    names: Sequence[str] = ("a", "b")
    """Some names."""
    sizes: Sequence[int] = ()
    """Some numbers."""
    columns: Mapping[str, str] | None = None
    """What a column is called."""
    way: Literal["here", "there"] = "here"
    """Which way."""
    workers: int | Literal["auto"] | None = None
    """How many."""
    share: Annotated[float, "P"] = 0.5
    """A share."""
    control: bool = True
    """Whether there is one."""
    side: Annotated[str, "--split"] = "test"
    """Which documents."""
    rows: Annotated[int | None, "rare"] = None
    """Rows at a time."""
    tables: Annotated[Mapping[str, Any] | None, "ALIAS=TABLE", "rare", models_of] = None
    """Tables by name."""
    on_news: Annotated[Callable[..., None] | None, "python"] = None
    """Told of news."""


@command(Toy, "PAIRS...")
def toy(pairs: tuple[str, ...], settings: Toy):
    """Return what has been read."""
    return pairs, settings


def call(*arguments):
    return toy.main(list(arguments), standalone_mode=False)


def test_a_command_line_by_hand():
    assert call("p", "--out", "o") == (("p",), Toy(out="o"))
    pairs, read = call(
        *("p", "q", "--out", "o", "--names", 'x, "y, z"', "--sizes", "5,10", "--workers", "auto"),
        *("--columns", "a=b", "--columns", "c=d,e=f", "--way", "there", "--no-control"),
        *("--share", "1", "--split", "all"),
    )
    assert pairs == ("p", "q")
    expected = {"out": "o", "names": ("x", "y, z"), "sizes": (5, 10), "way": "there"}
    expected |= {"columns": {"a": "b", "c": "d", "e": "f"}, "workers": "auto", "share": 1.0}
    expected |= {"control": False, "side": "all", "rows": None, "tables": None}
    expected |= {"on_news": None}
    assert vars(read) == expected


def test_file_has_the_keys_of_the_settings_and_the_line_wins(tmp_path):
    file = tmp_path / "toy.toml"
    file.write_text(
        'out = "o"\nnames = "x"\nside = "train"\nrows = 7\nshare = 1\nsizes = [1, 2]\n'
        "[columns]\na = 'x, \"y\"'\n"
    )
    _, read = call("p", "--config", str(file), "--share", "0.25")
    lists = {"names": "x", "sizes": [1, 2], "columns": {"a": 'x, "y"'}}
    assert read == Toy(out="o", side="train", rows=7, share=0.25, **lists)
    _, read = call("p", "--config", str(file), "--columns", "b=c")
    assert read.columns == {"b": "c"}
    file.write_text("on_news = 1\n")
    with pytest.raises(click.UsageError, match=r"unknown key `on_news` in .*; there are out, "):
        call("p", "--config", str(file))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"way": "ther"}, "`way` must be one of here, there, got 'ther'; did you mean `there`?"),
        ({"workers": "x"}, "`workers` must be a whole number or auto, got 'x'"),
        ({"sizes": ["x"]}, "`sizes` must be a whole number, got 'x'"),
        ({"control": 1}, "`control` must be true or false, got 1"),
        ({"columns": "a=b"}, "`columns` must be a table, got 'a=b'"),
    ],
)
def test_wrong_value_is_answered(given, message):
    with pytest.raises(ValueError, match="^" + message.replace("?", "[?]") + "$"):
        Toy(out="o", **given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["p"], "`--out DIR` is missing: where to write"),
        (["--out", "o"], "name at least one file, folder, glob or URL"),
        (["p", "--out", "o", "--tables", "a={x}"], "must be a name, `=` and a path or a table in"),
        (["p", "--out", "o", "--names", ","], "`--names` must name at least one, got `,`"),
        (["p", "--out", "o", "--columns", "a"], "`--columns` must be written OURS=THEIRS, got `a`"),
        (["p", "--out", "o", "--columns", "a=b,=c"], "OURS=THEIRS, got `=c`"),
        (["p", "--out", "o", "--columns", '"a=b'], 'must be in quotation marks, got `"a=b`'),
        (["p", "--out", "o", "--columns", '"a=b"c'], "must be in quotation marks"),
    ],
)
def test_wrong_command_is_answered(arguments, message):
    with pytest.raises((click.UsageError, ValueError), match=message):
        call(*arguments)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" a = b ,", "b"),
        ('"a=b, c",', "b, c"),
        ('"a=say ""b,c"""', 'say "b,c"'),
        ('a=say "b"', 'say "b"'),
        ("a=b=c", "b=c"),
    ],
)
def test_columns_may_have_any_name(text, name):
    _, read = call("p", "--out", "o", "--columns", text)
    assert read.columns == {"a": name}
    assert call("p", *as_options(read))[1] == read


def test_help_says_the_default_and_what_may_be_given(capsys):
    call("--help")
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "--out DIR Where to write. Required.",
        "--names LIST Some names. [default: a,b]",
        "--way here|there Which way. [default: here]",
        "--workers auto|N How many.",
        "--control / --no-control Whether",
    ):
        assert text in shown
    assert "--rows" not in shown
    call("--help-all")
    shown = capsys.readouterr().out
    assert "--rows N" in shown
    assert "--tables ALIAS=TABLE" in shown


TABLES = {"a": {"path": "x y, z", "words": ["p", 'q "r"'], "n": 1.5}, "b": {"path": "é=1"}}


def test_every_setting_can_be_written_as_an_option():
    given = Toy(out="o", rows=3, tables=TABLES, columns={"a": 'x, "y"'}, control=False, share=0.25)
    assert call("p", *as_options(given))[1] == given


def test_field_without_a_text_rejected():
    @dataclass(frozen=True, kw_only=True)
    class Silent(Settings):
        x: int = 1

    with pytest.raises(TypeError, match="the field `x` needs a text under it"):
        settings_of(Silent)


def test_keywords_are_those_of_the_settings():
    @keywords(Toy)
    def train(pairs, settings):
        """Train."""
        return pairs, settings

    for one in ("p", Path("p")):
        assert train(one, out="o", names="x") == ("p", Toy(out="o", names=("x",)))
    for several in ([Path("p")], ("p",), iter(["p"])):
        assert train(several, out="o")[0] == ["p"]
    assert list(inspect.signature(train).parameters) == ["pairs", *Toy.__dataclass_fields__]
    assert inspect.signature(train).parameters["share"].default == 0.5
    assert "share : float\n    A share." in train.__doc__


@pytest.mark.slow
def test_static_checkers_know_the_keywords(tmp_path):
    (tmp_path / "call.py").write_text("import assay\nassay.compare('a', 'b', seed='x', metrix='y')")
    options = ["--follow-imports", "silent", "--cache-dir", str(tmp_path)]
    said, _, _ = mypy.api.run([*options, str(tmp_path / "call.py")])
    assert 'Unexpected keyword argument "metrix"' in said
    assert 'Argument "seed" ' in said
