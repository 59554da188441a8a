"""``codehub ws ports`` and ``codehub port-forward``, with the real program in a real workspace and the system's ssh."""

import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.integration.cli.environment import CliEnvironment, Person
from tests.integration.cli.test_inside import Api, api_of, parsed_events
from tests.integration.cli.test_workspaces import create, parsed
from tests.support.ports import free_port
from tests.support.requirements import require_inside, require_program
from tests.support.waiting import until

SECONDS = 120.0
pytestmark = pytest.mark.timeout(600)

SERVER = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from inside")
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture
async def environment(quiet_environment: CliEnvironment) -> AsyncIterator[CliEnvironment]:
    require_program("ssh", package="openssh-client")
    require_inside()
    quiet_environment.with_ssh = True
    async with quiet_environment.serving(), quiet_environment.controlled():
        yield quiet_environment


@pytest.fixture
async def ann(environment: CliEnvironment) -> Person:
    return await environment.signed_in("ann")


@contextlib.asynccontextmanager
async def server_in(api: Api) -> AsyncIterator[int]:
    """The port of a server in the workspace, as long as its command's stream is open."""
    body = {"argv": [sys.executable, "-c", SERVER], "timeout_seconds": 600}
    address = f"/api/v1/workspaces/{api.workspace_id}/exec"
    async with api.client.stream("POST", address, json=body) as answer:
        pieces = answer.aiter_text()  # kept: what is left of a dropped one closes the connection
        said, output = "", ""
        while not output.endswith("\n"):
            said += await anext(pieces)
            _, output, errors = parsed_events(said) if said.endswith("\n\n") else ({}, "", "")
            assert not errors, errors
        yield int(output)


async def test_ports_are_those_of_the_workspace_alone(environment: CliEnvironment, ann: Person) -> None:
    made = await create(ann, "thesis")
    asleep = await ann.run("ws", "ports", "thesis")
    assert (asleep.code, "asleep" in asleep.errors) == (5, True)
    assert (await ann.run("ws", "start", "thesis", "--wait")).code == 0
    async with api_of(ann, made["id"]) as api, server_in(api) as port:
        listed = parsed(await ann.run("ws", "ports", "thesis", "--json"))
        found = {each["port"]: each for each in listed["ports"]}
        assert found[port]["addresses"] == ["127.0.0.1"]
        assert found[port]["url"].endswith(f"/w/{made['id']}/port/{port}/")
        assert made["id"] in listed["home"]
        # CodeHub itself listens on the same machine.
        assert urlsplit(environment.url).port not in found
        shown = await ann.run("ws", "ports", "thesis")
        assert f"/port/{port}/" in shown.output
        bob = await environment.signed_in("bob")
        assert (await bob.run("ws", "ports", made["id"])).code == 4


async def test_a_port_is_reached_at_localhost(environment: CliEnvironment, ann: Person) -> None:
    made = await create(ann, "thesis")
    assert (await ann.run("ws", "start", "thesis", "--wait")).code == 0
    local = free_port()
    async with (
        api_of(ann, made["id"]) as api,
        server_in(api) as remote,
        ann.running("port-forward", "thesis", f"{local}:{remote}") as process,
        httpx.AsyncClient(trust_env=False, timeout=SECONDS) as client,
    ):

        async def answers() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return (await client.get(f"http://127.0.0.1:{local}/")).text == "from inside"
            assert process.returncode is None
            return False

        await until(answers, seconds=SECONDS, what="the port at localhost", every=0.2)


async def test_a_taken_port_is_said_before_anything_is_woken(
    environment: CliEnvironment, ann: Person
) -> None:
    await create(ann, "thesis")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = await ann.run("port-forward", "thesis", f"{port}:8080")
    assert refused.code == 5
    assert f"Port {port} is in use on this machine." in refused.errors
    assert ":8080" in refused.errors
    now = parsed(await ann.run("ws", "list", "--json"))
    assert [each["desired_state"] for each in now] != ["RUNNING"]


@pytest.mark.parametrize("text", ["0", "http", "80:", "70000", "1:2:3", "-1"])
async def test_what_is_no_port_is_refused(environment: CliEnvironment, ann: Person, text: str) -> None:
    refused = await ann.run("port-forward", "thesis", "--", text)
    assert refused.code == 2, refused.errors


async def test_shares_are_listed_labelled_refused_and_taken_back(
    environment: CliEnvironment, ann: Person
) -> None:
    await create(ann, "thesis")
    assert "No port" in (await ann.run("ws", "shares", "thesis")).errors
    labelled = await ann.run("ws", "share", "thesis", "3000", "--level", "private", "--label", "the demo")
    assert labelled.code == 0, labelled.errors
    assert "open to you (the demo)" in labelled.errors
    refused = await ann.run("ws", "share", "thesis", "3000")
    assert refused.code == 1
    assert "CODEHUB_BASE_DOMAIN" in refused.errors  # an installation with paths only
    (listed,) = parsed(await ann.run("ws", "shares", "thesis", "--json"))["shares"]
    assert (listed["port"], listed["label"], listed["level_now"]) == (3000, "the demo", "private")
    assert "the demo" in (await ann.run("ws", "shares", "thesis")).output
    assert (await ann.run("ws", "unshare", "thesis", "3000")).code == 0
    assert (await ann.run("ws", "unshare", "thesis", "3000")).code == 4
