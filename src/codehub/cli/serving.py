"""Commands ``codehub up`` and ``codehub serve``: run the server."""

import typer

from codehub.cli.log_file import log_to_file
from codehub.cli.log_setup import configure_logs
from codehub.cli.output import err, out, say
from codehub.cli.settings import ConfiguredCommand
from codehub.cli.welcome import Welcome, print_first_admin


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(cls=ConfiguredCommand)(up)
    app.command(cls=ConfiguredCommand)(serve)


def up(
    demo: bool = typer.Option(
        False, "--demo", help="Make a few workspaces to look at, if this is a new installation."
    ),
) -> None:
    """Run everything on this machine: for trying CodeHub, and for one small team.

    PostgreSQL and Redis run embedded unless DATABASE_URL and REDIS_URL say otherwise. Ctrl-C stops all of it,
    workspaces included; the next start finds everything again. On a terminal the log goes to a file.
    """
    from codehub.server.settings.tree import load_settings

    settings = load_settings()
    log_file = log_to_file(settings)
    if out.is_terminal:
        say("[dim]Starting CodeHub…[/]")
    from codehub.server.main import Run, run_server, run_until_signal

    welcome = Welcome(settings, log_file, demo=demo)
    run = Run(
        migrate=True,
        stop_workspaces=True,
        on_first_admin=welcome.first_admin,
        on_ready=welcome.ready,
        on_stopping=lambda: err.print("Stopping… (Ctrl-C again leaves at once)"),
    )
    try:
        run_until_signal(run_server(settings, run), on_stopping=run.on_stopping)
    finally:
        welcome.end()


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
        on_first_admin=print_first_admin,
        on_ready=lambda url: None,
        on_stopping=lambda: None,
    )
    run_until_signal(run_server(settings, run), on_stopping=run.on_stopping)
