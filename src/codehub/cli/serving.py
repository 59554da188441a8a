"""Commands ``codehub up`` and ``codehub serve``: run the server."""

import sys
from typing import TYPE_CHECKING

import typer

from codehub.cli.log_setup import configure_logs
from codehub.cli.output import err, escape, out, say
from codehub.cli.settings import ConfiguredCommand

if TYPE_CHECKING:
    from codehub.services.accounts import FirstAdmin


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(cls=ConfiguredCommand)(up)
    app.command(cls=ConfiguredCommand)(serve)


def up() -> None:
    """Run everything on this machine: for trying CodeHub, and for one small team.

    PostgreSQL and Redis run embedded unless DATABASE_URL and REDIS_URL say otherwise. Ctrl-C stops all of it,
    workspaces included; the next start finds everything again.
    """
    from codehub.server.settings.tree import load_settings

    settings = load_settings()
    configure_logs(settings)
    if out.is_terminal:
        say("[dim]Starting CodeHub…[/]")
    from codehub.server.main import Run, run_server, run_until_signal

    def on_ready(url: str) -> None:
        say(f"\n  CodeHub is ready: [bold cyan]{escape(url)}[/]")
        say(f"  [dim]Data in {escape(str(settings.data_dir))} · stop with Ctrl-C[/]\n")

    run = Run(
        migrate=True,
        stop_workspaces=True,
        on_first_admin=_print_first_admin,
        on_ready=on_ready,
        on_stopping=lambda: err.print("Stopping… (Ctrl-C again leaves at once)"),
    )
    run_until_signal(run_server(settings, run), on_stopping=run.on_stopping)


def serve(
    migrate: bool = typer.Option(
        True,
        help="Bring the database to this program's schema first; any number of replicas may do so at once.",
    ),
) -> None:
    """Run one replica: API, proxy and coordinators, or the CODEHUB_ROLES of them.

    Workspaces outlive it.
    """
    from codehub.server.settings.tree import load_settings

    settings = load_settings()
    configure_logs(settings)
    from codehub.server.main import Run, run_server, run_until_signal

    run = Run(
        migrate=migrate,
        stop_workspaces=False,
        on_first_admin=_print_first_admin,
        on_ready=lambda url: None,
        on_stopping=lambda: None,
    )
    run_until_signal(run_server(settings, run), on_stopping=run.on_stopping)


def _print_first_admin(admin: "FirstAdmin") -> None:
    # Printed, not logged: logs are kept and shipped. A crash before this line loses the password, not the
    # account: `codehub user passwd admin` sets another.
    if admin.generated_password is None:
        say(f"\n  First user [bold]{admin.username}[/], with the password of CODEHUB_ADMIN_PASSWORD")
    else:
        say(f"\n  First user [bold]{admin.username}[/], password [bold]{escape(admin.generated_password)}[/]")
        say("  [dim]It is shown only this once. Another: codehub user passwd admin[/]")
    sys.stdout.flush()
