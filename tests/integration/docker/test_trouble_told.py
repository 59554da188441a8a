"""What happens to a container behind CodeHub's back is told for what it is: no memory left, paused."""

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from codehub.cli.explaining import Account, account_of
from codehub.domain.endings import CrashKind
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import ResourceLimits
from codehub.runtimes.docker.names import INSTALLATION
from tests.contract.runtime_suite import FIRST, SECOND, sight
from tests.support.docker_environment import DockerEnvironment
from tests.support.docker_images import image
from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_docker, pytest.mark.timeout(300)]

SMALL = ResourceLimits(memory_bytes=32 * 1024**2)


async def test_the_engines_word_on_how_it_ended(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await runtime.start(ws, token=FIRST, image_ref=image("hungry"), env={}, limits=SMALL)
    assert await runtime.ending(ws) is None
    await environment.write(ws, "eat", "")

    async def is_dead() -> bool:
        return (await runtime.observe([ws])).sightings[ws].container is ContainerState.DEAD

    await until(is_dead, what="the memory to run out")
    ending = await runtime.ending(ws)
    assert ending is not None
    assert (ending.kind, ending.exit_code, ending.memory_limit_bytes) == (
        CrashKind.OUT_OF_MEMORY,
        137,
        SMALL.memory_bytes,
    )
    await runtime.start(ws, token=SECOND, image_ref=image("tiny"), env={}, limits=SMALL)
    await environment.kill_container(ws)
    killed = await runtime.ending(ws)
    assert killed is not None
    assert (killed.kind, killed.signal) == (CrashKind.SIGNAL, 9)


async def test_no_memory_at_the_start_is_called_that(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    with pytest.raises(EffectError) as caught:
        await runtime.start(ws, token=FIRST, image_ref=image("greedy"), env={}, limits=SMALL)
    assert caught.value.failure is FailureCode.OUT_OF_MEMORY
    assert "ran out of memory and was killed (its limit is 32 MiB)" in caught.value.message
    assert "wants it all" in str(caught.value.context)


async def test_a_paused_container_is_seen_and_can_be_stopped(
    environment: DockerEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await runtime.start(ws, token=FIRST, image_ref=environment.image, env={}, limits=ResourceLimits())
    environment.api.call("POST", f"/containers/ws-{ws}/pause")
    seen = await sight(runtime, ws)
    assert (seen.container, seen.paused) == (ContainerState.RUNNING, True)
    await runtime.stop(ws, token=SECOND)
    assert (await sight(runtime, ws)).container is ContainerState.NONE


async def test_a_person_is_told(environment: DockerEnvironment, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        **QUICK,
        "CODEHUB_RUNTIME": "docker",
        "DOCKER_HOST": environment.engine_url,
        "DOCKER_IMAGES": f"{image('tiny')},{image('hungry')}",
        "DOCKER_JOB_IMAGE": image("job"),
        "DOCKER_LIMIT_MEMORY": "32m",
        "RECONCILER_RETRY_BACKOFF": "60",  # long enough to see the error of a crash
    }
    async with codehub_up(tmp_path / "data", **settings) as instance, Person.admin(instance.url) as person:
        hungry = await person.running("hungry", image=image("hungry"))
        found = environment.api.container(f"ws-{hungry}")
        assert found is not None
        environment.will_clean(found["Config"]["Labels"][INSTALLATION])
        await environment.write(UUID(hungry), "eat", "")

        async def error_of(workspace_id: str) -> dict[str, Any] | None:
            error: dict[str, Any] | None = (await person.workspace(workspace_id))["error_info"]
            return error

        error = await until(lambda: error_of(hungry), what="the crash to be told")
        assert error is not None
        assert error["context"]["code"] == "OUT_OF_MEMORY"
        assert "ran out of memory and was killed (its limit is 32 MiB)" in error["message"]
        explained = await explain(person, hungry)
        assert "ran out of memory" in explained.facts["error"]
        assert any("ran out of memory" in words for _, words in explained.timeline)

        paused = await person.running("paused", image=image("tiny"))
        in_flight = asyncio.create_task(person.navigate(f"/w/{paused}/cgi-bin/wait"))
        await until(lambda: environment.read(UUID(paused), "asked"), what="the request to arrive")
        environment.api.call("POST", f"/containers/ws-{paused}/pause")
        ended = await asyncio.wait_for(in_flight, 30)
        assert ended.status_code == 502
        assert "docker pause" in ended.text
        told = await person.until_status(paused, "error")
        assert told["error_info"]["context"]["code"] == "CONTAINER_PAUSED"

        async def answered() -> str | None:
            """An answer, and not a wait without end; the proxy may hear of it a moment after the API."""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    answer = await person.navigate(f"/w/{paused}/")
                    return answer.text if answer.status_code == 502 else None
            return None

        told_by_page = await until(answered, what="the page that says it is paused")
        assert told_by_page is not None
        assert "docker pause" in told_by_page
        environment.api.call("POST", f"/containers/ws-{paused}/unpause")
        await person.intent(paused, "recover")
        await person.until_open(paused)


async def explain(person: Person, workspace_id: str) -> Account:
    """What ``codehub ws explain`` says."""
    history = await person.api("GET", f"/workspaces/{workspace_id}/history", params={"limit": 50})
    ws = await person.workspace(workspace_id)
    return account_of(ws, history=history["items"], report=None, now=datetime.now(UTC))  # type: ignore[arg-type]
