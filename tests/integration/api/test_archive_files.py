"""Files in an archive by the API: listed, read, packed and put back; what is refused, and what is recorded."""

import io
import json
import tarfile
from typing import Any
from uuid import UUID

import httpx

from codehub.archives.keys import ArchivePath
from tests.integration.api.environment import ApiEnvironment, create_workspace
from tests.integration.api.test_inside import ENTRY, line, running
from tests.support.archive_forgery import member, plant, plant_tar, tar_of
from tests.support.fake_exec import FakeProcess

TAR = tar_of(
    member("./notes", tarfile.DIRTYPE),
    member("./notes/today.md", size=700_000),
    member("./notes/empty"),
    member("./notes/-rf *.md", size=3),
    member("./link", tarfile.SYMTYPE, target="/etc/passwd"),
)


def url(archive: ArchivePath, what: str = "") -> str:
    return f"/api/v1/workspaces/{archive.workspace_id}/archives/{archive.op_id}/{archive.attempt}/files{what}"


async def archived(environment: ApiEnvironment, client: httpx.AsyncClient, tar: bytes = TAR) -> ArchivePath:
    made = await create_workspace(client)
    return plant_tar(environment.archives, UUID(made["id"]), tar)


async def test_a_folder_is_listed_and_its_files_are_read(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    archive = await archived(environment, ann)
    top = (await ann.get(url(archive))).json()
    assert [(each["name"], each["type"]) for each in top["entries"]] == [
        ("link", "symlink"),
        ("notes", "directory"),
    ]
    assert (top["entries"][0]["target"], top["truncated"]) == ("/etc/passwd", False)
    below = (await ann.get(url(archive), params={"path": "notes"})).json()["entries"]
    assert [each["name"] for each in below] == ["-rf *.md", "empty", "today.md"]
    read = await ann.get(url(archive, "/content"), params={"path": "notes/today.md"})
    assert (read.status_code, read.content) == (200, bytes(700_000))
    assert read.headers["content-disposition"].startswith('attachment; filename="today.md"')
    empty = await ann.get(url(archive, "/content"), params={"path": "notes/empty"})
    assert (empty.status_code, empty.content) == (200, b"")
    packed = await ann.get(url(archive, "/archive"), params={"path": "notes"})
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as tar:
        assert sorted(tar.getnames()) == ["notes", "notes/-rf *.md", "notes/empty", "notes/today.md"]


async def test_refusals_say_why(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    archive = await archived(environment, ann)
    for what, path, code in (
        ("", "none", "file_not_found"),
        ("", "../../etc", "file_not_found"),
        ("", "link", "file_conflict"),
        ("/content", "link", "file_conflict"),
        ("/content", "notes", "file_conflict"),
        ("/archive", "none", "file_not_found"),
        ("", "x" * 5000, "validation_failed"),
    ):
        answer = await ann.get(url(archive, what), params={"path": path})
        assert answer.json()["code"] == code, (what, path, answer.text)
    hostile = plant_tar(environment.archives, archive.workspace_id, tar_of(member("/etc/passwd")))
    answer = await ann.get(url(hostile))
    assert (answer.status_code, answer.json()["code"]) == (409, "archive_unreadable")
    assert "an unsafe name" in answer.json()["detail"]
    other = plant(environment.archives, archive.workspace_id, b"garbage")
    assert (await ann.get(url(other))).json()["code"] == "archive_unreadable"


async def test_a_file_is_put_back_into_one_that_runs(environment: ApiEnvironment) -> None:
    ann, admin = await environment.sign_in("ann"), await environment.sign_in("admin")
    received: list[bytes] = []

    async def program(process: FakeProcess) -> int:
        while not b"".join(received).endswith(b"\0\0\0\0"):
            received.append(await process.read())
        await process.say(line(entry=ENTRY))
        return 0

    address = await running(environment, ann, program)
    archive = plant_tar(environment.archives, UUID(address.rpartition("/")[2]), TAR)
    body: dict[str, Any] = {"path": "notes/-rf *.md", "target": "notes/old.md"}
    answer = await ann.post(url(archive, "/put-back"), json=body)
    assert answer.status_code == 200, answer.text
    asked, _, frames = b"".join(received).partition(b"\n")
    request = json.loads(asked)
    assert (request["do"], request["path"], request["overwrite"]) == ("write", "notes/old.md", False)
    assert frames == b"\0\0\0\3" + bytes(3) + b"\0\0\0\0"
    await admin.get(url(archive))
    audit = (await admin.get("/api/v1/admin/audit")).json()["items"]
    actions = {each["action"]: each for each in audit}
    assert actions["workspace.files.put_back"]["actor"] == "user:ann"
    assert actions["workspace.archive.look"]["actor"] == "user:admin"
