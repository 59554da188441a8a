"""Which workspace is meant by what a person typed: a name, or an id.

Names are unique among the living workspaces of one owner, so a name means one's own; only administrators
mean others', where nothing of their own has that name.
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

LONGEST_NAME = 64
COMPLETION_SECONDS = 2.0


def get_workspace(client: "Client", reference: str) -> Workspace:
    """The one that is meant. Raises ``CommandError``: there is none, or there are several."""
    name = unicodedata.normalize("NFC", reference).strip()
    if _is_id(name):
        try:
            return client.get_workspace(name)
        except CommandError as error:
            if error.exit_code != ExitCode.NOT_FOUND:
                raise  # otherwise: somebody may have named a workspace like an id
    if name and len(name) <= LONGEST_NAME:
        found = _named(client, name, owner=None)
        if not found and client.current_user()["role"] == "admin":
            found = _named(client, name, owner="all")
        if found:
            return choose(name, found)
    raise CommandError(_nowhere(client, name), ExitCode.NOT_FOUND)


def choose(name: str, found: Sequence[Workspace]) -> Workspace:
    """One of those with this name; never a guess. One that is being deleted gives way to a living one."""
    living = [ws for ws in found if ws["deleted_at"] is None] or list(found)
    if len(living) == 1:
        return living[0]
    lines = "\n".join(f"  {ws['id']}  {ws['status']}, owner {ws['owner_id']}" for ws in living)
    raise CommandError(
        f"{len(living)} workspaces are named {clean(name)}. Say which by its id:\n{lines}", ExitCode.CONFLICT
    )


def complete_reference(incomplete: str) -> list[tuple[str, str]]:
    """Names for the shell to offer, each with its status. Silent, whatever goes wrong: a person is typing."""
    from codehub.cli.client import Client
    from codehub.cli.login_file import get_login

    try:
        login = get_login()
        with Client(login.url, token=login.token, answer_seconds=COMPLETION_SECONDS) as client:
            offered = client.list_workspaces(q=incomplete.strip() or None)
            return [(ws["name"], ws["status"]) for ws in offered if ws["name"].startswith(incomplete)]
    except CommandError:
        return []


def _named(client: "Client", name: str, *, owner: str | None) -> list[Workspace]:
    return [ws for ws in client.list_workspaces(owner=owner, q=name) if ws["name"] == name]


def _nowhere(client: "Client", name: str) -> str:
    known = [ws["name"] for ws in client.list_workspaces()]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {clean(close[0])}?" if close else "`codehub ws list` shows what there is."
    return f"There is no workspace {clean(name)}. {hint}"


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
