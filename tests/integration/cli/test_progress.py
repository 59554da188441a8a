"""Watching real work: real processes, real archives, real events; and servers that go away meanwhile."""

import json
import signal
from typing import Any

from codehub.domain.states import Role
from tests.integration.cli.environment import CliEnvironment
from tests.support.instance import Outcome


def last_json(outcome: Outcome) -> Any:
    assert outcome.code == 0, outcome.errors
    return json.loads(outcome.output)


async def test_there_and_back(environment: CliEnvironment) -> None:
    async with environment.controlled():
        ann = await environment.signed_in("ann")
        made = last_json(await ann.run("ws", "create", "thesis", "--wait", "--json", "--image", "tiny"))
        assert made["status"] == "running"
        assert "listens on" in (await ann.run("ws", "logs", "thesis")).output
        assert "listens on" in last_json(await ann.run("ws", "logs", "thesis", "--json"))["output"]
        [home] = (environment.control.data_dir / "volumes").glob("ws-*-home")
        (home / "chapter.txt").write_text("one")

        archived = await ann.run("ws", "archive", "thesis", "--wait")
        assert archived.code == 0, archived.errors
        lines = archived.output.splitlines()
        assert lines[-2:] == ["thesis: archived", "thesis is archived."]
        assert not home.exists()

        assert (await ann.run("ws", "start", "thesis")).code == 0
        watched = await ann.run("ws", "watch", "thesis", "--json")
        assert watched.code == 0, watched.errors
        events = [json.loads(line) for line in watched.output.splitlines()]
        assert {event["event"] for event in events} <= {"state_changed", "progress"}
        assert events[-1]["workspace"]["status"] == "running"
        assert (home / "chapter.txt").read_text() == "one"

        explained = await ann.run("ws", "explain", "thesis")
        assert explained.code == 0, explained.errors
        for words in (
            *(
                "thesis is running, as wanted.",
                "Start requested, by ann",
                "sleeps in 5 min",
                "idle for 5 min",
            ),
            *(
                "node-one",
                "carries out what is wanted",
                "Restored from the archive and started in",
            ),
        ):
            assert words in explained.output
        history = await ann.run("ws", "history", "thesis")
        for words in (
            "Created and started in",
            "verified, by ann",
            "Restored from the archive and started in",
        ):
            assert words in history.output
        assert "by the reconciler" not in history.output
        steps = await ann.run("ws", "history", "thesis", "--steps")
        assert "Restoring files from the archive, by the reconciler" in steps.output
        told = last_json(await ann.run("ws", "history", "thesis", "--json"))
        assert told[-1]["words"] == "Created, by ann"
        account = last_json(await ann.run("ws", "explain", "thesis", "--json"))
        assert account["obstacles"] == []
        assert account["coordinators"]["wc"]["holder_id"] == "node-one"
        assert account["history"][-1]["words"] == "Created, by ann"

        stopped = last_json(await ann.run("ws", "stop", "thesis", "--wait", "--json"))
        assert stopped["status"] == "standby"
        gone = last_json(await ann.run("ws", "rm", "thesis", "--yes", "--wait", "--json"))
        assert gone["status"] == "deleted"
        assert last_json(await ann.run("ws", "list", "--json")) == []


async def test_a_terminal_gets_a_bar(environment: CliEnvironment) -> None:
    async with environment.controlled():
        ann = await environment.signed_in("ann")
        code, seen = await ann.at_terminal("ws", "create", "thesis", "--wait", "--image", "tiny", typed="")
    assert code == 0, seen
    assert "\x1b[" in seen
    assert "━" in seen
    assert "is" in seen.splitlines()[-1]
    assert "running" in seen.splitlines()[-1]


async def test_what_fails_is_said_and_recovered(environment: CliEnvironment) -> None:
    async with environment.controlled():
        ann = await environment.signed_in("ann")
        root = await environment.signed_in("root", Role.ADMIN)
        failed = await ann.run("ws", "create", "thesis", "--wait", "--json", "--image", "failing")
        assert (failed.code, failed.output) == (1, "")
        assert "RetryExceeded" in failed.errors
        assert "codehub ws recover thesis" in failed.errors

        watched = await ann.run("ws", "watch", "thesis")
        assert (watched.code, "thesis is error" in watched.output) == (1, True)
        explained = await ann.run("ws", "explain", "thesis")
        assert explained.code == 0
        assert "in error" in explained.output
        assert "waits for a person" in explained.output
        account = last_json(await ann.run("ws", "explain", "thesis", "--json"))
        assert account["facts"]["what to do"].startswith("See why it ended")

        stopped = await ann.run("ws", "stop", "thesis")
        assert stopped.code == 0, stopped.errors
        recovered = await root.run("ws", "recover", "thesis", "--wait")
        assert recovered.code == 0, recovered.errors
        assert "thesis is standby." in recovered.output


async def test_explain_says_that_nobody_acts(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    assert (await ann.run("ws", "create", "thesis", "--start", "--image", "tiny")).code == 0
    account = last_json(await ann.run("ws", "explain", "thesis", "--json"))
    assert account["summary"] == "thesis is new: it is empty and should be running."
    assert account["facts"]["next"] == "about to start"
    assert [obstacle.split(",")[0] for obstacle in account["obstacles"]] == [
        "Nobody leads observer",
        "Nobody leads wc",
    ]


async def test_watching_outlives_the_server(quiet_environment: CliEnvironment) -> None:
    environment = quiet_environment
    async with environment.serving():
        ann = await environment.signed_in("ann")
        assert (await ann.run("ws", "create", "thesis", "--start", "--image", "tiny")).code == 0
        watching = ann.running("ws", "watch", "thesis", "--json")
        process = await watching.__aenter__()
        assert process.stdout is not None
        assert json.loads(await process.stdout.readline())["workspace"]["status"] == "new"
    try:
        assert json.loads(await process.stdout.readline())["event"] == "lost"
        async with environment.serving(), environment.controlled():
            output, errors = await process.communicate()
            assert process.returncode == 0, errors
        events = [json.loads(line) for line in output.splitlines()]
        assert events[-1]["workspace"]["status"] == "running"
    finally:
        await watching.__aexit__(None, None, None)


async def test_ctrl_c_is_a_clean_end(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    assert (await ann.run("ws", "create", "thesis", "--start", "--image", "tiny")).code == 0
    async with ann.running("ws", "watch", "thesis") as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"thesis: new (about to start)\n"
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (130, b"")


async def test_patience_ends(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    assert (await ann.run("ws", "create", "thesis", "--image", "tiny")).code == 0
    outcome = await ann.run("ws", "start", "thesis", "--wait", "--json", "--timeout", "0.5")
    assert (outcome.code, outcome.output) == (1, "")
    assert "Not there after 0.5 s" in outcome.errors


async def test_another_intent_meanwhile_is_a_conflict(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    assert (await ann.run("ws", "create", "thesis", "--image", "tiny")).code == 0
    async with ann.running("ws", "start", "thesis", "--wait") as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"thesis: new (about to start)\n"
        assert (await ann.run("ws", "stop", "thesis")).code == 0
        async with environment.controlled():
            _, errors = await process.communicate()
    assert process.returncode == 5
    assert b"something else was asked" in errors


async def test_following_the_output(environment: CliEnvironment) -> None:
    async with environment.controlled():
        ann = await environment.signed_in("ann")
        assert (await ann.run("ws", "create", "thesis", "--wait", "--image", "tiny")).code == 0
        async with ann.running("ws", "logs", "thesis", "--follow", "--json") as process:
            assert process.stdout is not None
            assert "listens on" in json.loads(await process.stdout.readline())["text"]
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()
        assert (process.returncode, errors) == (130, b"")
