"""Create, start, stop and remove containers of workspaces. Idempotent.

Several processes may start one workspace at once (a leader that was replaced and does not know it yet). Docker
gives the name to one of them; the others find a container that was created and not started, with the same token,
and start that one. Any other container of that name that does not run is removed.
"""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.base import Address
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, Document, NotFound
from codehub.runtimes.docker.fences import Fences, require_not_above
from codehub.runtimes.docker.inside_volume import InsideVolume
from codehub.runtimes.docker.inventory import Container, address_of
from codehub.runtimes.docker.names import ACCIDENT, Names, ObjectRole
from codehub.runtimes.docker.order import Order
from codehub.runtimes.docker.users import require_no_stranger

_TRIES = 5
_GONE_SECONDS = 30.0
_TAIL_LINES = 40
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.05


class NetworkGone(Exception):
    """The network to connect the container to does not exist any more."""


class InsideGone(Exception):
    """The volume with ``inside`` does not exist any more; Docker made an empty one in its place."""


class Containers:
    def __init__(self, engine: DockerEngine, names: Names, fences: Fences, inside: InsideVolume) -> None:
        self._engine = engine
        self._names = names
        self._fences = fences
        self._inside = inside

    async def find(self, workspace_id: UUID) -> Container | None:
        """The workspace's container, if there is one and it is ours."""
        try:
            found = await self._engine.container(self._names.container(workspace_id))
        except NotFound:
            return None
        if not self._names.are_ours(found["Config"].get("Labels"), workspace_id, ObjectRole.WORKSPACE):
            return None
        return _described(found)

    async def launch(
        self, order: Order, config: dict[str, Any], *, settle_seconds: float, record: bool = False
    ) -> None:
        """Create and start a container. Raises ``EffectError``, ``NetworkGone`` or ``InsideGone``.

        ``record``: the token is not recorded yet. It is recorded beside the creation, which can be undone; both
        come before the verification that precedes the start, as admission requires (``fences``).
        """
        for attempt in range(_TRIES):
            if record and attempt == 0:
                container_id = await self._create_and_record(order, config)
            else:
                container_id = await self._create_or_adopt(order, config)
            if container_id is None:
                return
            await self._verify_before_start(order, container_id)
            try:
                await self._engine.start_container(container_id)
                exit_code = await self._settle(container_id, seconds=settle_seconds)
            except NotFound as error:
                if not await self._exists(container_id):
                    continue  # removed by another process that took it for a leftover
                await self.remove(container_id)
                raise NetworkGone(str(error)) from error
            except (CallRefused, Conflict) as error:
                await self.remove(container_id)
                raise EffectError(FailureCode.CONTAINER_START_FAILED, str(error)) from error
            if exit_code is not None:
                await self._report_failure(container_id, exit_code)
            return
        raise EffectError(FailureCode.CONTAINER_START_FAILED, "the container was removed again and again")

    async def end(self, container_id: str, *, grace_seconds: int) -> None:
        """Stop and remove a container: SIGTERM, grace, SIGKILL."""
        with suppress(NotFound, CallRefused, Conflict):  # removal by force follows in any case
            await self._engine.stop_container(container_id, grace_seconds=grace_seconds)
        await self.remove(container_id)

    async def remove(self, container_id: str) -> None:
        """Remove a container by force. Returns when it is confirmed gone."""
        deadline = monotonic() + _GONE_SECONDS
        why = ""
        while monotonic() < deadline:
            try:
                await self._engine.remove_container(container_id)
                await self._engine.container(container_id)
            except NotFound:
                return
            except (CallRefused, Conflict) as error:  # it is being removed already, or cannot be removed
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
            except (CallRefused, NotFound) as error:  # not found: the image, removed since it was checked
                raise EffectError(FailureCode.CONTAINER_START_FAILED, str(error)) from error
            except Conflict:
                pass
            try:
                found = await self._engine.container(name)
            except NotFound:
                continue
            if not self._names.are_ours(
                found["Config"].get("Labels"), order.workspace_id, ObjectRole.WORKSPACE
            ):
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

    async def _verify_before_start(self, order: Order, container_id: str) -> None:
        """Between create and start: raise unless the volume is ours alone and our token is the highest.

        A crash before the removal leaves a created container, which the next start removes or adopts.
        """
        try:
            resources, has_inside = await asyncio.gather(
                self._fences.verify(order.workspace_id, order.token), self._has_inside(order)
            )
        except EffectError as error:
            if error.failure is FailureCode.STALE_TOKEN:
                await self.remove(container_id)
            raise
        if order.inside is not None and not has_inside:
            await self.remove(container_id)
            await self._remove_accidental_volume(order.inside)
            raise InsideGone(order.inside)
        if resources.home:
            try:
                require_no_stranger(self._names.home(order.workspace_id), resources)
            except EffectError:
                await self.remove(container_id)
                raise
            return
        await self.remove(container_id)
        await self._remove_accidental_volume(self._names.home(order.workspace_id))
        raise EffectError(FailureCode.VOLUME_MISSING, "the volume vanished before the start")

    async def _has_inside(self, order: Order) -> bool:
        return order.inside is not None and await self._inside.is_there(order.inside)

    async def _remove_accidental_volume(self, name: str) -> None:
        with suppress(NotFound, Conflict, CallRefused):
            if (await self._engine.volume(name)).get("Labels") == {ACCIDENT: "true"}:
                await self._engine.remove_volume(name)

    async def _settle(self, container_id: str, *, seconds: float) -> int | None:
        """The exit code if it ends within ``seconds``; None once it listens, or when the time is over."""
        ended = asyncio.create_task(self._engine.wait_container(container_id))
        listens = asyncio.create_task(self._wait_until_listening(container_id))
        try:
            await asyncio.wait({ended, listens}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else None
        finally:
            for task in (ended, listens):
                task.cancel()
            await asyncio.gather(ended, listens, return_exceptions=True)

    async def _wait_until_listening(self, container_id: str) -> None:
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
        with suppress(NotFound, CallRefused):
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
    """How a container ended, by the engine; None: it runs, or was never started."""
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
