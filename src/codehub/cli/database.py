"""Command ``codehub migrate``: upgrade the database to this program's schema."""

import asyncio

import typer

from codehub.cli.log_setup import configure_logs
from codehub.cli.options import JSON
from codehub.cli.output import print_json, say


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command()(migrate)


def migrate(json: bool = JSON) -> None:
    """Bring the database to this program's schema.

    Safe to repeat, and from several machines at once.
    """
    asyncio.run(_migrate(json=json))


async def _migrate(*, json: bool) -> None:
    from codehub.server.database import explained
    from codehub.server.processes import embedded
    from codehub.server.settings.tree import load_settings
    from codehub.store import migrate as migrations

    settings = load_settings()
    configure_logs(settings, level="warning")
    async with embedded.database(settings) as url, explained(url):
        before = await migrations.current(url)
        await migrations.upgrade(url)
        after = await migrations.current(url)
    if json:
        print_json({"before": before, "after": after})
    elif before == after:
        say(f"The database is at {before} already.")
    else:
        say(f"The database went from {before or 'nothing'} to {after}.")
