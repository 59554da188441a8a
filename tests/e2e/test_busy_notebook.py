"""JupyterLab that executes a cell while nobody is there: it stays awake, says why, and sleeps when it is done."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(400)

SETTINGS: dict[str, Any] = {**QUICK, "TTL_INTERVAL": "2"}
SECONDS = 150  # an IDE on a busy machine
# Waits without any use of a processor, until it is told to end.
CELL = "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('end'):\n    time.sleep(0.2)\n"
MESSAGE: dict[str, Any] = {
    "parent_header": {},
    "metadata": {},
    "channel": "shell",
    "buffers": [],
    "content": {"code": CELL, "silent": False, "store_history": False, "allow_stdin": False},
}


async def answers(person: Person, path: str) -> bool:
    return (await person.background(path)).status_code == 200


async def execute(person: Person, base: str) -> None:
    """Begin to execute ``CELL`` as a notebook does, and leave."""
    await person.background(f"{base}lab")  # its page sets the token that a POST has to carry
    token = person.client.cookies.get("_xsrf", path=base) or ""
    started = await person.client.post(
        f"{base}api/kernels", json={}, headers={"X-XSRFToken": token, "Origin": person.url}
    )
    assert started.status_code == 201, started.text
    header = {
        "msg_id": uuid4().hex,
        "msg_type": "execute_request",
        "session": "s",
        "username": "",
        "version": "5.3",
    }
    async with person.socket(f"{base}api/kernels/{started.json()['id']}/channels?session_id=s") as socket:
        await socket.send(json.dumps({**MESSAGE, "header": header}))

        begun = f"{base}api/contents/begun?content=0"
        await until(lambda: answers(person, begun), seconds=SECONDS, what="the cell to run")


async def test_a_notebook_that_executes_stays_awake_without_a_tab(tmp_path: Path) -> None:
    bind = f"127.0.0.1:{free_port()}"
    async with (
        codehub_up(tmp_path / "data", bind=bind, **SETTINGS) as instance,
        Person.admin(instance.url) as person,
    ):
        workspace_id = await person.create("thesis", image="jupyterlab", standby_ttl_seconds=600)
        base = f"/w/{workspace_id}/"
        await until(
            lambda: answers(person, f"{base}api/status"), seconds=SECONDS, what="JupyterLab to answer"
        )
        await execute(person, base)
        await person.change(workspace_id, standby_ttl_seconds=5)

        async def is_kept_awake() -> dict[str, Any] | None:
            seen = await person.workspace(workspace_id)
            assert seen["status"] == "running", seen
            awake = seen["activity"]["awake"]
            return seen if awake is not None and awake["because"] == "busy" else None

        seen = await until(is_kept_awake, seconds=SECONDS, what="it to be kept awake by its work")
        awake = seen["activity"]["awake"]
        assert (awake["work"]["what"], awake["work"]["name"]) == ("kernel", "")
        assert seen["activity"]["next"]["at"] == awake["work"]["until"]

        (home,) = (tmp_path / "data" / "volumes").glob(f"ws-{workspace_id}*")
        (home / "end").touch()  # by no request: that would be use
        await person.until_status(workspace_id, "standby", seconds=SECONDS)
