"""An archive comes as it is stored, or visibly not whole; neither a colleague nor a revoked person gets it."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI

from codehub.api.live import downloads
from codehub.archives.keys import ArchivePath
from tests.integration.api.environment import ApiEnvironment, create_workspace, user_id
from tests.support.archive_forgery import meta_of, plant
from tests.support.waiting import until

CONTENT = bytes(range(256)) * 40_000  # more than one piece of a store, more than a socket takes at once


def address(path: ArchivePath) -> str:
    return f"/api/v1/workspaces/{path.workspace_id}/archives/{path.op_id}/{path.attempt}/home.tar.zst"


async def an_archive(
    environment: ApiEnvironment, client: httpx.AsyncClient, name: str = "one"
) -> ArchivePath:
    workspace = await create_workspace(client, name)
    return plant(environment.archives, UUID(workspace["id"]), CONTENT)


async def test_it_comes_as_it_is_stored(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    path = await an_archive(environment, ann, 'my "thesis" 논문')

    (listed,) = (await ann.get(f"/api/v1/workspaces/{path.workspace_id}/archives")).json()["items"]
    answer = await ann.get(address(path))

    assert answer.status_code == 200
    assert hashlib.sha256(answer.content).hexdigest() == listed["sha256"]
    assert address(path).endswith(listed["key"].partition("/")[2])
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["content-type"] == "application/zstd"
    assert answer.headers["content-disposition"] == (
        'attachment; filename="my_thesis_-20260101-0000.tar.zst"; '
        "filename*=UTF-8''my%20%22thesis%22%20%EB%85%BC%EB%AC%B8-20260101-0000.tar.zst"
    )
    admin = await environment.sign_in("admin")
    (entry,) = [
        each
        for each in (await admin.get("/api/v1/admin/audit")).json()["items"]
        if each["action"] == "workspace.download"
    ]
    assert (entry["actor"], entry["subject"]) == ("user:ann", str(path.workspace_id))
    assert entry["detail"] == {"archive_key": path.key}


async def test_what_does_not_exist_and_what_is_away(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    path = await an_archive(environment, ann)
    other = await an_archive(environment, ann, "another")
    unknown = ArchivePath(path.workspace_id, uuid4(), path.attempt)
    not_its_own = ArchivePath(path.workspace_id, other.op_id, other.attempt)
    for missing in (unknown, not_its_own):
        assert (await ann.get(address(missing))).status_code == 404
    for odd in ("x", "..", "%2e%2e%2fx", "A" * 32, "0" * 31):
        found = await ann.get(
            f"/api/v1/workspaces/{path.workspace_id}/archives/{path.op_id}/{odd}/home.tar.zst"
        )
        assert found.status_code in (404, 422), found.text

    unmount(environment.archives)
    away = await ann.get(address(path))
    assert (away.status_code, away.json()["code"]) == (503, "unavailable")


def unmount(directory: Path) -> None:
    directory.rename(directory.with_name("unmounted"))


async def test_a_shorter_object_is_not_sent_as_a_whole(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    path = plant(environment.archives, UUID(workspace["id"]), CONTENT, meta=meta_of(CONTENT + b"more"))
    reader = Reader(environment.app, ann, address(path))
    await reader.until_done()
    assert not reader.complete


class Reader:
    """A client that reads when it is told to, on the application itself."""

    def __init__(self, app: FastAPI, client: httpx.AsyncClient, path: str) -> None:
        self.received = b""
        self.status = 0
        self.complete = False
        self._may_read = asyncio.Event()
        self._left = asyncio.Event()
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "scheme": "http",
            "root_path": "",
            "headers": [(b"host", b"codehub.test"), (b"cookie", cookie.encode())],
            "client": ("127.0.0.1", 1),
            "server": ("codehub.test", 80),
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))
        self._asked = False

    def read_on(self) -> None:
        self._may_read.set()

    def leave(self) -> None:
        self._left.set()

    async def until_begun(self) -> None:
        await until(lambda: self.status != 0, what="the response has begun")

    async def until_done(self) -> None:
        self.read_on()
        async with asyncio.timeout(30):
            await self.task

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        self.received += message.get("body", b"")
        self.complete = not message.get("more_body", False)
        await self._may_read.wait()


async def test_two_at_a_time_and_a_place_is_given_back(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    path = await an_archive(environment, ann)
    open_ones = [Reader(environment.app, ann, address(path)) for _ in range(downloads.AT_ONCE_EACH)]
    for reader in open_ones:
        await reader.until_begun()

    refused = await ann.get(address(path))
    assert (refused.status_code, refused.json()["code"]) == (429, "downloads_busy")
    bob = await environment.sign_in("bob")
    theirs = await an_archive(environment, bob)
    assert (await bob.get(address(theirs))).content == CONTENT

    first, second = open_ones
    first.leave()  # closed the tab in the middle
    await asyncio.wait_for(first.task, 30)
    assert not first.complete
    assert (await ann.get(address(path))).status_code == 200
    await second.until_done()
    assert second.complete
    assert second.received == CONTENT


async def test_a_disabled_person_gets_no_more(environment: ApiEnvironment) -> None:
    ann, admin = await environment.sign_in("ann"), await environment.sign_in("admin")
    path = await an_archive(environment, ann)
    reader = Reader(environment.app, ann, address(path))
    await reader.until_begun()
    answer = await admin.patch(f"/api/v1/users/{await user_id(ann)}", json={"disabled": True})
    assert answer.status_code == 200
    await asyncio.wait_for(asyncio.shield(reader.task), 30)
    assert not reader.complete
    assert len(reader.received) < len(CONTENT)


async def test_a_reader_who_stalls_is_left(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "STALLED_SECONDS", 0.05)
    ann = await environment.sign_in("ann")
    reader = Reader(environment.app, ann, address(await an_archive(environment, ann)))
    await asyncio.wait_for(asyncio.shield(reader.task), 30)
    assert not reader.complete
