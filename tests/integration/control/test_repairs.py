"""Disagreements between rows, homes and archives, as an older database leaves them: repaired without a shell."""

import json
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from sqlalchemy import text

from codehub.domain.limits import RunningLimits
from codehub.domain.states import ObservedStatus
from codehub.services.actors import Actor
from codehub.services.findings import LONG_AFTER, Finding, FindingKind, Repair, list_findings
from codehub.services.overview import Overviews
from codehub.services.repairs import Repairs
from codehub.services.workspaces import WorkspaceValues
from codehub.store.db import statements
from codehub.store.workspaces import queries
from tests.integration.control.test_two_replicas import settled
from tests.integration.control.test_walk import read_home, write_home
from tests.support.control import ControlEnvironment
from tests.support.waiting import until

ADMIN = Actor("user:admin", is_admin=True)
Break = Callable[[ControlEnvironment, UUID], Awaitable[None]]


async def change(environment: ControlEnvironment, statement: str, **params: object) -> None:
    async with environment.sessions.begin() as session:
        await session.exec(text(statement), params)


async def a_home(environment: ControlEnvironment, verb: str, status: str) -> tuple[UUID, dict[str, bytes]]:
    workspace_id = await environment.create(name=f"to {verb}")
    await environment.until_status(workspace_id, "running")
    kept = write_home(environment.home(workspace_id))
    await environment.intent(workspace_id, verb)
    await environment.until_status(workspace_id, status)
    return workspace_id, kept


async def forgotten(environment: ControlEnvironment, workspace_id: UUID) -> None:
    """As in a database from before it was made."""
    await change(environment, "DELETE FROM workspaces WHERE id = :id", id=workspace_id)


async def before_its_archive(environment: ControlEnvironment, workspace_id: UUID) -> None:
    """As in a database from before it was archived: its volume is expected, and gone."""
    await rewound(environment, workspace_id, {"volume": True})


async def without_a_key(environment: ControlEnvironment, workspace_id: UUID) -> None:
    """As in a database from before it had a home at all."""
    await rewound(environment, workspace_id, {})


async def rewound(environment: ControlEnvironment, workspace_id: UUID, home: dict[str, bool]) -> None:
    await change(
        environment,
        "UPDATE workspaces SET archive_key = NULL, op_id = NULL, op_seq = 1, home_ctx = cast(:home as jsonb) "
        "WHERE id = :id",
        id=workspace_id,
        home=json.dumps(home),
    )


class Console:
    """What the operator's console does: list, and ask for a repair."""

    def __init__(self, environment: ControlEnvironment, overviews: Overviews, repairs: Repairs) -> None:
        self._environment = environment
        self._overviews = overviews
        self._repairs = repairs

    async def find(self, kind: FindingKind, workspace_id: UUID) -> Finding:
        found: list[Finding] = []

        async def listed() -> bool:
            orphans = await self._overviews.orphans()
            async with self._environment.sessions() as session:
                now = await statements.now(session)
                troubled = await queries.list_troubled(session, began_before=now - LONG_AFTER)
            found[:] = [
                each
                for each in list_findings(troubled, orphans, now=now)
                if (each.kind, each.workspace_id) == (kind, workspace_id)
            ]
            return bool(found)

        await until(listed, seconds=60, what=f"{kind} to be listed")
        return found[0]

    async def repair(self, finding: Finding, repair: Repair) -> None:
        assert repair in finding.repairs
        assert finding.workspace_id is not None
        if repair is Repair.ADOPT:
            new = WorkspaceValues(name="found again", image_ref="tiny")
            await self._repairs.adopt(
                finding.workspace_id, new, owner_id=self._environment.owner_id, actor=ADMIN
            )
        else:
            await self._repairs.return_to_newest(finding.workspace_id, actor=ADMIN)


@pytest.mark.parametrize(
    ("verb", "status", "break_it", "kind", "repair"),
    [
        ("stop", "standby", forgotten, FindingKind.UNKNOWN_VOLUME, Repair.ADOPT),
        ("archive", "archived", forgotten, FindingKind.UNKNOWN_ARCHIVE, Repair.ADOPT),
        ("archive", "archived", before_its_archive, FindingKind.VOLUME_VANISHED, Repair.RETURN_TO_NEWEST),
        ("archive", "archived", without_a_key, FindingKind.ONLY_COPY, Repair.RETURN_TO_NEWEST),
    ],
    ids=["volume without a row", "archive without a row", "row from before the archive", "row without a key"],
)
async def test_every_file_comes_back(
    environment: ControlEnvironment,
    verb: str,
    status: str,
    break_it: Break,
    kind: FindingKind,
    repair: Repair,
) -> None:
    await change(
        environment,
        "INSERT INTO installation (id, secret) VALUES (cast(:id as uuid), ''::bytea)",
        id=environment.installation_id,
    )
    async with environment.replica():
        workspace_id, kept = await a_home(environment, verb, status)
        await break_it(environment, workspace_id)
        runtime = await environment.make_runtime()
        try:
            archives = environment.archives()
            console = Console(
                environment,
                Overviews(reading=environment.sessions, runtime=runtime, archives=archives),
                Repairs(
                    environment.sessions, runtime=runtime, archives=archives, limits=RunningLimits(100, 100)
                ),
            )
            finding = await console.find(kind, workspace_id)
            await console.repair(finding, repair)
        finally:
            await runtime.close()
        ws = await environment.until_status(workspace_id, "archived", seconds=60)
        assert ws.archive_key is not None
        await environment.intent(workspace_id, "start")
        await settled(environment, workspace_id, ObservedStatus.RUNNING)
        assert read_home(environment.home(workspace_id)) == kept
