"""Wait until a workspace is settled, and check how it ended."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.words import advice, clean, error_words

if TYPE_CHECKING:
    from codehub.cli.answers import Workspace
    from codehub.cli.client import Client
    from codehub.cli.progress import Display


def until_settled(client: "Client", ws: "Workspace", *, quiet: bool, timeout: float | None) -> "Workspace":
    """Show progress until the workspace is settled; return its last state.

    ``quiet``: show nothing.
    """
    from codehub.cli.progress import NoDisplay, for_people

    return _follow(client, ws, NoDisplay() if quiet else for_people(), timeout=timeout)


def watch(client: "Client", ws: "Workspace", *, json: bool, timeout: float | None) -> "Workspace":
    """Show progress until the workspace is settled. ``json``: print every event."""
    from codehub.cli.progress import JsonLines, for_people

    return _follow(client, ws, JsonLines() if json else for_people(), timeout=timeout)


def expect(ws: "Workspace", *statuses: str) -> None:
    """Raise ``CommandError`` unless the status is one of these."""
    if ws["status"] in statuses:
        return
    expect_no_error(ws)
    raise CommandError(
        f"{clean(ws['name'])} is {ws['status']}: something else was asked of it meanwhile. "
        "`codehub ws explain` says by whom.",
        ExitCode.CONFLICT,
    )


def expect_no_error(ws: "Workspace") -> None:
    """Raise ``CommandError`` if it is in error, or its archiving was given up."""
    from codehub.cli.watching import archiving_given_up

    error = ws["error_info"]
    if error is None or not (ws["status"] == "error" or archiving_given_up(ws)):
        return
    what = "is in error" if ws["status"] == "error" else "was not archived"
    raise CommandError(f"{clean(ws['name'])} {what}. {error_words(error)}\n{advice(error, name=ws['name'])}")


def _follow(client: "Client", ws: "Workspace", display: "Display", *, timeout: float | None) -> "Workspace":
    """Follow until settled. Ctrl-C ends the following, not the operation."""
    from codehub.cli.watching import WatchState, follow, outcome_of

    with _timeout(timeout), display:
        for seen in follow(client, ws):
            display.show(seen)
            if isinstance(seen, WatchState):
                ws = seen.workspace
                if outcome_of(ws) is not None:
                    break
    return ws


@contextmanager
def _timeout(seconds: float | None) -> Iterator[None]:
    """Raise ``CommandError`` inside after this time. By SIGALRM, since the body may block in a read."""
    if seconds is None:
        yield
        return

    def expire(_signal: int, _frame: object) -> None:
        raise CommandError(f"Not there after {seconds:g} s. It goes on; see: codehub ws watch")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
