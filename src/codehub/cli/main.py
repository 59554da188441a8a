"""Entry point of the ``codehub`` command: register commands, translate errors.

Exit codes: 0 done, 1 failed, 2 usage, 3 not signed in, 4 not found, 5 conflict or limit.

Command modules import heavy packages (SQLAlchemy, FastAPI …) inside their functions: a command that only calls
the API should not spend a second on loading a server.
"""

import sys

import typer

from codehub import __version__
from codehub.cli import (
    admin,
    backup,
    database,
    doctor,
    ides,
    inside,
    keys,
    ports,
    processes,
    serving,
    settings,
    signing_in,
    ssh,
    users,
    workspaces,
)
from codehub.cli.output import complain
from codehub.domain.errors import CodeHubError

app = typer.Typer(
    name="codehub",
    help="Development workspaces in the browser that cost nothing while nobody uses them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
serving.register(app)
database.register(app)
backup.register(app)
doctor.register(app)
settings.register(app)
signing_in.register(app)
ssh.register(app)
inside.register(app)
ports.register(app, workspaces.app)
processes.register(workspaces.app)
app.add_typer(workspaces.app, name="ws")
app.add_typer(keys.app, name="keys")
app.add_typer(ides.app, name="ide")
app.add_typer(admin.app, name="admin")
app.add_typer(users.app, name="user")


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        typer.echo(f"codehub {__version__}")
        raise typer.Exit


def run() -> None:
    """Entry point of the installed command."""
    try:
        app(prog_name="codehub")  # also when started as a module: completion and help use this name
    except CodeHubError as error:
        complain(str(error))
        sys.exit(getattr(error, "exit_code", 1))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `codehub … | head`
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    run()
