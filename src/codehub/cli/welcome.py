"""Tell whoever ran ``codehub up`` where to go: address, first password, data, log.

On a terminal that is one box when CodeHub is ready. Elsewhere they are lines, printed as they are known.
"""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.panel import Panel
from rich.text import Text

from codehub.cli.output import complain, escape, out, say

if TYPE_CHECKING:
    from codehub.server.settings.tree import Settings
    from codehub.services.accounts import FirstAdmin


class Welcome:
    """What is said between a start and its end."""

    def __init__(self, settings: "Settings", log_file: Path | None, *, demo: bool) -> None:
        self._settings = settings
        self._log_file = log_file
        self._demo = demo
        self._admin: FirstAdmin | None = None
        self._told = False
        self._making: asyncio.Task[None] | None = None

    def first_admin(self, admin: "FirstAdmin") -> None:
        """Keep the first account for the box; without a box, print it now."""
        self._admin = admin
        if self._log_file is None:
            self._told = True
            print_first_admin(admin)

    def ready(self, url: str) -> None:
        """Print the address and the rest. Called in the event loop."""
        if self._log_file is None:
            say(f"\n  CodeHub is ready: [bold cyan]{escape(url)}[/]")
            say(f"  [dim]Data in {escape(str(self._settings.data_dir))} · stop with Ctrl-C[/]\n")
        else:
            self._told = True
            out.print(_box(url, self._admin, self._settings.data_dir, self._log_file), soft_wrap=False)
        if self._demo:
            self._making = asyncio.get_running_loop().create_task(self._make_demo(url))

    def end(self) -> None:
        """Print the first password if a start that failed has not: the account exists."""
        if self._admin is not None and not self._told:
            print_first_admin(self._admin)

    async def _make_demo(self, url: str) -> None:
        if self._admin is None:
            complain("no demo: this is not a new installation, its workspaces are left alone.")
            return
        import httpx

        from codehub.cli.demo import WORKSPACES, make_demo

        password = self._admin.generated_password
        if password is None:
            chosen = self._settings.admin.password
            password = chosen.get_secret_value() if chosen is not None else ""
        try:
            await make_demo(url, username=self._admin.username, password=password)
        except (httpx.HTTPError, TimeoutError) as error:
            complain(f"the demo could not be made: {str(error) or type(error).__name__}")
        else:
            say(f"  [dim]Demo workspaces: {escape(', '.join(WORKSPACES))}[/]")


def print_first_admin(admin: "FirstAdmin") -> None:
    """Print the first account. Not logged: logs are kept and shipped.

    A crash before this loses the password, not the account: `codehub user passwd admin` sets another.
    """
    if admin.generated_password is None:
        say(f"\n  First user [bold]{admin.username}[/], with the password of CODEHUB_ADMIN_PASSWORD")
    else:
        say(f"\n  First user [bold]{admin.username}[/], password [bold]{escape(admin.generated_password)}[/]")
        say("  [dim]It is shown only this once. Another: codehub user passwd admin[/]")
    sys.stdout.flush()


def _box(url: str, admin: "FirstAdmin | None", data_dir: Path, log_file: Path) -> Panel:
    text = Text()
    text.append("CodeHub is ready: ")
    text.append(url, style="bold cyan")
    if admin is not None:
        text.append("\nUser ")
        text.append(admin.username, style="bold")
        text.append(", password ")
        if admin.generated_password is None:
            text.append("of CODEHUB_ADMIN_PASSWORD")
        else:
            text.append(admin.generated_password, style="bold")
            text.append("  (shown only this once)", style="dim")
    text.append(
        f"\nData in {data_dir}, log in {log_file.relative_to(data_dir)}. Ctrl-C stops it.", style="dim"
    )
    return Panel.fit(text, padding=(1, 2), border_style="cyan")
