"""Routes for user accounts, for administrators: ``/users``."""

from uuid import UUID

from codehub.api import problems
from codehub.api.auth import Admin
from codehub.api.routes.paging import IdCursor, Limit
from codehub.api.routes.router import api_router
from codehub.api.schemas.accounts import NewUser, User, UserChange
from codehub.api.schemas.base import Page
from codehub.api.state import State
from codehub.services import accounts
from codehub.store.accounts import users

router = api_router("/users", "users")


@router.get(
    "",
    summary="All users",
    response_model=Page[User],
    responses=problems.documented("unauthorized", "forbidden", "validation_failed"),
)
async def list_users(caller: Admin, state: State, cursor: IdCursor = None, limit: Limit = 50) -> Page[User]:
    del caller
    async with state.reading() as session:
        page = await users.list_page(session, cursor=cursor, limit=limit)
    return Page(items=[User.model_validate(each) for each in page.items], next_cursor=page.next_cursor)


@router.post(
    "",
    summary="Create a user",
    status_code=201,
    response_model=User,
    responses=problems.documented(
        "unauthorized", "forbidden", "csrf", "username_taken", "validation_failed", "unfit_username"
    ),
)
async def create_user(body: NewUser, caller: Admin, state: State) -> User:
    async with state.sessions.begin() as session:
        user = await accounts.create_user(
            session,
            state.deps.passwords,
            username=body.username,
            password=body.password,
            role=body.role,
            actor=caller.actor.label,
        )
    return User.model_validate(user)


@router.patch(
    "/{user_id}",
    summary="Change role, password or disabled",
    response_model=User,
    responses=problems.documented(
        "unauthorized", "forbidden", "csrf", "not_found", "last_admin", "validation_failed"
    ),
)
async def change_user(user_id: UUID, body: UserChange, caller: Admin, state: State) -> User:
    """Disabling a user or setting a password ends all their sessions at once."""
    async with state.sessions.begin() as session:
        user = await accounts.change_user(
            session,
            state.deps.passwords,
            user_id,
            role=body.role,
            disabled=body.disabled,
            password=body.password,
            actor=caller.actor.label,
        )
    await state.identities.changed(user_id)
    return User.model_validate(user)
