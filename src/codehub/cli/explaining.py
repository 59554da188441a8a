"""Command ``codehub ws explain``: why a workspace is in its state, what is next.

Combines everything CodeHub knows about one workspace: the desired state and who set it, the observed status, the
operation, obstacles, the leaders of the coordinators, and the next automatic change.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from codehub.cli.answers import Coordinator, CoordinatorReport, HistoryEntry, Workspace
from codehub.cli.chapters import chapter_words, chapters
from codehub.cli.failures import CommandError
from codehub.cli.history import sizes_of
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import out, print_json, print_table
from codehub.cli.references import get_workspace
from codehub.cli.timeline import entry_words, last_intent
from codehub.cli.words import (
    INSTALLING,
    OPERATION_WORDS,
    STATE_WORDS,
    activity_words,
    advice,
    age,
    ago,
    awake_words,
    clean,
    error_words,
    next_words,
    parse_time,
    span,
)

if TYPE_CHECKING:
    from codehub.cli.client import Client

ENTRIES_READ = 50
ENTRIES_SHOWN = 8
QUIET_SECONDS = 60
"""Observer and Reconciler tick at least every few seconds: a minute without a tick is an obstacle."""

TASKS = {
    "wc": "carries out what is wanted",
    "observer": "looks at what is there",
    "ttl": "puts idle workspaces to sleep and starts who waits in line",
    "gc": "clears archives nobody needs",
    "events": "tells of changes",
}

ENGINES = {"runtime": "runtime", "archives": "archive store"}


@dataclass(frozen=True)
class Account:
    """The explanation of one workspace.

    ``facts``: label → sentence, in the order to print.
    """

    summary: str
    facts: dict[str, str]
    obstacles: list[str]
    leaders: dict[str, str]
    timeline: list[tuple[str, str]] = field(default_factory=list)


def explain(workspace: str = WORKSPACE, json: bool = JSON) -> None:
    """Say why a workspace is as it is, and what comes next."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        history = client.history(ws["id"], limit=ENTRIES_READ)
        report = _coordinators(client)
        sizes = sizes_of(client, ws["id"])
        now = client.now
    account = account_of(ws, history=history, report=report, now=now, sizes=sizes)
    if json:
        print_json(_as_json(account, ws, history=history, report=report, now=now))
    else:
        _print(account, failed=ws["status"] == "error")


def account_of(
    ws: Workspace,
    *,
    history: list[HistoryEntry],
    report: CoordinatorReport | None,
    now: datetime,
    sizes: dict[str, int] | None = None,
) -> Account:
    """Build the explanation. Pure. ``sizes``: bytes of its archives, where known."""
    facts = {
        "wanted": _wanted(ws, history, now=now),
        "there is": _seen(ws, now=now),
        "doing": _doing(ws, now=now),
        "activity": activity_words(ws, now=now),
    }
    if ws["status"] == "running" and (reason := awake_words(ws, now=now)):
        facts["awake"] = reason
    if error := ws["error_info"]:
        facts["error"] = f"{error_words(error)} ({ago(error['occurred_at'], now=now)})"
        facts["what to do"] = advice(error, name=ws["name"])
    facts["next"] = _next(ws, now=now)
    return Account(
        summary=_summary(ws),
        facts=facts,
        obstacles=_obstacles(ws, report, now=now),
        leaders={
            name: _leader(each, now=now) for name, each in (report["coordinators"] if report else {}).items()
        },
        timeline=[(told.first["at"], chapter_words(told, sizes=sizes or {})) for told in chapters(history)][
            :ENTRIES_SHOWN
        ],
    )


def _summary(ws: Workspace) -> str:
    name, status = clean(ws["name"]), ws["status"]
    if ws["deleted_at"] is not None:
        return f"{name} is {status}."
    if status == "error":
        return f"{name} is in error: nothing is done with it until a person lifts that."
    desired, seen = STATE_WORDS[ws["desired_state"]], STATE_WORDS[ws["observed_status"]]
    if status == "new":
        seen = "empty"
    if ws.get("queued_at"):
        return f"{name} is {status}, and waits in line for a running place."
    if ws["desired_state"] == ws["observed_status"]:
        return f"{name} is {status}, as wanted."
    return f"{name} is {status}: it is {seen} and should be {desired}."


def _wanted(ws: Workspace, history: list[HistoryEntry], *, now: datetime) -> str:
    desired = ws["desired_state"]
    if ws["deleted_at"] is not None:
        return f"gone, for {_for(ws['deleted_at'], now=now)}"
    entry = last_intent(history)
    return desired if entry is None else f"{desired}, for {_for(entry['at'], now=now)} ({entry_words(entry)})"


def _seen(ws: Workspace, *, now: datetime) -> str:
    observed_at = ws["observed_at"]
    when = f"looked at {ago(observed_at, now=now)}" if observed_at else "not looked at yet"
    archive = ", and an archive" if ws["archive_key"] and ws["observed_status"] == "PENDING" else ""
    return f"{ws['observed_status']}{archive}, health {ws['health_status']} ({when})"


def _doing(ws: Workspace, *, now: datetime) -> str:
    if ws["operation"] == "NONE":
        return "nothing"
    words = OPERATION_WORDS.get(ws["operation"], ws["operation"])
    if ws["op_started_at"]:
        words += f", for {_for(ws['op_started_at'], now=now)}"
    if waits := ws.get("waiting_for"):
        cause = clean(waits)
        return (
            f"{words}, {cause}" if waits.startswith(INSTALLING) else f"{words}. Waiting for a node: {cause}"
        )
    return words if ws["progress"] is None else f"{words}, {ws['progress']} % done"


def _next(ws: Workspace, *, now: datetime) -> str:
    words = next_words(ws, now=now) or "nothing by itself"
    if ws["operation"] != "NONE" and ws["status"] != "error":
        words = f"{OPERATION_WORDS.get(ws['operation'], ws['operation'])} ends" + (
            f", {words}" if words.startswith("then") else ""
        )
    following = ws["activity"]["next"]
    if following is None:
        return words
    at = parse_time(following["at"]).astimezone()
    return f"{words}, at {at:%Y-%m-%d %H:%M:%S}, once {clean(following['why'])}"


def _obstacles(ws: Workspace, report: CoordinatorReport | None, *, now: datetime) -> list[str]:
    """List reasons why the workspace may not converge."""
    if report is None:
        return ["The server could not say who leads its coordinators."]
    found = []
    for name in ("observer", "wc"):
        leader = report["coordinators"].get(name)
        if leader is None or leader["holder_id"] is None:
            found.append(f"Nobody leads {name}, which {TASKS[name]}: no CodeHub with coordinators runs.")
            continue
        tick = leader["last_tick_at"]
        if tick is not None and age(tick, now=now).total_seconds() > QUIET_SECONDS:
            found.append(
                f"{clean(leader['holder_id'])} leads {name}, which {TASKS[name]}, and has not worked for "
                f"{_for(tick, now=now)}: it hangs, or it died and nobody took over."
            )
    for name, leader in report["coordinators"].items():
        found += [
            f"Two lead {clean(name)}: {clean(rival['holder_id'])} does so too, with another"
            " COORDINATOR_LOCK_ID. Give all replicas the same value and restart them."
            for rival in leader.get("rivals") or ()
        ]
    for leader in report["coordinators"].values():
        for engine, why in (leader.get("away") or {}).items():
            name = ENGINES.get(engine, clean(engine))
            found.append(f"The {name} cannot be used ({clean(why)}): what needs it waits.")
    return found


def _leader(leader: Coordinator, *, now: datetime) -> str:
    if leader["holder_id"] is None:
        return "nobody"
    words = clean(leader["holder_id"])
    if leader["acquired_at"]:
        words += f", for {_for(leader['acquired_at'], now=now)}"
    if leader["last_tick_at"]:
        words += f", last tick {ago(leader['last_tick_at'], now=now)}"
    if leader["last_error"]:
        words += f", last error: {clean(leader['last_error'])}"
    return words


def _for(since: str, *, now: datetime) -> str:
    return span(age(since, now=now).total_seconds())


def _coordinators(client: "Client") -> CoordinatorReport | None:
    try:
        return client.coordinators()
    except CommandError:
        return None  # the other facts are printed all the same


def _as_json(
    account: Account,
    ws: Workspace,
    *,
    history: list[HistoryEntry],
    report: CoordinatorReport | None,
    now: datetime,
) -> dict[str, Any]:
    return {
        "at": now.isoformat(),
        "summary": account.summary,
        "facts": account.facts,
        "obstacles": account.obstacles,
        "workspace": ws,
        "coordinators": report["coordinators"] if report else None,
        "history": [{**entry, "words": entry_words(entry)} for entry in history],
    }


def _print(account: Account, *, failed: bool) -> None:
    out.print(Text(account.summary, "bold red" if failed else "bold"))
    for obstacle in account.obstacles:
        out.print(Text(obstacle, "yellow"))
    out.print()
    rows = [(label, Text(words, "red" if label == "error" else "")) for label, words in account.facts.items()]
    _print_rows(rows)
    if account.leaders:
        out.print("\nwho leads", style="bold")
        words = ((name, Text(f"{who} ({TASKS.get(name, name)})")) for name, who in account.leaders.items())
        _print_rows(list(words))
    if account.timeline:
        out.print("\nlately", style="bold")
        _print_rows(
            [(f"{parse_time(at).astimezone():%m-%d %H:%M:%S}", Text(words)) for at, words in account.timeline]
        )


def _print_rows(rows: list[tuple[str, Text]]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(f"  {label}", value)
    print_table(table)
