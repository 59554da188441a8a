"""``codehub ws …`` and ``codehub admin …`` where nothing moves by itself: words, JSON and exit codes."""

import json
import tarfile
from pathlib import Path
from typing import Any
from uuid import UUID

from codehub.domain.limits import RunningLimits
from codehub.domain.states import Role
from tests.integration.cli.environment import CliEnvironment, Person
from tests.support.archive_forgery import member, plant, plant_tar, tar_of
from tests.support.instance import Outcome


def parsed(outcome: Outcome) -> Any:
    assert outcome.code == 0, outcome.errors
    assert outcome.errors == ""
    return json.loads(outcome.output)


async def create(person: Person, name: str, *more: str) -> Any:
    return parsed(await person.run("ws", "create", name, "--json", *more))


async def test_create_and_list(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    empty = await ann.run("ws", "list")
    assert (empty.code, empty.output, "ws create" in empty.errors) == (0, "", True)

    made = await create(ann, "thesis :smile:", "--description", "for spring", "--sleep-after", "900")
    assert (made["name"], made["status"], made["standby_ttl_seconds"]) == ("thesis :smile:", "new", 900)
    await create(ann, "notes")
    listed = parsed(await ann.run("ws", "list", "--json"))
    assert [ws["name"] for ws in listed] == ["notes", "thesis :smile:"]
    assert listed[1] == made
    assert [ws["name"] for ws in parsed(await ann.run("ws", "list", "--json", "-s", "spring"))] == [
        "thesis :smile:"
    ]
    assert parsed(await ann.run("ws", "list", "--json", "--status", "running")) == []

    shown = await ann.run("ws", "list")
    lines = shown.output.splitlines()
    assert lines[0].split() == ["name", "status", "next", "last", "used", "id", "tags"]
    assert lines[1].startswith("notes")
    assert "thesis :smile:" in lines[2]
    assert len(lines) == 3, "one line each, however long, where nobody's screen has to fit"
    assert "\x1b" not in shown.output


async def test_keeping_awake_and_taking_it_back(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "experiment")
    kept = parsed(await ann.run("ws", "awake", "experiment", "--hours", "2", "--json"))
    assert (kept["id"], kept["awake_until"] is not None) == (made["id"], True)
    assert (await ann.run("ws", "awake", "experiment", "--hours", "25")).code == 2
    released = parsed(await ann.run("ws", "awake", "experiment", "--hours", "0", "--json"))
    assert released["awake_until"] is None


async def test_refusals_have_words_and_codes(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    expected = {
        ("create", "thesis"): (5, "exists already"),
        ("create", "x" * 65): (2, "64"),
        ("create", "new", "--image", "vim"): (2, "Known: tiny"),
        ("start", "tesis"): (4, "Did you mean thesis?"),
        ("explain", "zzz"): (4, "codehub ws list"),
        ("stop", "thesis"): (5, "nothing to stop"),
        ("rm", "thesis"): (2, "--yes"),
        ("list", "--status", "sleepy"): (2, "status"),
        ("list", "--all"): (1, "administrators"),
        ("watch",): (2, "WORKSPACE"),
    }
    for arguments, (code, words) in expected.items():
        outcome = await ann.run("ws", *arguments)
        assert (outcome.code, outcome.output) == (code, ""), (arguments, outcome)
        assert words in outcome.errors, (arguments, outcome.errors)
        assert "Traceback" not in outcome.errors


async def test_a_limit_names_what_runs(environment: CliEnvironment) -> None:
    assert environment.limits == RunningLimits(2, 100)
    ann = await environment.signed_in("ann")
    for name in ("one", "two"):
        await create(ann, name, "--start")
    await create(ann, "three")
    outcome = await ann.run("ws", "start", "three", "--json")
    assert (outcome.code, outcome.output) == (5, "")
    assert "2 of 2" in outcome.errors
    assert "one" in outcome.errors
    assert "codehub ws stop" in outcome.errors
    assert parsed(await ann.run("ws", "stop", "two", "--json"))["desired_state"] == "STANDBY"
    started = await ann.run("ws", "start", "three")
    assert (started.code, started.output) == (0, "three is new (about to start).\n")


async def test_by_id_and_by_name_among_people(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    bob = await environment.signed_in("bob")
    root = await environment.signed_in("root", Role.ADMIN)
    anns, _ = await create(ann, "shared"), await create(bob, "shared")
    only = await create(ann, "only hers")

    assert parsed(await ann.run("ws", "archive", anns["id"], "--json"))["id"] == anns["id"]
    assert parsed(await ann.run("ws", "open", "shared", "--json")) == {
        key: anns[key] for key in ("id", "name", "url")
    }
    assert (await bob.run("ws", "open", "only hers", "--json")).code == 4
    assert (await bob.run("ws", "open", only["id"], "--json")).code == 4
    assert parsed(await root.run("ws", "open", "only hers", "--json"))["id"] == only["id"]
    ambiguous = await root.run("ws", "start", "shared")
    assert (ambiguous.code, "2 workspaces are named shared" in ambiguous.errors) == (5, True)
    assert anns["id"] in ambiguous.errors
    assert len(parsed(await root.run("ws", "list", "--all", "--json"))) == 3


async def test_deleting_needs_a_word(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "thesis")
    code, seen = await ann.at_terminal("ws", "rm", "thesis", typed="no\n")
    assert (code, "Nothing was deleted" in seen) == (1, True)
    assert (await environment.control.view(UUID(made["id"]))).deleted_at is None
    code, seen = await ann.at_terminal("ws", "rm", "thesis", typed="thesis\n")
    assert (code, "deleting" in seen) == (0, True)
    assert (await environment.control.view(UUID(made["id"]))).deleted_at is not None

    again = await create(ann, "thesis")
    gone = parsed(await ann.run("ws", "rm", "thesis", "--yes", "--json"))
    assert (gone["id"], gone["status"]) == (again["id"], "deleting"), "the living one is meant"
    said_twice = await ann.run("ws", "rm", made["id"], "--yes")
    assert said_twice.code == 0
    late = await ann.run("ws", "start", made["id"])
    assert (late.code, "Deleted" in late.errors) == (5, True)


async def test_open_prints_the_address(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "thesis")
    printed = await ann.run("ws", "open", "thesis", "--print")
    assert (printed.code, printed.output, printed.errors) == (0, made["url"] + "\n", "")
    opened = environment.directory / "opened"
    browser = environment.directory / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    outcome = await ann.run("ws", "open", "thesis", BROWSER=str(browser))
    assert (outcome.code, opened.read_text()) == (0, made["url"])


async def test_the_shell_is_offered_names(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    for name in ("thesis", "theory", "notes"):
        await create(ann, name)

    async def offered(line: str, by: Person = ann) -> set[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        outcome = await by.run(_CODEHUB_COMPLETE="complete_bash", **words)
        assert outcome.errors == ""
        return set(outcome.output.split())

    assert await offered("codehub ws start the") == {"thesis", "theory"}
    assert await offered("codehub ws list --status run") == {"running"}
    assert await offered("codehub ws start ", Person(environment, "nobody")) == set(), "silent for strangers"


async def test_operators_look(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    root = await environment.signed_in("root", Role.ADMIN)
    await create(ann, "thesis")
    overview = parsed(await root.run("admin", "overview", "--json"))
    assert overview["counts"] == {"new": 1}
    assert overview["archive_bytes"] == 0
    shown = await root.run("admin", "overview")
    assert "new" in shown.output
    assert "saved by sleeping this month: 0 running hours" in shown.output
    assert parsed(await root.run("admin", "orphans", "--json")) == []
    (environment.control.data_dir / "volumes" / "ws-0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f-home").mkdir()
    found = parsed(await root.run("admin", "orphans", "--json"))
    assert [(each["kind"], each["name"]) for each in found] == [
        ("volume", "ws-0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f-home")
    ]
    assert "volume" in (await root.run("admin", "orphans")).output
    refused = await ann.run("admin", "overview")
    assert (refused.code, "administrators" in refused.errors) == (1, True)


async def test_archives_are_listed_and_downloaded(environment: CliEnvironment, tmp_path: Path) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "my thesis")
    none = await ann.run("ws", "archives", "my thesis")
    assert (none.code, none.output, "None yet" in none.errors) == (0, "", True)
    missing = await ann.run("ws", "download", "my thesis")
    assert (missing.code, "no archive yet" in missing.errors) == (4, True)

    store = environment.control.data_dir / "archives"
    first = plant(store, UUID(made["id"]), b"first" * 100_000)
    second = plant(store, UUID(made["id"]), b"second" * 100_000)
    newest, older = parsed(await ann.run("ws", "archives", "my thesis", "--json"))
    assert {newest["key"], older["key"]} == {first.key, second.key}
    assert older["key"] in (await ann.run("ws", "archives", "my thesis")).output

    target = tmp_path / "home.tar.zst"
    saved = parsed(
        await ann.run("ws", "download", "my thesis", str(target), "--archive", first.key, "--json")
    )
    assert (saved["file"], saved["key"]) == (str(target), first.key)
    assert read(target) == b"first" * 100_000
    again = await ann.run("ws", "download", "my thesis", str(target))
    assert (again.code, "exists already" in again.errors) == (5, True)
    unknown = await ann.run("ws", "download", "my thesis", str(tmp_path / "x"), "--archive", "nonsense")
    assert unknown.code == 4

    damage(store / second.key)
    refused = await ann.run("ws", "download", "my thesis", str(tmp_path / "x"), "--archive", second.key)
    assert (refused.code, "not what was archived" in refused.errors) == (1, True)
    assert names_in(tmp_path) == {"home.tar.zst"}, "nothing half is left"


async def test_files_of_an_archive_are_listed_and_taken(environment: CliEnvironment, tmp_path: Path) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "my thesis")
    tar = tar_of(member("./notes", tarfile.DIRTYPE), member("./notes/today.md", size=5000))
    archive = plant_tar(environment.control.data_dir / "archives", UUID(made["id"]), tar)
    (folder,) = parsed(await ann.run("ws", "files", "my thesis", "--json"))
    assert (folder["name"], folder["type"]) == ("notes", "directory")
    assert "today.md" in (await ann.run("ws", "files", "my thesis", "notes", "-a", archive.key)).output

    taken = await ann.run("ws", "take", "my thesis", "notes/today.md", str(tmp_path / "mine.md"))
    assert taken.code == 0, taken.errors
    assert read(tmp_path / "mine.md") == bytes(5000)
    await ann.run("ws", "take", "my thesis", "notes", str(tmp_path / "notes.tar"))
    with tarfile.open(tmp_path / "notes.tar") as packed:
        assert packed.getnames() == ["notes", "notes/today.md"]
    missing = await ann.run("ws", "take", "my thesis", "none", str(tmp_path / "x"))
    assert (missing.code, "no such file" in missing.errors) == (4, True)
    asleep = await ann.run("ws", "put-back", "my thesis", "notes/today.md")
    assert asleep.code != 0
    assert names_in(tmp_path) == {"mine.md", "notes.tar"}, "nothing half is left"


def read(path: Path) -> bytes:
    return path.read_bytes()


def damage(path: Path) -> None:
    """Another letter in the middle; the length stays."""
    content = path.read_bytes()
    path.write_bytes(content[:1000] + b"X" + content[1001:])


def names_in(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir() if each.is_file()}


async def test_snapshots_and_copies(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "my thesis")
    new = await ann.run("ws", "snapshot", "my thesis", "--as", "kept")
    assert (new.code, "no home yet" in new.errors) == (5, True)
    store = environment.control.data_dir / "archives"
    archive = plant_tar(store, UUID(made["id"]), tar_of(member("./file", size=10)))
    kept = parsed(await ann.run("ws", "snapshot", "my thesis", "--as", "kept", "-a", "1", "--json"))
    assert (kept["key"], kept["snapshot"]["name"]) == (archive.key, "kept")
    assert '"kept"' in (await ann.run("ws", "archives", "my thesis")).output
    assert (await ann.run("ws", "snapshot-rename", "my thesis", "kept", "older")).code == 0

    copied = await ann.run("ws", "fork", "my thesis", "a copy", "--from", "older", "--json")
    assert parsed(copied)["copy_of"] == made["id"]
    taken = await ann.run("ws", "fork", "my thesis", "a copy", "--from", "older")
    assert taken.code == 5
    assert (await ann.run("ws", "snapshot-delete", "my thesis", "older")).code == 0
    none = await ann.run("ws", "snapshot-delete", "my thesis", "1")
    assert (none.code, "no snapshot" in none.errors) == (4, True)
