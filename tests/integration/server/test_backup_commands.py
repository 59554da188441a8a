"""``codehub backup`` while CodeHub runs, ``codehub restore`` on a machine that knows nothing."""

import json
import signal
from pathlib import Path

import pytest

from tests.support.instance import codehub, codehub_up

pytestmark = pytest.mark.timeout(240)


async def usernames(data_dir: Path) -> list[str]:
    outcome = await codehub("user", "list", "--json", CODEHUB_DATA_DIR=str(data_dir))
    assert outcome.code == 0, outcome.errors
    return [user["username"] for user in json.loads(outcome.output)]


async def test_another_machine_goes_on_where_this_one_was(tmp_path: Path) -> None:
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "codehub.backup"
    async with codehub_up(here) as instance:
        added = await codehub("user", "add", "ann", CODEHUB_DATA_DIR=str(here))
        assert added.code == 0, added.errors

        made = await codehub("backup", str(file), CODEHUB_DATA_DIR=str(here))
        assert made.code == 0, made.errors
        assert "holds 2 people and 0 workspaces" in made.output

        again = await codehub("backup", str(file), CODEHUB_DATA_DIR=str(here))
        assert (again.code, "exists already" in again.errors) == (5, True)

        running = await codehub("restore", str(file), "--replace", CODEHUB_DATA_DIR=str(here))
        assert running.code == 5
        assert "Stop every replica" in running.errors

        trial = await codehub("restore", str(file), "--trial", CODEHUB_DATA_DIR=str(here))
        assert trial.code == 0, trial.errors
        assert "It restores: 2 people" in trial.output
        assert await instance.end(signal.SIGINT) == 0

    restored = await codehub("restore", str(file), "--json", CODEHUB_DATA_DIR=str(there))
    assert restored.code == 0, restored.errors
    told = json.loads(restored.output)
    assert told["restored"]
    assert told["rows"]["users"] == 2
    async with codehub_up(there) as second:
        assert second.password is None, "the people of the backup are there: no first one is made"
        assert await usernames(there) == ["admin", "ann"]

    twice = await codehub("restore", str(file), CODEHUB_DATA_DIR=str(there))
    assert twice.code == 5
    assert "it knows 2 people" in twice.errors


async def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    nowhere = await codehub("backup", str(tmp_path / "none" / "x"), CODEHUB_DATA_DIR=str(tmp_path / "data"))
    assert (nowhere.code, "There is no directory" in nowhere.errors) == (1, True)
    text = tmp_path / "text"
    text.write_text("hello")
    other = await codehub("restore", str(text), CODEHUB_DATA_DIR=str(tmp_path / "data"))
    assert (other.code, "not a backup of CodeHub" in other.errors) == (1, True)
