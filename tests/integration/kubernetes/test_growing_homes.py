"""The size of homes follows its setting at the next start, where the storage class allows it."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

from codehub.domain.states import ContainerState
from codehub.runtimes.kubernetes.homes import Homes
from codehub.runtimes.kubernetes.inventory import claimed_bytes, read_home
from codehub.runtimes.kubernetes.quantities import find_bytes
from tests.contract.runtime_suite import FIRST, SECOND, THIRD, sight, start
from tests.integration.kubernetes.test_doctor import examine
from tests.support.kubernetes_environment import KubernetesEnvironment
from tests.support.waiting import until

SMALL, LARGE = 1024**2, 4 * 1024**2


def requested(environment: KubernetesEnvironment, ws: UUID) -> int | None:
    claim = environment.api.get(environment.path("persistentvolumeclaims", f"ws-{ws}-home"))
    return claimed_bytes(claim)


async def test_a_home_grows_and_never_shrinks(environment: KubernetesEnvironment, ws: UUID) -> None:
    small, large = await environment.open(), await environment.open(home_bytes=LARGE)
    await small.provision(ws, token=FIRST)
    await start(small, ws, image=environment.image)
    await small.stop(ws, token=FIRST)
    assert requested(environment, ws) == SMALL
    await start(large, ws, token=SECOND, image=environment.image)
    assert requested(environment, ws) == LARGE

    async def has_grown() -> bool:
        claim = environment.api.get(environment.path("persistentvolumeclaims", f"ws-{ws}-home"))
        return find_bytes(claim["status"]["capacity"]["storage"]) == LARGE

    await until(has_grown, what="the volume has grown", seconds=60)
    await small.stop(ws, token=SECOND)
    await start(small, ws, token=THIRD, image=environment.image)
    assert requested(environment, ws) == LARGE


async def test_a_leader_that_was_replaced_makes_nothing_larger(
    environment: KubernetesEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    path = environment.path("persistentvolumeclaims", f"ws-{ws}-home")

    async def is_bound() -> bool:
        return read_home(environment.api.get(path)).size is not None

    await until(is_bound, what="the claim has a volume", seconds=60)
    seen = read_home(environment.api.get(path))
    await runtime.provision(ws, token=SECOND)  # a newer leader stamps the claim
    late = Homes(
        runtime._api, environment.names(), runtime._observer, replace(environment.settings, home_bytes=LARGE)
    )
    await late.grow(seen)
    assert requested(environment, ws) == SMALL
    await late.grow(read_home(environment.api.get(path)))
    assert requested(environment, ws) == LARGE, "the same call, by who has read the claim since"


async def test_where_the_class_does_not_allow_it_the_start_goes_on(
    environment: KubernetesEnvironment, ws: UUID, tmp_path: Path
) -> None:
    small = await environment.open(storage_class="node-local")
    large = await environment.open(storage_class="node-local", home_bytes=LARGE)
    await small.provision(ws, token=FIRST)
    await start(small, ws, image=environment.image)
    await small.stop(ws, token=FIRST)
    await start(large, ws, token=SECOND, image=environment.image)
    assert (await sight(large, ws)).container is ContainerState.RUNNING
    assert requested(environment, ws) == SMALL
    environment.allow_reading("storage.k8s.io", "storageclasses")
    found = await examine(environment, tmp_path / "data", CODEHUB_KUBERNETES_STORAGE_CLASS="node-local")
    assert "homes cannot grow" in found["storage class"]["detail"]
    assert found["home sizes"]["verdict"] == "note"
    assert f"ws-{ws}-home" in found["home sizes"]["detail"]


async def test_a_volume_that_outlived_its_home_is_reported(
    environment: KubernetesEnvironment, ws: UUID, tmp_path: Path
) -> None:
    runtime = await environment.open(storage_class="retained")
    await runtime.provision(ws, token=FIRST)
    volumes = "/api/v1/persistentvolumes"
    claim = environment.path("persistentvolumeclaims", f"ws-{ws}-home")

    async def is_bound() -> str:
        return str(environment.api.get(claim)["spec"].get("volumeName") or "")

    name = await until(is_bound, what="the claim has a volume", seconds=60)
    await runtime.delete_volume(ws, token=FIRST)

    async def is_released() -> bool:
        return bool(environment.api.get(f"{volumes}/{name}")["status"]["phase"] == "Released")

    await until(is_released, what="the volume is left", seconds=60)
    assert await runtime.left_volumes() == [], "CodeHub may not list volumes, and need not"
    environment.allow_reading("", "persistentvolumes")
    try:
        (left,) = await runtime.left_volumes()
        assert (left.name, left.bytes) == (name, 1024**2)
        assert left.since is not None
        found = await examine(environment, tmp_path / "data")
        assert found["volumes left over"]["verdict"] == "note"
        assert name in found["volumes left over"]["detail"]
    finally:
        environment.api.delete(f"{volumes}/{name}")
