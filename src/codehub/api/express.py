"""A short way for the two calls made most: one workspace, and the first page of my workspaces.

Routing, dependency solving and parameter checks cost more than the database does. A plain request for one of
these two is recognised here and handed straight to the same functions the router would call: the same
person, the same rights, the same answer (a test compares them). Whatever is not plain, a filter, a cursor, an
id written otherwise, goes the long way.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from codehub.api import problems
from codehub.api.auth import current
from codehub.api.routes.workspaces import get_workspace, list_workspaces
from codehub.api.state import AppState
from codehub.domain.errors import CodeHubError
from codehub.store.errors import DATABASE_FAILED

PATH = "/api/v1/workspaces"
_ID = re.compile(r"/api/v1/workspaces/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_LIMIT = re.compile(rb"limit=(1?[0-9]{1,2}|200)")


@dataclass(frozen=True)
class _Route:
    """What the measurements call it."""

    path: str


_ONE = _Route(PATH + "/{workspace_id}")
_LIST = _Route(PATH)


class Express:
    def __init__(self, app: ASGIApp, *, state: AppState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"].startswith(PATH):
            query = scope["query_string"]
            if not query and (match := _ID.fullmatch(scope["path"])):
                workspace_id = UUID(match[1])
                scope["route"], scope["path_params"] = _ONE, {"workspace_id": workspace_id}
                await (await self._answer(scope, workspace_id=workspace_id))(scope, receive, send)
                return
            limit = _limit(query) if scope["path"] == PATH else None
            if limit is not None:
                scope["route"] = _LIST
                await (await self._answer(scope, limit=limit))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, *, workspace_id: UUID | None = None, limit: int = 50) -> Response:
        try:
            caller = await current(Request(scope), self._state)
            if workspace_id is not None:
                return await get_workspace(workspace_id, caller, self._state)
            return await list_workspaces(caller, self._state, limit=limit)
        except CodeHubError as error:
            return problems.of_error(error)
        except DATABASE_FAILED as error:
            return problems.of_database_error(error)


def _limit(query: bytes) -> int | None:
    if not query:
        return 50
    match = _LIMIT.fullmatch(query)
    return int(match[1]) or None if match else None
