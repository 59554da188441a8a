"""Options, arguments and ``connect``, shared by commands."""

from typing import TYPE_CHECKING

import typer

from codehub.cli.references import complete_reference

if TYPE_CHECKING:
    from codehub.cli.client import Client

JSON = typer.Option(False, "--json", help="For machines.")
WORKSPACE = typer.Argument(
    help="Its name or id.", metavar="WORKSPACE", autocompletion=complete_reference, show_default=False
)
WAIT = typer.Option(False, "--wait", "-w", help="Show progress until it is there.")
TIMEOUT = typer.Option(None, "--timeout", min=0.0, help="Give up waiting after these seconds.")


def connect() -> "Client":
    """Return a client for the signed-in person.

    Raises ``CommandError`` if not signed in.
    """
    from codehub.cli.client import Client
    from codehub.cli.login_file import get_login

    login = get_login()
    return Client(login.url, token=login.token)
