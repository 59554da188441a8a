"""What the Docker runtime makes of the engine's listings: whose things are, and what they say."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.domain.states import ContainerState
from codehub.runtimes.base import Address, FencingToken, ResourceLimits, Sighting
from codehub.runtimes.docker.inventory import Stranger, find_strangers, observation, port_of, sort_resources
from codehub.runtimes.docker.names import INSTALLATION, Names, ObjectRole
from codehub.runtimes.docker.order import Order, container_config

NAMES = Names("here")
WS = uuid4()
TOKEN = FencingToken(3, 2)


def container(
    role: ObjectRole = ObjectRole.WORKSPACE,
    *,
    name: str | None = None,
    state: str = "running",
    labels: dict[str, str] | None = None,
    mounted: bool = True,
) -> dict[str, Any]:
    usual = NAMES.container(WS) if role is ObjectRole.WORKSPACE else NAMES.job(WS)
    return {
        "Id": "abc",
        "Names": [f"/{name or usual}"],
        "Mounts": [{"Type": "volume", "Name": NAMES.home(WS)}] if mounted else [],
        "State": state,
        "Labels": {**NAMES.labels(WS, role, TOKEN), "codehub.port": "9000", **(labels or {})},
        "NetworkSettings": {"Networks": {"private": {"IPAddress": "10.0.0.7"}}},
    }


def volume(
    role: ObjectRole = ObjectRole.HOME, token: FencingToken = TOKEN, *, name: str | None = None
) -> dict[str, Any]:
    usual = NAMES.home(WS) if role is ObjectRole.HOME else NAMES.fence(WS, token)
    return {
        "Name": name or usual,
        "Labels": NAMES.labels(WS, role, token),
        "CreatedAt": "2026-01-01T00:00:00Z",
    }


def seen(containers: list[dict[str, Any]], volumes: list[dict[str, Any]]) -> dict[UUID, Sighting]:
    return dict(observation(sort_resources(NAMES, containers=containers, volumes=volumes)).sightings)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("running", ContainerState.RUNNING),
        ("paused", ContainerState.RUNNING),
        ("created", ContainerState.DEAD),
        ("exited", ContainerState.DEAD),
        ("dead", ContainerState.DEAD),
        ("removing", ContainerState.DEAD),
    ],
)
def test_states(state: str, expected: ContainerState) -> None:
    sighting = seen([container(state=state)], [volume()])[WS]
    assert (sighting.container, sighting.volume) == (expected, True)
    address = Address("10.0.0.7", 9000) if expected is ContainerState.RUNNING else None
    assert sighting.address == address


def test_a_container_that_does_not_mount_the_home_is_not_ours() -> None:
    assert seen([container(mounted=False)], [volume()]) == {WS: Sighting(volume=True)}


def test_paused_is_said() -> None:
    assert seen([container(state="paused")], [volume()])[WS].paused
    assert not seen([container()], [volume()])[WS].paused


def test_who_mounts_a_home_and_is_not_ours_is_a_stranger() -> None:
    renamed = container(name="renamed")
    foreign = {**container(ObjectRole.STORAGE_JOB, name="theirs", state="exited"), "Labels": {}}
    listed = [container(), container(ObjectRole.STORAGE_JOB), renamed, foreign]
    assert find_strangers(NAMES, WS, listed) == [Stranger("renamed", True), Stranger("theirs", False)]


def test_a_job_is_not_a_container_of_the_workspace() -> None:
    assert seen([container(ObjectRole.STORAGE_JOB)], [volume()]) == {
        WS: Sighting(volume=True, storage_job=True)
    }
    assert seen([container(ObjectRole.STORAGE_JOB, state="exited")], [volume()]) == {
        WS: Sighting(volume=True)
    }


def test_a_workspace_of_which_only_a_token_is_left_has_nothing() -> None:
    assert seen([], [volume(ObjectRole.FENCE)]) == {}


@pytest.mark.parametrize(
    "stranger",
    [
        container(name="a-copy-somebody-made"),
        container(labels={INSTALLATION: "elsewhere"}),
        container(labels={"codehub.workspace": "not-an-id"}),
        container(labels={"codehub.role": "something-new"}),
        {**container(), "Labels": None},
    ],
    ids=["other name", "other installation", "no id", "unknown role", "no labels"],
)
def test_what_is_not_ours_is_not_seen(stranger: dict[str, Any]) -> None:
    assert seen([stranger], []) == {}


def test_the_highest_token_counts_wherever_it_is() -> None:
    volumes = [
        volume(ObjectRole.FENCE, FencingToken(2, 9)),
        volume(ObjectRole.FENCE, FencingToken(4, 1)),
        volume(),
    ]
    resources = sort_resources(NAMES, containers=[container()], volumes=volumes)[WS]
    assert resources.highest_token == FencingToken(4, 1)


@pytest.mark.parametrize(
    ("label", "port"), [("9000", 9000), ("", 8080), ("x", 8080), ("0", 8080), ("70000", 8080)]
)
def test_ports(label: str, port: int) -> None:
    assert port_of({"codehub.port": label}) == port


def test_an_image_and_a_caller_cannot_loosen_anything() -> None:
    image = {
        "Config": {"Labels": {"codehub.home": "/work", "codehub.port": "9000", "codehub.workspace": "x"}}
    }
    order = Order(
        workspace_id=WS,
        token=TOKEN,
        image_ref="image",
        env={"HOME": "/root", "CODEHUB_PORT": "1", "LANG": "C"},
        limits=ResourceLimits(),
        base_path="/w/",
        stop_grace_seconds=10,
    )
    config = container_config(order, image=image, names=NAMES, network="private")
    assert set(config["Env"]) >= {"HOME=/work", "CODEHUB_PORT=9000", "LANG=C"}
    assert config["Labels"]["codehub.workspace"] == str(WS)
    host = config["HostConfig"]
    assert (host["Privileged"], host["CapDrop"], host["PublishAllPorts"]) == (False, ["ALL"], False)
    assert [mount["Target"] for mount in host["Mounts"]] == ["/work"]
    assert not {"Memory", "NanoCpus", "PidsLimit"} & set(host)  # no limit where none is wanted
