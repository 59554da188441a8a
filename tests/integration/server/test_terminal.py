"""``codehub up`` on a real terminal: one box, the log in a file, a demo if asked for."""

import asyncio
import json
import os
import pty
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.instance import COMMAND, SECONDS_TO_START, SECONDS_TO_STOP, process_variables
from tests.support.local_environment import server_command

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass
class Terminal:
    """A program on a terminal, and all that was printed there."""

    process: asyncio.subprocess.Process
    screen: bytearray

    @property
    def text(self) -> str:
        return ESCAPES.sub("", self.screen.decode(errors="replace"))

    async def until(self, pattern: str) -> re.Match[str]:
        async with asyncio.timeout(SECONDS_TO_START):
            while (found := re.search(pattern, self.text)) is None:
                assert self.process.returncode is None, self.text
                await asyncio.sleep(0.05)
        return found


@asynccontextmanager
async def on_terminal(data_dir: Path, *arguments: str, **variables: str) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    chosen = {
        "CODEHUB_DATA_DIR": str(data_dir),
        "CODEHUB_BIND": "127.0.0.1:0",
        "TERM": "xterm-256color",
        "COLUMNS": "120",
        **variables,
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            "up",
            *arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=process_variables(**chosen),
        )
    finally:
        os.close(theirs)
    terminal = Terminal(process, bytearray())
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # its last process has ended
            piece = b""
        terminal.screen.extend(piece)
        if not piece:
            loop.remove_reader(ours)

    loop.add_reader(ours, read)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(SECONDS_TO_STOP):
            await process.wait()
        loop.remove_reader(ours)
        os.close(ours)


@pytest.fixture
def images() -> Mapping[str, str]:
    return {"LOCAL_IMAGES": json.dumps({"tiny": server_command()})}


async def test_a_person_sees_one_box_and_the_log_is_in_a_file(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with on_terminal(data_dir) as terminal:
        url = (await terminal.until(r"CodeHub is ready: (http://[0-9.:]+)"))[1]
        password = (await terminal.until(r"User admin, password (\S+)"))[1]
        assert re.search(r'"event"|leadership|\[info', terminal.text) is None, terminal.text
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            signed_in = await client.post(
                "/api/v1/auth/login",
                json={"username": "admin", "password": password},
                headers={"Origin": url},
            )
        assert signed_in.status_code == httpx.codes.OK, signed_in.text
    log = data_dir / "logs" / "codehub.log"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"leadership acquired", "proxy serves"} <= {event["event"] for event in events}, (
        "proxies log there too"
    )
    assert log.stat().st_mode & 0o077 == 0
    assert password not in log.read_text()


async def test_an_error_at_the_start_is_told_on_the_terminal(tmp_path: Path) -> None:
    async with on_terminal(tmp_path / "data", CODEHUB_BIND="256.0.0.1:1") as terminal:
        await terminal.process.wait()
    assert "CODEHUB_BIND" in terminal.text
    assert "Traceback" not in terminal.text


async def test_a_demo_has_a_workspace_in_every_state(tmp_path: Path, images: Mapping[str, str]) -> None:
    async with on_terminal(tmp_path / "data", "--demo", **images) as terminal:
        url = (await terminal.until(r"CodeHub is ready: (http://[0-9.:]+)"))[1]
        password = (await terminal.until(r"User admin, password (\S+)"))[1]
        await terminal.until("Demo workspaces: thesis, scratch, old-project")
        async with httpx.AsyncClient(base_url=f"{url}/api/v1", trust_env=False) as client:
            await client.post(
                "/auth/login", json={"username": "admin", "password": password}, headers={"Origin": url}
            )
            async with asyncio.timeout(SECONDS_TO_START):
                wanted = {"thesis": "running", "scratch": "standby", "old-project": "archived"}
                while await _statuses(client) != wanted:
                    await asyncio.sleep(0.1)
    async with on_terminal(tmp_path / "data", "--demo", **images) as again:
        await again.until("not a new installation")


async def _statuses(client: httpx.AsyncClient) -> dict[str, str]:
    found = (await client.get("/workspaces")).json()["items"]
    return {each["name"]: each["status"] for each in found}
