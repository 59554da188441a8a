"""One start: a place to listen, command, process, and the first moment of its life.

The caller holds the workspace's lock, has found a volume and no container. Dying anywhere in here leaves
at most a reserved port and an empty directory, or a process that has recorded itself (see ``spawn``).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from codehub.kit.clock import monotonic
from codehub.runtimes.base import Token
from codehub.runtimes.local import logs
from codehub.runtimes.local.images import uses_socket
from codehub.runtimes.local.layout import Layout
from codehub.runtimes.local.places import Place, take_place
from codehub.runtimes.local.processes import boot_id
from codehub.runtimes.local.records import record_head
from codehub.runtimes.local.sandbox import Sandbox
from codehub.runtimes.local.spawn import Child, command_of, spawn_workspace, workspace_environment


@dataclass(frozen=True)
class Order:
    """What to start for whom."""

    workspace_id: UUID
    template: str
    token: Token
    env: Mapping[str, str]
    base_path: str
    sandbox: Sandbox | None


@dataclass(frozen=True)
class Started:
    child: Child
    place: Place
    log_start: int  # where in the output this attempt begins


def start_process(layout: Layout, order: Order, *, lock_fd: int) -> Started:
    """Blocking; for a thread."""
    workspace_id, home = order.workspace_id, layout.volume(order.workspace_id)
    log = layout.output(workspace_id)
    place = take_place(layout, workspace_id, lock_fd=lock_fd, on_socket=uses_socket(order.template))
    command = command_of(order.template, place=place, home=home, base_path=order.base_path)
    if order.sandbox is not None:
        own = [] if place.socket is None else [place.socket.parent]
        command = [*order.sandbox.prefix(home, command=command, own=own), *command]
    logs.rotate(log)
    log_start = logs.size_of(log)
    env = workspace_environment(
        workspace_id, home=home, place=place, base_path=order.base_path, given=order.env
    )
    child = spawn_workspace(
        command,
        record=layout.process(workspace_id),
        head=record_head(token=order.token, port=place.port, boot=boot_id(), socket=place.socket),
        lock_fd=lock_fd,
        output=log,
        home=home,
        env=env,
    )
    return Started(child, place, log_start)


async def settle(started: Started, *, seconds: float) -> int | None:
    """Its exit code if it ended at once; None as soon as it listens, or has lived a little.

    Whether it answers is the proxy's business. This is only here so that a wrong command line is told
    with its own words instead of as a container that keeps vanishing. It makes nobody wait: before it
    listens there is nothing to see.
    """
    began = monotonic()
    while (waited := monotonic() - began) < seconds:
        if (exit_code := started.child.poll()) is not None:
            return exit_code
        if await started.place.answers():
            return None
        # A seventh of the wait so far: hardly later than it could be for one, and fifty that start at once
        # are not kept from starting by being asked.
        await asyncio.sleep(min(max(waited / 7, 0.001), 0.05))
    return None
