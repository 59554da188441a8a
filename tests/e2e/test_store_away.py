"""An archive store with a wrong key or without its bucket: told to people while it lasts, and not longer."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.browser import require_dashboard, visit
from tests.support.instance import COMMAND, codehub_up, process_variables
from tests.support.object_stores import S3Server, rclone_server
from tests.support.people import ADMIN_PASSWORD, QUICK, Person
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, Path]]:
    buckets = tmp_path_factory.mktemp("buckets")
    with rclone_server(buckets) as server:
        yield server, buckets


@pytest_asyncio.fixture(loop_scope="module", params=["no bucket", "wrong key"])
async def url(
    request: pytest.FixtureRequest, store: tuple[S3Server, Path], tmp_path: Path
) -> AsyncIterator[str]:
    server, buckets = store
    variables: dict[str, Any] = {**QUICK, **server.variables("homes")}
    if request.param == "wrong key":
        (buckets / "homes").mkdir(exist_ok=True)
        variables["AWS_SECRET_ACCESS_KEY"] = "not the key"
    async with codehub_up(tmp_path / "data", **variables) as instance:
        yield instance.url


async def away(url: str) -> dict[str, str]:
    async with Person.nobody(url) as somebody:
        report = (await somebody.client.get("/health/coordinator")).json()
    return dict(report["coordinators"]["wc"]["away"])


async def explained(url: str, admin: Person, name: str) -> str:
    token = (await admin.api("POST", "/tokens", json={"name": "cli"}))["token"]
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "ws", "explain", name, "--json"),
        env=process_variables(CODEHUB_URL=url, CODEHUB_TOKEN=token),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return " ".join(json.loads(said)["obstacles"])


async def test_it_is_told_while_it_lasts(
    url: str, browser: Browser, store: tuple[S3Server, Path], request: pytest.FixtureRequest
) -> None:
    require_dashboard()

    async def is_told() -> bool:
        return "archives" in await away(url)

    await until(is_told, seconds=60, what="the leader to have looked at the store")
    async with Person.admin(url) as admin, visit(browser, url) as seen:
        await admin.api("POST", "/workspaces", json={"name": "thesis", "start": False})
        assert "The archive store cannot be used" in await explained(url, admin, "thesis")
        await seen.sign_in("admin", ADMIN_PASSWORD)
        banner = seen.page.locator(".banner")
        await expect(banner).to_contain_text("The archive store cannot be used")
        assert await seen.axe() == []
        if "no bucket" not in request.node.name:
            return
        store[0].client().create_bucket(Bucket="homes")

        async def is_over() -> bool:
            return not await away(url)

        await until(is_over, seconds=90, what="the leader to have looked again")
        await seen.page.reload()
        await expect(seen.page.locator("header.top")).to_be_visible()
        await expect(banner).to_have_count(0)
        assert await explained(url, admin, "thesis") == ""
