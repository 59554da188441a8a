"""Two replicas with different COORDINATOR_LOCK_ID: an administrator sees that each coordinator has two leaders."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.browser import Visit, require_dashboard, visit
from tests.support.instance import codehub_up
from tests.support.people import ADMIN_PASSWORD, QUICK, Person
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

COORDINATORS = {"observer", "wc", "ttl", "gc", "events"}
LANGUAGES = {
    "en-GB": ("Coordinators have more than one leader", "Give all replicas the same value and restart them."),
    "ko-KR": ("코디네이터의 리더가 둘 이상입니다", "모든 복제본에 같은 값을 지정하고 다시 시작하세요."),
}


async def rivals(url: str) -> dict[str, list[str]]:
    """Coordinator → who else leads it, as the replica at ``url`` tells it."""
    async with Person.nobody(url) as somebody:
        report = (await somebody.client.get("/health/coordinator")).json()
    return {
        name: [rival["holder_id"] for rival in each["rivals"]]
        for name, each in report["coordinators"].items()
        if each["rivals"]
    }


@pytest_asyncio.fixture(loop_scope="module")
async def replicas(
    tmp_path_factory: pytest.TempPathFactory, empty_database_url: str, redis_url: str
) -> AsyncIterator[tuple[str, AsyncExitStack]]:
    """The address of one replica, and the other, which ends when its stack is closed."""
    require_dashboard()
    shared: dict[str, Any] = {**QUICK, "DATABASE_URL": empty_database_url, "REDIS_URL": redis_url}
    place = tmp_path_factory.mktemp("replicas")
    async with (
        codehub_up(place / "green", **shared, COORDINATOR_NODE_ID="green-replica-1") as green,
        AsyncExitStack() as other,
    ):
        blue = {**shared, "COORDINATOR_NODE_ID": "blue-replica-1", "COORDINATOR_LOCK_ID": "blue"}
        await other.enter_async_context(codehub_up(place / "blue", **blue))

        async def lead_both() -> bool:
            return (await rivals(green.url)).keys() == COORDINATORS

        await until(lead_both, seconds=60, what="two leaders of each coordinator")
        yield green.url, other


async def open_console(seen: Visit) -> None:
    await seen.sign_in("admin", ADMIN_PASSWORD, path="/admin")
    await expect(seen.page.locator(".table")).to_be_visible()


async def test_an_administrator_sees_it_in_words_while_it_lasts(
    replicas: tuple[str, AsyncExitStack], browser: Browser
) -> None:
    url, other = replicas
    for locale, (what, to_do) in LANGUAGES.items():
        for viewport in ({"width": 1280, "height": 860}, {"width": 390, "height": 844}):
            async with visit(browser, url, locale=locale, viewport=viewport) as seen:
                await open_console(seen)
                line = seen.page.get_by_role("alert")
                await expect(line).to_contain_text(what)
                await expect(line).to_contain_text("blue-replica-1")
                await expect(line).to_contain_text("COORDINATOR_LOCK_ID")
                await expect(line).to_contain_text(to_do)
                table = seen.page.locator(".table")
                await expect(table.get_by_text("COORDINATOR_LOCK_ID=blue")).to_have_count(len(COORDINATORS))
                await expect(table).not_to_contain_text("coordinator:")
                assert not await seen.page.evaluate("document.documentElement.scrollWidth > innerWidth")
                assert await seen.axe() == []

    async with visit(browser, url) as seen:
        await open_console(seen)
        await expect(seen.page.get_by_role("alert")).to_have_count(1)
        await other.aclose()

        async def leads_alone() -> bool:
            return not await rivals(url)

        await until(leads_alone, seconds=60, what="the other replica's terms to have ended")
        await seen.page.get_by_role("button", name="Refresh").click()
        await expect(seen.page.get_by_role("alert")).to_have_count(0)
