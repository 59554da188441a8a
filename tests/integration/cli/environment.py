"""A CodeHub for the command to talk to: the real API on a real port, and a control plane where one is wanted.

The API runs inside the test process and can be stopped and started again at the same address; the command
runs as a process of its own, as it does for a person.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from codehub.api.app import create_app, end_streams
from codehub.api.dependencies import (
    ApiDependencies,
    ApiSettings,
    InsideAccess,
    SshAccess,
    SshGatewayAddress,
)
from codehub.archives.contents_reader import ContentsReader
from codehub.domain.limits import RunningLimits
from codehub.domain.states import Role
from codehub.server.control_plane import ControlPlane
from codehub.server.coordinator_health import CoordinatorHealth
from codehub.server.inside_access import build_inside_access
from codehub.server.ssh_access import build_ssh_access
from codehub.services.passwords import Passwords
from codehub.services.readiness import Readiness
from codehub.signals.activity import ActivityLog
from codehub.signals.connection import RedisLink
from codehub.signals.live import LiveFeed, LivePublisher
from codehub.signals.rate_limit import SharedRateLimit
from codehub.store.accounts.users import UserRecord
from codehub.store.db import connections
from codehub.store.db.pool import Pool
from tests.support import accounts
from tests.support.accounts import PASSWORD
from tests.support.control import ControlEnvironment
from tests.support.gateway import address_of_gateway, gateway_socket, serve_gateway
from tests.support.instance import COMMAND, Outcome, codehub, process_variables
from tests.support.waiting import until


@dataclass
class CliEnvironment:
    control: ControlEnvironment
    pool: Pool
    link: RedisLink
    passwords: Passwords
    directory: Path
    limits: RunningLimits = field(default_factory=RunningLimits)
    plane: ControlPlane | None = None
    with_ssh: bool = False
    gateway: SshGatewayAddress | None = None
    ssh: SshAccess | None = None
    inside: InsideAccess | None = None
    _port: socket.socket = field(default_factory=lambda: _reuseport(0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port.getsockname()[1]}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The API answers. Before and after, connections are refused; the port stays reserved."""
        live = LiveFeed(self.link)
        runtime = await self.control.runtime()
        if self.with_ssh:
            self.ssh = build_ssh_access(
                self.control.settings, runtime, secret=b"secret", leases=ActivityLog(self.link)
            )
            self.inside = build_inside_access(self.control.settings, runtime, leases=ActivityLog(self.link))
        with_gateway = gateway_socket() if self.with_ssh else contextlib.nullcontext()
        with with_gateway as taken_ssh:
            if taken_ssh is not None:
                self.gateway = address_of_gateway(taken_ssh)
            app = create_app(self._dependencies(live, runtime))
            async with serve_gateway(app, taken_ssh), self._http(app, live):
                yield
        await runtime.close()
        await live.close()

    @asynccontextmanager
    async def _http(self, app: FastAPI, live: LiveFeed) -> AsyncIterator[None]:
        config = uvicorn.Config(
            app,
            http="httptools",
            log_config=None,
            access_log=False,
            date_header=False,
            lifespan="off",
            ws="websockets-sansio",
        )
        server = uvicorn.Server(config)
        live.start()
        async with app.router.lifespan_context(app):
            taken = _reuseport(self._port.getsockname()[1])
            task = asyncio.create_task(server.serve(sockets=[taken]))

            async def started() -> bool:
                return server.started

            await until(started, what="server")
            try:
                yield
            finally:
                end_streams(app)
                server.should_exit = True
                await task
                taken.close()

    @asynccontextmanager
    async def controlled(self) -> AsyncIterator[None]:
        """What is asked is also done."""
        async with self.control.replica("node-one") as plane:
            self.plane = plane
            try:
                yield
            finally:
                self.plane = None

    async def add_user(self, username: str, role: Role = Role.USER) -> UserRecord:
        return await accounts.add_user(self.control.sessions, self.passwords, username, role)

    def variables_of(self, username: str) -> dict[str, str]:
        """Each person has a configuration directory of their own."""
        return {"XDG_CONFIG_HOME": str(self.config_dir(username)), "HOME": str(self.directory)}

    def config_dir(self, username: str) -> Path:
        return self.directory / f"config-{username}"

    def login_file(self, username: str) -> Path:
        return self.config_dir(username) / "codehub" / "login.json"

    async def signed_in(self, username: str, role: Role = Role.USER) -> "Person":
        await self.add_user(username, role)
        person = Person(self, username)
        outcome = await person.run(
            "login", self.url, "-u", username, "--password-stdin", stdin=PASSWORD + "\n"
        )
        assert outcome.code == 0, outcome.errors
        return person

    def close(self) -> None:
        self._port.close()

    def _dependencies(self, live: LiveFeed, runtime: Any) -> ApiDependencies:
        async def coordinator_health() -> dict[str, Any]:
            return await CoordinatorHealth(self.control.settings, self.plane, self.control.sessions)()

        reading = connections.reading_session_factory(self.pool)
        return ApiDependencies(
            settings=ApiSettings(base_url=self.url, limits=self.limits, ssh_gateway=self.gateway),
            sessions=self.control.sessions,
            read_sessions=reading,
            live=live,
            runtime=runtime,
            archives=self.control.archives(),
            contents=ContentsReader(
                self.control.archives(), index_directory=self.control.data_dir / "indexes"
            ),
            rate_limit=SharedRateLimit(self.link),
            passwords=self.passwords,
            why_not_ready=Readiness(reading).why_not_ready,
            coordinator_health=coordinator_health,
            activity=ActivityLog(self.link),
            publisher=LivePublisher(self.link),
            ssh=self.ssh,
            inside=self.inside,
        )


@dataclass(frozen=True)
class Person:
    """Somebody at a shell."""

    environment: CliEnvironment
    username: str

    async def run(self, *arguments: str, stdin: str = "", **variables: str) -> Outcome:
        return await codehub(
            *arguments, stdin=stdin, **{**self.environment.variables_of(self.username), **variables}
        )

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The command under way; whatever the test leaves of it is ended."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            env=process_variables(**self.environment.variables_of(self.username)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def at_terminal(self, *arguments: str, typed: str) -> tuple[int, str]:
        """With a terminal, on which this is typed: exit code, and all that appeared on it."""
        ours, theirs = os.openpty()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "codehub.cli.main"),
            *arguments,
            env=process_variables(
                **self.environment.variables_of(self.username), TERM="xterm", COLUMNS="200"
            ),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        os.write(ours, typed.encode())
        seen = await asyncio.wait_for(asyncio.to_thread(_read_all, ours), 60)
        return await process.wait(), seen


def _read_all(terminal: int) -> str:
    seen = b""
    # A terminal whose other side has closed answers with an error, not with an end.
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 65536):
            seen += piece
    os.close(terminal)
    return seen.decode("utf-8", "replace")


def _reuseport(port: int) -> socket.socket:
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    taken.bind(("127.0.0.1", port))
    return taken
