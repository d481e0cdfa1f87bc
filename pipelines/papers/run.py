"""`reproduce`: makes tables and figures of the papers again, and writes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cluster.output import Output
from cluster.store import is_url, local_folder
from pipelines.papers import bao2020, clark2019, summeval, sun2019
from pipelines.papers.bench import Bench
from pipelines.papers.comparison import Reproduction
from pipelines.papers.from_study import plot_files
from pipelines.papers.needs import Found, WeightsNeed
from pipelines.papers.printed import PrintedTable, printed_table
from pipelines.papers.target import Target
from pipelines.runs.progress import Progress
from sms.encoders.registry import parse_spec
from sms.naming import AnyPath, nearest, several

TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (*clark2019.TARGETS, *sun2019.TARGETS, *bao2020.TARGETS, summeval.TARGET)
}
"""Everything that can be made again, in the order of the papers."""
WORK_FOLDER = "work"
"""Of the output: what was imported and scored, for later runs."""
SCORERS_FOLDER = "scorers"
"""Of the output: scorers that were trained, unless `--scorers` names another folder."""


def reproduce(
    tables: str | Sequence[str],
    data: AnyPath | None = None,
    out: AnyPath | None = None,
    *,
    scorers: AnyPath | None = None,
    train: bool = False,
    encoders: Mapping[str, str] | None = None,
    device: str = "auto",
    seed: int = 0,
    fresh: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Reproduction]:
    """Make tables or figures of the three papers again, beside the published numbers.

    What can be computed from the data and weights that are there is computed; the rest is named
    in `Reproduction.missing`.

    Parameters
    ----------
    tables : str or sequence of str
        Names in `TARGETS`, such as "clark2019-table2".
    data : path, optional
        Folder with a data set's files, as its owner gives them out, in `NAME/`, or imported in
        `NAME.parquet` and `NAME_ratings.parquet`; and weights in `encoders/`.
    out : path, optional
        Folder or URL for `TABLE.md`, `.csv`, `.json` and figures. Figures need it. What is
        imported and scored stays in it, too, unless it is on a store.
    scorers : path, optional
        Folder of trained scorers.
    train : bool
        Train scorers that are not there, into `scorers`, or into `out` where that is not given.
    encoders : mapping of str to str, optional
        Specifications to take in the place of the paper's weights, by the alias that `needs_of`
        gives them.
    device : {"auto", "cpu", "cuda"}
    seed : int
        Of draws, splits and training.
    fresh : bool
        Import and score anew.
    on_progress : callable, optional
        Told what is being done.

    Returns
    -------
    list of Reproduction
        In the order asked for.

    Raises
    ------
    ValueError
        If the request is wrong, or nothing that a table needs is there.
    OSError
        If a file cannot be read or written.

    Examples
    --------
    >>> (table6,) = reproduce("clark2019-table6")
    >>> table6.frame().filter(criterion="overall", against="SMS", column="% ↑")["ours"].round(1)[0]
    67.8
    """
    targets = [find_target(name) for name in several(tables)]
    _check(targets, out, encoders or {}, scorers, trains=train)
    output = None if out is None else Output.named("out", out)
    if output is not None:
        output.check_folder()
    with _work_folder(output) as work:
        bench = Bench(
            data=_checked_folder("data", data),
            work=Path(work),
            encoders=dict(encoders or {}),
            scorers=_scorers_folder(scorers, output, trains=train),
            trains=train,
            device=device,
            seed=seed,
            tell=on_progress or (lambda _progress: None),
        )
        if fresh:
            bench.clear()
        results = []
        for target in targets:
            result = _made(target, bench)
            if output is not None:
                _write(result, output)
            results.append(result)
    return results


def needs_of(
    table: str,
    data: AnyPath | None = None,
    *,
    scorers: AnyPath | None = None,
    encoders: Mapping[str, str] | None = None,
) -> list[Found]:
    """Say what a table needs and what of it is there, without reading any of it.

    Parameters
    ----------
    table, data, scorers, encoders
        As in `reproduce`.

    Raises
    ------
    ValueError
        If there is no such table, or a specification is wrong.
    """
    target = find_target(table)
    _check_encoders([target], encoders or {})
    bench = Bench(
        data=_checked_folder("data", data),
        work=Path(),
        encoders=dict(encoders or {}),
        scorers=_scorers_folder(scorers, None, trains=False),
    )
    return [bench.find(need) for need in target.needs]


def find_target(name: str) -> Target:
    """Find a table or figure by its name.

    Raises
    ------
    ValueError
        If there is none; the message has the nearest name.
    """
    if name not in TARGETS:
        raise ValueError(f"no such table `{name}`; {nearest(name, TARGETS)}")
    return TARGETS[name]


def about(target: Target) -> PrintedTable:
    """Return what is printed of a target; of SummEval, on which there is nothing, its title."""
    if target.name == summeval.NAME:
        title = "Counterparts on SummEval of Clark Table 2, Sun Table 3 and Bao Tables 5 to 8"
        return PrintedTable(
            name=target.name, title=title, where="", labels=(), columns=(), cells=(), extra={}
        )
    return printed_table(target.name)


def _made(target: Target, bench: Bench) -> Reproduction:
    bench.missing, bench.differs = {}, {}
    bench.tell(Progress(stage=f"making {target.name}"))
    made = target.make(bench)
    if not (made.ours or made.figures):
        names = ", ".join(text.partition(" (")[0] for text in bench.missing)
        raise ValueError(
            f"nothing of {target.name} can be made: not there are {names}; "
            f"`assay reproduce {target.name} --dry-run` says where they belong"
        )
    return Reproduction(
        printed=about(target),
        ours=made.ours,
        differs=[*bench.differs, *target.differs, *made.differs],
        notes=made.notes,
        missing=list(bench.missing),
        figures=made.figures,
    )


def _check(
    targets: Sequence[Target],
    out: AnyPath | None,
    encoders: Mapping[str, str],
    scorers: AnyPath | None,
    *,
    trains: bool,
) -> None:
    if not targets:
        raise ValueError("`tables` must name at least one table, got none")
    _check_encoders(targets, encoders)
    for target in targets:
        if out is None and "figure" in target.name:
            raise ValueError(f"`out` must name a folder for {target.name}, which is a picture")
    if trains and scorers is None and out is None:
        raise ValueError("`scorers` or `out` must name a folder for the scorers that are trained")


def _check_encoders(targets: Sequence[Target], encoders: Mapping[str, str]) -> None:
    known = {
        need.alias: None
        for target in targets
        for need in target.needs
        if isinstance(need, WeightsNeed)
    }
    for alias, spec in encoders.items():
        if alias not in known:
            raise ValueError(
                f"`encoder` must name weights of these tables, got `{alias}`; "
                f"{nearest(alias, known)}"
            )
        parse_spec(spec)


def _checked_folder(option: str, folder: AnyPath | None) -> Path | None:
    if folder is None:
        return None
    local = local_folder(option, folder)
    if not local.is_dir():
        raise ValueError(f"`{option}` must be a folder, got {os.fspath(folder)}")
    return local


def _scorers_folder(scorers: AnyPath | None, out: Output | None, *, trains: bool) -> Path | None:
    if not trains:
        return _checked_folder("scorers", scorers)
    if scorers is not None:
        return local_folder("scorers", scorers)
    return None if out is None else out.local / SCORERS_FOLDER


def _work_folder(out: Output | None) -> AbstractContextManager[AnyPath]:
    if out is None or is_url(out.path):
        return tempfile.TemporaryDirectory(prefix="assay-")
    return nullcontext(out.local / WORK_FOLDER)


def _write(result: Reproduction, out: Output) -> None:
    """Write a table as Markdown, CSV and JSON, its figures as pictures with their numbers."""
    name = result.printed.name
    out.write(result.to_markdown().encode(), f"{name}.md")
    out.write(result.to_json().encode(), f"{name}.json")
    if result.printed.cells:
        out.write(result.frame().write_csv().encode(), f"{name}.csv")
    for figure in result.figures:
        out.write(figure.frame.write_csv().encode(), f"{figure.name}.csv")
        for suffix, content in plot_files(figure).items():
            out.write(content, f"{figure.name}{suffix}")
