"""An engine without our mark is an engine that is away, whatever is asked of it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from codehub.domain.errors import FailureCode
from codehub.runtimes.base import Runtime
from codehub.runtimes.docker.names import INSTALLATION, ROLE
from tests.contract.runtime_suite import FIRST, MUTATIONS, SECOND, failure_of, start
from tests.support.docker_environment import DockerEnvironment
from tests.support.docker_images import image
from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person, coordinators
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_docker, pytest.mark.timeout(300)]


async def read_logs(runtime: Runtime, ws: UUID) -> bytes:
    return b"".join([piece async for piece in runtime.logs(ws)])


QUESTIONS: dict[str, Callable[[Runtime, UUID], Awaitable[object]]] = {
    "observe": lambda runtime, ws: runtime.observe(),
    "observe one": lambda runtime, ws: runtime.observe([ws]),
    "address": lambda runtime, ws: runtime.address(ws),
    "logs": read_logs,
    "probe": lambda runtime, ws: runtime.probe(),
    "remove orphan": lambda runtime, ws: runtime.remove_orphan_container(ws),
}


def remove_mark(environment: DockerEnvironment, installation_id: str) -> None:
    environment.api.call("DELETE", f"/volumes/codehub-{installation_id}")


def put_mark_back(environment: DockerEnvironment, installation_id: str) -> None:
    labels = {INSTALLATION: installation_id, ROLE: "marker"}
    environment.api.call(
        "POST", "/volumes/create", body={"Name": f"codehub-{installation_id}", "Labels": labels}
    )


@pytest.mark.parametrize("verb", [*QUESTIONS, *MUTATIONS])
async def test_without_the_mark_every_verb_finds_the_engine_away(
    environment: DockerEnvironment, ws: UUID, verb: str
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    remove_mark(environment, environment.installation_id())
    asked = QUESTIONS.get(verb)
    call = asked(runtime, ws) if asked else MUTATIONS[verb](runtime, ws, SECOND, environment.image)
    assert await failure_of(call) is FailureCode.DOCKER_API_ERROR
    put_mark_back(environment, environment.installation_id())
    await runtime.probe()


async def test_a_mark_lost_during_a_start_is_no_failure_of_the_workspace(
    environment: DockerEnvironment, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    create = runtime._engine.create_container

    async def lose_the_mark(name: str, config: dict[str, Any]) -> str:
        if name != f"ws-{ws}":
            return await create(name, config)
        remove_mark(environment, environment.installation_id())
        return await create(name, {**config, "Image": "codehub-test/not-on-this-engine"})

    monkeypatch.setattr(runtime._engine, "create_container", lose_the_mark)
    assert await failure_of(start(runtime, ws, image=environment.image)) is FailureCode.DOCKER_API_ERROR


async def test_a_start_waits_for_the_mark_and_uses_up_no_retries(
    environment: DockerEnvironment, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        **QUICK,
        "RECONCILER_RETRY_BACKOFF": "0.2",
        "CODEHUB_RUNTIME": "docker",
        "DOCKER_HOST": environment.engine_url,
        "DOCKER_IMAGES": image("tiny"),
        "DOCKER_JOB_IMAGE": image("job"),
    }
    async with codehub_up(tmp_path / "data", **settings) as instance, Person.admin(instance.url) as person:
        workspace_id = await person.running("project", image=image("tiny"))
        found = environment.api.container(f"ws-{workspace_id}")
        assert found is not None
        installation_id = found["Config"]["Labels"][INSTALLATION]
        environment.will_clean(installation_id)
        await person.intent(workspace_id, "stop")
        await person.until_status(workspace_id, "standby")
        remove_mark(environment, installation_id)
        await person.intent(workspace_id, "start")

        async def is_away() -> bool:
            return "runtime" in ((await coordinators(instance.url))["wc"].get("away") or {})

        await until(is_away, what="the engine without the mark to count as away", seconds=60)
        told = await person.workspace(workspace_id)
        assert told["status"] != "error"
        assert told["error_info"] is None  # nothing was counted
        put_mark_back(environment, installation_id)
        await person.until_status(workspace_id, "running", seconds=90)
