"""Describe workspaces in words, the same as on the dashboard. Pure."""

import re
from datetime import datetime, timedelta
from typing import Any

from codehub.cli.answers import ErrorInfo, NextChange, Work, Workspace

STATUS_STYLES = {
    "running": "green",
    "standby": "blue",
    "archived": "dim",
    "new": "",
    "error": "bold red",
    "deleted": "dim",
}
MOVING_STYLE = "yellow"

STATE_WORDS = {"RUNNING": "running", "STANDBY": "asleep", "PENDING": "archived", "DELETED": "deleted"}
OPERATION_WORDS = {
    "PROVISIONING": "Preparing a home directory",
    "RESTORING": "Restoring files from the archive",
    "STARTING": "Starting",
    "STOPPING": "Stopping",
    "ARCHIVING": "Packing files into the archive",
    "DELETING": "Deleting",
}
LEADS_TO = {
    "PROVISIONING": "STANDBY",
    "RESTORING": "STANDBY",
    "STARTING": "RUNNING",
    "STOPPING": "STANDBY",
    "ARCHIVING": "PENDING",
    "DELETING": "DELETED",
}
NOTICE_SECONDS = 300  # sleep this near is said before what keeps awake
UNTOUCHED_SHOWN_SECONDS = 60
INSTALLING = "installing "  # how waiting_for begins while the IDE is being installed
KIND_WORDS = {"websocket": "an open connection", "http": "a page", "start": "its start"}

_UNWRITABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: object) -> str:
    """Replace control characters: text of other people must not control the terminal."""
    return _UNWRITABLE.sub("\ufffd", str(text))


def parse_time(value: str) -> datetime:
    """Parse a time of the API (ISO 8601)."""
    return datetime.fromisoformat(value)


def span(seconds: float) -> str:
    """Format a duration in its two largest units: "42 s", "2 h 5 min", "3 d 4 h"."""
    whole = max(0, round(seconds) if seconds < 60 else round(seconds / 60) * 60)
    sizes = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    counts: list[tuple[int, str]] = []
    for each, unit in sizes:
        count, whole = divmod(whole, each)
        counts.append((count, unit))
    first = next((index for index, (count, _) in enumerate(counts) if count), len(counts) - 1)
    shown = [f"{count} {unit}" for count, unit in counts[first : first + 2] if count]
    return " ".join(shown) or "0 s"


def ago(value: str | None, *, now: datetime) -> str:
    """Format a past time: "5 min ago", "just now", "never"."""
    if value is None:
        return "never"
    passed = (now - parse_time(value)).total_seconds()
    return "just now" if passed < 2 else f"{span(passed)} ago"


def size(count: float) -> str:
    """Format a number of bytes, in powers of 1000: "1.5 MB", "412 MB"."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def status_style(status: str) -> str:
    """Return the rich style of a status."""
    return STATUS_STYLES.get(status, MOVING_STYLE)


def status_words(ws: Workspace) -> str:
    """Describe the status, with its progress if known."""
    if waits := ws.get("waiting_for"):
        return f"{ws['status']}, {clean(waits) if waits.startswith(INSTALLING) else 'waiting for a node'}"
    return ws["status"] if ws["progress"] is None else f"{ws['status']} {ws['progress']} %"


def next_words(ws: Workspace, *, now: datetime) -> str:
    """Describe the next change and when: "sleeps in 4 min"."""
    if ws["deleted_at"] is not None:
        return "" if ws["status"] == "deleted" else "goes for good"
    if ws["status"] == "error":
        return "waits for a person" if ws["error_info"] else "is looked at again"
    if (
        ws["error_info"] is not None
        and ws["operation"] == "NONE"
        and "next_try_at" in ws["error_info"]["context"]
    ):
        if ws["desired_state"] != "PENDING":
            return _pending_words(ws)
        left = (parse_time(ws["error_info"]["context"]["next_try_at"]) - now).total_seconds()
        return (
            f"not archived, tries again in {span(left)}"
            if left >= 1
            else "not archived, tries again any moment"
        )
    if ws["error_info"] is not None:
        return f"tries again (attempt {ws['error_info']['error_count'] + 1})"
    if ws.get("queued_at"):
        return queue_words(ws)
    if ws["desired_state"] != ws["observed_status"]:
        return _pending_words(ws)
    if ws["operation"] != "NONE":
        return ""
    following = ws["activity"]["next"]
    awake = ws["awake_until"]
    held = awake is not None and parse_time(awake) > now
    if awake and held and (following is None or parse_time(following["at"]) <= parse_time(awake)):
        return f"kept awake for {span((parse_time(awake) - now).total_seconds())}"
    if following is not None and not is_far(following, now=now):
        return _scheduled_words(following, now=now)
    if reason := awake_words(ws, now=now):
        return reason
    if following is not None:
        return _scheduled_words(following, now=now)
    return _settled_words(ws)


def queue_words(ws: Workspace) -> str:
    """Describe where a workspace stands that waits for a place: "number 2 in line, about 5 min"."""
    queue = ws["activity"].get("queue")
    if queue is None:
        return "in line for a running place"
    if queue["place"] > 1:
        words = f"number {queue['place']} in line"
    elif queue["limit"] == "limit_user":
        words = "in line, starts when another one of its owner's sleeps"
    else:
        words = "next in line"
    seconds = queue["estimated_seconds"]
    return words if seconds is None else f"{words}, about {span(max(1, seconds))}"


def is_far(following: NextChange, *, now: datetime) -> bool:
    """Whether a change is too far off to be the first thing to say."""
    return (parse_time(following["at"]) - now).total_seconds() > NOTICE_SECONDS


def awake_words(ws: Workspace, *, now: datetime) -> str:
    """Describe what keeps a running workspace awake: "open in a window, untouched for 40 min"."""
    awake = ws["activity"].get("awake")
    if awake is None or awake["since"] is None:
        return ""
    seconds = (now - parse_time(awake["since"])).total_seconds()
    if awake["because"] == "busy" and (work := awake.get("work")):
        return f"kept awake: {_work_words(work)} for {span(max(1, seconds))}"
    if awake["because"] != "open":
        return ""
    if seconds < UNTOUCHED_SHOWN_SECONDS:
        return "open in a window and in use"
    return f"open in a window, untouched for {span(seconds)}"


def _work_words(work: Work) -> str:
    name = clean(work["name"])
    match work["what"]:
        case "kernel":
            return "notebook busy"
        case "job":
            return f"{name} at work"
        case "cpu":
            return "processes at work"
        case "ide" if name:
            return f"busy with {name}"
        case "unknown":
            return "its work unknown"
        case _:
            return "busy"


def activity_words(ws: Workspace, *, now: datetime) -> str:
    """Describe when it was last used, and by what."""
    activity = ws["activity"]
    seen = activity["last_seen_at"]
    if seen is None:
        used = f"last asked for or changed {ago(ws['last_access_at'], now=now)}"
    else:
        kind = KIND_WORDS.get(activity["kind"] or "", activity["kind"])
        used = f"last used {ago(seen, now=now)}" + (f", by {kind}" if kind else "")
    match activity["connections"]:
        case None:
            return f"{used}; open connections unknown"
        case 0:
            return f"{used}; no open connections"
        case 1:
            return f"{used}; 1 open connection"
        case many:
            return f"{used}; {many} open connections"


def error_words(error: ErrorInfo) -> str:
    """Describe an error in one line: reason and message."""
    return clean(f"{error['reason']}: {error['message']}")


def advice(error: ErrorInfo, *, name: str) -> str:
    """Say what a person can do about an error."""
    if error["context"].get("code") == "HOME_NODE_UNAVAILABLE":
        start, back = f"codehub ws start {quoted(name)}", f"codehub ws return-to-archive {quoted(name)}"
        return (
            f"If the node comes back: {start}. If it is lost for good, delete it from the cluster, then: {back}. That "
            "goes on from the last archive; what was written since is lost."
        )
    if _is_for_owner(error):
        start, again = f"codehub ws start {quoted(name)}", f"codehub ws recover {quoted(name)}"
        files = ", ".join(clean(str(each)) for each in error["context"].get("files", ()))
        mend = f"Mend or remove: {files}. " if files else ""
        return f"The home is whole. {mend}To get at it: {start}. To archive it again now: {again}."
    if not error["is_terminal"]:
        return "Nothing yet: CodeHub tries again by itself."
    return f"{_remedy(error)} Then: codehub ws recover {quoted(name)} (administrators)"


def loss_words(ws: Workspace, *, now: datetime) -> str:
    """Say what is lost if the home on a lost node is given up."""
    at = ws.get("archived_at")
    since = f"the last archive, made {ago(at, now=now)}," if at else "the last archive"
    return f"What was written to its home since {since} is lost. If the node comes back, wait: nothing is lost then."


def _is_for_owner(error: ErrorInfo) -> bool:
    """Whether archiving failed and its owner may try again. A part of the server's ``owner_may_lift_error``."""
    given_up = error["is_terminal"] or "next_try_at" in error["context"]
    return given_up and error["operation"] == "ARCHIVING" and error["reason"] not in ("DataLost", "Mismatch")


def quoted(name: str) -> str:
    """Quote a name for the shell."""
    import shlex

    return shlex.quote(clean(name))


def age(since: str, *, now: datetime) -> timedelta:
    """Return the time since ``since``."""
    return now - parse_time(since)


def _pending_words(ws: Workspace) -> str:
    desired, operation = ws["desired_state"], ws["operation"]
    if operation == "NONE":
        return {"RUNNING": "about to start", "STANDBY": "about to sleep"}.get(desired, "about to be archived")
    if LEADS_TO.get(operation) == desired:
        return ""
    return {"RUNNING": "then starts", "STANDBY": "then sleeps"}.get(desired, "then is archived")


def _scheduled_words(following: NextChange, *, now: datetime) -> str:
    does = {"STANDBY": "sleeps", "PENDING": "is archived"}.get(following["to"], "starts")
    left = (parse_time(following["at"]) - now).total_seconds()
    return f"{does} in {span(left)}" if left >= 1 else f"{does} any moment"


def _settled_words(ws: Workspace) -> str:
    match ws["status"]:
        case "running" if ws["standby_ttl_seconds"] == 0:
            return "never sleeps by itself"
        case "running":
            # Without known activity the next change is unknown.
            return "" if ws["activity"]["connections"] is None else "awake while in use"
        case "standby":
            return "stays asleep until opened" if ws["archive_ttl_seconds"] == 0 else ""
        case "archived":
            return "comes back when opened"
        case "new":
            return "starts when opened"
        case _:
            return ""


_REMEDIES = {
    "NO_SPACE": "Free some room on the machine.",
    "IMAGE_PULL_FAILED": "Check the image.",
    "IMAGE_UNKNOWN": "Check the image.",
    "TOOL_MISSING": "Install the program that is missing on the machine; `codehub doctor` names it.",
    "OUT_OF_MEMORY": "Run less at once in it, or give workspaces more memory (DOCKER_LIMIT_MEMORY, or on a cluster "
    "CODEHUB_KUBERNETES_LIMIT_MEMORY).",
    "UNSCHEDULABLE": "Make room on the nodes or add one; `codehub doctor` checks the cluster.",
    "QUOTA_EXCEEDED": "Raise the quota of the namespace, or stop other workspaces.",
    "ADMISSION_REFUSED": "Change the rule that refuses it, or the settings; `codehub doctor` tries them.",
    "NAME_TAKEN": "Rename or remove what has that name and is not CodeHub's.",
    "VOLUME_USED_ELSEWHERE": "Rename that container back, or stop and remove it.",
    "CONTAINER_PAUSED": "Unpause it (docker unpause ws-…).",
    "CONTAINER_ENDED": "See why it ended: its last output usually says so (codehub ws logs).",
    "CONTAINER_START_FAILED": "See why it ended: its last output usually says so (codehub ws logs).",
}
_MISSING_DISK = (
    "If a disk is not mounted, mount it: without it, recovering starts from the archive or from nothing."
)


def _remedy(error: ErrorInfo) -> str:
    if error["reason"] == "DataLost":
        return "Nothing was overwritten. Look for an older archive before anything else is tried."
    context: dict[str, Any] = error["context"]
    code = context.get("code") or context.get("last_code")
    if remedy := _REMEDIES.get(str(code)):
        return remedy
    if error["reason"] == "Mismatch" or code == "VOLUME_MISSING":
        return _MISSING_DISK
    if error["reason"] == "Unreachable":
        return "Wait until the machinery answers again."
    return "Recovering tries the step again from its beginning and deletes no files."
