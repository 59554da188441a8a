"""Routes for API tokens: ``/tokens``."""

from datetime import timedelta
from uuid import UUID

from fastapi import Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.routes.paging import IdCursor, Limit
from codehub.api.routes.router import api_router
from codehub.api.schemas.base import Page
from codehub.api.schemas.tokens import NewToken, Token, TokenShownOnce
from codehub.api.state import State
from codehub.services import api_tokens
from codehub.store.accounts import tokens

router = api_router("/tokens", "tokens")


@router.get(
    "",
    summary="My tokens",
    response_model=Page[Token],
    responses=problems.documented("unauthorized", "validation_failed"),
)
async def list_tokens(
    caller: Caller, state: State, cursor: IdCursor = None, limit: Limit = 50
) -> Page[Token]:
    """Newest first. Includes expired tokens, because they explain a 401."""
    async with state.reading() as session:
        page = await tokens.list_page(session, caller.user.id, cursor=cursor, limit=limit)
    return Page(items=[Token.model_validate(each) for each in page.items], next_cursor=page.next_cursor)


@router.post(
    "",
    summary="Create a token",
    status_code=201,
    response_model=TokenShownOnce,
    responses=problems.documented("unauthorized", "csrf"),
)
async def create_token(body: NewToken, caller: Caller, state: State) -> TokenShownOnce:
    """The response contains the token, which is never shown again."""
    lifetime = timedelta(days=body.expires_in_days) if body.expires_in_days else None
    async with state.sessions.begin() as session:
        made = await api_tokens.create(session, caller, name=body.name, lifetime=lifetime)
    shown = Token.model_validate(made.record).model_dump()
    return TokenShownOnce(**shown, token=made.token)


@router.delete(
    "/{token_id}",
    summary="Revoke a token",
    status_code=204,
    responses=problems.documented("unauthorized", "csrf", "not_found", "validation_failed"),
)
async def revoke_token(token_id: UUID, caller: Caller, state: State) -> Response:
    async with state.sessions.begin() as session:
        await api_tokens.revoke(session, caller, token_id)
    await state.identities.changed(caller.user.id)
    return Response(status_code=204)
