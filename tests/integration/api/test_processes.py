"""Detached processes and commands over a WebSocket: who may, and what a hostile workspace can answer."""

import asyncio
import json

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from codehub.api.inside import command, exchange
from codehub.api.inside.command_session import INPUT_WINDOW_BYTES
from codehub.api.schemas.processes import MAX_PROCESSES
from tests.integration.api.environment import BASE_URL, ApiEnvironment, create_workspace, serve
from tests.integration.api.test_inside import frame, line, running, saying
from tests.integration.api.test_roles import WHO, everybody
from tests.integration.api.test_ssh import UPGRADED, headers_of, status_of
from tests.support.fake_exec import FakeProcess

ID = "5f0c2a9d1b7e"
PROCESS = {
    "id": ID, "command": "make train", "pid": 47, "started_at": "2025-01-01T00:00:00Z", "ended_at": None,
    "exit_code": None, "timed_out": False, "output_bytes": 4, "lost_bytes": 0,
}  # fmt: skip
MISUSED, REVOKED, NO_TUNNEL = 1008, 4002, 4006


async def test_who_may_use_processes_of_one_that_runs(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    path = await running(environment, people["owner"], saying(line(processes=[PROCESS])))
    for method, address, status in (
        ("GET", "/processes", 200),
        ("POST", "/processes", 201),
        ("POST", f"/processes/{ID}/kill", 200),
    ):
        expected = dict(zip(WHO, (401, status, 404, status, status, 401), strict=True))
        for who, client in people.items():
            body = None if method == "GET" else {"argv": ["make"]} if status == 201 else {}
            answer = await client.request(method, path + address, json=body)
            assert answer.status_code == expected[who], (who, address, answer.text)
    environment.runtime.programs["inside"] = saying(frame(b"a"), frame(b"o", b"said"), frame(b"l"))
    expected = dict(zip(WHO, (401, 200, 404, 200, 200, 401), strict=True))
    for who, client in people.items():
        answer = await client.get(f"{path}/processes/{ID}/logs")
        assert answer.status_code == expected[who], who
    found = (await people["admin"].get("/api/v1/admin/audit")).json()["items"]
    seen = [(e["actor"], e["action"]) for e in found if "process" in e["action"]]
    assert {each for each in seen if each[1].endswith((".list", ".logs"))} == {
        ("user:admin", "workspace.process.list"), ("user:admin", "workspace.process.logs"),
    }  # fmt: skip
    details = [e["detail"] for e in found if e["action"] == "workspace.process.start"]
    assert {each["program"] for each in details} == {"make"}


async def test_logs_end_with_running_or_exit_or_not_at_all(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying(frame(b"a"), frame(b"o", b"said"), frame(b"l")))
    answer = await ann.get(f"{path}/processes/{ID}/logs")
    assert answer.text.endswith("event: running\ndata: {}\n\n")
    environment.runtime.programs["inside"] = saying(frame(b"e", b"there is no such process" * 100))
    refused = await ann.get(f"{path}/processes/{ID}/logs")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert len(refused.json()["detail"]) <= 500
    assert (await ann.get(f"{path}/processes/..%2fx/logs")).status_code in (404, 422)
    for nonsense in (frame(b"?"), frame(b"x", b"12"), b"o\xff\xff\xff", frame(b"t"), b""):
        environment.runtime.programs["inside"] = saying(frame(b"a"), frame(b"o", b"said"), nonsense)
        with pytest.raises(httpx.HTTPError):
            async with serve(environment.app) as url, httpx.AsyncClient(base_url=url) as client:
                await client.get(f"{path}/processes/{ID}/logs", headers=headers_of(ann))


@pytest.mark.parametrize(
    "processes",
    [
        [],
        [PROCESS, PROCESS],
        [{**PROCESS, "id": "../../etc"}],
        [{**PROCESS, "command": "x" * 2000}],
        [{**PROCESS, "exit_code": 1000}],
    ],
)
async def test_nonsense_about_processes_is_an_error(
    environment: ApiEnvironment, processes: list[object]
) -> None:
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying(line(processes=processes)))
    refused = await ann.post(f"{path}/processes", json={"argv": ["true"]})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")


async def test_what_the_workspace_refuses_is_a_problem(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying())
    for error, status, code in (
        ("busy", 429, "busy"),
        ("not_started", 422, "not_started"),
        ("no_process", 404, "not_found"),
    ):
        environment.runtime.programs["inside"] = saying(line(error=error, message="why"))
        refused = await ann.post(f"{path}/processes", json={"argv": ["true"]})
        assert (refused.status_code, refused.json()["code"]) == (status, code)
    environment.runtime.programs["inside"] = saying(line(processes=[PROCESS] * (MAX_PROCESSES + 1)))
    assert (await ann.get(f"{path}/processes")).status_code == 503
    for body in ({"signal": "STOP"}, {"signal": 9}, {"signals": "TERM"}):
        assert (await ann.post(f"{path}/processes/{ID}/kill", json=body)).status_code == 422


# Commands over a WebSocket ------------------------------------------------------------------------


async def test_who_may_run_a_command_over_a_websocket(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    expected = dict(zip(WHO, (401, UPGRADED, 404, UPGRADED, UPGRADED, 401), strict=True))
    path = await running(environment, people["owner"], saying())
    async with serve(environment.app) as url:
        for who, client in people.items():
            assert await status_of(url, f"{path}/exec", headers_of(client)) == expected[who], who
        sent = headers_of(people["owner"])
        assert sent.pop("Origin") == BASE_URL
        for origin in ("https://evil.example", "null"):
            assert await status_of(url, f"{path}/exec?wake=true", {**sent, "Origin": origin}) == 403
        sleeping = await create_workspace(people["owner"], name="asleep")
        address = f"/api/v1/workspaces/{sleeping['id']}/exec"
        assert await status_of(url, address, headers_of(people["owner"])) == 409
        assert (await people["owner"].get(f"/api/v1/workspaces/{sleeping['id']}")).json()[
            "desired_state"
        ] != "RUNNING"


async def closed(socket: ClientConnection) -> int | None:
    try:
        async with asyncio.timeout(60):
            while True:
                await socket.recv()
    except ConnectionClosed:
        return socket.close_code


async def test_input_output_signals_and_the_end_over_a_websocket(environment: ApiEnvironment) -> None:
    got = bytearray()

    async def program(process: FakeProcess) -> int:
        request = json.loads(await process.read())
        assert (request["do"], request["tty"]) == ("exec", {"columns": 91, "rows": 31})
        await process.say(frame(b"a"))
        while b"USR1" not in got:
            got.extend(await process.read())
        await process.say(frame(b"o", b"out") + frame(b"d", b"err") + frame(b"k", b"\0\0\0\x05"))
        await process.say(frame(b"x", b"\x07"))
        await process.read()
        return 0

    ann = await environment.sign_in("ann")
    path = await running(environment, ann, program)
    async with serve(environment.app) as url:
        address = url.replace("http", "ws") + f"{path}/exec"
        async with connect(address, additional_headers=headers_of(ann), proxy=None) as socket:
            await socket.send(json.dumps({"argv": ["true"], "tty": {"columns": 91, "rows": 31}}))
            await socket.send(b"typed")
            await socket.send(json.dumps({"resize": [100, 40]}))
            await socket.send(json.dumps({"end_input": True}))
            await socket.send(json.dumps({"signal": "USR1"}))
            said = [await socket.recv() for _ in range(4)]
            assert await closed(socket) == 1000
    assert said[:2] == [b"\x01out", b"\x02err"]
    assert [json.loads(each) for each in said[2:]] == [
        {"took": 5},
        {"exit": {"code": 7, "timed_out": False, "message": ""}},
    ]
    assert bytes(got) == frame(b"i", b"typed") + frame(b"r", b"\0\x64\0\x28") + frame(b"c") + frame(
        b"s", b"USR1"
    )


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        (["no JSON"], MISUSED),
        ([json.dumps({"argv": []})], MISUSED),
        ([json.dumps({"argv": ["true"], "tty": {"columns": 0}})], MISUSED),
        ([b"binary"], MISUSED),
        ([json.dumps({"argv": ["true"]}), '{"signal": "STOP"}'], MISUSED),
        ([json.dumps({"argv": ["true"]}), "[" * 200], MISUSED),
        ([json.dumps({"argv": ["true"]}), *[b"x" * 60_000] * (INPUT_WINDOW_BYTES // 60_000 + 1)], MISUSED),
    ],
)
async def test_what_is_no_command_closes_the_websocket(
    environment: ApiEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    messages: list[str | bytes],
    code: int,
) -> None:
    monkeypatch.setattr(command, "CLOSE_SECONDS", 0.1)
    ann = await environment.sign_in("ann")

    async def reads_on(process: FakeProcess) -> int:
        await process.say(frame(b"a"))
        while await process.read():
            pass
        return 0

    path = await running(environment, ann, reads_on)
    async with serve(environment.app) as url:
        address = url.replace("http", "ws") + f"{path}/exec"
        async with connect(address, additional_headers=headers_of(ann), proxy=None) as socket:
            for each in messages:
                await socket.send(each)
            assert await closed(socket) == code


@pytest.mark.parametrize(
    "said", [b"", b"usage: inside ssh", frame(b"?"), frame(b"a") + frame(b"t"), frame(b"a")]
)
async def test_a_command_that_is_cut_has_no_exit(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(exchange, "CLOSE_SECONDS", 0.1)
    ann = await environment.sign_in("ann")
    path = await running(environment, ann, saying(said))
    async with serve(environment.app) as url:
        address = url.replace("http", "ws") + f"{path}/exec"
        async with connect(address, additional_headers=headers_of(ann), proxy=None) as socket:
            await socket.send(json.dumps({"argv": ["true"]}))
            assert await closed(socket) == NO_TUNNEL
    environment.runtime.programs["inside"] = saying(b"usage: inside ssh")
    refused = await ann.post(f"{path}/exec", json={"argv": ["true"]})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
