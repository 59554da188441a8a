"""Call the API, for commands. Blocking.

A command does one thing at a time, and Ctrl-C should interrupt exactly that. Every refusal becomes a
``CommandError`` with the server's message and an exit code by status. This module imports httpx, which is slow,
so commands import it only when they run.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, cast
from urllib.parse import urlencode, urlsplit

import httpx

from codehub import __version__
from codehub.cli.answers import (
    ArchiveGeneration,
    CoordinatorReport,
    Finding,
    HistoryEntry,
    Orphan,
    Overview,
    Process,
    Savings,
    SshGateway,
    SshKey,
    Token,
    User,
    Workspace,
    files_of,
)
from codehub.cli.failures import CommandError, Unreachable
from codehub.cli.login_file import is_loopback
from codehub.cli.refusals import content_of, refusal_of
from codehub.cli.sse import Event, parse_events

PREFIX = "/api/v1"
TIMEOUT_SECONDS = 30.0
STREAM_SECONDS = 120.0
PAGE_SIZE = 200

FileTransfer = Literal["content", "archive"]
"""A file, or a directory as a tar."""


class WorkspaceAction(StrEnum):
    """An intent about a workspace: the last part of its path."""

    START = "start"
    STOP = "stop"
    ARCHIVE = "archive"
    RECOVER = "recover"


class Client:
    """A blocking client of one server. Every call raises ``CommandError`` on failure."""

    def __init__(
        self, url: str, *, token: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self.url = url
        # HTTP_PROXY is not used for loopback: the proxy would connect to its own machine instead.
        self._http = httpx.Client(
            base_url=url,
            headers={"User-Agent": f"codehub-cli/{__version__}"},
            timeout=timeout_seconds,
            trust_env=not is_loopback(urlsplit(url).hostname),
        )
        if token is not None:
            self._http.headers["Authorization"] = f"Bearer {token}"
        self._date: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    @property
    def now(self) -> datetime:
        """The server's time, of its last answer. Ages must not depend on the local clock."""
        try:
            return parsedate_to_datetime(self._date or "")
        except ValueError:
            return datetime.now(UTC)

    # Signing in

    def sign_in(self, username: str, password: str) -> User:
        """Sign in; later requests carry the session cookie."""
        # The server refuses unsafe requests by cookie without an origin; "none": not caused by a page.
        self._http.headers["Sec-Fetch-Site"] = "none"
        answer = self._call("POST", "/auth/login", body={"username": username, "password": password})
        return cast(User, answer["user"])

    def sign_out(self) -> None:
        self._call("POST", "/auth/logout")

    def current_user(self) -> User:
        return cast(User, self._call("GET", "/auth/session")["user"])

    def create_token(self, name: str, *, expires_in_days: int | None) -> Token:
        body = {"name": name, "expires_in_days": expires_in_days}
        return cast(Token, self._call("POST", "/tokens", body=body))

    def revoke_token(self, token_id: str) -> None:
        self._call("DELETE", f"/tokens/{token_id}")

    # Public keys

    def ssh_keys(self) -> tuple[list[SshKey], SshGateway | None]:
        """Return one's own keys, newest first, and where they are used."""
        answer = self._call("GET", "/ssh-keys")
        return cast(list[SshKey], answer["items"]), cast(SshGateway | None, answer["gateway"])

    def add_ssh_key(self, name: str, public_key: str) -> SshKey:
        return cast(SshKey, self._call("POST", "/ssh-keys", body={"name": name, "public_key": public_key}))

    def remove_ssh_key(self, key_id: str) -> None:
        self._call("DELETE", f"/ssh-keys/{key_id}")

    # Workspaces

    def list_workspaces(
        self,
        *,
        owner: str | None = None,
        status: str | None = None,
        q: str | None = None,
        tag: str | None = None,
    ) -> Iterator[Workspace]:
        """Yield all workspaces, reading page after page."""
        params = {
            "owner": owner,
            "status": status,
            "q": q,
            "tag": tag,
            "limit": str(PAGE_SIZE),
            "cursor": None,
        }
        while True:
            page = self._call("GET", "/workspaces", query=params)
            yield from cast(list[Workspace], page["items"])
            if page["next_cursor"] is None:
                return
            params["cursor"] = page["next_cursor"]

    def get_workspace(self, workspace_id: str) -> Workspace:
        return cast(Workspace, self._call("GET", f"/workspaces/{workspace_id}"))

    def create_workspace(self, new: Mapping[str, Any]) -> Workspace:
        return cast(Workspace, self._call("POST", "/workspaces", body=new))

    def edit_workspace(self, workspace_id: str, changes: Mapping[str, Any]) -> Workspace:
        return cast(Workspace, self._call("PATCH", f"/workspaces/{workspace_id}", body=dict(changes)))

    def keep_awake(self, workspace_id: str, *, hours: float) -> Workspace:
        path = f"/workspaces/{workspace_id}/keep-awake"
        return cast(Workspace, self._call("POST", path, body={"hours": hours}))

    def return_to_archive(self, workspace_id: str, *, archive_key: str) -> Workspace:
        path = f"/workspaces/{workspace_id}/return-to-archive"
        return cast(Workspace, self._call("POST", path, body={"archive_key": archive_key}))

    def restore(self, workspace_id: str, *, archive_key: str, start: bool) -> Workspace:
        _, op_id, attempt, _ = archive_key.split("/")
        body = {"op_id": op_id, "attempt": attempt, "start": start}
        return cast(Workspace, self._call("POST", f"/workspaces/{workspace_id}/restore", body=body))

    def take_snapshot(self, workspace_id: str, name: str, *, archive_key: str | None = None) -> Workspace:
        body = {"name": name, **_parts(archive_key)}
        return cast(Workspace, self._call("POST", f"/workspaces/{workspace_id}/snapshots", body=body))

    def rename_snapshot(self, workspace_id: str, snapshot_id: str, name: str) -> Workspace:
        path = f"/workspaces/{workspace_id}/snapshots/{snapshot_id}"
        return cast(Workspace, self._call("PATCH", path, body={"name": name}))

    def delete_snapshot(self, workspace_id: str, snapshot_id: str) -> Workspace:
        path = f"/workspaces/{workspace_id}/snapshots/{snapshot_id}"
        return cast(Workspace, self._call("DELETE", path))

    def open_copy(self, workspace_id: str, name: str, *, archive_key: str | None, start: bool) -> Workspace:
        body = {"name": name, "start": start, **_parts(archive_key)}
        return cast(Workspace, self._call("POST", f"/workspaces/{workspace_id}/copies", body=body))

    def cancel_restore(self, workspace_id: str) -> Workspace:
        return cast(Workspace, self._call("DELETE", f"/workspaces/{workspace_id}/restore"))

    def act(
        self, workspace_id: str, action: WorkspaceAction, body: Mapping[str, Any] | None = None
    ) -> Workspace:
        return cast(Workspace, self._call("POST", f"/workspaces/{workspace_id}/{action}", body=body))

    def delete_workspace(self, workspace_id: str) -> Workspace:
        return cast(Workspace, self._call("DELETE", f"/workspaces/{workspace_id}"))

    def history(self, workspace_id: str, *, limit: int) -> list[HistoryEntry]:
        """Return the newest ``limit`` entries, newest first."""
        page = self._call("GET", f"/workspaces/{workspace_id}/history", query={"limit": str(limit)})
        return cast(list[HistoryEntry], page["items"])

    def logs(self, workspace_id: str) -> Iterator[str]:
        with self._streaming(f"/workspaces/{workspace_id}/logs", read_seconds=TIMEOUT_SECONDS) as response:
            yield from response.iter_text()

    @contextmanager
    def events(
        self, workspace_id: str, kind: Literal["events", "logs"] = "events", *, read_seconds: float
    ) -> Iterator[Iterator[Event]]:
        """Open an event stream.

        Its iterator raises ``Unreachable`` when the connection breaks.
        """
        path = f"/workspaces/{workspace_id}/{'events' if kind == 'events' else 'logs?follow=true'}"
        with self._streaming(path, read_seconds=read_seconds) as response:
            yield parse_events(response.iter_bytes())

    def archives(self, workspace_id: str) -> list[ArchiveGeneration]:
        """Return a workspace's archives, newest first."""
        return cast(
            list[ArchiveGeneration], self._call("GET", f"/workspaces/{workspace_id}/archives")["items"]
        )

    @contextmanager
    def download(self, key: str) -> Iterator[Iterator[bytes]]:
        """Open an archive. Its iterator raises ``Unreachable`` when the connection breaks."""
        workspace_id, _, rest = key.partition("/")
        path = f"/workspaces/{workspace_id}/archives/{rest}"
        with self._streaming(path, read_seconds=TIMEOUT_SECONDS) as response:
            yield response.iter_bytes()

    def look_into(self, key: str, path: str, what: Literal["", "/stat"]) -> dict[str, Any]:
        """Return a folder of an archive, or one file (``FileEntry``)."""
        return self._call("GET", files_of(key) + what, query={"path": path})

    @contextmanager
    def read_archived(self, key: str, kind: FileTransfer, path: str) -> Iterator[Iterator[bytes]]:
        """Read a file of an archive, or a folder as a tar."""
        address = f"{files_of(key)}/{kind}?{urlencode({'path': path})}"
        with self._streaming(address, read_seconds=STREAM_SECONDS) as response:
            yield response.iter_bytes()

    def put_back(self, key: str, *, wake: bool, **body: Any) -> None:
        """Write a file of an archive into the home."""
        self._call("POST", f"{files_of(key)}/put-back", body=body, query={"wake": _word(wake)})

    def ssh_host_key(self, workspace_id: str) -> str:
        """Return the workspace's host key, as ``known_hosts`` has it."""
        return str(self._call("GET", f"/workspaces/{workspace_id}/ssh")["host_key"])

    # In a workspace that runs

    @contextmanager
    def exec(self, workspace_id: str, command: Mapping[str, Any], *, wake: bool) -> Iterator[Iterator[Event]]:
        """Run a command; its output and its end as events."""
        path = f"/workspaces/{workspace_id}/exec?wake={_word(wake)}"
        with self._streaming(path, "POST", body=command, read_seconds=STREAM_SECONDS) as response:
            yield parse_events(response.iter_bytes())

    def start_process(self, workspace_id: str, command: Mapping[str, Any], *, wake: bool) -> Process:
        """Start a command that goes on by itself."""
        path = f"/workspaces/{workspace_id}/processes"
        return cast(Process, self._call("POST", path, body=command, query={"wake": _word(wake)}))

    def processes(self, workspace_id: str) -> list[Process]:
        """Detached processes there. Wakes nothing."""
        return cast(list[Process], self._call("GET", f"/workspaces/{workspace_id}/processes")["items"])

    def kill_process(self, workspace_id: str, process_id: str, *, signal: str) -> Process:
        path = f"/workspaces/{workspace_id}/processes/{process_id}/kill"
        return cast(Process, self._call("POST", path, body={"signal": signal}))

    @contextmanager
    def process_logs(self, workspace_id: str, process_id: str, *, follow: bool) -> Iterator[Iterator[Event]]:
        """What a detached process has said, and how it ended, as events."""
        path = f"/workspaces/{workspace_id}/processes/{process_id}/logs?follow={_word(follow)}"
        with self._streaming(path, read_seconds=STREAM_SECONDS) as response:
            yield parse_events(response.iter_bytes())

    @contextmanager
    def read_files(
        self, workspace_id: str, kind: FileTransfer, path: str, *, wake: bool
    ) -> Iterator[Iterator[bytes]]:
        """Read a file, or a directory as a tar."""
        query = urlencode({"path": path, "wake": _word(wake)})
        with self._streaming(
            f"/workspaces/{workspace_id}/files/{kind}?{query}", read_seconds=STREAM_SECONDS
        ) as response:
            yield response.iter_bytes()

    def write_files(
        self, workspace_id: str, kind: FileTransfer, path: str, data: BinaryIO, *, wake: bool
    ) -> None:
        """Write a file, or a tar into a directory."""
        query = {"path": path, "wake": _word(wake)}
        url = f"{PREFIX}/workspaces/{workspace_id}/files/{kind}"
        pieces = iter(partial(data.read, 1024 * 1024), b"")
        with self._translate_errors():
            response = self._http.put(url, params=query, content=pieces, timeout=STREAM_SECONDS)
        self._check(response)

    # For operators

    def coordinators(self) -> CoordinatorReport:
        return cast(CoordinatorReport, self._call("GET", "/health/coordinator", prefix=""))

    def overview(self) -> Overview:
        return cast(Overview, self._call("GET", "/admin/overview"))

    def all_savings(self) -> Savings:
        return cast(Savings, self._call("GET", "/admin/savings"))

    def orphans(self) -> list[Orphan]:
        return cast(list[Orphan], self._call("GET", "/admin/orphans")["items"])

    def findings(self) -> list[Finding]:
        return cast(list[Finding], self._call("GET", "/admin/findings")["items"])

    def repair(self, workspace_id: str, repair: str, **more: str | None) -> Workspace:
        body = {"repair": repair, **{name: value for name, value in more.items() if value is not None}}
        return cast(Workspace, self._call("POST", f"/admin/findings/{workspace_id}/repair", body=body))

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str | None] | None = None,
        prefix: str = PREFIX,
    ) -> dict[str, Any]:
        params = {key: value for key, value in (query or {}).items() if value is not None}
        with self._translate_errors():
            response = self._http.request(method, prefix + path, json=body, params=params)
        self._check(response)
        if response.status_code == httpx.codes.NO_CONTENT:
            return {}
        return content_of(response, self.url)

    call = _call  # for the modules of single commands

    @contextmanager
    def _streaming(
        self, path: str, method: str = "GET", *, body: Mapping[str, Any] | None = None, read_seconds: float
    ) -> Iterator[httpx.Response]:
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=read_seconds)
        with (
            self._translate_errors(),
            self._http.stream(method, PREFIX + path, json=body, timeout=timeout) as response,
        ):
            if not response.is_success:
                response.read()
            self._check(response)
            yield response

    def _check(self, response: httpx.Response) -> None:
        self._date = response.headers.get("date", self._date)
        if response.is_success:
            return
        if response.is_redirect:
            location = response.headers.get("location", "another address")
            raise CommandError(f"{self.url} sends to {location}: sign in there, with `codehub login`.")
        raise refusal_of(response, self.url)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise Unreachable(
                f"CodeHub at {self.url} did not answer in time. Try again; its log may say why it is slow."
            ) from error
        except httpx.TransportError as error:
            raise Unreachable(
                f"CodeHub at {self.url} cannot be reached ({str(error) or type(error).__name__}). "
                "Is it running, and is the address right? "
                "`codehub up` runs one here, `codehub login URL` signs in elsewhere."
            ) from error


def _word(value: bool) -> str:
    return "true" if value else "false"


def _parts(archive_key: str | None) -> dict[str, str]:
    """The parts of an archive's key by which the API knows it; none: the present home."""
    if archive_key is None:
        return {}
    _, op_id, attempt, _ = archive_key.split("/")
    return {"op_id": op_id, "attempt": attempt}
