"""Trained scorers on the Hugging Face hub: `hf:OWNER/NAME`, or one revision, `hf:OWNER/NAME@v1`.

A name is pinned to the commit that it means now, which everything then loads (`pinned_name`). Only
the files of a scorer are fetched, into the hub's own cache, and only a scorer that reads no other
model is accepted, so that nothing which lies there runs as code or leads elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from reffree.neural.building import TOKENIZER_FILE, TRANSFORMER_FILE
from reffree.scorers.folder import WEIGHTS_FILE, check_stands_alone, files_of, read_settings
from reffree.scorers.naming import HUB, SCORER_FILE
from sms.naming import counted
from sms.urls import keep_secret

CARD_FILE = "README.md"
MOST_BYTES = {
    SCORER_FILE: 16 << 20,
    TRANSFORMER_FILE: 1 << 20,
    TOKENIZER_FILE: 64 << 20,
    WEIGHTS_FILE: 8 << 30,
}
"""The files of a scorer, and the size of each from which on it is none."""
_OTHERS_MAY_HAVE = (".gitattributes", CARD_FILE, "LICENSE")
"""Files of a repository that is still empty."""
_NAME = re.compile(r"hf:([\w-][\w.-]*/[\w-][\w.-]*)(?:@(\w[\w./-]*))?", re.ASCII)
_COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubName:
    """Where a scorer is on the hub."""

    repository: str
    """`OWNER/NAME`."""
    revision: str | None = None
    """A branch, tag or commit; the newest commit where none is given."""

    @classmethod
    def read(cls, name: str) -> HubName:
        """Read `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`; `ValueError` if it is neither."""
        parts = _NAME.fullmatch(name)
        if parts is None:
            raise ValueError(
                f"a scorer on the hub must be written hf:OWNER/NAME or hf:OWNER/NAME@REVISION, got "
                f"`{name}`"
            )
        return cls(*parts.groups())

    def __str__(self) -> str:
        return f"{HUB}{self.repository}" + (f"@{self.revision}" if self.revision else "")

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit."""
        return bool(_COMMIT.fullmatch(self.revision or ""))

    @property
    def page(self) -> str:
        """Its page."""
        from huggingface_hub import constants

        return f"{constants.ENDPOINT}/{self.repository}"


# Fetching


def pinned_name(name: str, signature: str = "") -> str:
    """Fetch a scorer, and return its name with the commit: `hf:OWNER/NAME@COMMIT`.

    It is the commit in the `signature` of scores, if there is one.
    """
    hub = HubName.read(name)
    if known := re.search(rf"\|{HUB}{re.escape(hub.repository)}@({_COMMIT.pattern})", signature):
        hub = replace(hub, revision=known[1])
    return str(replace(hub, revision=fetch_scorer(str(hub)).name))


def fetch_scorer(name: str) -> Path:
    """Return the folder of a scorer in the hub's cache, which has the name of its commit.

    A commit that is there is not asked for again. Raises `ValueError` if there is no scorer, it is
    not accepted, or it is not in the cache and the hub cannot be reached.
    """
    hub = HubName.read(name)
    folder = _in_cache(hub) if hub.is_pinned else None
    folder = folder or _fetched(hub)
    check_stands_alone(folder, read_settings(folder))
    return folder


def cached_scorer(name: str) -> Path | None:
    """Return the folder of a scorer if it is in the hub's cache."""
    return _in_cache(HubName.read(name))


def _fetched(hub: HubName) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    try:
        info = huggingface_hub.HfApi().model_info(
            hub.repository, revision=hub.revision, files_metadata=True
        )
    except errors.GatedRepoError as error:
        raise ValueError(
            f"`{hub}` is for people who accept its conditions: accept them at {hub.page}, and log "
            "in with `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ValueError(
            f"`{hub}` is not on the hub, or is private; check the name, or log in with `hf auth "
            "login` with an account that may read it"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ValueError(
            f"`{HUB}{hub.repository}` has no revision `{hub.revision}`; {hub.page}/commits/main "
            "lists them"
        ) from error
    except Exception as error:  # what a hub out of reach raises depends on the library's version
        if folder := _in_cache(hub):
            return folder
        raise _out_of_reach(hub, error) from error
    _check_files(hub, {one.rfilename: one.size for one in info.siblings or ()})
    try:
        folder = _downloaded(hub)
    except Exception as error:
        raise _out_of_reach(hub, error) from error
    if folder.name != info.sha:
        raise ValueError(f"`{hub}` was changed while it was fetched; run the command again")
    return folder


def _check_files(hub: HubName, sizes: Mapping[str, int | None]) -> None:
    if SCORER_FILE not in sizes:
        raise ValueError(
            f"`{hub}` must hold a scorer that `assay export` uploaded, got no {SCORER_FILE}; check "
            "the name"
        )
    for name, most in MOST_BYTES.items():
        size = sizes.get(name, 0)
        if size is None or size > most:
            got = "an unknown size" if size is None else counted(size, "byte")
            raise ValueError(
                f"`{name}` of `{hub}` must have at most {most:,} bytes, got {got}; it is no "
                "scorer's file and was not fetched"
            )


def _downloaded(hub: HubName, **options: Any) -> Path:  # noqa: ANN401  (those of the library)
    import huggingface_hub

    with _without_bars():
        return Path(
            huggingface_hub.snapshot_download(
                hub.repository, revision=hub.revision, allow_patterns=[*MOST_BYTES], **options
            )
        )


def _in_cache(hub: HubName) -> Path | None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = _downloaded(hub, local_files_only=True)
    except LocalEntryNotFoundError:
        return None
    if not (folder / SCORER_FILE).is_file():
        return None
    is_whole = all((folder / name).is_file() for name in files_of(read_settings(folder)))
    return folder if is_whole else None


def _out_of_reach(hub: HubName, error: Exception) -> ValueError:
    from huggingface_hub import constants

    why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else type(error).__name__
    return ValueError(
        f"`{hub}` is not in {constants.HF_HUB_CACHE}, and the hub cannot be reached ({why}); where "
        f"it can, run `hf download {hub.repository} --local-dir DIR`, then give `reffree@DIR`"
    )


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep the library's progress bars off the terminal."""
    utils = import_module("huggingface_hub.utils")  # exports nothing as mypy wants it
    had_none = utils.are_progress_bars_disabled()
    utils.disable_progress_bars()
    try:
        yield
    finally:
        if not had_none:
            utils.enable_progress_bars()


# Uploading


def check_upload(name: str) -> HubName:
    """Check that somebody is logged in, and that a name is one to upload to."""
    import huggingface_hub
    from huggingface_hub import constants

    hub = HubName.read(name)
    if hub.revision is not None:
        raise ValueError(
            f"`--to` must be {HUB}OWNER/NAME without a revision, got `{name}`; an upload is a new "
            "commit"
        )
    if constants.HF_HUB_OFFLINE:
        raise ValueError(f"`--to {name}` needs the hub, but HF_HUB_OFFLINE is set; unset it")
    token = huggingface_hub.get_token()
    if token is None:
        raise ValueError(
            f"`--to {name}` needs an account on the hub: log in with `hf auth login`, or set "
            "HF_TOKEN"
        )
    keep_secret(token)
    return hub


def upload_scorer(folder: Path, name: str, *, is_private: bool) -> HubName:
    """Upload the files of a folder as one commit; return the name with it.

    The repository is made if it is not there. Files of a scorer that was there before go. Raises
    `ValueError` if nobody is logged in, may not write there, or something else is there.
    """
    import huggingface_hub

    hub, api = check_upload(name), huggingface_hub.HfApi()
    files = sorted(file.name for file in folder.iterdir())
    with _naming_refusal(hub):
        # None, not False: an organisation may have private as its default
        api.create_repo(hub.repository, private=is_private or None, exist_ok=True)
        info = api.model_info(hub.repository)
    there = {one.rfilename for one in info.siblings or ()}
    _check_place(hub, there, is_public=is_private and not info.private)
    gone = sorted(there & {*MOST_BYTES} - {*files})
    with _naming_refusal(hub):
        commit = api.create_commit(
            hub.repository,
            [
                *(huggingface_hub.CommitOperationDelete(file) for file in gone),
                *(huggingface_hub.CommitOperationAdd(file, folder / file) for file in files),
            ],
            commit_message="Upload a scorer by assay export",
            parent_commit=info.sha,
        )
    return replace(hub, revision=commit.oid)


def _check_place(hub: HubName, there: set[str], *, is_public: bool) -> None:
    """Refuse a repository that holds something else, or is public against the user's wish."""
    if SCORER_FILE not in there and (others := sorted(there - {*_OTHERS_MAY_HAVE})):
        raise ValueError(
            f"`{hub}` must be new, empty or a scorer, but holds {', '.join(others[:3])}; choose "
            "another name"
        )
    if is_public:
        raise ValueError(
            f"`{hub}` exists and is public; leave out `--private`, or choose another name"
        )


@contextmanager
def _naming_refusal(hub: HubName) -> Iterator[None]:
    """Say in one line why the hub takes nothing, whatever the library raises."""
    try:
        yield
    except Exception as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 401:
            why = "the hub does not know the token; log in again with `hf auth login`"
        elif status in (403, 404):
            why = (
                "the token may not write there; check OWNER (`hf auth whoami` says who you are), "
                "or log in with a token that may"
            )
        elif status == 412:
            why = "the repository was changed meanwhile; run the command again"
        else:
            said = getattr(error, "server_message", None) or str(error).partition("\n")[0]
            why = f"{type(error).__name__}: {said}; run the command again"
        raise ValueError(f"nothing was uploaded to `{hub}`: {why}") from error
