"""Signing in and out from a shell: what is kept, what is not, and who is told what."""

import asyncio
import json
import stat

import httpx
from sqlalchemy import Integer

from codehub.store.db.typed_text import typed_text
from tests.integration.cli.environment import CliEnvironment, Person
from tests.support.accounts import PASSWORD


async def status_with(environment: CliEnvironment, token: str) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(
            f"{environment.url}/api/v1/workspaces", headers={"Authorization": f"Bearer {token}"}
        )
    return answer.status_code


async def test_login_keeps_a_token_for_oneself_and_no_password(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    path = environment.login_file("ann")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = json.loads(path.read_text())
    assert kept["username"] == "ann"
    assert PASSWORD not in path.read_text()
    assert await status_with(environment, kept["token"]) == 200
    assert [each.name for each in path.parent.iterdir()] == ["login.json"]

    out = await ann.run("logout", "--json")
    assert (out.code, json.loads(out.output)["revoked"]) == (0, True)
    assert not path.exists()
    assert await status_with(environment, kept["token"]) == 401
    again = await ann.run("logout")
    assert (again.code, "not signed in" in again.errors) == (3, True)


async def test_login_leaves_no_session_and_one_token(environment: CliEnvironment) -> None:
    """Given a second login, the token of the first counts no more: nobody has it any longer."""
    ann = await environment.signed_in("ann")
    first = json.loads(environment.login_file("ann").read_text())["token"]
    again = await ann.run("login", "-u", "ann", "--password-stdin", "--json", stdin=PASSWORD)
    assert again.code == 0, again.errors
    second = json.loads(environment.login_file("ann").read_text())["token"]
    assert json.loads(again.output)["url"] == environment.url, "where one was last"
    assert await status_with(environment, first) == 401
    assert await status_with(environment, second) == 200
    async with environment.control.sessions() as session:
        assert (await session.exec(typed_text("SELECT count(*) FROM sessions", Integer()))).one() == 0


async def test_login_says_what_is_wrong(environment: CliEnvironment) -> None:
    await environment.add_user("ann")
    ann = Person(environment, "ann")
    wrong = await ann.run("login", environment.url, "-u", "ann", "--password-stdin", stdin="not it\n")
    assert (wrong.code, "do not belong together" in wrong.errors) == (3, True)
    no_terminal = await ann.run("login", environment.url, "-u", "ann")
    assert (no_terminal.code, "--password-stdin" in no_terminal.errors) == (2, True)
    nowhere = await ann.run("login")
    assert nowhere.code == 2
    odd = await ann.run("login", "ftp://x", "-u", "ann", "--password-stdin", stdin="x")
    assert (odd.code, "not an address" in odd.errors) == (2, True)
    assert not environment.login_file("ann").exists()


async def test_every_command_says_that_one_is_not_signed_in(environment: CliEnvironment) -> None:
    nobody = Person(environment, "nobody")
    for command in (("ws", "list", "--json"), ("ws", "start", "x"), ("admin", "overview")):
        outcome = await nobody.run(*command)
        assert (outcome.code, outcome.output, "codehub login" in outcome.errors) == (3, "", True)


async def test_a_revoked_token_is_said_to_be_so(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    kept = json.loads(environment.login_file("ann").read_text())
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.delete(
            f"{environment.url}/api/v1/tokens/{kept['token_id']}",
            headers={"Authorization": f"Bearer {kept['token']}"},
        )
    outcome = await ann.run("ws", "list")
    assert (outcome.code, f"codehub login {environment.url}" in outcome.errors) == (3, True)


async def test_the_environment_goes_above_the_file(environment: CliEnvironment) -> None:
    await environment.signed_in("ann")
    token = json.loads(environment.login_file("ann").read_text())["token"]
    nobody = Person(environment, "nobody")
    outcome = await nobody.run("ws", "list", "--json", CODEHUB_URL=environment.url, CODEHUB_TOKEN=token)
    assert (outcome.code, json.loads(outcome.output)) == (0, [])
    half = await nobody.run("ws", "list", CODEHUB_TOKEN=token)
    assert (half.code, "CODEHUB_URL" in half.errors) == (2, True)


async def test_a_token_is_shown_only_to_the_server_that_gave_it(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    called = asyncio.Event()

    async def listen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as other:
        url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"
        outcome = await ann.run("ws", "list", CODEHUB_URL=url)
    assert (outcome.code, "not signed in" in outcome.errors) == (3, True)
    assert not called.is_set()


async def test_a_server_that_is_away_is_a_sentence(quiet_environment: CliEnvironment) -> None:
    async with quiet_environment.serving():
        ann = await quiet_environment.signed_in("ann")
    outcome = await ann.run("ws", "list", "--json")
    assert (outcome.code, outcome.output) == (1, "")
    assert quiet_environment.url in outcome.errors
    assert "Is it running" in outcome.errors
    assert "Traceback" not in outcome.errors
    out = await ann.run("logout")
    assert (out.code, "could not be told" in out.errors) == (0, True)
    assert not quiet_environment.login_file("ann").exists()


async def test_something_else_at_the_address(environment: CliEnvironment) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        url = f"127.0.0.1:{other.sockets[0].getsockname()[1]}"
        outcome = await Person(environment, "ann").run(
            "login", url, "-u", "ann", "--password-stdin", stdin="x\n"
        )
    assert (outcome.code, "is not CodeHub" in outcome.errors) == (1, True)
