"""Commands ``codehub user …``: accounts, on the database, without a sign-in."""

import asyncio
import getpass
import sys
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from codehub.cli.options import JSON as _JSON
from codehub.cli.output import escape, print_json, print_table, say
from codehub.domain.states import Role

if TYPE_CHECKING:
    from codehub.store.accounts.users import UserRecord

app = typer.Typer(help="Accounts, directly on the database.", no_args_is_help=True)

_STDIN = typer.Option(False, "--password-stdin", help="Read the password from standard input.")


@app.command()
def add(
    username: str,
    admin: bool = typer.Option(False, "--admin", help="May administer everything."),
    password_stdin: bool = _STDIN,
    json: bool = _JSON,
) -> None:
    """Make an account.

    Without a terminal or --password-stdin a password is made and printed once.
    """
    from codehub.cli import accounts

    password, generated = _new_password(password_stdin)
    user = asyncio.run(accounts.add(username, password=password, role=Role.ADMIN if admin else Role.USER))
    if json:
        print_json({**_as_json(user), **({"password": password} if generated else {})})
        return
    say(f"Made {user.role} [bold]{escape(user.username)}[/].")
    _print_generated(password if generated else None)


@app.command(name="list")
def list_users(json: bool = _JSON) -> None:
    """Show every account."""
    from codehub.cli import accounts

    found = asyncio.run(accounts.list_all())
    if json:
        print_json([_as_json(user) for user in found])
        return
    print_table(users_table(found))


def users_table(found: "list[UserRecord]") -> Table:
    """Build the table of accounts."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("username", "role", "state", "since"):
        table.add_column(title, overflow="fold")
    for user in found:
        state = "[red]disabled[/]" if user.disabled_at else "active"
        table.add_row(escape(user.username), user.role, state, f"{user.created_at:%Y-%m-%d}")
    return table


@app.command()
def passwd(username: str, password_stdin: bool = _STDIN, json: bool = _JSON) -> None:
    """Set another password and sign the person out everywhere."""
    from codehub.cli import accounts

    password, generated = _new_password(password_stdin)
    asyncio.run(accounts.set_password(username, password=password))
    if json:
        print_json({"username": username, **({"password": password} if generated else {})})
        return
    say(f"The password of [bold]{escape(username)}[/] is changed.")
    _print_generated(password if generated else None)


@app.command()
def disable(
    username: str,
    undo: bool = typer.Option(False, "--undo", help="Let the person sign in again."),
    json: bool = _JSON,
) -> None:
    """Sign a person out everywhere, for good. Workspaces and files stay."""
    from codehub.cli import accounts

    user = asyncio.run(accounts.set_disabled(username, disabled=not undo))
    if json:
        print_json(_as_json(user))
        return
    say(f"[bold]{escape(user.username)}[/] is {'disabled' if user.disabled_at else 'active'}.")


def _new_password(from_stdin: bool) -> tuple[str, bool]:
    """Return the password, and whether it was generated."""
    from codehub.services.passwords import generate

    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n"), False
    if not sys.stdin.isatty():
        return generate(), True
    chosen = getpass.getpass("Password (empty: make one): ")
    if not chosen:
        return generate(), True
    if getpass.getpass("Again: ") != chosen:
        raise typer.BadParameter("the two passwords differ")
    return chosen, False


def _print_generated(password: str | None) -> None:
    if password is not None:
        say(f"Password: [bold]{escape(password)}[/]  [dim](shown only this once)[/]")


def _as_json(user: "UserRecord") -> dict[str, object]:
    return {
        "id": str(user.id),
        "username": user.username,
        "role": user.role.value,
        "created_at": user.created_at.isoformat(),
        "disabled_at": user.disabled_at.isoformat() if user.disabled_at else None,
    }
