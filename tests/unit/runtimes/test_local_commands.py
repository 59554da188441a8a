"""Command lines, environments, images: what a workspace is given, and what it is not."""

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.runtimes.local import LocalRuntime, default_images
from codehub.runtimes.local.ides.catalogue import JUPYTER_SETTINGS, JUPYTER_STARTER
from codehub.runtimes.local.listen_addresses import ListenAddress
from codehub.runtimes.local.spawn import command_of, job_environment, workspace_environment

SECRETS = {
    "DATABASE_URL": "postgresql://hub:secret@db/hub",
    "REDIS_URL": "redis://:secret@cache",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "CODEHUB_ADMIN_PASSWORD": "secret",
    "SOMETHING_NOBODY_THOUGHT_OF": "secret",
}


def runtime_with(tmp_path: Path, images: dict[str, str]) -> LocalRuntime:
    return LocalRuntime(tmp_path, "ours", images, job_command=["true"], archive_url="file:///nowhere")


def test_placeholders_are_filled_after_splitting() -> None:
    command = command_of(
        "ide --bind 127.0.0.1:{port} --root {home} '--base={base_path} x' {other}",
        listen=ListenAddress(20001),
        home=Path("/homes/with space; rm -rf"),
        base_path="/w/1/",
    )
    assert command == [
        *("ide", "--bind", "127.0.0.1:20001"),
        *("--root", "/homes/with space; rm -rf", "--base=/w/1/ x", "{other}"),
    ]


def test_a_command_is_given_the_place_it_can_listen_at_and_no_other() -> None:
    on_socket = ListenAddress(20001, Path("/run/ide/20001/s"))
    words = command_of("ide --sock={socket} {port}", listen=on_socket, home=Path("/home"), base_path="/")
    assert words == ["ide", "--sock=/run/ide/20001/s", "{port}"]
    assert on_socket.variables == {"CODEHUB_SOCKET": "/run/ide/20001/s"}
    assert ListenAddress(20001).variables == {"CODEHUB_PORT": "20001"}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "no command"),
        ("ide 'unclosed {port}", "quotation"),
        ("ide --no-port", r"uses neither \{socket\} nor \{port\}"),
        ("ide {socket} {port}", r"uses both \{socket\} and \{port\}"),
    ],
)
def test_a_command_nobody_could_use_is_refused_by_name(tmp_path: Path, command: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"'odd'.*{words}"):
        runtime_with(tmp_path, {"odd": command})


def test_no_secret_reaches_a_workspace_or_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    workspace_id = uuid4()
    env = workspace_environment(
        workspace_id,
        home=Path("/home/x"),
        listen=ListenAddress(1),
        base_path="/w/",
        given={"GREETING": "hello", "HOME": "/"},
    )
    job = job_environment(workspace_id, {"ONLY": "this"})
    assert "secret" not in str(env) + str(job)
    assert env["GREETING"] == "hello"
    assert env["HOME"] == "/home/x"
    assert env["CODEHUB_WORKSPACE_ID"] == str(workspace_id)
    assert "CODEHUB_WORKSPACE_ID" not in job  # or stopping the workspace would end its job
    assert job["ONLY"] == "this"


async def test_images_keep_their_order_and_say_who_serves_below_a_path(tmp_path: Path) -> None:
    runtime = runtime_with(tmp_path, {"b": "x {port} {base_path}", "a": "x {port}"})
    assert await runtime.images() == ["b", "a"]
    assert runtime.uses_base_path("b")
    assert not runtime.uses_base_path("a")
    assert not runtime.uses_base_path("unknown")
    await runtime.close()


def test_code_server_is_offered_where_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "code-server"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = default_images()["code-server"]
    assert command.startswith(str(binary))
    assert "--socket {socket}" in command
    assert "{port}" not in command
    assert "{base_path}" not in command  # it serves at the root, wherever it is mounted


def test_jupyterlab_starts_without_the_grammar_and_its_schemas_still_work() -> None:
    """The starter's trick, in a process of its own: it changes what can be imported."""
    script = (
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='imported'); import jsonschema; "
        "jsonschema.validate({'id': 'x'}, {'properties': {'id': {'format': 'iri'}}}, "
        "format_checker=jsonschema.FormatChecker()); print('lark' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, str(JUPYTER_STARTER)], capture_output=True, text=True, check=True
    )
    assert said.stdout == "False\n"
    assert str(JUPYTER_STARTER) in default_images()["jupyterlab"]


def test_jupyterlab_fetches_no_news_and_follows_light_and_dark() -> None:
    settings = json.loads((JUPYTER_SETTINGS / "overrides.json").read_text(encoding="utf-8"))
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    assert settings["@jupyterlab/apputils-extension:themes"]["adaptive-theme"] is True
    assert f"--LabApp.app_settings_dir={JUPYTER_SETTINGS}" in default_images()["jupyterlab"]
