"""Commands ``codehub ws tag`` and ``codehub ws pin``: a person's own order among their workspaces."""

import typer
from rich.markup import escape

from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import print_json, say
from codehub.cli.references import get_workspace
from codehub.cli.words import clean


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command()(tag)
    app.command()(pin)


def tag(
    workspace: str = WORKSPACE,
    add: list[str] = typer.Argument(None, metavar="[TAG]...", help="Tags it gets.", show_default=False),
    remove: list[str] = typer.Option(
        [], "--remove", "-r", metavar="TAG", help="A tag it loses. May be repeated."
    ),
    clear: bool = typer.Option(False, "--clear", help="It loses all tags it had."),
    json: bool = JSON,
) -> None:
    """Give it tags, take some away, or show those it has."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        if add or remove or clear:
            tags = changed_tags([] if clear else ws.get("tags", []), add=add or [], remove=remove)
            ws = client.edit_workspace(ws["id"], {"tags": tags})
    if json:
        print_json(ws)
        return
    found = ", ".join(ws.get("tags", []))
    say(escape(clean(f"{ws['name']}: {found}" if found else f"{ws['name']} has no tags.")))


def pin(
    workspace: str = WORKSPACE,
    off: bool = typer.Option(False, "--off", help="Take the pin away."),
    json: bool = JSON,
) -> None:
    """Pin it: it comes first in the list."""
    with connect() as client:
        ws = client.edit_workspace(get_workspace(client, workspace)["id"], {"pinned": not off})
    if json:
        print_json(ws)
        return
    say(escape(clean(f"{ws['name']} is {'not pinned any more' if off else 'pinned'}.")))


def changed_tags(tags: list[str], *, add: list[str], remove: list[str]) -> list[str]:
    """The tags without those to remove, whatever the case of their letters, and with those to add."""
    gone = {each.strip().casefold() for each in remove}
    missing = gone - {each.casefold() for each in tags}
    if missing:
        raise CommandError(f"It has no tag {', '.join(sorted(missing))}.", ExitCode.USAGE)
    return [each for each in tags if each.casefold() not in gone] + list(add)
