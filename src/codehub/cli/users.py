"""``codehub user …``: accounts, directly on the database, for when there is nobody to sign in as."""

import asyncio
import contextlib
import getpass
import sys
from collections.abc import AsyncIterator
from uuid import UUID

import typer
from rich.table import Table
from sqlalchemy.ext.asyncio import AsyncSession

from codehub.cli.output import escape, out, print_json, say
from codehub.domain.errors import CodeHubError
from codehub.domain.states import Role
from codehub.server import embedded
from codehub.server.database import DatabaseNotMigratedError, explained
from codehub.server.settings import load_settings
from codehub.services import accounts
from codehub.services.accounts import LastAdminError, NoSuchUserError
from codehub.services.passwords import Passwords, generate
from codehub.store import engine as store_engine
from codehub.store import migrate, users
from codehub.store.errors import UsernameTaken
from codehub.store.users import UserRecord

app = typer.Typer(help="Accounts, directly on the database.", no_args_is_help=True)

EXIT_CODES: dict[type[CodeHubError], int] = {NoSuchUserError: 4, UsernameTaken: 5, LastAdminError: 5}

_STDIN = typer.Option(False, "--password-stdin", help="Read the password from standard input.")
_JSON = typer.Option(False, "--json", help="For machines.")


@app.command()
def add(
    username: str,
    admin: bool = typer.Option(False, "--admin", help="May administer everything."),
    password_stdin: bool = _STDIN,
    json: bool = _JSON,
) -> None:
    """Make an account. Without a terminal or --password-stdin a password is made and printed once."""
    password, generated = _new_password(password_stdin)

    async def work() -> UserRecord:
        async with _session() as session, _hashing() as passwords:
            return await accounts.create_user(
                session,
                passwords,
                username=username,
                password=password,
                role=Role.ADMIN if admin else Role.USER,
                actor=_actor(),
            )

    user = asyncio.run(work())
    if json:
        print_json({**_as_json(user), **({"password": password} if generated else {})})
        return
    say(f"Made {user.role} [bold]{escape(user.username)}[/].")
    _print_generated(password if generated else None)


@app.command(name="list")
def list_users(json: bool = _JSON) -> None:
    """Show every account."""

    async def work() -> list[UserRecord]:
        found: list[UserRecord] = []
        async with _session() as session:
            cursor: UUID | None = None
            while True:
                page = await users.list_page(session, cursor=cursor, limit=200)
                found += page.items
                if page.next_cursor is None:
                    return sorted(found, key=lambda user: user.username.lower())
                cursor = UUID(page.next_cursor)

    found = asyncio.run(work())
    if json:
        print_json([_as_json(user) for user in found])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("username", "role", "state", "since"):
        table.add_column(title)
    for user in found:
        state = "[red]disabled[/]" if user.disabled_at else "active"
        table.add_row(escape(user.username), user.role, state, f"{user.created_at:%Y-%m-%d}")
    out.print(table, soft_wrap=False)


@app.command()
def passwd(username: str, password_stdin: bool = _STDIN) -> None:
    """Set another password and sign the person out everywhere."""
    password, generated = _new_password(password_stdin)

    async def work() -> None:
        async with _session() as session, _hashing() as passwords:
            await accounts.set_password(
                session, passwords, username=username, password=password, actor=_actor()
            )

    asyncio.run(work())
    say(f"The password of [bold]{escape(username)}[/] is changed.")
    _print_generated(password if generated else None)


@app.command()
def disable(
    username: str, undo: bool = typer.Option(False, "--undo", help="Let the person sign in again.")
) -> None:
    """Sign a person out everywhere, for good. Workspaces and files stay."""

    async def work() -> UserRecord:
        async with _session() as session:
            return await accounts.set_disabled(session, username=username, disabled=not undo, actor=_actor())

    user = asyncio.run(work())
    say(f"[bold]{escape(user.username)}[/] is {'disabled' if user.disabled_at else 'active'}.")


@contextlib.asynccontextmanager
async def _session() -> AsyncIterator[AsyncSession]:
    """One transaction on the configured database, or on the embedded one, running or not."""
    async with embedded.database(load_settings()) as url:
        async with explained(url):
            if not await migrate.is_current(url):
                raise DatabaseNotMigratedError(
                    "The database is not migrated yet. Run `codehub migrate` first."
                )
        engine = store_engine.create_engine(url, pool_size=1, application_name="codehub-cli")
        try:
            async with store_engine.session_factory(engine)() as session, session.begin():
                yield session
        except CodeHubError as error:
            error.exit_code = EXIT_CODES.get(type(error), 1)  # type: ignore[attr-defined]
            raise
        finally:
            await engine.dispose()


@contextlib.asynccontextmanager
async def _hashing() -> AsyncIterator[Passwords]:
    passwords = Passwords(threads=1)
    try:
        yield passwords
    finally:
        passwords.close()


def _new_password(from_stdin: bool) -> tuple[str, bool]:
    """The password, and whether we made it up."""
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


def _as_json(user: UserRecord) -> dict[str, object]:
    return {
        "id": str(user.id),
        "username": user.username,
        "role": user.role.value,
        "created_at": user.created_at.isoformat(),
        "disabled_at": user.disabled_at.isoformat() if user.disabled_at else None,
    }


def _actor() -> str:
    """For the audit log: the account on this machine, since nobody signed in."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"
