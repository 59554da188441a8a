"""IDEs on Unix sockets in a whole CodeHub: reached through the proxy, private on the machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from codehub.kit.unix_sockets import LONGEST_PATH
from codehub.runtimes.local.layout import Layout
from tests.support.instance import codehub_up
from tests.support.people import ECHO, QUICK, Person

pytestmark = pytest.mark.timeout(180)

SETTINGS: dict[str, Any] = {**QUICK, "LOCAL_IMAGES": json.dumps({"echo": ECHO})}


@pytest.mark.parametrize("name", ["data", "long" * 30], ids=["short", "long"])
async def test_an_ide_is_reached_on_its_socket_whatever_the_data_directory_is_called(
    tmp_path: Path, name: str
) -> None:
    data_dir = tmp_path / name
    async with codehub_up(data_dir, **SETTINGS) as instance, Person.admin(instance.url) as person:
        workspace_id = await person.running("on a socket")
        async with person.socket(f"/w/{workspace_id}/socket") as tab:
            await tab.send("hello")
            assert await tab.recv() == "hello"
        [place] = [path for path in Layout(data_dir, "").sockets.iterdir() if path.name.isdigit()]
        assert (place / "s").is_socket()
        assert len(str(place / "s")) <= LONGEST_PATH
        assert [path.stat().st_mode & 0o777 for path in (place.parent, place)] == [0o700, 0o700]
        await person.intent(workspace_id, "stop")
        await person.until_status(workspace_id, "standby")
        assert await instance.end() == 0
