"""The compose file says nothing that CodeHub does not know, and opens nothing that workspaces could reach."""

from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from codehub.server.settings.tree import all_variables, load_settings

COMPOSE = Path(__file__).parents[3] / "deploy" / "compose"
READ_BY_THE_STORE = "AWS_"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"])


def replicas(services: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for name, each in services.items() if name.startswith("codehub-")]


def test_every_variable_is_one_of_ours(services: dict[str, Any]) -> None:
    known = {variable.name for variable in all_variables()}
    for replica in replicas(services):
        given = {name for name in replica["environment"] if not name.startswith(READ_BY_THE_STORE)}
        assert given <= known


def test_the_values_are_ones_codehub_takes(services: dict[str, Any]) -> None:
    for replica in replicas(services):
        plain = {name: str(value) for name, value in replica["environment"].items() if "${" not in str(value)}
        assert load_settings(plain).docker.job_network == "codehub-store"


def test_replicas_differ_where_they_must(services: dict[str, Any]) -> None:
    for name in ("CODEHUB_BIND", "COORDINATOR_NODE_ID"):
        values = [replica["environment"][name] for replica in replicas(services)]
        assert len(set(values)) == len(values) == 2
    front_door = (COMPOSE / "Caddyfile").read_text()
    assert all(replica["environment"]["CODEHUB_BIND"] in front_door for replica in replicas(services))


def test_servers_listen_on_loopback_alone(services: dict[str, Any]) -> None:
    ports = [port for each in services.values() for port in each.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_only_codehub_has_the_docker_socket(services: dict[str, Any]) -> None:
    holders = {name for name, each in services.items() if "docker.sock" in str(each.get("volumes", ""))}
    assert holders == {"codehub-1", "codehub-2"}


def test_every_secret_has_to_be_set(services: dict[str, Any]) -> None:
    example = (COMPOSE / ".env.example").read_text()
    for name in ("POSTGRES_PASSWORD", "S3_SECRET_KEY", "CODEHUB_ADMIN_PASSWORD"):
        assert f"\n{name}=\n" in example
        assert f"${{{name}:?" in (COMPOSE / "compose.yaml").read_text()
