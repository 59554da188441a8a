"""Routes for signing in and out: ``/auth``."""

from fastapi import Request, Response

from codehub.api import problems
from codehub.api.auth import Caller, RequireSameSite, client_address, cookie_name, session_secret
from codehub.api.routes.router import api_router
from codehub.api.schemas.accounts import Login, PasswordChange, SessionInfo, User
from codehub.api.state import AppState, State
from codehub.services.accounts import UnfitPasswordError
from codehub.services.identity import ABSOLUTE

router = api_router("/auth", "auth")


@router.post(
    "/login",
    summary="Sign in",
    response_model=SessionInfo,
    dependencies=[RequireSameSite],
    responses=problems.documented("invalid_credentials", "csrf", "rate_limited"),
)
async def login(body: Login, request: Request, response: Response, state: State) -> SessionInfo:
    """Sets the session cookie.

    A wrong name and a wrong password get the same answer after the same time.
    """
    begun = await state.sign_in.sign_in(
        body.username,
        body.password,
        address=client_address(request, state),
        previous=session_secret(request, state),
    )
    _set_cookie(response, state, begun.secret, max_age=int(ABSOLUTE.total_seconds()))
    return SessionInfo(user=User.model_validate(begun.user))


@router.post(
    "/logout",
    summary="Sign out",
    status_code=204,
    responses=problems.documented("unauthorized", "csrf"),
)
async def logout(caller: Caller, state: State) -> Response:
    await state.sign_in.sign_out(caller)
    response = Response(status_code=204)
    _set_cookie(response, state, "", max_age=0)
    return response


@router.get(
    "/session",
    summary="The signed-in user",
    response_model=SessionInfo,
    responses=problems.documented("unauthorized"),
)
async def session(caller: Caller) -> SessionInfo:
    return SessionInfo(user=User.model_validate(caller.user))


@router.post(
    "/password",
    summary="Change my password",
    status_code=204,
    responses=problems.documented(
        "unauthorized", "wrong_password", "csrf", "validation_failed", "rate_limited"
    ),
)
async def change_password(body: PasswordChange, caller: Caller, state: State) -> Response:
    """Ends every other session of the caller."""
    try:
        await state.sign_in.change_password(caller, current=body.current, new=body.new)
    except UnfitPasswordError as error:
        raise problems.Invalid("new", str(error)) from error
    return Response(status_code=204)


def _set_cookie(response: Response, state: AppState, value: str, *, max_age: int) -> None:
    response.set_cookie(
        cookie_name(state),
        value,
        max_age=max_age,
        path="/",
        secure=state.settings.is_https,
        httponly=True,
        samesite="lax",
    )
