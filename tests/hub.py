"""A stand-in of the Hugging Face hub's HTTP interface, for models: upload by commits, download.

It speaks what `huggingface_hub` asks for, over a socket of this machine, and keeps all in memory.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

TOKEN = "hf_of_somebody_who_may_write"
READER = "hf_of_somebody_who_may_read"
"""Of an account that owns nothing."""
LFS_FROM_BYTES = 20_000


@dataclass
class Repository:
    is_private: bool = False
    is_gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Files by commit, oldest first."""
    refs: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes]) -> str:
        content = [*self.commits, *files, *(data.hex() for data in files.values())]
        sha = hashlib.sha1("\0".join(content).encode()).hexdigest()
        self.commits[sha] = files
        self.refs["main"] = sha
        return sha

    def sha_of(self, revision: str) -> str | None:
        return self.refs.get(revision, revision if revision in self.commits else None)


class Hub:
    """The state, and the server; `asked` are its requests."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.lfs: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.sizes: dict[str, int] = {}
        """What it says of the size of files instead of the truth, by path."""
        self.refuses_commits = False
        hub = self

        class Handler(_Handler):
            state = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, files: dict[str, bytes], **of_repository: bool) -> str:
        """Commit files to a repository, which is made if there is none; return the commit."""
        repository = self.repositories.setdefault(name, Repository(**of_repository))
        return repository.commit(files)

    def files(self, name: str) -> dict[str, bytes]:
        """Return the newest files of a repository."""
        repository = self.repositories[name]
        return repository.commits[repository.refs["main"]]


class _Refused(Exception):
    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        super().__init__(status, code, message)
        self.status, self.code, self.message = status, code, message


class _Handler(BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.state.asked.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            for pattern, handle in _ROUTES:
                if parts := re.fullmatch(pattern, f"{self.command} {path}"):
                    handle(self, body, **parts.groupdict())
                    return
            raise _Refused(404, message=f"the stand-in has no {self.command} {path}")
        except _Refused as refused:
            headers = {"X-Error-Code": refused.code} if refused.code else {}
            if refused.message:
                headers["X-Error-Message"] = refused.message
            self._send({"error": refused.message}, status=refused.status, headers=headers)

    def _send(self, payload, *, status=200, headers=None):
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.send_response(status)
        headers = {"Content-Length": str(len(data)), **(headers or {})}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @property
    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _repository(self, name: str) -> Repository:
        """Find a repository that the asker may read."""
        repository = self.state.repositories.get(name)
        is_owner = self._token == TOKEN
        if repository is None or (repository.is_private and not is_owner):
            raise _Refused(404 if self._token else 401, "RepoNotFound", "Repository not found")
        if repository.is_gated and not is_owner:
            raise _Refused(403, "GatedRepo", "Access is restricted")
        return repository

    def _files(self, name: str, revision: str) -> tuple[str, dict[str, bytes]]:
        repository = self._repository(name)
        sha = repository.sha_of(revision)
        if sha is None:
            raise _Refused(404, "RevisionNotFound", "Invalid rev id")
        return sha, repository.commits[sha]

    def _check_writer(self, name: str) -> Repository | None:
        if self._token not in (TOKEN, READER):
            raise _Refused(401, message="Invalid username or password.")
        if self._token != TOKEN or not name.startswith("me/"):
            raise _Refused(403, message="You don't have the rights")
        return self.state.repositories.get(name)

    # Reading

    def info(self, _body, name, revision=None):
        sha, files = self._files(name, revision or "main")
        repository = self.state.repositories[name]
        siblings = [
            {"rfilename": file, "size": self._size(file, data)} for file, data in files.items()
        ]
        said = {"_id": "1", "id": name, "sha": sha, "private": repository.is_private, "tags": []}
        self._send(said | {"siblings": siblings, "downloads": 0, "likes": 0})

    def tree(self, _body, name, revision):
        _, files = self._files(name, revision)
        listed = [
            {"type": "file", "path": file, "size": self._size(file, data), "oid": _etag(data)}
            for file, data in files.items()
        ]
        self._send(listed)

    def _size(self, file, data):
        return self.state.sizes.get(file, len(data))

    def resolve(self, _body, name, revision, file):
        sha, files = self._files(name, revision)
        if file not in files:
            raise _Refused(404, "EntryNotFound", "Entry not found")
        self._send(files[file], headers={"ETag": f'"{_etag(files[file])}"', "X-Repo-Commit": sha})

    # Writing

    def create(self, body):
        asked = json.loads(body)
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        url = f"{self.state.url}/{name}"
        if self._check_writer(name) is not None:
            self._send({"error": "You already created this model repo", "url": url}, status=409)
            return
        is_private = bool(asked.get("private") or asked.get("visibility") == "private")
        self.state.add(
            name, {".gitattributes": b"*.safetensors filter=lfs\n"}, is_private=is_private
        )
        self._send({"url": url, "name": name})

    def validate(self, _body):
        self._send({"errors": [], "warnings": []})

    def preupload(self, body, name, revision):
        self._check_writer(name)
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["size"] >= LFS_FROM_BYTES else "regular",
                "shouldIgnore": False,
            }
            for file in json.loads(body)["files"]
        ]
        self._send({"files": files})

    def lfs_batch(self, body, name):
        self._check_writer(name)
        objects = [
            {**one, "actions": {"upload": {"href": f"{self.state.url}/lfs/{one['oid']}"}}}
            for one in json.loads(body)["objects"]
        ]
        self._send({"transfer": "basic", "objects": objects})

    def put_lfs(self, body, oid):
        assert hashlib.sha256(body).hexdigest() == oid
        self.state.lfs[oid] = body
        self._send(b"")

    def commit(self, body, name, revision):
        repository = self._check_writer(name)
        lines = [json.loads(line) for line in body.splitlines()]
        header = lines[0]["value"]
        if self.state.refuses_commits:
            raise _Refused(500, message="no space left")
        if header.get("parentCommit") not in (None, repository.refs["main"]):
            raise _Refused(412, message="A commit has happened since")
        files = dict(repository.commits[repository.refs["main"]])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.state.lfs[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        sha = repository.commit(files)
        self._send(
            {
                "success": True,
                "commitOid": sha,
                "commitUrl": f"{self.state.url}/{name}/commit/{sha}",
            }
        )


def _etag(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


_REPOSITORY = r"(?P<name>[^/]+/[^/]+)"
_ROUTES = [
    (rf"GET /api/models/{_REPOSITORY}", _Handler.info),
    (rf"GET /api/models/{_REPOSITORY}/revision/(?P<revision>.+)", _Handler.info),
    (rf"GET /api/models/{_REPOSITORY}/tree/(?P<revision>[^/]+)", _Handler.tree),
    (rf"(GET|HEAD) /{_REPOSITORY}/resolve/(?P<revision>[^/]+)/(?P<file>.+)", _Handler.resolve),
    (r"POST /api/repos/create", _Handler.create),
    (r"POST /api/validate-yaml", _Handler.validate),
    (rf"POST /api/models/{_REPOSITORY}/preupload/(?P<revision>.+)", _Handler.preupload),
    (rf"POST /{_REPOSITORY}\.git/info/lfs/objects/batch", _Handler.lfs_batch),
    (r"PUT /lfs/(?P<oid>\w+)", _Handler.put_lfs),
    (rf"POST /api/models/{_REPOSITORY}/commit/(?P<revision>.+)", _Handler.commit),
]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that this process and those it starts talk to, logged in as its owner `me`."""
    from huggingface_hub import constants

    hub, cache = Hub(), str(tmp_path / "hub_cache")
    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    here = {"ENDPOINT": hub.url, "HUGGINGFACE_CO_URL_TEMPLATE": template, "HF_HUB_CACHE": cache}
    for name, value in {**here, "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}.items():
        monkeypatch.setattr(constants, name, value)
    for name, value in {"ENDPOINT": hub.url, "HUB_CACHE": cache, "HUB_OFFLINE": "0"}.items():
        monkeypatch.setenv(f"HF_{name}", value)
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield hub
    hub.close()


@pytest.fixture
def offline(hub, monkeypatch):
    """Call it to be offline, as by HF_HUB_OFFLINE=1."""

    def go_offline():
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # for older libraries
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    return go_offline
