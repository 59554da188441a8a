"""One replica: a real ``codehub serve`` on the shared servers, that can be killed, frozen and started again.

It reaches PostgreSQL and Redis through links of its own, so that a fault of the network can hit one replica
and spare the other. It always comes back at the same address.
"""

import asyncio
import os
import signal
from pathlib import Path

import httpx

from tests.support.broken_link import BrokenLink
from tests.support.instance import COMMAND, process_variables
from tests.support.waiting import until

SECONDS_TO_START = 240.0  # on a machine that does ten other things


class Replica:
    def __init__(
        self, name: str, *, port: int, database: BrokenLink, redis: BrokenLink, log: Path, **settings: str
    ) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self.database = database
        self.redis = redis
        self._log = log
        self._variables = process_variables(
            CODEHUB_BIND=f"127.0.0.1:{port}", COORDINATOR_NODE_ID=name, **settings
        )
        self._process: asyncio.subprocess.Process | None = None
        self.lives = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Returns at once; ``until_ready`` waits."""
        assert not self.alive
        self.lives += 1
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND,
                "serve",
                env=self._variables,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def until_ready(self) -> None:
        async def ready() -> bool:
            assert self.alive, f"replica {self.name} ended by itself:\n{self.last_words()}"
            return await self.answers()

        try:
            await until(ready, seconds=SECONDS_TO_START, what=f"replica {self.name} to be ready")
        except AssertionError as error:
            raise AssertionError(f"{error}; it said:\n{self.last_words()}") from error

    async def answers(self) -> bool:
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
                return (await client.get(f"{self.url}/health/ready")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    async def kill(self) -> None:
        """kill -9 of the server; its proxy processes die with it, workspaces and storage jobs do not."""
        assert self._process is not None
        os.kill(self.pid, signal.SIGKILL)
        await self._process.wait()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    async def end(self) -> None:
        if self.alive:
            assert self._process is not None
            self.thaw()
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), 60)
            except TimeoutError:
                await self.kill()

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
