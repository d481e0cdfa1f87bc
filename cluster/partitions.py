"""Columns that a file has in the names of its folders: `system_id=a/part.parquet`.

Spark, Hive, polars, DuckDB and pandas write such folders. All values are text here.
"""

from __future__ import annotations

from urllib.parse import unquote

from cluster.store import filesystem_for

_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_columns(path: str) -> dict[str, str | None]:
    """Return what the folders of a file say of all its rows, by column, the outermost first.

    Folders above one that says nothing do not count: they are where somebody keeps the data.

    >>> partition_columns("/lr=1/data/system_id=a%2Fb/year=__HIVE_DEFAULT_PARTITION__/0.parquet")
    {'system_id': 'a/b', 'year': None}
    """
    columns: list[tuple[str, str | None]] = []
    for folder in reversed(filesystem_for(path)[1].split("/")[:-1]):
        name, is_partition, value = folder.partition("=")
        if not (is_partition and name):
            break
        columns.append((unquote(name), None if value == _NULL else unquote(value)))
    return dict(reversed(columns))
