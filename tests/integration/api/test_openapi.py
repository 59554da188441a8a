"""The API keeps to its own description, whatever is sent: no 5xx, no answer that is not documented.

The application runs on a real socket in a thread of its own; schemathesis asks every operation with data
that fits and data that does not, as an administrator (who gets furthest) and as nobody.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from codehub.api.dependencies import ApiSettings
from codehub.api.inside import admission
from codehub.api.schemas.problems import Problem
from codehub.domain.limits import RunningLimits
from codehub.signals.connection import RedisLink
from codehub.store.db import connections
from tests.integration.api.environment import ApiEnvironment, create_workspace, make_environment, serve
from tests.support.accounts import cheap_passwords
from tests.support.archive_forgery import plant

pytestmark = pytest.mark.timeout(300)  # each asks every operation, of which there are more and more

AnyCase = schemathesis.Case[Any]
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
bounded = settings(
    max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@dataclass(frozen=True)
class Served:
    url: str
    token: str
    workspace_id: str

    @property
    def as_admin(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture(scope="module")
def served(
    postgres_server: Any, postgres_template: str, shared_redis_server: Any, tmp_path_factory: Any
) -> Iterator[Served]:
    shared_redis_server.start()
    directory = tmp_path_factory.mktemp("served")

    async def run(ready: Callable[[Served], None], stop: asyncio.Event) -> None:
        from tests.support.postgres import fresh_database

        async with fresh_database(postgres_server, template=postgres_template) as url:
            await _serve(url, shared_redis_server.url, directory, ready, stop)

    # No coordinator starts anything here, so nobody need wait for it.
    with pytest.MonkeyPatch.context() as patch, _in_thread(run) as served:
        patch.setattr(admission, "WAKE_SECONDS", 0.0)
        yield served


async def _serve(
    database_url: str,
    redis_url: str,
    directory: Path,
    ready: Callable[[Served], None],
    stop: asyncio.Event,
) -> None:

    pool = connections.create_pool(database_url)
    link = RedisLink(redis_url)
    passwords = cheap_passwords()
    async with (
        make_environment(
            pool=pool,
            sessions=connections.session_factory(pool),
            link=link,
            passwords=passwords,
            directory=directory,
            settings=ApiSettings(base_url="http://codehub.test", limits=RunningLimits(per_user=5, in_all=5)),
        ) as environment,
        serve(environment.app) as url,
    ):
        ready(await _somebody(environment, url))
        await stop.wait()
    await link.close()
    await pool.dispose()


async def _somebody(environment: ApiEnvironment, url: str) -> Served:
    admin = await environment.sign_in("admin")
    workspace = await create_workspace(admin)
    plant(
        environment.archives, UUID(workspace["id"]), b"archive"
    )  # an empty store counts as one that is away
    token = (await admin.post("/api/v1/tokens", json={"name": "fuzz"})).json()["token"]
    return Served(url=url, token=token, workspace_id=workspace["id"])


@contextmanager
def _in_thread(
    run: Callable[[Callable[[Served], None], asyncio.Event], Coroutine[Any, Any, None]],
) -> Iterator[Served]:
    """``run`` on an event loop in a thread: schemathesis itself is synchronous."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    made: list[Served] = []
    known = threading.Event()

    def on_ready(served: Served) -> None:
        made.append(served)
        known.set()

    def work() -> None:
        try:
            loop.run_until_complete(run(on_ready, stop))
        finally:
            known.set()
            loop.close()

    thread = threading.Thread(target=work, name="served-api")
    thread.start()
    try:
        known.wait(60)
        assert made, "the API did not start"
        yield made[0]
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)
        thread.join(30)


@pytest.fixture
def operations(served: Served) -> list[Any]:
    """All but the two endless streams, which ``test_events`` reads."""
    schema: Any = schemathesis.openapi.from_url(f"{served.url}/api/v1/openapi.json")
    return [each.ok() for each in schema.exclude(path_regex="/events$").get_all_operations()]


def fuzz(operation: Any, call: Callable[[AnyCase], None]) -> None:
    """Ask one operation with data that fits its schema and data that does not."""
    for mode in schemathesis.GenerationMode:

        @bounded
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: AnyCase) -> None:
            call(case)

        with suppress(Unsatisfiable):  # a call without any input has none that does not fit
            ask()


def test_an_admin_gets_only_documented_answers(operations: list[Any], served: Served) -> None:
    for operation in operations:
        fuzz(operation, lambda case: _check(case, headers=served.as_admin))


def test_nobody_gets_only_documented_answers(operations: list[Any]) -> None:
    for operation in operations:
        fuzz(operation, lambda case: _check(case))


def test_a_workspace_that_exists_gives_only_documented_answers(operations: list[Any], served: Served) -> None:
    def call(case: AnyCase) -> None:
        case.path_parameters["workspace_id"] = served.workspace_id
        _check(case, headers=served.as_admin)

    for operation in operations:
        if "{workspace_id}" in operation.path:
            fuzz(operation, call)


def _check(case: AnyCase, **how: Any) -> None:
    case.call_and_validate(checks=CHECKS, **how)


def test_the_document_is_openapi_3_1_and_every_call_has_examples_and_problems(served: Served) -> None:
    document = httpx.get(f"{served.url}/api/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    calls = [
        (f"{method} {path}", operation)
        for path, operations in document["paths"].items()
        if path.startswith("/api/")
        for method, operation in operations.items()
    ]
    assert len(calls) > 30
    for name, operation in calls:
        refusals = {s: r for s, r in operation["responses"].items() if int(s) >= 400}
        assert {"422", "503"} <= refusals.keys(), name
        for status, response in refusals.items():
            content = response["content"]["application/problem+json"]
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}, (name, status)
            assert content["examples"], (name, status)


def test_examples_fit_their_schemas(served: Served) -> None:
    document = httpx.get(f"{served.url}/api/v1/openapi.json").json()
    checked = 0
    for name, schema in document["components"]["schemas"].items():
        if "example" in schema:
            jsonschema_rs.validator_for({**schema, "components": document["components"]}).validate(
                schema["example"]
            )
            checked += 1
            assert name
    assert checked >= 15
    assert Problem.model_fields.keys() >= {"type", "title", "status", "detail", "code", "errors"}
