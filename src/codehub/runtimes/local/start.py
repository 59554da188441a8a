"""Start a workspace's process: reserve its address, spawn, wait until it listens.

The caller holds the workspace's lock, and has found a volume and no container. A crash anywhere in here leaves at
most a reserved port and an empty directory, or a process that has recorded itself (see ``spawn``).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from codehub.kit.clock import monotonic
from codehub.runtimes.base import FencingToken
from codehub.runtimes.local import logs
from codehub.runtimes.local.images import uses_socket
from codehub.runtimes.local.layout import Layout
from codehub.runtimes.local.listen_addresses import ListenAddress, reserve_address
from codehub.runtimes.local.processes import boot_id
from codehub.runtimes.local.records import record_head
from codehub.runtimes.local.sandbox import Sandbox
from codehub.runtimes.local.spawn import DetachedProcess, command_of, spawn_workspace, workspace_environment


@dataclass(frozen=True)
class Order:
    """One start of one workspace."""

    workspace_id: UUID
    template: str
    token: FencingToken
    env: Mapping[str, str]
    base_path: str
    sandbox: Sandbox | None


@dataclass(frozen=True)
class Started:
    child: DetachedProcess
    listen: ListenAddress
    log_start: int  # where in the output this attempt begins


def start_process(layout: Layout, order: Order, *, lock_fd: int) -> Started:
    """Reserve where it listens, and spawn the process. Blocking."""
    workspace_id, home = order.workspace_id, layout.volume(order.workspace_id)
    log = layout.output(workspace_id)
    listen = reserve_address(layout, workspace_id, lock_fd=lock_fd, on_socket=uses_socket(order.template))
    command = command_of(order.template, listen=listen, home=home, base_path=order.base_path)
    if order.sandbox is not None:
        own = [] if listen.socket is None else [listen.socket.parent]
        command = [*order.sandbox.prefix(home, command=command, own=own), *command]
    logs.rotate(log)
    log_start = logs.size_of(log)
    env = workspace_environment(
        workspace_id, home=home, listen=listen, base_path=order.base_path, given=order.env
    )
    child = spawn_workspace(
        command,
        record=layout.process(workspace_id),
        head=record_head(token=order.token, port=listen.port, boot=boot_id(), socket=listen.socket),
        lock_fd=lock_fd,
        output=log,
        home=home,
        env=env,
    )
    return Started(child, listen, log_start)


async def settle(started: Started, *, seconds: float) -> int | None:
    """The exit code if it ends within ``seconds``; None: it listens, or still runs.

    The proxy waits until it answers. This only reports a wrong command line with its own output, instead of as a
    container that keeps ending. It delays no one: before it listens there is nothing to show.
    """
    began = monotonic()
    while (waited := monotonic() - began) < seconds:
        if (exit_code := started.child.poll()) is not None:
            return exit_code
        if await started.listen.answers():
            return None
        # Poll after a seventh of the wait so far: little delay for one start, and fifty that start at once are not
        # slowed down by polling.
        await asyncio.sleep(min(max(waited / 7, 0.001), 0.05))
    return None
