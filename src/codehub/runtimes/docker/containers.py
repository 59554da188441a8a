"""Starting and ending containers.

Several CodeHubs may start one workspace at once (a leader that was replaced and does not know it yet).
Docker lets only one of them have the name; the others find a container that was created and not started, with
the same token, and start that one. Whatever else is found under the name and does not run is removed.
"""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.base import Address
from codehub.runtimes.docker.engine import Conflict, DockerEngine, Document, NotFound, Refused
from codehub.runtimes.docker.fences import Fences, require_not_above
from codehub.runtimes.docker.inventory import Container, address_of
from codehub.runtimes.docker.names import ACCIDENT, Names, Role
from codehub.runtimes.docker.order import Order
from codehub.runtimes.docker.users import require_no_stranger

_TRIES = 5
_GONE_SECONDS = 30.0
_TAIL_LINES = 40
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.05


class NetworkGone(Exception):
    """What the container was to be connected to is not there any more."""


class Containers:
    def __init__(self, engine: DockerEngine, names: Names, fences: Fences) -> None:
        self._engine = engine
        self._names = names
        self._fences = fences

    async def find(self, workspace_id: UUID) -> Container | None:
        """The workspace's container, if there is one and it is ours."""
        try:
            found = await self._engine.container(self._names.container(workspace_id))
        except NotFound:
            return None
        if not self._names.are_ours(found["Config"].get("Labels"), workspace_id, Role.WORKSPACE):
            return None
        return _described(found)

    async def launch(
        self, order: Order, config: dict[str, Any], *, settle_seconds: float, record: bool = False
    ) -> None:
        """It runs, or an ``EffectError`` says why not; ``NetworkGone`` if its network was removed.

        ``record``: the token is not recorded yet. That is done beside the creation, which can be undone; both
        come before the look that precedes the start, as admission demands (``fences``).
        """
        for attempt in range(_TRIES):
            if record and attempt == 0:
                container_id = await self._create_and_record(order, config)
            else:
                container_id = await self._create_or_adopt(order, config)
            if container_id is None:
                return
            await self._require_ground(order, container_id)
            try:
                await self._engine.start_container(container_id)
                exit_code = await self._settle(container_id, seconds=settle_seconds)
            except NotFound as error:
                if not await self._exists(container_id):
                    continue  # swept by somebody who took it for a leftover
                await self.remove(container_id)
                raise NetworkGone(str(error)) from error
            except (Refused, Conflict) as error:
                await self.remove(container_id)
                raise EffectError(FailureCode.CONTAINER_START_FAILED, str(error)) from error
            if exit_code is not None:
                await self._report_failure(container_id, exit_code)
            return
        raise EffectError(FailureCode.CONTAINER_START_FAILED, "the container was removed again and again")

    async def end(self, container_id: str, *, grace_seconds: int) -> None:
        """SIGTERM, grace, SIGKILL, and nothing left of it."""
        with suppress(NotFound, Refused, Conflict):  # whatever it says: removal by force comes next
            await self._engine.stop_container(container_id, grace_seconds=grace_seconds)
        await self.remove(container_id)

    async def remove(self, container_id: str) -> None:
        """Gone, by force. Returns when it is confirmed."""
        deadline = monotonic() + _GONE_SECONDS
        why = ""
        while monotonic() < deadline:
            try:
                await self._engine.remove_container(container_id)
                await self._engine.container(container_id)
            except NotFound:
                return
            except (Refused, Conflict) as error:  # being removed by somebody else, or it will not go
                why = str(error)
            await asyncio.sleep(0.1)
        raise EffectError(FailureCode.CONTAINER_STOP_FAILED, f"The container could not be removed: {why}")

    async def _exists(self, container_id: str) -> bool:
        try:
            await self._engine.container(container_id)
        except NotFound:
            return False
        return True

    async def _create_and_record(self, order: Order, config: dict[str, Any]) -> str | None:
        recorded, created = await asyncio.gather(
            self._fences.record(order.workspace_id, order.token),
            self._create_or_adopt(order, config),
            return_exceptions=True,
        )
        if isinstance(recorded, BaseException):
            if isinstance(created, str):
                await self.remove(created)
            raise recorded
        if isinstance(created, BaseException):
            raise created
        return created

    async def _create_or_adopt(self, order: Order, config: dict[str, Any]) -> str | None:
        """The id of a container to start; None if one runs already."""
        name = self._names.container(order.workspace_id)
        for _ in range(_TRIES):
            try:
                return await self._engine.create_container(name, config)
            except (Refused, NotFound) as error:  # not found: the image, removed since we looked
                raise EffectError(FailureCode.CONTAINER_START_FAILED, str(error)) from error
            except Conflict:
                pass
            try:
                found = await self._engine.container(name)
            except NotFound:
                continue
            if not self._names.are_ours(found["Config"].get("Labels"), order.workspace_id, Role.WORKSPACE):
                raise EffectError(
                    FailureCode.CONTAINER_START_FAILED,
                    f"a container called {name} exists and is not of this installation; it was left alone",
                )
            container = _described(found)
            require_not_above(order.token, container.token)
            if container.is_running:
                return None
            if container.state == "created" and container.token == order.token:
                return container.id
            await self.remove(container.id)
        raise EffectError(FailureCode.CONTAINER_START_FAILED, f"the name {name} is taken again and again")

    async def _require_ground(self, order: Order, container_id: str) -> None:
        """Between create and start: is the volume ours alone, and are we still the newest?

        Dying before the removal leaves a created container, which the next start removes or takes over.
        """
        try:
            things = await self._fences.verify(order.workspace_id, order.token)
        except EffectError as error:
            if error.failure is FailureCode.STALE_TOKEN:
                await self.remove(container_id)
            raise
        if things.home:
            try:
                require_no_stranger(self._names.home(order.workspace_id), things)
            except EffectError:
                await self.remove(container_id)
                raise
            return
        await self.remove(container_id)
        await self._remove_accident(order.workspace_id)
        raise EffectError(FailureCode.VOLUME_MISSING, "the volume vanished before the start")

    async def _remove_accident(self, workspace_id: UUID) -> None:
        name = self._names.home(workspace_id)
        with suppress(NotFound, Conflict, Refused):
            if (await self._engine.volume(name)).get("Labels") == {ACCIDENT: "true"}:
                await self._engine.remove_volume(name)

    async def _settle(self, container_id: str, *, seconds: float) -> int | None:
        """Its exit code if it ends at once; None when it listens, or has not ended for a while."""
        ended = asyncio.create_task(self._engine.wait_container(container_id))
        listens = asyncio.create_task(self._until_it_listens(container_id))
        try:
            await asyncio.wait({ended, listens}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else None
        finally:
            for task in (ended, listens):
                task.cancel()
            await asyncio.gather(ended, listens, return_exceptions=True)

    async def _until_it_listens(self, container_id: str) -> None:
        address: Address | None = None
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with suppress(NotFound, EffectError):
                address = address or _described(await self._engine.container(container_id)).address
            if address is not None and await accepts(address):
                return
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)

    async def _report_failure(self, container_id: str, exit_code: int) -> None:
        output = await self.last_lines(container_id)
        ending = Ending(exit_code=exit_code)
        with suppress(NotFound):
            ending = ending_of(await self._engine.container(container_id)) or ending
        await self.remove(container_id)
        failure = FailureCode.OUT_OF_MEMORY if ending.out_of_memory else FailureCode.CONTAINER_START_FAILED
        context = {key: value for key, value in ending.context.items() if key != "code"}
        message = f"The container {ending.words}, right after it was started."
        raise EffectError(failure, message, **context, output=output)

    async def last_lines(self, container_id: str) -> list[str]:
        pieces = b""
        with suppress(NotFound, Refused):
            async for _, piece in self._engine.output(container_id, tail=_TAIL_LINES):
                pieces += piece
        return pieces.decode(errors="replace").splitlines()[-_TAIL_LINES:]


def _described(found: Document) -> Container:
    labels = found["Config"].get("Labels") or {}
    return Container(
        id=str(found["Id"]),
        state=str(found["State"]["Status"]),
        labels=labels,
        address=address_of(found["NetworkSettings"].get("Networks"), labels),
        ending=ending_of(found),
    )


def ending_of(found: Document) -> Ending | None:
    """What the engine says of one that has run and has ended."""
    state = found["State"]
    if state["Running"] or state["Status"] == "created":
        return None
    return Ending(
        exit_code=int(state["ExitCode"]),
        out_of_memory=bool(state.get("OOMKilled")),
        memory_limit_bytes=(found.get("HostConfig") or {}).get("Memory") or None,
    )


async def accepts(address: Address) -> bool:
    try:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
