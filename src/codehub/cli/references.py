"""Resolve a name or id that a person typed to a workspace.

Names are unique among the existing workspaces of one owner, so a name is looked up among the caller's own first;
for administrators then among all.
"""

import difflib
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.cli.answers import Workspace
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.words import clean

if TYPE_CHECKING:
    from codehub.cli.client import Client

MAX_NAME_LENGTH = 64
COMPLETION_SECONDS = 2.0


def get_workspace(client: "Client", reference: str) -> Workspace:
    """Find the workspace. Raises ``CommandError`` if there is none, or several."""
    name = unicodedata.normalize("NFC", reference).strip()
    if _is_id(name):
        try:
            return client.get_workspace(name)
        except CommandError as error:
            if error.exit_code != ExitCode.NOT_FOUND:
                raise  # not found as an id: it may be a name that looks like one
    if name and len(name) <= MAX_NAME_LENGTH:
        found = _named(client, name, owner=None)
        if not found and client.current_user()["role"] == "admin":
            found = _named(client, name, owner="all")
        if found:
            return choose(name, found)
    raise CommandError(_not_found_message(client, name), ExitCode.NOT_FOUND)


def choose(name: str, found: Sequence[Workspace]) -> Workspace:
    """Choose the only workspace of a name that is not being deleted.

    Raises if ambiguous.
    """
    existing = [ws for ws in found if ws["deleted_at"] is None] or list(found)
    if len(existing) == 1:
        return existing[0]
    lines = "\n".join(f"  {ws['id']}  {ws['status']}, owner {ws['owner_id']}" for ws in existing)
    raise CommandError(
        f"{len(existing)} workspaces are named {clean(name)}. Say which by its id:\n{lines}",
        ExitCode.CONFLICT,
    )


def complete_reference(incomplete: str) -> list[tuple[str, str]]:
    """Complete names for the shell, each with its status.

    Returns nothing on any failure.
    """
    from codehub.cli.client import Client
    from codehub.cli.login_file import get_login

    try:
        login = get_login()
        with Client(login.url, token=login.token, timeout_seconds=COMPLETION_SECONDS) as client:
            offered = client.list_workspaces(q=incomplete.strip() or None)
            return [(ws["name"], ws["status"]) for ws in offered if ws["name"].startswith(incomplete)]
    except CommandError:
        return []


def _named(client: "Client", name: str, *, owner: str | None) -> list[Workspace]:
    return [ws for ws in client.list_workspaces(owner=owner, q=name) if ws["name"] == name]


def _not_found_message(client: "Client", name: str) -> str:
    known = [ws["name"] for ws in client.list_workspaces()]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {clean(close[0])}?" if close else "`codehub ws list` shows what there is."
    return f"There is no workspace {clean(name)}. {hint}"


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
