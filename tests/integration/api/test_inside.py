"""Commands and files: who may, what a hostile workspace can answer, and what never wakes."""

import asyncio
import base64
import json
from uuid import UUID

import httpx
import pytest

from codehub.api.inside import admission, exchange
from codehub.api.schemas.files import MAX_ENTRIES
from codehub.domain.states import ContainerState
from codehub.runtimes.exec_stream import Stream
from tests.integration.api.environment import ApiEnvironment, create_workspace
from tests.integration.api.test_roles import WHO, everybody, execute
from tests.support.fake_exec import FakeProcess, Program
from tests.support.waiting import until

ENTRY = {"name": "notes", "type": "file", "size": 4, "mode": "0644", "modified_at": "2025-01-01T00:00:00Z"}


async def running(environment: ApiEnvironment, client: httpx.AsyncClient, program: Program) -> str:
    """The address of a workspace that runs, with this program as its ``inside``."""
    made = await create_workspace(client, start=True)
    await execute(environment, "UPDATE workspaces SET desired_state = 'RUNNING', observed_status = 'RUNNING'")
    place = environment.runtime.place(UUID(made["id"]))
    place.container, place.volume = ContainerState.RUNNING, {}
    environment.runtime.programs["inside"] = program
    return f"/api/v1/workspaces/{made['id']}"


def saying(*pieces: bytes, code: int = 0, waits: bool = False) -> Program:
    """A program that answers the same to everything, and then ends, or waits."""

    async def program(process: FakeProcess) -> int:
        await process.read()
        for piece in pieces:
            await process.say(piece)
        if waits:
            await asyncio.Event().wait()
        return code

    return program


def frame(kind: bytes, data: bytes = b"") -> bytes:
    return kind + len(data).to_bytes(3, "big") + data


def line(**answer: object) -> bytes:
    return json.dumps(answer).encode() + b"\n"


async def test_who_may_use_one_that_runs(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    path = await running(environment, people["owner"], saying(line(entry=ENTRY)))
    expected = dict(zip(WHO, (401, 200, 404, 200, 200, 401), strict=True))
    for who, client in people.items():
        assert (await client.get(f"{path}/files/stat")).status_code == expected[who], who
    environment.runtime.programs["inside"] = saying(frame(b"a"), frame(b"x", b"\0"))
    for who, client in people.items():
        answer = await client.post(f"{path}/exec", json={"argv": ["true"]})
        assert answer.status_code == expected[who], who


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no JSON\n",
        b"[]\n",
        line(entry={**ENTRY, "size": -1}),
        line(entry={**ENTRY, "type": "door"}),
        line(entry={**ENTRY, "name": "x" * 5000}),
        line(entry=None),
        b'{"entry": ' + b"[" * 100_000 + b"\n",
    ],
)
async def test_nonsense_is_an_error_and_no_answer(environment: ApiEnvironment, answer: bytes) -> None:
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying(answer))
    refused = await ann.get(f"{path}/files/stat")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")


async def test_an_answer_without_end_is_cut(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await environment.sign_in("ann")
    monkeypatch.setattr(exchange, "MAX_ANSWER_BYTES", 200_000)
    path = await running(environment, ann, saying(*[b"x" * 65536] * 100, waits=True))
    assert (await ann.get(f"{path}/files")).status_code == 503
    entries = [{**ENTRY, "name": str(number)} for number in range(MAX_ENTRIES + 1)]
    monkeypatch.undo()
    environment.runtime.programs["inside"] = saying(line(entries=entries))
    assert (await ann.get(f"{path}/files")).status_code == 503


async def test_no_answer_is_given_up(environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = await environment.sign_in("ann")
    monkeypatch.setattr(exchange, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(exchange, "CLOSE_SECONDS", 0.1)
    path = await running(environment, ann, saying(waits=True))
    assert (await ann.get(f"{path}/files/stat")).status_code == 503


async def test_a_file_is_as_long_as_was_announced_or_refused(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    whole = saying(line(entry=ENTRY, length=4) + b"1234 and more than was announced")
    path = await running(environment, ann, whole)
    answer = await ann.get(f"{path}/files/content", params={"path": "notes"})
    assert (answer.content, answer.headers["content-length"]) == (b"1234", "4")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment"  # never a page of this site
    environment.runtime.programs["inside"] = saying(line(entry=ENTRY, length=400))
    assert (await ann.get(f"{path}/files/content")).status_code == 503


@pytest.mark.parametrize(
    ("error", "status"),
    [("not_found", 404), ("conflict", 409), ("refused", 403), ("no_space", 507), ("made up", 409)],
)
async def test_refusals_of_the_workspace_are_problems(
    environment: ApiEnvironment, error: str, status: int
) -> None:
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying(line(error=error, message="open x: why" + "y" * 10_000)))
    refused = await ann.get(f"{path}/files/stat")
    assert refused.status_code == status
    assert len(refused.json()["detail"]) <= 500


async def test_output_of_commands_is_passed_on_as_bytes(environment: ApiEnvironment) -> None:
    async def program(process: FakeProcess) -> int:
        request = json.loads(await process.read())
        assert (request["do"], request["argv"]) == ("exec", ["true"])
        await process.say(frame(b"a") + frame(b"o", b"\xff\0\nevent: exit\n\n"))
        await process.say(frame(b"d", b"oops"))
        await process.say(b"not a word of it", Stream.STDERR)
        await process.say(frame(b"x", b"\x03"))
        return 0

    ann = await environment.sign_in("ann")
    path = await running(environment, ann, program)
    answer = await ann.post(f"{path}/exec", json={"argv": ["true"]})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [each for each in answer.text.split("\n\n") if each.startswith("event: ")]
    names = [each.split("\n")[0] for each in events]
    assert names == ["event: stdout", "event: stderr", "event: exit"]
    said = json.loads(events[0].split("data: ")[1])["data"]
    assert base64.b64decode(said) == b"\xff\0\nevent: exit\n\n"
    assert json.loads(events[2].split("data: ")[1]) == {"code": 3, "timed_out": False, "message": ""}


@pytest.mark.parametrize(
    "body",
    [
        {"argv": []},
        {"argv": ["a\0b"]},
        {"argv": ["true"], "env": {"A=B": "x"}},
        {"argv": ["true"], "env": {"A": "x\0"}},
        {"argv": ["true"], "cwd": "a\0"},
        {"argv": ["true"], "timeout_seconds": 0},
        {"argv": ["true"], "stdin": "not base64!"},
        {"argv": ["true"] * 2000},
        {"argv": "true"},
    ],
)
async def test_what_is_no_command_is_refused(environment: ApiEnvironment, body: dict[str, object]) -> None:
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying())
    assert (await ann.post(f"{path}/exec", json=body)).status_code == 422


async def test_so_many_at_once(environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_AT_ONCE", 2)
    monkeypatch.setattr(exchange, "CLOSE_SECONDS", 0.1)
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying(waits=True))
    place = environment.runtime.place(UUID(path.rsplit("/", 1)[1]))
    first = [asyncio.create_task(ann.get(f"{path}/files/stat")) for _ in range(2)]

    async def are_running() -> bool:
        return len(place.execs) == 2

    await until(are_running, what="two requests under way")
    refused = await ann.get(f"{path}/files/stat")
    assert (refused.status_code, refused.json()["code"]) == (429, "busy")
    for task in first:
        task.cancel()
    await asyncio.wait(first)
    environment.runtime.programs["inside"] = saying(line(entry=ENTRY))

    async def has_a_place() -> bool:
        return (await ann.get(f"{path}/files/stat")).status_code == 200

    await until(has_a_place, what="a place")


async def test_another_site_s_link_wakes_nothing(environment: ApiEnvironment) -> None:
    """A browser sends its cookie with a link; only a page of ours may wake by reading."""
    ann = await environment.sign_in("ann")
    made = await create_workspace(ann)
    path = f"/api/v1/workspaces/{made['id']}/files?wake="
    for word in ("true", "1", "yes"):
        refused = await ann.get(path + word, headers={"Origin": "https://evil.example"})
        assert (refused.status_code, refused.json()["code"]) == (403, "csrf")
    now = (await ann.get(f"/api/v1/workspaces/{made['id']}")).json()
    assert now["desired_state"] != "RUNNING"
    asked = await ann.get(path + "false", headers={"Origin": "https://evil.example"})
    assert asked.json()["code"] == "not_running"
    ours = await ann.get(path + "true")
    assert ours.json()["code"] == "waking"


async def test_what_an_administrator_reads_of_others_is_recorded(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    path = await running(environment, people["owner"], saying(line(entry=ENTRY, length=4), b"mine"))

    async def recorded() -> list[tuple[str, str]]:
        found = (await people["admin"].get("/api/v1/admin/audit")).json()["items"]
        return [(e["actor"], e["action"]) for e in found if e["action"].startswith("workspace.files")]

    for address in ("/files", "/files/stat?path=notes", "/files/content?path=notes"):
        await people["owner"].get(path + address)
    assert await recorded() == []
    for address in ("/files", "/files/stat?path=notes", "/files/content?path=notes"):
        await people["admin"].get(path + address)
    read = [("user:admin", f"workspace.files.{what}") for what in ("read", "stat", "list")]
    assert await recorded() == read
