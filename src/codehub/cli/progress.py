"""Display progress: bars on a terminal, lines in a log, JSON for programs."""

import time
from types import TracebackType
from typing import Protocol, Self

from codehub.cli.answers import Workspace
from codehub.cli.output import err, out, print_json_line
from codehub.cli.watching import Lost, WatchState
from codehub.cli.words import (
    clean,
    error_words,
    next_words,
    parse_time,
    queue_words,
    span,
    status_style,
    status_words,
)


class Display(Protocol):
    """Shows the states of one workspace as they arrive."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, seen: WatchState | Lost) -> None: ...


def for_people() -> Display:
    """Return bars for a terminal that can move its cursor, else lines."""
    return Bars() if out.is_terminal and not out.is_dumb_terminal else Lines()


class NoDisplay:
    """Shows nothing. For ``--wait --json``, which prints the outcome only."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, seen: WatchState | Lost) -> None:
        pass


class JsonLines(NoDisplay):
    """Prints one JSON object per event."""

    def show(self, seen: WatchState | Lost) -> None:
        match seen:
            case Lost():
                print_json_line({"event": "lost", "why": seen.why})
            case WatchState(event="progress"):
                print_json_line({"event": "progress", **(seen.detail or {})})
            case WatchState():
                print_json_line({"event": seen.event, "workspace": seen.workspace})


class Lines(NoDisplay):
    """Prints a line for each step and each 10 % of it, for logs."""

    def __init__(self) -> None:
        self._last = ""
        self._tenth = -1

    def show(self, seen: WatchState | Lost) -> None:
        if isinstance(seen, Lost):
            err.print("Connection lost; trying again…", markup=False)
            return
        ws = seen.workspace
        headline = _headline(ws)
        tenth = -1 if ws["progress"] is None else ws["progress"] // 10
        if headline != self._last:
            out.print(f"{clean(ws['name'])}: {headline}", markup=False, emoji=False)
        elif tenth > self._tenth:
            out.print(f"{clean(ws['name'])}: {ws['status']} {ws['progress']} %", markup=False, emoji=False)
        self._last, self._tenth = headline, tenth


class Bars:
    """Draws one progress bar, with the finished steps above it."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=32),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=out,
            transient=True,
        )
        self._task = self._progress.add_task("connecting", total=None, detail="")
        self._last = ""
        self._began_at = time.monotonic()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, seen: WatchState | Lost) -> None:
        if isinstance(seen, Lost):
            self._progress.update(self._task, description="[yellow]connection lost, trying again[/]")
            return
        ws = seen.workspace
        headline = _headline(ws)
        if headline != self._last:
            self._finish_step()
            self._last, self._began_at = headline, time.monotonic()
            self._progress.reset(self._task, total=None, description="", detail="")
        percent = ws["progress"]
        style = status_style(ws["status"]) or "default"
        self._progress.update(
            self._task,
            description=f"[{style}]{headline.partition(' (')[0]}[/]",
            total=None if percent is None else 100,
            completed=percent or 0,
            detail="" if percent is None else f"{percent} %",
        )

    def _finish_step(self) -> None:
        if self._last:
            took = span(time.monotonic() - self._began_at)
            self._progress.console.print(f"  {self._last}  {took}", style="dim", markup=False, emoji=False)


def _headline(ws: Workspace) -> str:
    """Return the status, with the error, or with what comes next while it is about to change."""
    error = ws["error_info"]
    if error is not None:
        return f"{ws['status']} ({error_words(error)})"
    if ws.get("queued_at"):
        return f"{ws['status']} ({queue_words(ws)})"
    if ws["operation"] == "NONE" and ws["desired_state"] != ws["observed_status"]:
        return f"{ws['status']} ({next_words(ws, now=parse_time(ws['created_at']))})"
    return status_words(ws) if ws.get("waiting_for") else ws["status"]
