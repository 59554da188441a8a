"""How CodeHub finds an API server and proves who it is."""

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from codehub.runtimes.kubernetes import access
from codehub.runtimes.kubernetes.access import AccessError, CredentialCommand, TokenFile, find_access


def kubeconfig(folder: Path, *, user: dict[str, Any] | None = None, **cluster: Any) -> str:
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ide"}},
            {"name": "broken", "context": {"cluster": "nowhere", "user": "u"}},
        ],
    }
    path = folder / "config"
    path.write_text(json.dumps(document))
    return str(path)


async def test_a_token_in_the_kubeconfig(tmp_path: Path) -> None:
    found = find_access(kubeconfig(tmp_path, user={"token": "secret"}, **{"tls-server-name": "api"}))
    assert (found.server, found.namespace, found.server_name) == ("https://10.0.0.1:6443", "ide", "api")
    assert await found.credentials.token() == "secret"


async def test_of_several_files_the_first_is_used(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, user={"token": "first"})
    assert await find_access(os.pathsep.join([path, "/no/such/file"])).credentials.token() == "first"


async def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    credentials = find_access(kubeconfig(tmp_path, user={"tokenFile": "token"})).credentials
    assert await credentials.token() == "one"
    (tmp_path / "token").write_text("two\n")
    assert await credentials.token() == "one"  # for up to a minute
    credentials.forget()
    assert await credentials.token() == "two"


async def test_a_command_runs_again_before_its_token_expires(tmp_path: Path) -> None:
    counter = tmp_path / "runs"
    script = (
        "import json, os, sys; open(sys.argv[1], 'a').write('x'); "
        "json.loads(os.environ['KUBERNETES_EXEC_INFO']); n = os.path.getsize(sys.argv[1]); "
        "print(json.dumps({'status': {'token': f'{os.environ[\"WHO\"]}-{n}', 'expirationTimestamp': sys.argv[2]}}))"
    )

    def command(expires_at: datetime) -> CredentialCommand:
        counter.write_text("")
        arguments = ["-c", script, str(counter), expires_at.isoformat()]
        env = [{"name": "WHO", "value": "me"}]
        return CredentialCommand(
            {"apiVersion": "v1", "command": sys.executable, "args": arguments, "env": env}
        )

    lasting = command(datetime.now(UTC) + timedelta(hours=1))
    assert [await lasting.token(), await lasting.token()] == ["me-1", "me-1"]
    lasting.forget()
    assert await lasting.token() == "me-2"
    expiring = command(datetime.now(UTC) + timedelta(seconds=5))
    assert [await expiring.token(), await expiring.token()] == ["me-1", "me-2"]


async def test_a_command_that_fails_is_quoted() -> None:
    wrong = CredentialCommand(
        {"apiVersion": "v1", "command": sys.executable, "args": ["-c", "raise SystemExit('sign in')"]}
    )
    with pytest.raises(AccessError, match="sign in"):
        await wrong.token()
    with pytest.raises(AccessError, match="cannot run"):
        await CredentialCommand({"apiVersion": "v1", "command": "/no/such/command"}).token()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"context": "broken"}, "'nowhere' among its clusters"),
        ({"context": "missing"}, "'missing' among its contexts"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "use exec"),
        ({"certificate-authority": "no-such-file"}, "no-such-file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    context = change.pop("context", None)
    with pytest.raises(AccessError, match=words):
        find_access(kubeconfig(tmp_path, **change), context=context)


def test_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="cannot be read"):
        find_access(str(tmp_path / "none"))


def test_in_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import certifi

    (tmp_path / "namespace").write_text("ide")
    (tmp_path / "ca.crt").write_bytes(Path(certifi.where()).read_bytes())
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = find_access()
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "ide")
    assert isinstance(found.credentials, TokenFile)
