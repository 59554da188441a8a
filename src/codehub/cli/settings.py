"""Command ``codehub settings``: list environment variables, defaults and meanings."""

from typing import TYPE_CHECKING

import typer
from rich.table import Table
from typer.core import TyperCommand

from codehub.cli.options import JSON
from codehub.cli.output import out, print_json

if TYPE_CHECKING:
    from codehub.server.settings.variables import Variable


class ConfiguredCommand(TyperCommand):
    """A command whose help ends with the names of all settings.

    They are collected only when that help is printed: other commands start in half the time without.
    """

    @property
    def epilog(self) -> str:
        names = ", ".join(variable.name for variable in _variables())
        return (
            f"Settings are environment variables, listed by `codehub settings`: {names}. "
            "Secrets may come from files: DATABASE_URL_FILE and so on."
        )

    @epilog.setter
    def epilog(self, given: str | None) -> None:
        pass  # the base class assigns None, which must not replace the property


def _variables() -> "tuple[Variable, ...]":
    from codehub.server.settings.tree import all_variables

    return all_variables()


def markdown_table() -> str:
    """Write the table of docs/operate/configuration.md; a test compares the two."""
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for variable in _variables():
        name = f"`{variable.name}`" + (f", `{variable.name}_FILE`" if variable.secret else "")
        rows.append(f"| {name} | {variable.default} | {variable.meaning} |")
    return "\n".join(rows)


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="settings")(show)


def show(
    json: bool = JSON,
    markdown: bool = typer.Option(False, "--markdown", help="As the table in docs/operate/configuration.md."),
) -> None:
    """List every setting: environment variable, default, meaning."""
    variables = _variables()
    if markdown:
        out.print(markdown_table(), markup=False)
        return
    if json:
        print_json(
            [
                {
                    "name": v.name,
                    "default": v.default,
                    "meaning": v.meaning,
                    "secret": v.secret,
                    "group": v.group,
                }
                for v in variables
            ]
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("variable", no_wrap=True)
    table.add_column("default", overflow="fold")
    table.add_column("meaning", overflow="fold")
    for variable in variables:
        file = f" (or {variable.name}_FILE)" if variable.secret else ""
        table.add_row(variable.name, variable.default, variable.meaning + file)
    out.print(table, soft_wrap=False)
