"""What may be sent, and what is said when it may not: never a 5xx, always the field's name."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.integration.api.environment import ApiEnvironment, create_workspace, serve

WORKSPACES = "/api/v1/workspaces"
JSON = {"Content-Type": "application/json"}


def fields(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return {each["field"] for each in answer.json()["errors"]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "   "}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\x1b[31mb"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": 7}, "name"),
        ({"name": None}, "name"),
        ({"name": "x", "memo": "a\0b"}, "memo"),
        ({"name": "x", "description": "y" * 4097}, "description"),
        ({"name": "x", "image_ref": "no-such-image"}, "image_ref"),
        ({"name": "x", "standby_ttl_seconds": -1}, "standby_ttl_seconds"),
        ({"name": "x", "standby_ttl_seconds": 2**40}, "standby_ttl_seconds"),
        ({"name": "x", "archive_ttl_seconds": "60"}, "archive_ttl_seconds"),
        ({"name": "x", "start": "yes"}, "start"),
        ({"name": "x", "desired_state": "RUNNING"}, "desired_state"),
        ({"name": "x", "owner_id": "00000000-0000-7000-8000-000000000001"}, "owner_id"),
    ],
    ids=str,
)
async def test_a_bad_field_is_named_and_nothing_is_made(
    environment: ApiEnvironment, body: Any, field: str
) -> None:
    ann = await environment.sign_in("ann")
    assert field in fields(await ann.post(WORKSPACES, json=body))
    assert (await ann.get(WORKSPACES)).json()["items"] == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("  thesis  ", "thesis"),
        ("논문 초고", "논문 초고"),
        ("рукопись", "рукопись"),
        ("مسودة", "مسودة"),
        ("🧑‍💻🚀", "🧑‍💻🚀"),
        ("e\u0301te\u0301", "été"),
        ("x" * 64, "x" * 64),
        ("  " + "x" * 64 + "  ", "x" * 64),
    ],
)
async def test_names_are_peoples_own(environment: ApiEnvironment, given: str, kept: str) -> None:
    ann = await environment.sign_in("ann")
    assert (await create_workspace(ann, given))["name"] == kept
    taken = await ann.post(WORKSPACES, json={"name": kept})
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")


@pytest.mark.parametrize(
    ("content", "headers", "expected"),
    [
        (b"{", JSON, {422}),
        (b"", JSON, {422}),
        (b"[]", JSON, {422}),
        (b"null", JSON, {422}),
        (b'{"name": NaN}', JSON, {422}),
        (b'{"name": "\xff"}', JSON, {400, 422}),
        (b'{"name": "\\ud800"}', JSON, {422}),
        ('{"name": "x"}'.encode("utf-16-le"), JSON, {400, 422, 201}),
        (b"[" * 200_000, JSON, {400, 422}),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, JSON, {400, 422}),
        (b'{"name": "x"}', {"Content-Type": "text/plain"}, {415}),
        (b'{"name": "x"}', {}, {415}),
        (b"name=x", {"Content-Type": "application/x-www-form-urlencoded"}, {415}),
        (b'{"name": "' + b"x" * 1024 * 1024 + b'"}', JSON, {413}),
        (b'{"name": "x"}', {"Content-Type": "application/json; charset=utf-8"}, {201}),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_bodies_that_cannot_be_read(
    environment: ApiEnvironment, content: bytes, headers: dict[str, str], expected: set[int]
) -> None:
    ann = await environment.sign_in("ann")
    answer = await ann.post(WORKSPACES, content=content, headers=headers)
    assert answer.status_code in expected, answer.text


async def test_a_body_in_chunks_is_cut_off_at_the_limit(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"name": "'
        while sent < 64:
            sent += 1
            yield b"x" * 64 * 1024

    async with serve(environment.app) as base, httpx.AsyncClient(base_url=base) as client:
        cookie = f"codehub_session={ann.cookies['codehub_session']}"
        headers = {**JSON, "Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
        answer = await client.post(WORKSPACES, content=endless(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("cursor=nonsense", "cursor"),
        ("cursor=", "cursor"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=ten", "limit"),
        ("status=asleep", "status"),
        ("owner=somebody", "owner"),
        ("q=%00", "q"),
        ("onwer=all", "onwer"),
    ],
)
async def test_bad_parameters_are_named(environment: ApiEnvironment, query: str, field: str) -> None:
    ann = await environment.sign_in("ann")
    assert field in fields(await ann.get(f"{WORKSPACES}?{query}"))


async def test_bad_cursors_of_the_other_lists(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    workspace = await create_workspace(admin)
    for path in (f"workspaces/{workspace['id']}/history", "admin/audit", "tokens", "users"):
        assert fields(await admin.get(f"/api/v1/{path}?cursor=99999999999999999999999")) == {"cursor"}


async def test_an_id_that_is_none_is_named(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    assert fields(await ann.get(f"{WORKSPACES}/not-an-id")) == {"workspace_id"}


async def test_unknown_addresses_and_methods_are_problems_too(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    missing = await ann.get("/api/v1/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    wrong = await ann.put(WORKSPACES)
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")


async def test_the_short_way_answers_like_the_long_one(environment: ApiEnvironment) -> None:
    """The same questions, asked so that they are recognised and so that they are not."""
    ann, bob = await environment.sign_in("ann"), await environment.sign_in("bob")
    for number in range(3):
        await create_workspace(ann, f"ws {number}")
    items = (await ann.get(WORKSPACES)).json()["items"]
    one = f"{WORKSPACES}/{items[0]['id']}"
    for client in (ann, bob, environment.client()):
        for short, long in (
            (one, one.upper().replace("/API/V1/WORKSPACES", WORKSPACES)),
            (WORKSPACES, f"{WORKSPACES}?limit=050"),
            (f"{WORKSPACES}?limit=2", f"{WORKSPACES}?limit=02"),
        ):
            quick, slow = await client.get(short), await client.get(long)
            assert quick.status_code == slow.status_code
            assert quick.content == slow.content
            assert quick.headers["content-type"] == slow.headers["content-type"]


async def test_every_answer_carries_its_id_and_forbids_what_it_does_not_need(
    environment: ApiEnvironment,
) -> None:
    client = environment.client()
    answer = await client.get("/health/live", headers={"X-Request-ID": "trace-7"})
    assert answer.headers["x-request-id"] == "trace-7"
    made = await client.get("/api/v1/workspaces", headers={"X-Request-ID": "bad id\t"})
    assert made.headers["x-request-id"] != "bad id\t"
    assert made.headers["x-content-type-options"] == "nosniff"
    assert made.headers["cache-control"] == "no-store"
    assert made.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert made.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/api/v1/workspaces", "GET, POST"),
        ("HEAD", "/api/v1/workspaces", "GET, POST"),
        ("PUT", "/api/v1/workspaces/0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f", "DELETE, GET, PATCH"),
        ("BREW", "/api/v1/workspaces/0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f", "DELETE, GET, PATCH"),
        ("GET", "/api/v1/auth/login", "POST"),
        ("OPTIONS", "/api/v1/users", "GET, POST"),
        ("POST", "/health/live", "GET"),
        ("POST", "/", "GET, HEAD"),
        ("DELETE", "/workspaces/any", "GET, HEAD"),
        ("POST", "/api/v1/nothing", None),
        ("DELETE", "/assets/nothing.js", None),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(
    environment: ApiEnvironment, method: str, path: str, allow: str | None
) -> None:
    ann = await environment.sign_in("ann")
    answer = await ann.request(method, path)
    assert answer.headers.get("allow") == allow
    assert answer.status_code == (404 if allow is None else 405)
