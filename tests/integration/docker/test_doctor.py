"""``codehub doctor`` about a real engine: what it has, what it could get, and what to do about the rest."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_environment import DockerEnvironment
from tests.support.docker_images import busybox_tar, image
from tests.support.instance import codehub
from tests.support.object_stores import rclone_server
from tests.support.tiny_registry import run_registry

pytestmark = [pytest.mark.needs_docker, pytest.mark.timeout(120)]

NOWHERE = "127.0.0.1:1/nobody/serves:this"


async def examine(
    data_dir: Path, environment: DockerEnvironment, **settings: str
) -> dict[str, dict[str, Any]]:
    """The findings, by what they are about."""
    outcome = await codehub(
        "doctor",
        "--json",
        CODEHUB_DATA_DIR=str(data_dir),
        CODEHUB_BIND="127.0.0.1:0",
        CODEHUB_RUNTIME="docker",
        **{
            "DOCKER_HOST": environment.engine_url,
            "DOCKER_IMAGES": image("tiny"),
            "DOCKER_JOB_IMAGE": image("job"),
            **settings,
        },
    )
    found = {one["what"]: one for one in json.loads(outcome.output)["findings"]}
    assert outcome.code == (1 if any(one["verdict"] == "bad" for one in found.values()) else 0)
    return found


async def test_an_engine_that_has_everything(environment: DockerEnvironment, tmp_path: Path) -> None:
    found = await examine(tmp_path / "data", environment)
    version = environment.api.call("GET", "/version")
    assert f"Docker {version['Version']} (API {version['ApiVersion']})" in found["runtime"]["detail"]
    for what in ("runtime", "workspace images", "storage job image", "networks"):
        assert found[what]["verdict"] == "ok", found[what]
    assert image("tiny") in found["workspace images"]["detail"]
    assert image("job") in found["storage job image"]["detail"]
    assert found["disk of the engine"]["verdict"] == "note"
    assert "nothing bounds what a home" in found["disk of the engine"]["detail"]


async def test_images_that_cannot_be_had_are_named_with_how_to_build_ours(
    environment: DockerEnvironment, tmp_path: Path
) -> None:
    found = await examine(
        tmp_path / "data", environment, DOCKER_IMAGES=f"{image('tiny')},{NOWHERE}", DOCKER_JOB_IMAGE=NOWHERE
    )
    assert found["runtime"]["verdict"] == "ok"
    for what, setting in (("workspace images", "DOCKER_IMAGES"), ("storage job image", "DOCKER_JOB_IMAGE")):
        assert found[what]["verdict"] == "bad"
        assert NOWHERE in found[what]["detail"]
        assert setting in found[what]["advice"]
    assert image("tiny") not in found["workspace images"]["detail"], "that one is there"


async def test_an_image_its_registry_has_is_only_noted_and_not_pulled(
    environment: DockerEnvironment, tmp_path: Path
) -> None:
    with run_registry(busybox_tar(), {}) as registry:
        reference = registry.reference("team/ide")
        found = await examine(tmp_path / "data", environment, DOCKER_IMAGES=reference)
        assert found["workspace images"]["verdict"] == "note", found
        assert reference in found["workspace images"]["advice"]
        assert not environment.api.has_image(reference)


async def test_networks_have_to_exist(environment: DockerEnvironment, tmp_path: Path) -> None:
    (tmp_path / "s3").mkdir()
    with rclone_server(tmp_path / "s3") as store:
        found = await examine(
            tmp_path / "data",
            environment,
            DOCKER_NETWORK="no-such-network",
            DOCKER_JOB_NETWORK="nor-this",
            **store.variables(store.new_bucket()),
        )
    assert found["networks"]["verdict"] == "bad"
    assert "DOCKER_NETWORK=no-such-network" in found["networks"]["detail"]
    assert "DOCKER_JOB_NETWORK=nor-this" in found["networks"]["detail"]
    assert "docker network create no-such-network" in found["networks"]["advice"]


async def test_an_engine_that_is_away(environment: DockerEnvironment, tmp_path: Path) -> None:
    await environment.break_engine()
    found = await examine(tmp_path / "data", environment)
    assert found["runtime"]["verdict"] == "bad"
    assert "DOCKER_HOST" in found["runtime"]["advice"]
    assert "workspace images" not in found, "nothing can be said about them"
