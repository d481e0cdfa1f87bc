"""Files, wherever they are: listing, opening, and writing one so that readers see all or nothing.

Paths are local, or URLs of a store that `pyarrow.fs` reads: `file://`, `s3://`, `gs://`, `hdfs://`.
A store is told who asks as its own tools are: by the environment (`AWS_ACCESS_KEY_ID`,
`GOOGLE_APPLICATION_CREDENTIALS`, ...), by profiles, or by the machine's role. URLs that hold
secrets are refused, since URLs end up in `run.json`, logs and process lists.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import ParamSpec, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from cluster.pipes import readable_path
from sms.naming import AnyPath, user_path
from sms.urls import check_no_secrets, is_url, redacted

SCHEMES = ("file", "s3", "gs", "gcs", "hdfs", "viewfs")
"""What a URL may begin with."""
S3_ATTEMPTS = 12
"""Of one request that is answered 503, or whose connection breaks or stalls, in either direction.

The waits of the SDK's default strategy are 25 ms, 50 ms, ..., so the last attempt comes after some
100 s. Its "standard" strategy is not used: its budget of retries is shared by all threads and
spent within seconds. Permanent answers (403, 404) are not tried again by either."""
NAMED_BY_STORE = ("etag:", "generation:")
"""How a version begins that a store gives to one content and to no other."""
GCS_RETRY_S = 100
"""How long the client of Google Cloud Storage tries again."""

_S3_OPTIONS = ("region", "scheme", "endpoint_override")
_OPTIONS = re.compile(r"\?(?=[A-Za-z_]\w*=[^/]*$)")  # not the `?` of a pattern
_FORBIDDEN = re.compile(
    r"HTTP status 40[13]|ACCESS_DENIED|FORBIDDEN|PERMISSION_DENIED|UNAUTHENTICATED|AccessDenied"
    r"|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|EXPIRED_TOKEN|Permission denied"
)
_FULL = {
    errno.ENOSPC: "no space is left",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "the limit of file sizes is too low",
}
_WHOLE_ON_CLOSE = (pafs.S3FileSystem, pafs.GcsFileSystem)  # an object appears when it is closed
_RENAMES = 3
_WITH_HOST = ("hdfs", "viewfs")
_HDFS_HINT = (
    "; HDFS needs Java and Hadoop's libhdfs: set `JAVA_HOME`, `HADOOP_HOME` and "
    "`CLASSPATH=$(hadoop classpath --glob)`"
)
_SAFE = "/:=,+~!$&'()*;@"  # in the path of a URL
_CUT_SHORT = "Failed to flush response stream"
_MOST_READINGS = 4
_TAIL_BYTES = 64 << 10
_PARQUET_TAIL = 8  # bytes: the length of the footer, then the magic

OnOpen: TypeAlias = Callable[[pa.NativeFile], object]
"""Looks at a file that has just been opened, and leaves it at its beginning."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class StorageFull(OSError):
    """There is no room for what a run writes; what is committed stays."""


def absolute(path: str) -> str:
    """Return a path that means the same in every process; URLs of stores stay what they are.

    >>> absolute("file:///data/a%20b.csv"), absolute("s3://bucket/a.csv")
    ('/data/a b.csv', 's3://bucket/a.csv')
    """
    is_local = not is_url(path) or path.partition("://")[0].lower() == "file"
    return os.path.abspath(filesystem_for(path)[1]) if is_local else path


def real_path(path: str) -> str:
    """Return what two names of a file or folder share: its absolute path without links, or URL."""
    whole = absolute(path)
    return whole if is_url(whole) else os.path.realpath(whole)


def local_folder(option: str, path: AnyPath) -> Path:
    """Return the absolute path of a folder that has to be on this machine.

    Raises `ValueError` if it is on a store.
    """
    check_location(os.fspath(path))
    folder = absolute(os.fspath(path))
    if is_url(folder):
        raise ValueError(
            f"`{option}` must be a folder, got {folder}; name one on a disk that all workers see"
        )
    return Path(folder)


def join(folder: str, *names: str) -> str:
    """Name a file in a folder; the options of a URL stay at its end.

    >>> join("s3://bucket/run?region=eu-west-1", "scores", "part")
    's3://bucket/run/scores/part?region=eu-west-1'
    """
    base, options = _split_options(folder)
    return "/".join([base.rstrip("/"), *names]) + options


def base_name(path: str) -> str:
    """Return the last part of a path or URL."""
    return _split_options(path)[0].rpartition("/")[2]


def parent(path: str) -> str:
    """Return the folder that a path or URL is in."""
    base, options = _split_options(path)
    return base.rpartition("/")[0] + options


def is_inside(path: str, folder: str) -> bool:
    """Say whether a file or folder is a folder, or in it, going by the names."""
    (theirs, inner), (ours, outer) = filesystem_for(path), filesystem_for(folder)
    return type(theirs) is type(ours) and f"{inner}/".startswith(f"{outer}/")


def url_like(given: str, inner: str) -> str:
    """Make a path that a filesystem returned into one like that by which it was asked.

    >>> url_like("s3://bucket/run?region=eu-west-1", "bucket/run/a b")
    's3://bucket/run/a%20b?region=eu-west-1'
    """
    if not is_url(given):
        return inner
    base, options = _split_options(given)
    scheme, _, rest = base.partition("://")
    start = rest.partition("/")[0]  # user and host, which some paths (HDFS) do not contain
    if scheme not in _WITH_HOST:
        start = start[: start.rfind("@") + 1]
    return f"{scheme}://{start}{quote(inner, safe=_SAFE)}{options}"


def check_location(path: str) -> None:
    """Refuse a URL that holds a secret, or is of a store that is not known.

    Raises `ValueError`, with the secret left out of the message.
    """
    if not is_url(path):
        return
    check_no_secrets(path)
    scheme = path.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise ValueError(f"{path} must begin with one of {', '.join(SCHEMES)}, got `{scheme}`")


def filesystem_for(path: str) -> tuple[pafs.FileSystem, str]:
    """Find the filesystem of a path or URL, and the path's name in it; `~` is written out.

    Raises `ValueError` if the URL holds a secret, or cannot be understood; `OSError` if the store
    cannot be used on this machine.
    """
    if not is_url(path):
        return pafs.LocalFileSystem(), os.path.abspath(user_path(path))
    check_location(path)
    base, options = _split_options(path)
    scheme, _, rest = base.partition("://")
    if scheme == "s3":
        inner = unquote(rest).rstrip("/")
        # where the environment says that S3 is, as for the AWS tools
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        return _s3(inner.partition("/")[0], options, endpoint), inner
    if scheme in ("gs", "gcs"):
        options += f"{'&' if options else '?'}retry_limit_seconds={GCS_RETRY_S}"
    authority, slash, inside = rest.partition("/")
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise ValueError(f"{path} must name a file of this machine, as in file:///folder/file")
        return pafs.LocalFileSystem(), unquote(f"/{inside}")
    try:
        known = _known_filesystem(f"{scheme}://{authority}/{options}")
    except (pa.ArrowInvalid, OSError) as error:
        hint = _HDFS_HINT if scheme in _WITH_HOST else ""
        raise OSError(f"cannot use {path}: {_first_line(error)}{hint}") from error
    if scheme in _WITH_HOST:
        return known, unquote(f"/{inside}")
    return known, unquote(f"{authority.rpartition('@')[2]}{slash}{inside}".rstrip("/"))


@lru_cache(maxsize=64)
def _known_filesystem(url: str) -> pafs.FileSystem:
    return pafs.FileSystem.from_uri(url)[0]


@lru_cache(maxsize=64)
def _s3(bucket: str, options: str, endpoint: str) -> pafs.S3FileSystem:
    """Connect to S3 or a store that speaks like it; `FileSystem.from_uri` can set no retries."""
    given = dict(parse_qsl(options.removeprefix("?")))
    if unknown := sorted(set(given) - set(_S3_OPTIONS)):
        raise ValueError(
            f"an s3:// URL may have the options {', '.join(_S3_OPTIONS)}, got `{unknown[0]}`"
        )
    place = given.get("endpoint_override", endpoint)
    scheme, _, place = place.rpartition("://")
    region = given.get("region") or os.environ.get("AWS_REGION")
    if region is None and not place:
        try:
            region = pafs.resolve_s3_region(bucket)
        except OSError as error:
            raise OSError(
                f"cannot find the region of s3://{bucket} ({redacted(str(error))}); set "
                "`AWS_REGION`, or `AWS_ENDPOINT_URL_S3` for a store that is not of AWS"
            ) from error
    return pafs.S3FileSystem(
        region=region,
        scheme=given.get("scheme", scheme or endpoint.rpartition("://")[0] or "https"),
        endpoint_override=place.rstrip("/") or None,
        retry_strategy=pafs.AwsDefaultS3RetryStrategy(max_attempts=S3_ATTEMPTS),
        allow_delayed_open=True,  # what fits into one request is one PUT
    )


def open_input(path: str) -> pa.NativeFile:
    """Open a file for reading at any position.

    Raises `FileNotFoundError` if there is no such file; `PermissionError` if it may not be read.
    """
    filesystem, inner = _readable(path)
    with naming(path):
        return filesystem.open_input_file(inner)


def _readable(path: str) -> tuple[pafs.FileSystem, str]:
    """Find the filesystem and the name of what is read, which for a pipe is a file."""
    filesystem, inner = filesystem_for(path)
    is_local = isinstance(filesystem, pafs.LocalFileSystem)
    return filesystem, readable_path(inner) if is_local else inner


def reads_again(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have a function that only reads do so again where S3 has cut an answer short.

    The SDK counts that failure, which passes, among those that do not, and tries nothing again.
    """

    @wraps(read)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for _ in range(_MOST_READINGS - 1):
            try:
                return read(*args, **kwargs)
            except OSError as error:
                if _CUT_SHORT not in str(error):
                    raise
        return read(*args, **kwargs)

    return call


def parquet_footer(stream: pa.NativeFile) -> bytes:
    """Read the footer of a Parquet file with the bytes after it; of any other file some end."""
    size = stream.size()
    tail = stream.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    n_bytes = int.from_bytes(tail[-_PARQUET_TAIL:-4], "little") + _PARQUET_TAIL
    if len(tail) < n_bytes <= size:
        tail = stream.read_at(n_bytes, size - n_bytes)
    return tail[-n_bytes:]


@reads_again
def read_whole(path: str) -> bytes:
    """Read a file that may be replaced at any time: all of the old one, or all of the new one.

    A store is asked for the size first and for the bytes then, and may have replaced the object in
    between. Raises `FileNotFoundError` if there is no such file.
    """
    while True:
        with open_input(path) as stream:
            before = version_of(stream, path)
            content: bytes = stream.read()
        with open_input(path) as stream:
            if version_of(stream, path) == before:
                return content


def version_of(stream: pa.NativeFile, path: str) -> str:
    """Say which content an open file has, as far as that costs nothing: etag, or times of change.

    Two equal answers mean the same content, unless a file was changed twice within the resolution
    of its filesystem's clock. Locally that is also the clock of the inode, which nobody can set
    back; it moves on when the file is only linked to.
    """
    metadata = stream.metadata() or {}
    for name in ("ETag", "etag", "generation"):
        if value := metadata.get(name):
            return f"{name.lower()}:{value.decode()}"
    filesystem, inner = _readable(path)
    if isinstance(filesystem, pafs.LocalFileSystem):
        about = os.stat(inner)
        return f"stat:{about.st_mtime_ns}:{about.st_ctime_ns}:{about.st_size}"
    return f"mtime:{filesystem.get_file_info(inner).mtime_ns}:{stream.size()}"


def file_sizes(folder: str) -> dict[str, int]:
    """List the files right inside a folder, and their bytes; none where there is no folder."""
    filesystem, inner = filesystem_for(folder)
    with naming(folder):
        infos = filesystem.get_file_info(pafs.FileSelector(inner, allow_not_found=True))
    return {info.base_name: info.size for info in infos if info.type == pafs.FileType.File}


def list_names(folder: str) -> list[str]:
    """List the names of the files right inside a folder; none where there is no folder."""
    return sorted(file_sizes(folder))


def delete_file(path: str) -> None:
    """Delete a file, if it is there; of a link, the link."""
    filesystem, inner = filesystem_for(path)
    with naming(path):
        if isinstance(filesystem, pafs.LocalFileSystem):
            Path(inner).unlink(missing_ok=True)
        else:
            _delete(filesystem, inner)


def check_no_links(folder: str, *inside: str) -> None:
    """Check that what a run writes in its folder stays there.

    The folder itself may be a link, since its owner chose it. Somebody who may write in the folder
    can still plant a link just after this check. Raises `ValueError` if one of the names `inside`
    is a link.
    """
    filesystem, inner = filesystem_for(folder)
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return
    for name in inside:
        path = os.path.join(inner, name)
        if os.path.islink(path):
            raise ValueError(
                f"{path} must not be a link, got one to {os.readlink(path)}; nothing is written "
                "or deleted outside of the output folder, so remove the link"
            )


def storage_full(error: OSError, what: str) -> StorageFull | None:
    """Say what there is no room for, if that is what an error says."""
    if error.errno not in _FULL:
        return None
    return StorageFull(
        f"{_FULL[error.errno]} for {what}; make room and run the same command again; "
        "committed shards are kept"
    )


def write_whole(path: AnyPath, payload: bytes | pa.Buffer) -> None:
    """Write `payload` so that readers see all of it or nothing.

    Locally it is written aside, flushed to the disk, then renamed; a link of that name is
    replaced, not followed. S3 and Google Cloud Storage publish an object when its upload is
    complete: one PUT, or above 10 MB one upload in parts, of which nothing is seen before the
    last step. HDFS shows files that are still being written, so there too it is written aside.
    The folder is made when missing; writing the same file twice is harmless. Raises `StorageFull`
    if there is no room, `PermissionError` if it may not be written.
    """
    path = os.fspath(path)
    filesystem, inner = filesystem_for(path)
    with naming(path):
        if isinstance(filesystem, pafs.LocalFileSystem):
            _write_local(Path(inner), payload)
        elif isinstance(filesystem, _WHOLE_ON_CLOSE):
            stream = filesystem.open_output_stream(inner)
            stream.write(payload)
            stream.close()  # not a `with`: leaving it by an exception would publish what it has
        else:
            _write_and_move(filesystem, inner, payload)


def move_whole(file: Path, path: str) -> None:
    """Move a local file that is complete to its place, as `write_whole` writes one.

    A local `path` is on the same disk; the folder is made when missing.
    """
    filesystem, inner = filesystem_for(path)
    if not isinstance(filesystem, pafs.LocalFileSystem):
        with pa.memory_map(str(file)) as source:
            write_whole(path, source.read_buffer())
        return
    with naming(path):
        Path(inner).parent.mkdir(parents=True, exist_ok=True)
        _put_in_place(file, Path(inner))


def _write_local(path: Path, payload: bytes | pa.Buffer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")
    try:
        with partial.open("xb") as stream:
            stream.write(payload)
        _put_in_place(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _put_in_place(file: Path, path: Path) -> None:
    """Flush a file that is complete to the disk, then rename it."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
    file.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # so that the rename itself survives a power cut
    finally:
        os.close(folder)


def _write_and_move(filesystem: pafs.FileSystem, inner: str, payload: bytes | pa.Buffer) -> None:
    """Write aside, delete the old file and rename (HDFS cannot rename onto a file)."""
    filesystem.create_dir(inner.rpartition("/")[0], recursive=True)
    partial = f"{inner}.{uuid4().hex}.partial"
    try:
        stream = filesystem.open_output_stream(partial)
        stream.write(payload)
        stream.close()
        for left in reversed(range(_RENAMES)):  # somebody may write the same file just now
            _delete(filesystem, inner)
            try:
                filesystem.move(partial, inner)
                break
            except OSError:
                if not left:
                    raise
    except BaseException:
        _delete(filesystem, partial)
        raise


def _delete(filesystem: pafs.FileSystem, inner: str) -> None:
    """Delete a file, if it is there; HDFS has no error of its own for one that is not."""
    if filesystem.get_file_info(inner).type == pafs.FileType.File:
        filesystem.delete_file(inner)


def _split_options(path: str) -> tuple[str, str]:
    """Cut a URL before the `?` of its options; a local path has none."""
    at = _OPTIONS.search(path) if is_url(path) else None
    return (path, "") if at is None else (path[: at.start()], path[at.start() :])


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Say in one line what could not be reached, without secrets."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise ValueError(f"the name of a file must be UTF-8, got {path!a}; rename it") from error
    except FileNotFoundError as error:
        raise FileNotFoundError(f"no such file: {path}") from error
    except OSError as error:
        if full := storage_full(error, path):
            raise full from error
        if not is_url(path):
            raise
        reason = _first_line(error)
        if _FORBIDDEN.search(reason):
            raise PermissionError(
                f"no permission for {path} ({reason}); check the credentials and the bucket"
            ) from error
        raise OSError(f"cannot reach {path} ({reason})") from error


def _first_line(error: Exception) -> str:
    return redacted((str(error) or type(error).__name__).splitlines()[0])
