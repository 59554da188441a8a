"""Routes for a workspace's timeline, archives and logs."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import Path, Query, Response
from fastapi.responses import StreamingResponse

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.live.downloads import Download
from codehub.api.live.sse import EventStream, Write
from codehub.api.live.streams import heartbeat
from codehub.api.routes.paging import Limit, NumberCursor
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import find_visible
from codehub.api.schemas.base import Page
from codehub.api.schemas.workspace_details import ArchiveGeneration, HistoryEntry
from codehub.api.schemas.workspaces import NamedSnapshot
from codehub.api.state import AppState, State
from codehub.domain import causes
from codehub.domain.errors import EffectError, FailureCode, Reason
from codehub.services.identity import Principal
from codehub.services.inside import record_use
from codehub.store.cluster import orphans
from codehub.store.workspaces import events

router = api_router("/workspaces/{workspace_id}", "workspaces")

Attempt = Annotated[
    str, Path(pattern="^[0-9a-f]{32}$", description="The part of its key after the operation")
]

_VISIBLE = problems.documented("unauthorized", "not_found", "validation_failed")


@router.get("/history", summary="Its timeline", response_model=Page[HistoryEntry], responses=_VISIBLE)
async def history(
    workspace_id: UUID, caller: Caller, state: State, cursor: NumberCursor = None, limit: Limit = 50
) -> Page[HistoryEntry]:
    """Newest first: what changed, the actor and the cause."""
    await find_visible(workspace_id, caller, state)
    async with state.reading() as session:
        page = await events.list_page(session, workspace_id, cursor=cursor, limit=limit)
    return Page(items=[_history_entry(each) for each in page.items], next_cursor=page.next_cursor)


@router.get(
    "/archives",
    summary="Its archives",
    response_model=Page[ArchiveGeneration],
    responses=_VISIBLE,
)
async def archives(workspace_id: UUID, caller: Caller, state: State) -> Page[ArchiveGeneration]:
    """Committed archives, newest first."""
    view = (await find_visible(workspace_id, caller, state)).view
    found = await state.deps.archives.find_committed(workspace_id)
    async with state.reading() as session:
        expiring = await orphans.orphans_among(session, [each.path.key for each in found])
    chosen = view.restore_from.archive_key if view.restore_from is not None else None
    damaged = {each.archive_key for each in view.home.generations if each.damaged}
    if view.error_info is not None and view.error_info.reason is Reason.DATA_LOST:
        damaged.add(str(view.archive_key))
    named: dict[str, NamedSnapshot] = {
        each.archive_key: {"id": each.id, "name": each.name} for each in view.snapshots
    }
    items = [
        ArchiveGeneration(
            key=each.path.key,
            bytes=each.meta.data_bytes,
            files=each.meta.files,
            sha256=each.meta.sha256,
            created_at=each.meta.created_at,
            current=each.path.key == view.archive_key,
            chosen=each.path.key == chosen,
            damaged=each.path.key in damaged,
            expiring=each.path.key in expiring,
            snapshot=named.get(each.path.key),
        )
        for each in found
    ]
    return Page(items=items, next_cursor=None)


@router.get(
    "/archives/{op_id}/{attempt}/home.tar.zst",
    summary="Download an archive",
    response_model=None,
    response_class=Response,
    responses={
        200: {
            "description": "One zstd frame with one tar of the home",
            "content": {"application/zstd": {}},
        },
        **_VISIBLE,
        **problems.documented("downloads_busy", "unavailable"),
    },
)
async def download(
    workspace_id: UUID, op_id: UUID, attempt: Attempt, caller: Caller, state: State
) -> Response:
    """Download a committed archive; the address is its `key`. Wakes nothing.

    Also while the workspace is in error. At most two at a time. An archive of format 1 comes as it is stored, and
    `sha256` of the list is its checksum; one of format 2 is made while it is sent.
    """
    found = await find_visible(workspace_id, caller, state)
    try:
        path, meta = await state.deps.archives.find_attempt(workspace_id, op_id, attempt)
    except EffectError as error:
        if error.failure is FailureCode.ARCHIVE_NOT_FOUND:
            raise problems.Refused("not_found", "There is no such archive.") from error
        raise
    async with state.sessions() as session, session.begin():
        await record_use(session, "download", workspace_id, actor=caller.actor, archive_key=path.key)
    return Download(
        state.deps.contents.stream_tar_zst(path, meta),
        size=meta.bytes if path.format_version == 1 else None,
        headers={
            "Content-Type": "application/zstd",
            "Content-Disposition": _attachment(found.name, meta.created_at),
            "ETag": f'"{meta.sha256}"',
            "Accept-Ranges": "none",
        },
        caller=caller,
        downloads=state.downloads,
    )


def _attachment(name: str, made_at: datetime) -> str:
    """Name the file after the workspace: in ASCII for old clients, and as it is."""
    stem = f"{name}-{made_at.astimezone(UTC):%Y%m%d-%H%M}"
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("._") or "home"
    return f"attachment; filename=\"{plain}.tar.zst\"; filename*=UTF-8''{quote(stem, safe='')}.tar.zst"


@router.get(
    "/logs",
    summary="Its logs",
    response_model=None,
    response_class=Response,
    responses={
        200: {
            "description": "Recent output; with `follow` an event stream of `log` events",
            "content": {"text/plain": {"schema": {"type": "string"}}, "text/event-stream": {}},
        },
        **_VISIBLE,
    },
)
async def logs(
    workspace_id: UUID,
    caller: Caller,
    state: State,
    follow: Annotated[bool, Query(description="Continue as an event stream")] = False,
) -> Response:
    await find_visible(workspace_id, caller, state)
    if follow:
        return EventStream(_LogStream(workspace_id, caller, state).run)
    output = state.deps.runtime.logs(workspace_id)
    # Read the first piece before responding: an unreachable runtime is then a 503, not a truncated 200.
    first = await anext(output, b"")
    return StreamingResponse(_as_text(first, output), media_type="text/plain; charset=utf-8")


async def _as_text(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first.decode("utf-8", "replace").encode()
    try:
        async for piece in rest:
            yield piece.decode("utf-8", "replace").encode()
    except EffectError as error:
        yield f"\n[the output ends here: {error.message}]\n".encode()


class _LogStream:
    """Stream logs as events with data ``{"text": …}``. Ends when the container ends, or at revocation."""

    def __init__(self, workspace_id: UUID, caller: Principal, state: AppState) -> None:
        self._workspace_id = workspace_id
        self._caller = caller
        self._state = state

    async def run(self, write: Write) -> None:
        reading = asyncio.create_task(self._read(write))
        heartbeats = asyncio.create_task(
            _send_heartbeats(write, every=self._state.settings.heartbeat_seconds)
        )

        def end() -> None:
            reading.cancel()

        try:
            with self._state.revoker.watching(self._caller, end):
                await asyncio.wait({reading, heartbeats}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, heartbeats):
                task.cancel()
            await asyncio.gather(reading, heartbeats, return_exceptions=True)

    async def _read(self, write: Write) -> None:
        try:
            async for piece in self._state.deps.runtime.logs(self._workspace_id, follow=True):
                await write(_log_event(piece.decode("utf-8", "replace")))
        except EffectError as error:
            await write(_log_event(f"[the output ends here: {error.message}]\n"))


async def _send_heartbeats(write: Write, *, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        await write(heartbeat())


def _log_event(text: str) -> bytes:
    return f"event: log\ndata: {json.dumps({'text': text}, ensure_ascii=False)}\n\n".encode()


def _history_entry(event: events.EventRecord) -> HistoryEntry:
    known = causes.parse(event.cause)
    return HistoryEntry(
        seq=event.seq,
        version=event.version,
        at=event.at,
        changes=dict(event.changes),
        actor=event.actor,
        cause=event.cause,
        cause_code=known.code if known else None,
        cause_params=known.params if known else {},
    )
