"""``codehub exec``, ``codehub cp`` and the API behind them, with the real program in a real workspace."""

import asyncio
import base64
import contextlib
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from codehub.domain.states import Role
from codehub.store.accounts import audit
from tests.integration.cli.environment import CliEnvironment, Person
from tests.integration.cli.test_workspaces import create
from tests.support.requirements import require_inside
from tests.support.waiting import until

SECONDS = 120.0
pytestmark = pytest.mark.timeout(600)


class Api:
    """Somebody's calls to one workspace, by their token."""

    def __init__(self, client: httpx.AsyncClient, workspace_id: str) -> None:
        self.client = client
        self.workspace_id = workspace_id

    async def call(self, method: str, path: str, *, expect: int = 200, **options: Any) -> httpx.Response:
        answer = await self.client.request(method, f"/api/v1/workspaces/{self.workspace_id}{path}", **options)
        assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    async def run(self, *argv: str, **more: Any) -> tuple[dict[str, Any], str, str]:
        """How a command ended, and what it said on both outputs."""
        answer = await self.call("POST", "/exec", json={"argv": list(argv), **more})
        return parsed_events(answer.text)


def parsed_events(text: str) -> tuple[dict[str, Any], str, str]:
    said = {"stdout": b"", "stderr": b""}
    end: dict[str, Any] = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        data = json.loads(fields.get("data", "{}"))
        if fields.get("event") in said:
            said[fields["event"]] += base64.b64decode(data["data"])
        elif fields.get("event") == "exit":
            end = data
    return end, said["stdout"].decode(), said["stderr"].decode()


@pytest.fixture
async def environment(quiet_environment: CliEnvironment) -> AsyncIterator[CliEnvironment]:
    require_inside()
    quiet_environment.with_ssh = True
    async with quiet_environment.serving(), quiet_environment.controlled():
        yield quiet_environment


@contextlib.asynccontextmanager
async def api_of(person: Person, workspace_id: str) -> AsyncIterator[Api]:
    login = json.loads(person.environment.login_file(person.username).read_text())
    async with httpx.AsyncClient(
        base_url=person.environment.url,
        headers={"Authorization": f"Bearer {login['token']}"},
        timeout=SECONDS,
        trust_env=False,
    ) as client:
        yield Api(client, workspace_id)


@pytest.fixture
async def ann(environment: CliEnvironment) -> Person:
    return await environment.signed_in("ann")


@pytest.fixture
async def api(ann: Person) -> AsyncIterator[Api]:
    """Ann's workspace, which runs."""
    made = await create(ann, "thesis")
    assert (await ann.run("ws", "start", "thesis", "--wait")).code == 0
    async with api_of(ann, made["id"]) as api:
        yield api


async def test_a_command_has_surroundings_input_output_and_an_exit_code(api: Api) -> None:
    script = 'read line; echo "$line $GREETING $PWD"; echo oops >&2; exit 7'
    end, out, errors = await api.run(
        "sh", "-c", script, env={"GREETING": "hello"}, stdin=base64.b64encode(b"hi\n").decode(), cwd="/tmp"
    )
    assert (end["code"], out, errors) == (7, "hi hello /tmp\n", "oops\n")
    end, out, _ = await api.run("pwd")
    assert api.workspace_id in out  # its home
    end, _, errors = await api.run("no-such-program")
    assert (end["code"], "no-such-program" in errors) == (127, True)
    end, _, errors = await api.run("true", cwd="/no/such/place")
    assert (end["code"], "/no/such/place" in errors) == (126, True)


async def is_gone(api: Api, mark: str) -> bool:
    _, out, _ = await api.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    return f"sleep {mark}" not in out


async def test_what_a_command_started_ends_with_it(api: Api) -> None:
    """At its timeout, when the client leaves, and daemons when it ends by itself."""
    end, out, _ = await api.run("sh", "-c", "sleep 4001 & echo began; wait", timeout_seconds=1)
    assert (end["code"], end["timed_out"], out) == (124, True, "began\n")
    assert await is_gone(api, "4001")
    end, _, _ = await api.run("sh", "-c", "setsid sleep 4002 >/dev/null 2>&1 & exit 3")
    assert end["code"] == 3
    assert await is_gone(api, "4002")
    body = {"argv": ["sh", "-c", "setsid sleep 4003 & echo began; wait"]}
    async with api.client.stream("POST", f"/api/v1/workspaces/{api.workspace_id}/exec", json=body) as answer:
        async for line in answer.aiter_lines():
            if line == "event: stdout":
                break
    await until(lambda: is_gone(api, "4003"), seconds=SECONDS, what="the end of what was left")


async def test_files(api: Api) -> None:
    content = os.urandom(3_000_000)
    path = {"path": "notes/한국어 file.bin"}
    assert (await api.call("PUT", "/files/content", params=path, content=content, expect=404)).json()[
        "code"
    ] == "file_not_found"
    made = await api.call("PUT", "/files/content", params={**path, "parents": True}, content=content)
    assert (made.json()["name"], made.json()["size"]) == ("한국어 file.bin", len(content))
    assert (await api.call("GET", "/files/content", params=path)).content == content
    part = await api.call(
        "GET", "/files/content", params=path, headers={"Range": "bytes=1000-1999"}, expect=206
    )
    assert part.content == content[1000:2000]
    assert part.headers["content-range"] == f"bytes 1000-1999/{len(content)}"
    rest = await api.call(
        "GET", "/files/content", params=path, headers={"Range": "bytes=2999990-"}, expect=206
    )
    assert rest.content == content[2999990:]
    await api.call("GET", "/files/content", params=path, headers={"Range": "bytes=3000000-"}, expect=422)
    once = {**path, "overwrite": False}
    assert (await api.call("PUT", "/files/content", params=once, content=b"x", expect=409)).json()[
        "code"
    ] == "file_conflict"
    listed = (await api.call("GET", "/files", params={"path": "notes"})).json()
    assert [each["name"] for each in listed["entries"]] == ["한국어 file.bin"]  # and nothing temporary
    assert (await api.call("GET", "/files/stat", params={"path": "notes"})).json()["type"] == "directory"
    await api.call("POST", "/files/directory", json={"path": "notes"}, expect=409)
    await api.call("POST", "/files/directory", json={"path": "a/b/c", "parents": True}, expect=201)
    await api.call("POST", "/files/move", json={"path": path["path"], "target": "a/b/moved"})
    await api.call("GET", "/files/stat", params=path, expect=404)
    await api.call("DELETE", "/files", params={"path": "a"}, expect=409)  # not empty
    await api.call("DELETE", "/files", params={"path": "a", "recursive": True}, expect=204)
    await api.call("GET", "/files/stat", params={"path": "a/b/moved"}, expect=404)
    for home in ("", ".", "/"):
        refused = await api.call("DELETE", "/files", params={"path": home, "recursive": True}, expect=403)
        assert refused.json()["code"] == "file_refused"


async def test_directories_go_in_and_out_as_tar(api: Api) -> None:
    sent = io.BytesIO()
    with tarfile.open(fileobj=sent, mode="w") as tar:
        for name, data in (("project/one", b"1" * 100_000), ("project/deep/two", b"2")):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o640
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("project/link")
        link.type, link.linkname = tarfile.SYMTYPE, "one"
        tar.addfile(link)
    await api.call("PUT", "/files/archive", params={"path": "in"}, content=sent.getvalue())
    got = await api.call("GET", "/files/archive", params={"path": "in/project"})
    with tarfile.open(fileobj=io.BytesIO(got.content)) as tar:
        members = {each.name: each for each in tar.getmembers()}
        assert sorted(members) == [
            "project", "project/deep", "project/deep/two", "project/link", "project/one",
        ]  # fmt: skip
        assert members["project/link"].linkname == "one"
        assert members["project/one"].mode & 0o777 == 0o640
        file = tar.extractfile("project/one")
        assert file is not None
        assert file.read() == b"1" * 100_000


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "link/outside"])
async def test_a_tar_leads_nowhere_else(api: Api, name: str) -> None:
    hostile = io.BytesIO()
    with tarfile.open(fileobj=hostile, mode="w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, ".."
        tar.addfile(link)
        member = tarfile.TarInfo(name)
        member.size = 4
        tar.addfile(member, io.BytesIO(b"harm"))
    answer = await api.client.put(
        f"/api/v1/workspaces/{api.workspace_id}/files/archive",
        params={"path": "target"},
        content=hostile.getvalue(),
    )
    assert answer.status_code in (403, 409), answer.text
    await api.call("GET", "/files/stat", params={"path": "outside"}, expect=404)


async def test_an_upload_that_stops_in_the_middle_leaves_the_old_file_and_nothing_else(api: Api) -> None:
    await api.call("PUT", "/files/content", params={"path": "paper"}, content=b"old")
    began = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield b"n" * 1_000_000
        began.set()
        await asyncio.Event().wait()

    sending = asyncio.create_task(
        api.client.put(
            f"/api/v1/workspaces/{api.workspace_id}/files/content", params={"path": "paper"}, content=half()
        )
    )
    await began.wait()

    async def names() -> list[str]:
        listed = (await api.call("GET", "/files")).json()["entries"]
        return sorted(each["name"] for each in listed if "paper" in each["name"] or ".part" in each["name"])

    async def is_under_way() -> bool:
        return len(await names()) == 2

    async def is_cleaned() -> bool:
        return await names() == ["paper"]

    await until(is_under_way, seconds=SECONDS, what="a temporary file")
    sending.cancel()
    await asyncio.wait([sending])
    await until(is_cleaned, seconds=SECONDS, what="the temporary file's removal")
    assert (await api.call("GET", "/files/content", params={"path": "paper"})).content == b"old"


async def test_sleeping_workspaces_wake_only_when_asked(environment: CliEnvironment, ann: Person) -> None:
    made = await create(ann, "thesis")
    async with api_of(ann, made["id"]) as api:
        for method, path, options in (
            ("POST", "/exec", {"json": {"argv": ["true"]}}),
            ("GET", "/files", {}),
            ("PUT", "/files/content", {"content": b"x", "params": {"path": "x"}}),
        ):
            refused = await api.call(method, path, expect=409, **options)
            assert refused.json()["code"] == "not_running"
        now = (await api.client.get(f"/api/v1/workspaces/{made['id']}")).json()
        assert now["desired_state"] != "RUNNING"
    done = await ann.run("exec", "--wake", "thesis", "--", "sh", "-c", "echo woken; exit 5")
    assert (done.code, done.output) == (5, "woken\n"), done.errors


async def test_the_command_line(environment: CliEnvironment, ann: Person, api: Api, tmp_path: Path) -> None:
    done = await ann.run("exec", "-i", "-e", "X=1", "thesis", "sh", "-c", "cat; echo $X >&2", stdin="typed")
    assert (done.code, done.output, done.errors) == (0, "typed", "1\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "file").write_bytes(b"content" * 1000)
    assert (await ann.run("cp", str(tmp_path / "project" / "file"), "thesis:")).code == 0
    assert (await ann.run("cp", "thesis:file", str(tmp_path / "back"))).code == 0
    assert (tmp_path / "back").read_bytes() == b"content" * 1000
    assert (await ann.run("cp", str(tmp_path / "project"), "thesis:")).code == 2
    assert (await ann.run("cp", "-r", str(tmp_path / "project"), "thesis:")).code == 0
    assert (await ann.run("cp", "-r", "thesis:project", str(tmp_path / "out"))).code == 0
    assert (tmp_path / "out" / "project" / "file").read_bytes() == b"content" * 1000
    missing = await ann.run("cp", "thesis:missing", str(tmp_path / "missing"))
    assert (missing.code, (tmp_path / "missing").exists()) == (4, False)


async def test_changes_are_audited_and_arguments_are_not(environment: CliEnvironment, api: Api) -> None:
    await api.run("sh", "-c", "echo secret")
    await api.call("PUT", "/files/content", params={"path": "x"}, content=b"x")
    await api.call("GET", "/files/content", params={"path": "x"})
    async with environment.control.sessions() as session:
        page = await audit.list_page(session)
    entries = [each for each in page.items if each.subject == api.workspace_id]
    found = {each.action: dict(each.detail) for each in entries}
    assert found["workspace.exec"] == {"program": "sh"}
    assert found["workspace.files.write"] == {"path": "x"}
    assert not [
        each for each in entries if "read" in each.action or "secret" in json.dumps(dict(each.detail))
    ]


async def test_a_command_ends_with_the_rights_of_its_person(
    environment: CliEnvironment, ann: Person, api: Api
) -> None:
    admin = await environment.signed_in("root", Role.ADMIN)
    body = {"argv": ["sh", "-c", "echo began; sleep 4004"]}
    with contextlib.suppress(httpx.TransportError):
        async with api.client.stream(
            "POST", f"/api/v1/workspaces/{api.workspace_id}/exec", json=body
        ) as answer:
            async for line in answer.aiter_lines():
                assert not line.startswith("event: exit")
                if line == "event: stdout":
                    assert (await ann.run("logout")).code == 0  # revokes the token
    async with api_of(admin, api.workspace_id) as other:
        await until(lambda: is_gone(other, "4004"), seconds=SECONDS, what="the command's end")
