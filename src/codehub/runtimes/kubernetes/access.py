"""Find the API server and prove who we are: in the cluster, or by a kubeconfig file.

In a pod the service account's files are used; the kubelet renews the token, so it is read again every minute.
Elsewhere a kubeconfig says where the server is and brings a client certificate, a token, a file with a token, or
a command that prints one (``exec``), which runs again before its token expires.

Written here, on aiohttp, because the official clients load hundreds of generated models before the first call:
a quarter of a second of CPU and 39 MB in each process.
"""

import asyncio
import base64
import json
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import yaml  # type: ignore[import-untyped]

from codehub.domain.errors import CodeHubError
from codehub.kit.clock import monotonic

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REREAD_SECONDS = 60.0
_EXEC_SECONDS = 30.0
_EARLY = timedelta(seconds=30)


class AccessError(CodeHubError):
    """The API server's address or our credentials cannot be found. The message says what to do."""

    code = "kubernetes_access"


class Credentials(Protocol):
    async def token(self) -> str | None:
        """The bearer token to send; None: the connection itself proves who we are."""

    def forget(self) -> None:
        """Get a new one next time: the server refused this one."""


@dataclass
class Access:
    """Address of an API server, and what a connection to it needs."""

    server: str
    tls: ssl.SSLContext | None
    credentials: Credentials
    namespace: str | None = None  # of the pod we are in, or of the kubeconfig's context
    server_name: str | None = field(default=None)  # the name in its certificate, if not the address's


def find_access(kubeconfig: str | None = None, *, context: str | None = None) -> Access:
    """Find the API server. Raises ``AccessError``.

    ``kubeconfig`` None: the service account of the pod we are in, else ``~/.kube/config``. Of several files the first
    is used; they are not merged.
    """
    if kubeconfig is None and os.environ.get("KUBERNETES_SERVICE_HOST") and SERVICE_ACCOUNT.exists():
        return _in_cluster()
    path = Path((kubeconfig or "~/.kube/config").split(os.pathsep)[0]).expanduser()
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AccessError(f"The kubeconfig {path} cannot be read: {error}") from error
    try:
        return _from_kubeconfig(document, folder=path.parent, context=context)
    except (KeyError, TypeError, ValueError, AttributeError, OSError, ssl.SSLError) as error:
        raise AccessError(f"The kubeconfig {path} cannot be used: {type(error).__name__}: {error}") from error


def _in_cluster() -> Access:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    namespace = (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    return Access(
        server=f"https://{host}:{port}",
        tls=ssl.create_default_context(cafile=os.fspath(SERVICE_ACCOUNT / "ca.crt")),
        credentials=TokenFile(SERVICE_ACCOUNT / "token"),
        namespace=namespace or None,
    )


def _from_kubeconfig(document: Any, *, folder: Path, context: str | None) -> Access:
    chosen = context or document.get("current-context")
    if not chosen:
        raise AccessError("The kubeconfig has no current context: name one in CODEHUB_KUBERNETES_CONTEXT.")
    named = _named(document, "contexts", chosen)["context"]
    cluster = _named(document, "clusters", named["cluster"])["cluster"]
    user = _named(document, "users", named["user"]).get("user") or {}
    server = str(cluster["server"]).rstrip("/")
    return Access(
        server=server,
        tls=_tls(cluster, user, folder=folder) if server.startswith("https:") else None,
        credentials=_credentials(user, folder=folder),
        namespace=named.get("namespace") or None,
        server_name=cluster.get("tls-server-name") or None,
    )


def _named(document: Any, kind: str, name: str) -> dict[str, Any]:
    for each in document.get(kind) or ():
        if each.get("name") == name:
            return dict(each)
    raise AccessError(f"The kubeconfig has no {name!r} among its {kind}.")


def _tls(cluster: dict[str, Any], user: dict[str, Any], *, folder: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", folder=folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate = _content(user, "client-certificate", folder=folder)
    key = _content(user, "client-key", folder=folder)
    if certificate and key:
        _load_chain(context, certificate, key)
    return context


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate with its key; the standard library takes them from files alone."""
    with tempfile.NamedTemporaryFile(prefix="codehub-kube-") as file:  # readable by this user alone
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _content(entry: dict[str, Any], name: str, *, folder: Path) -> bytes | None:
    """A PEM given in the file (``…-data``), or the path of one."""
    if data := entry.get(f"{name}-data"):
        return base64.b64decode(data)
    if path := entry.get(name):
        return (folder / Path(path).expanduser()).read_bytes()
    return None


def _credentials(user: dict[str, Any], *, folder: Path) -> Credentials:
    if command := user.get("exec"):
        return CredentialCommand(command)
    if path := user.get("tokenFile"):
        return TokenFile(folder / Path(path).expanduser())
    if user.get("auth-provider"):
        raise AccessError("The kubeconfig uses an auth-provider, which Kubernetes has removed: use exec.")
    return FixedToken(user.get("token") or None)


class FixedToken:
    def __init__(self, token: str | None) -> None:
        self._token = token

    async def token(self) -> str | None:
        return self._token

    def forget(self) -> None:
        """There is no other."""


class TokenFile:
    """A token in a file that somebody renews."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token: str | None = None
        self._read_at = 0.0

    async def token(self) -> str | None:
        if self._token is None or monotonic() - self._read_at > _REREAD_SECONDS:
            try:
                self._token = self._path.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise AccessError(f"The token in {self._path} cannot be read: {error}") from error
            self._read_at = monotonic()
        return self._token

    def forget(self) -> None:
        self._token = None


class CredentialCommand:
    """A command of the kubeconfig that prints an ``ExecCredential`` with a token."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._argv = [str(document["command"]), *map(str, document.get("args") or ())]
        self._env = {str(each["name"]): str(each["value"]) for each in document.get("env") or ()}
        self._version = str(document["apiVersion"])
        self._token: str | None = None
        self._expires_at: datetime | None = None
        self._running = asyncio.Lock()

    async def token(self) -> str | None:
        async with self._running:
            if self._token is None or (
                self._expires_at is not None and datetime.now(UTC) > self._expires_at - _EARLY
            ):
                await self._run()
            return self._token

    def forget(self) -> None:
        self._token = None

    async def _run(self) -> None:
        told = {"apiVersion": self._version, "kind": "ExecCredential", "spec": {"interactive": False}}
        env = {**os.environ, **self._env, "KUBERNETES_EXEC_INFO": json.dumps(told)}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv, env=env, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            raise AccessError(f"{self._argv[0]}, which the kubeconfig names, cannot run: {error}") from error
        said = "no answer"
        try:
            async with asyncio.timeout(_EXEC_SECONDS):
                output, errors = await process.communicate()
            said = errors.decode(errors="replace")[-500:]
            status = json.loads(output)["status"]
            self._token = str(status["token"])
            expires = status.get("expirationTimestamp")
            self._expires_at = datetime.fromisoformat(expires) if expires else None
        except (TimeoutError, ValueError, KeyError, TypeError) as error:
            raise AccessError(
                f"{self._argv[0]}, which the kubeconfig names, gave no token: {said}"
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
