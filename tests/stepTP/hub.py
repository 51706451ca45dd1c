"""A stand-in of the hub's interface for datasets, in a thread: repositories, commits, large files, downloads."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_of_a_test"


@dataclass
class Repository:
    """Files by name, those of large files by their digest until a commit names them, and what was asked for."""

    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)


class Hub:
    """What the server knows. `refuse`: a status to answer every commit with."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.refuse: int | None = None
        self.address = ""


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the test's output is its own."""

    def _answer(self, status: int, data: Any = None, headers: dict[str, str] | None = None) -> None:
        body = data if isinstance(data, bytes) else json.dumps(data if data is not None else {}).encode()
        self.send_response(status)
        for name, value in {
            "Content-Length": str(len(body)),
            "Content-Type": "application/json",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts: list[bytes] = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_POST(self) -> None:
        path, body = urlsplit(self.path).path, self._read()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"error": "Invalid username or password."})
        elif path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(part for part in (asked.get("organization"), asked["name"]) if part)
            if name in self.hub.repositories:
                self._answer(
                    409,
                    {"error": "You already created this dataset repo", "url": f"{self.hub.address}/datasets/{name}"},
                )
                return
            self.hub.repositories[name] = Repository(asked.get("visibility") == "private")
            self._answer(200, {"url": f"{self.hub.address}/datasets/{name}", "name": name, "id": name})
        elif path == "/api/validate-yaml":  # of a card, before it is uploaded
            asked = json.loads(body)
            header = yaml.safe_load(asked["content"].split("---\n")[1])
            errors = [{"message": f"no {key}"} for key in ("license", "configs", "dataset_info") if key not in header]
            self._answer(200 if asked["repoType"] == "dataset" else 400, {"errors": errors, "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(body)["files"]
            mode = [
                {"path": f["path"], "uploadMode": "lfs" if f["path"].endswith(".parquet") else "regular"} for f in files
            ]
            self._answer(200, {"files": [{**m, "shouldIgnore": False} for m in mode]})
        elif path.endswith(".git/info/lfs/objects/batch"):
            name = path.removeprefix("/datasets/").removesuffix(".git/info/lfs/objects/batch")
            made = [
                {"oid": o["oid"], "size": o["size"], "authenticated": True,
                 "actions": {"upload": {"href": f"{self.hub.address}/large/{name}/{o['oid']}", "header": {}}}}
                for o in json.loads(body)["objects"]
            ]  # fmt: skip
            self._answer(200, {"transfer": "basic", "objects": made}, {"Content-Type": "application/vnd.git-lfs+json"})
        elif "/commit/" in path:
            self._commit(path.removeprefix("/api/datasets/").partition("/commit/")[0], body)
        else:
            self._answer(404, {"error": f"nothing at {path}"})

    def _commit(self, name: str, body: bytes) -> None:
        if self.hub.refuse is not None:
            self._answer(self.hub.refuse, {"error": "not now"})
            return
        repository = self.hub.repositories[name]
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            match entry["key"]:
                case "header":
                    repository.commits.append(value["summary"])
                case "file":
                    repository.files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    repository.files[value["path"]] = repository.large.pop(value["oid"])
                case "deletedFile":
                    del repository.files[value["path"]]
                case key:
                    raise AssertionError(f"a commit has no {key}")
        digest = hashlib.sha1(body).hexdigest()
        self._answer(200, {"commitUrl": f"{self.hub.address}/datasets/{name}/commit/{digest}", "commitOid": digest,
                           "commitMessage": repository.commits[-1], "hookOutput": ""})  # fmt: skip

    def do_PUT(self) -> None:
        name, _, digest = urlsplit(self.path).path.removeprefix("/large/").rpartition("/")
        data = self._read()
        assert hashlib.sha256(data).hexdigest() == digest
        self.hub.repositories[name].large[digest] = data
        self._answer(200)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path == "/api/whoami-v2":
            self._answer(200, {"name": "tester", "type": "user", "orgs": []})
            return
        name, files = self._named(path)
        if files is None:
            self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif path.startswith("/api/"):
            found = [{"rfilename": file, "size": len(data)} for file, data in sorted(files.items())]
            tree = [{"type": "file", "path": file, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for file, data in sorted(files.items())]  # fmt: skip
            self._answer(200, tree if "/tree/" in path else {"id": name, "sha": "0" * 40, "siblings": found})
        else:
            file = path.partition("/resolve/")[2].partition("/")[2]
            if file not in files:
                self._answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
                return
            digest = hashlib.sha256(files[file]).hexdigest()
            self._answer(200, files[file], {"ETag": f'"{digest}"', "X-Repo-Commit": "0" * 40})

    do_HEAD = do_GET

    def _named(self, path: str) -> tuple[str, dict[str, bytes] | None]:
        parts = path.removeprefix("/api").removeprefix("/datasets/").split("/")
        name = "/".join(parts[:2])
        found = self.hub.repositories.get(name)
        return name, found.files if found is not None else None


@contextmanager
def running() -> Iterator[Hub]:
    """A hub that answers until the end of the `with`."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
