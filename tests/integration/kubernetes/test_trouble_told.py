"""What a cluster does to a workspace, or refuses it, is told in words; what is somebody else's is left alone."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.domain.endings import CrashKind, Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import ResourceLimits, Runtime, Sighting
from codehub.runtimes.kubernetes.catalogue import Image
from tests.contract.runtime_suite import FIRST, SECOND, failure_of, ignore, job_of, running_job, sight, start
from tests.support.kubernetes_environment import KubernetesEnvironment
from tests.support.waiting import until


async def refusal_of(call: Any) -> EffectError:
    with pytest.raises(EffectError) as caught:
        await call
    return caught.value


async def test_out_of_memory(environment: KubernetesEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    limits = ResourceLimits(memory_bytes=32 * 1024**2)
    await runtime.start(ws, token=FIRST, image_ref="hungry", env={}, limits=limits)
    await environment.execute(f"ws-{ws}", "sh", "-c", "> /home/person/eat")

    async def has_ended() -> Ending | None:
        return await runtime.ending(ws)

    ending = await until(has_ended, what="its end")
    assert ending is not None
    assert (ending.kind, ending.memory_limit_bytes) == (CrashKind.OUT_OF_MEMORY, 32 * 1024**2)


async def test_an_image_that_cannot_be_pulled(environment: KubernetesEnvironment, ws: UUID) -> None:
    images = {**environment.settings.images, "missing": Image("registry.invalid/nobody/has-this:1")}
    runtime = await environment.open(images=images)
    await runtime.provision(ws, token=FIRST)
    error = await refusal_of(start(runtime, ws, image="missing"))
    assert error.failure is FailureCode.IMAGE_PULL_FAILED
    assert "registry.invalid" in error.message
    assert await sight(runtime, ws) == Sighting(volume=True)


async def test_no_node_takes_it(environment: KubernetesEnvironment, ws: UUID) -> None:
    runtime = await environment.open(requests=ResourceLimits(cpus=10_000), schedule_seconds=3)
    await runtime.provision(ws, token=FIRST)
    error = await refusal_of(start(runtime, ws, image=environment.image))
    assert error.failure is FailureCode.UNSCHEDULABLE
    assert "nsufficient cpu" in error.message
    assert await sight(runtime, ws) == Sighting(volume=True)


async def test_a_quota_that_is_used_up(environment: KubernetesEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
    environment.api.create(environment.path("resourcequotas"), quota)

    async def is_counted() -> bool:
        return "hard" in (environment.api.get(environment.path("resourcequotas", "few")).get("status") or {})

    await until(is_counted, what="the quota")
    error = await refusal_of(start(runtime, ws, image=environment.image))
    assert error.failure is FailureCode.QUOTA_EXCEEDED
    assert await sight(runtime, ws) == Sighting(volume=True)


async def test_a_rule_that_refuses_it(environment: KubernetesEnvironment, ws: UUID) -> None:
    runtime = await environment.open(pod_patch={"spec": {"hostNetwork": True}})
    await runtime.provision(ws, token=FIRST)
    error = await refusal_of(start(runtime, ws, image=environment.image))
    assert error.failure is FailureCode.ADMISSION_REFUSED
    assert "PodSecurity" in error.message


@pytest.mark.parametrize("kind", ["configmaps", "persistentvolumeclaims", "pods"])
async def test_roles_that_are_not_known_count_as_a_server_that_is_away(
    environment: KubernetesEnvironment, ws: UUID, kind: str
) -> None:
    """As after its restart, for a moment: no workspace fails for that."""
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{environment.namespace}/roles/codehub"
    rules = environment.api.get(role)["rules"]
    reading = ("get", "list", "watch")
    kept = [rule for rule in rules if rule["resources"] != [kind] or rule["verbs"][0] in reading]
    environment.api.patch(role, {"rules": kept})

    numbers = count(2)

    async def outcome() -> FailureCode | None:
        token = replace(FIRST, op_seq=next(numbers))
        try:
            await start(runtime, ws, token=token, image=environment.image)
        except EffectError as error:
            return error.failure
        return None

    outcomes: list[FailureCode | None] = []

    async def is_forgotten() -> bool:
        outcomes.append(await outcome())
        return outcomes[-1] is not None

    async def is_known() -> bool:
        outcomes.append(await outcome())
        return outcomes[-1] is None

    await until(is_forgotten, what="the role is forgotten")
    environment.api.patch(role, {"rules": rules})
    await until(is_known, what="the role is known again", seconds=60)
    assert set(outcomes) == {FailureCode.K8S_API_ERROR, None}


async def test_a_patch_that_makes_no_pod_is_found_at_the_start(environment: KubernetesEnvironment) -> None:
    wrong = await environment.open(
        pod_patch={"spec": {"containers": [{"name": "workspace", "ports": [{"x": 1}]}]}}
    )
    with pytest.raises(ValueError, match="containerPort"):
        await wrong.check_manifests()
    await (await environment.open()).check_manifests()


async def test_a_pod_that_is_taken_away_tells_why(environment: KubernetesEnvironment, ws: UUID) -> None:
    ended: list[UUID] = []
    runtime = await environment.open(on_exit=ended.append)
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": f"ws-{ws}", "namespace": environment.namespace},
    }
    environment.api.create(environment.path("pods", f"ws-{ws}/eviction"), eviction)

    async def is_gone() -> bool:
        return bool(ended) and await runtime.address(ws) is None

    await until(is_gone, what="the eviction")
    ending = await runtime.ending(ws)
    assert ending is not None
    assert ending.kind is CrashKind.EVICTED


@pytest.mark.parametrize("call", ["provision", "start"])
async def test_what_has_our_name_and_is_not_ours_is_left_alone(
    environment: KubernetesEnvironment, ws: UUID, call: str
) -> None:
    one, other = await environment.open(), await environment.open("two")
    await other.provision(ws, token=SECOND)
    if call == "provision":
        assert await failure_of(one.provision(ws, token=FIRST)) is FailureCode.NAME_TAKEN
    else:
        assert await failure_of(start(one, ws, image=environment.image)) is FailureCode.VOLUME_MISSING
    await one.stop(ws, token=SECOND)
    await one.delete_volume(ws, token=SECOND)
    assert await sight(other, ws) == Sighting(volume=True)


async def test_a_namespace_without_our_mark_is_away(environment: KubernetesEnvironment, ws: UUID) -> None:
    runtime = await environment.open(create=False)
    calls = (runtime.observe(), runtime.probe(), runtime.provision(ws, token=FIRST), runtime.address(ws))
    for call in calls:
        assert await failure_of(call) is FailureCode.K8S_API_ERROR
    assert environment.api.get(environment.path("persistentvolumeclaims"))["items"] == []


async def test_a_job_outlives_an_api_server_that_is_away_for_a_moment(
    environment: KubernetesEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await environment.let_jobs(ws, "slow")
    job = await running_job(runtime, ws, token=FIRST)
    await environment.break_engine()

    async def is_away() -> bool:
        try:
            await runtime.probe()
        except EffectError:
            return True
        return False

    await until(is_away, what="the API server is away")
    await environment.mend_engine()
    assert await sight(runtime, ws) == Sighting(volume=True, storage_job=True)
    assert not job.done()
    await runtime.kill_storage_job(ws, token=FIRST)
    assert await failure_of(job) is FailureCode.STORAGE_JOB_FAILED


async def test_the_order_goes_with_its_job(environment: KubernetesEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)

    async def are_gone() -> bool:
        return not environment.api.get(environment.path("secrets"), labelSelector=f"codehub.workspace={ws}")[
            "items"
        ]

    await until(are_gone, what="the job's Secret is collected", seconds=60)


async def test_a_home_waits_for_its_first_pod(environment: KubernetesEnvironment, ws: UUID) -> None:
    """Of a class that binds when a pod is scheduled: the claim alone is a home."""
    runtime: Runtime = await environment.open(storage_class="node-local")
    await runtime.provision(ws, token=FIRST)
    assert await sight(runtime, ws) == Sighting(volume=True)
    await start(runtime, ws, image=environment.image)
    assert (await sight(runtime, ws)).container is ContainerState.RUNNING
    await runtime.stop(ws, token=FIRST)
    await runtime.delete_volume(ws, token=FIRST)
    assert await sight(runtime, ws) == Sighting()


async def test_old_fences_are_swept(
    environment: KubernetesEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    from codehub.runtimes.kubernetes import fences

    gone, kept = uuid4(), uuid4()
    runtime = await environment.open()
    await asyncio.gather(runtime.provision(gone, token=FIRST), runtime.provision(kept, token=FIRST))
    await runtime.delete_volume(gone, token=FIRST)
    names = environment.names()
    sweeping = fences.Fences(runtime._api, names, namespace=environment.namespace)
    await sweeping.sweep(in_use={kept})
    assert environment.api.find(environment.path("configmaps", names.fence(gone))) is not None
    monkeypatch.setattr(fences, "KEPT", -fences.KEPT)
    await sweeping.sweep(in_use={kept})
    assert environment.api.find(environment.path("configmaps", names.fence(gone))) is None
    assert environment.api.find(environment.path("configmaps", names.fence(kept))) is not None
    late = replace(FIRST, epoch=0)
    assert await failure_of(sweeping.verify(gone, late)) is FailureCode.STALE_TOKEN
