"""``make audit`` asks about everything that is locked, names a hole, and takes silence for no answer."""

import asyncio
import fcntl
import gzip
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.requirements import require_node

ROOT = Path(__file__).resolve().parents[3]
PIN = re.compile(r"^([a-z0-9.-]+)==([^ ;\\]+)", re.MULTILINE)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", autouse=True)
def _pip_audit() -> Iterator[None]:
    """Have pip-audit installed, and used by one test process at a time."""
    with (ROOT / ".venv/audit-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", ".venv/audit/.installed"], cwd=ROOT, check=True, capture_output=True)
        yield


@dataclass
class Databases:
    """A server with both databases: what it knows, what it was asked about, what it is silent about."""

    url: str = ""
    python_holes: dict[str, dict[str, Any]] = field(default_factory=dict)
    npm_holes: dict[str, dict[str, Any]] = field(default_factory=dict)
    go_holes: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked_go: set[tuple[str, str]] = field(default_factory=set)
    asked_python: set[tuple[str, str]] = field(default_factory=set)
    asked_npm: set[tuple[str, str]] = field(default_factory=set)
    broken: bool = False

    def answer_osv(self, query: dict[str, Any]) -> dict[str, Any]:
        name = query["package"]["name"]
        if query["package"]["ecosystem"] == "Go":
            self.asked_go.add((name, query["version"]))
            return {"vulns": [self.go_holes[name]]} if name in self.go_holes else {}
        self.asked_python.add((name, query["version"]))
        return {"vulns": [self.python_holes[name]]} if name in self.python_holes else {}

    def answer_npm(self, query: dict[str, list[str]]) -> dict[str, Any]:
        self.asked_npm |= {(name, version) for name, versions in query.items() for version in versions}
        return {name: [self.npm_holes[name]] for name in query if name in self.npm_holes}


@pytest.fixture
def databases() -> Iterator[Databases]:
    known = Databases()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            query = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
            is_osv = self.path == "/osv"
            self._answer(known.answer_osv(query) if is_osv else known.answer_npm(query))

        def do_GET(self) -> None:  # npm reads about a package with a hole, to see who depends on it
            package = unquote(self.path[1:])
            versions: dict[str, Any] = {version: {} for name, version in known.asked_npm if name == package}
            self._answer({"name": package, "versions": versions})

        def _answer(self, answer: dict[str, Any]) -> None:
            body = b"we are being repaired" if known.broken else json.dumps(answer).encode()
            self.send_response(503 if known.broken else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        known.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield known
        server.shutdown()
        thread.join()


async def make_audit(osv: str, registry: str) -> tuple[int, str, str]:
    """The target itself. Gives the exit code, what it says, and what it complains of."""
    require_node()
    ours = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    settings = {"AUDIT_OSV_URL": osv, "npm_config_registry": registry, "NO_PROXY": "127.0.0.1"}
    process = await asyncio.create_subprocess_exec(
        *("make", "audit"),
        cwd=ROOT,
        env={**ours, **settings},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


def locked_python() -> set[tuple[str, str]]:
    """Every pin of every file git has, for whatever Python or system."""
    listed = subprocess.run(
        ["git", "ls-files", "requirements/*.txt", "*/requirements.txt", "src/*/ides/*.txt"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert "requirements/audit.txt" in listed
    return {pin for path in listed for pin in PIN.findall((ROOT / path).read_text())}


def locked_npm() -> set[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "*package-lock.json"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    assert {"web/package-lock.json", "web/openapi/package-lock.json", "tools/site/package-lock.json"} <= {
        *listed
    }
    packages = [item for path in listed for item in json.loads((ROOT / path).read_text())["packages"].items()]
    return {(place.rpartition("node_modules/")[2], one["version"]) for place, one in packages if place}


async def test_without_a_hole_it_has_asked_about_everything(databases: Databases) -> None:
    code, said, complaints = await make_audit(f"{databases.url}/osv", databases.url)
    assert (code, complaints) == (0, "")
    assert "No known holes." in said
    assert "PostgreSQL" in said
    assert databases.asked_python == locked_python()
    assert databases.asked_npm == locked_npm()
    asked_go = {name for name, _ in databases.asked_go}
    assert {"stdlib", "golang.org/x/crypto", "golang.org/x/sys", "github.com/pkg/sftp"} <= asked_go


async def test_a_hole_of_each_kind_is_named(databases: Databases) -> None:
    databases.python_holes["uvicorn"] = {
        "id": "GHSA-test-0001",
        "summary": "Believes everything",
        "affected": [
            {
                "package": {"name": "uvicorn", "ecosystem": "PyPI"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "999.1"}]}],
            }
        ],
    }
    code, said, complaints = await make_audit(f"{databases.url}/osv", databases.url)
    [version] = [version for name, version in locked_python() if name == "uvicorn"]
    assert code != 0
    assert f"uvicorn {version}: GHSA-test-0001, fixed in 999.1: Believes everything" in complaints
    assert "No known holes" not in said

    databases.python_holes.clear()
    databases.go_holes["golang.org/x/crypto"] = {"id": "GO-test-0003", "summary": "Opens every door"}
    databases.npm_holes["react"] = {
        "id": 1,
        "url": "https://github.com/advisories/GHSA-test-0002",
        "title": "Forgets its state",
        "severity": "low",
        "vulnerable_versions": "<999.0.0",
    }
    code, said, complaints = await make_audit(f"{databases.url}/osv", databases.url)
    assert code != 0
    assert (
        "web: react <999.0.0: Forgets its state (https://github.com/advisories/GHSA-test-0002)" in complaints
    )
    assert "GO-test-0003: Opens every door" in complaints
    assert "uvicorn" not in complaints
    assert "No known holes" not in said


async def test_a_database_that_is_away_is_no_all_clear(databases: Databases) -> None:
    with closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        code, said, complaints = await make_audit(f"{away}/osv", databases.url)
        assert code != 0
        assert "Python packages were NOT audited, the database gave no answer" in complaints
        assert "Go packages were NOT audited, the database gave no answer" in complaints
        assert "Connection refused" in complaints
        assert "JavaScript packages were NOT" not in complaints
        assert "No known holes" not in said

        code, said, complaints = await make_audit(f"{databases.url}/osv", away)
        assert code != 0
        assert "JavaScript packages were NOT audited, the database gave no answer" in complaints
        assert "ECONNREFUSED" in complaints
        assert "Python packages were NOT" not in complaints
        assert "No known holes" not in said


async def test_a_database_that_answers_nonsense_is_no_all_clear(databases: Databases) -> None:
    databases.broken = True
    code, said, complaints = await make_audit(f"{databases.url}/osv", databases.url)
    assert code != 0
    assert "Python packages were NOT audited" in complaints
    assert "JavaScript packages were NOT audited" in complaints
    assert "Go packages were NOT audited" in complaints
    assert "No known holes" not in said
