"""Commands ``codehub login`` and ``codehub logout``: get and revoke a token.

The token belongs to this machine, so that no password is stored.
"""

import getpass
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from codehub.cli import login_file
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.login_file import SavedLogin
from codehub.cli.options import JSON
from codehub.cli.output import complain, err, out, print_json
from codehub.cli.words import clean

if TYPE_CHECKING:
    from codehub.cli.answers import Token, User

TOKEN_DAYS = 365
REVOKE_SECONDS = 5.0


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command()(login)
    app.command()(logout)


def login(
    url: str | None = typer.Argument(
        None, help="Where CodeHub is. Default: CODEHUB_URL, or where you were last."
    ),
    username: str | None = typer.Option(None, "--username", "-u", help="Asked for if not given."),
    password_stdin: bool = typer.Option(
        False, "--password-stdin", help="Read the password from standard input."
    ),
    token_name: str | None = typer.Option(None, help="What the token is called in the list of your tokens."),
    expires_in_days: int = typer.Option(TOKEN_DAYS, min=1, max=3650, help="How long it is good for."),
    json: bool = JSON,
) -> None:
    """Sign in.

    The password is used once; a token takes its place, in a file only you can read.
    """
    before = _stored_or_none()
    where = login_file.normal_url(_where(url, before))
    parts = urlsplit(where)
    if parts.scheme == "http" and not login_file.is_loopback(parts.hostname):
        err.print("The address is http: whoever listens on the way can read the password.", style="yellow")
    name = username or _ask_name()
    password = _password(password_stdin, name)
    user, token = _fetch_token(
        where, name, password, token_name=token_name or _token_name(), days=expires_in_days
    )
    made = SavedLogin(where, token["token"], user["username"], token["id"])
    try:
        path = login_file.store(made)
    except CommandError:
        _revoke(made)  # it could not be stored
        raise
    if before is not None:
        _revoke(before)  # it was replaced in the file
    if json:
        print_json(
            {
                "url": where,
                "username": user["username"],
                "role": user["role"],
                "token_id": token["id"],
                "expires_at": token["expires_at"],
                "file": str(path),
            }
        )
    else:
        out.print(f"Signed in to {where} as {clean(user['username'])}.", markup=False, emoji=False)


def logout(json: bool = JSON) -> None:
    """Sign out: the token is revoked and forgotten."""
    stored = login_file.find_stored()
    if stored is None:
        raise CommandError("You are not signed in.", ExitCode.NOT_SIGNED_IN)
    revoked = _revoke(stored)
    login_file.forget()
    if json:
        print_json({"url": stored.url, "username": stored.username, "revoked": revoked})
    else:
        out.print(f"Signed out of {stored.url}.", markup=False)
    if not revoked:
        complain(
            f"The token is forgotten here, but {stored.url} could not be told. "
            "If others may have it, revoke it on the dashboard, under Tokens."
        )


def _fetch_token(
    where: str, username: str, password: str, *, token_name: str, days: int
) -> tuple["User", "Token"]:
    """Sign in, create a token, sign out.

    A crash in between leaves a session whose cookie is lost, and perhaps a token that was never stored: the
    session expires, the token is in the person's list of tokens, to be revoked.
    """
    from codehub.cli.client import Client
    from codehub.cli.refusals import Refusal

    with Client(where) as client:
        try:
            user = client.sign_in(username, password)
        except Refusal as refusal:
            if refusal.problem == "not_found":
                raise CommandError(f"What answers at {where} is not CodeHub.") from refusal
            raise
        token = client.create_token(token_name, expires_in_days=days)
        with suppress(CommandError):
            client.sign_out()
        return user, token


def _revoke(login: SavedLogin) -> bool:
    """Revoke a token. True if the server has revoked it, now or before."""
    from codehub.cli.client import Client

    if login.token_id is None:
        return False
    try:
        with Client(login.url, token=login.token, timeout_seconds=REVOKE_SECONDS) as client:
            client.revoke_token(login.token_id)
    except CommandError as error:
        # Refused as unknown or not found: it was revoked or has expired already.
        return error.exit_code in {ExitCode.NOT_SIGNED_IN, ExitCode.NOT_FOUND}
    return True


def _stored_or_none() -> SavedLogin | None:
    try:
        return login_file.find_stored()
    except CommandError:
        return None  # a broken file is about to be replaced


def _where(url: str | None, before: SavedLogin | None) -> str:
    chosen = url or os.environ.get("CODEHUB_URL") or (before.url if before else None)
    if chosen is None:
        raise typer.BadParameter("say where: codehub login https://codehub.example.org")
    return chosen


def _ask_name() -> str:
    if not sys.stdin.isatty():
        raise typer.BadParameter("say who: --username NAME")
    return str(typer.prompt("Username", err=True))


def _password(from_stdin: bool, username: str) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise typer.BadParameter("without a terminal, give the password with --password-stdin")
    return getpass.getpass(f"Password of {clean(username)}: ")


def _token_name() -> str:
    return clean(f"codehub on {socket.gethostname() or 'some machine'}")[:64]
