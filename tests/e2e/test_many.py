"""A dashboard with a long list behind it, and one on a phone: a real Chromium, the real ``codehub up``."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.browser import require_dashboard, visit
from tests.support.instance import codehub_up
from tests.support.people import ADMIN_PASSWORD, ECHO, QUICK, Person
from tests.support.ports import free_port

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MANY = 510
PHONE = {"width": 360, "height": 740}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    require_dashboard()
    bind = f"127.0.0.1:{free_port()}"
    settings: dict[str, Any] = {
        **QUICK,
        "LOCAL_IMAGES": f'{{"echo": "{ECHO}"}}',
        "CODEHUB_DEFAULT_IMAGE": "echo",
    }
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **settings) as instance:
        yield instance.url


async def test_connections_and_what_follows_them_show_without_a_reload(
    url: str, browser: Browser, admin: Person
) -> None:
    username = f"ann-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with visit(browser, url) as window:
        await window.sign_in(username)
        card = await window.create("used", image="echo")
        await expect(card).to_have_attribute("data-status", "running")
        await expect(card).to_contain_text("Sleeps in")
        workspace_id = await card.get_attribute("data-workspace")
        # From the page itself, which stays where it is: no focus changes, nothing is loaded again.
        await window.page.evaluate(
            "id => new Promise(opened => {"
            " window.tab = new WebSocket(`ws://${location.host}/w/${id}/socket`);"
            " window.tab.onopen = opened; })",
            workspace_id,
        )
        await expect(card).to_contain_text("1 connection")
        await expect(card).not_to_contain_text("Sleeps in")
        await window.page.evaluate("window.tab.close()")
        await expect(card).to_contain_text("Sleeps in")
        await expect(card).not_to_contain_text("1 connection")


async def test_a_phone_is_wide_enough(url: str, browser: Browser, admin: Person) -> None:
    username = f"bo-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with visit(browser, url, viewport=PHONE, has_touch=True, is_mobile=True) as window:
        page = window.page

        async def fits(where: str) -> None:
            wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not await page.evaluate(wide), where

        await window.sign_in(username)
        await expect(page.get_by_role("heading", name="Your first workspace")).to_be_visible()
        await fits("empty list")
        await page.get_by_role("button", name="New workspace").first.tap()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("a-name-that-is-rather-long-for-such-a-narrow-window")
        await fits("create")
        await dialog.get_by_role("button", name="Create workspace").tap()
        card = page.get_by_role("article")
        await expect(card).to_have_attribute("data-status", "running")
        await fits("list")
        await card.get_by_role("link").first.tap()
        await expect(page.get_by_role("region", name="Timeline")).to_contain_text("Created")
        await fits("workspace")
        await page.get_by_role("button", name="Stop").tap()
        await expect(page.get_by_role("region", name="Timeline")).to_contain_text("Put to sleep")
        await fits("asleep")
        assert await window.axe() == []


async def test_of_more_than_five_hundred_what_is_shown_is_live(
    url: str, browser: Browser, admin: Person
) -> None:
    gate = asyncio.Semaphore(8)

    async def create(number: int) -> str:
        async with gate:
            body = {"name": f"many-{number:03}", "start": False}
            return str((await admin.api("POST", "/workspaces", json=body))["id"])

    ids = await asyncio.gather(*(create(number) for number in range(MANY)))
    async with visit(browser, url) as window:
        page = window.page
        await window.sign_in("admin", ADMIN_PASSWORD, path="/admin/workspaces")
        await expect(page.get_by_text("those shown here are live")).to_be_visible()
        shown = page.get_by_role("row").filter(has_text="many-").first
        name = (await shown.get_by_role("link").inner_text()).strip()
        workspace_id = ids[int(name.removeprefix("many-"))]
        await admin.change(workspace_id, name="renamed-by-somebody")
        await expect(page.get_by_role("row").filter(has_text="renamed-by-somebody")).to_have_count(1)
        await admin.api("DELETE", f"/workspaces/{workspace_id}")
        await expect(page.get_by_role("row").filter(has_text="renamed-by-somebody")).to_have_count(0)

        before = await page.get_by_role("row").count()
        await page.get_by_role("button", name="Show more").click()
        await expect(page.get_by_role("row")).not_to_have_count(before)
        await page.get_by_role("searchbox").fill("many-000")
        await expect(page.get_by_role("row").filter(has_text="many-000")).to_have_count(1)
        await admin.change(ids[0], name="many-000-and-still-here")
        await expect(page.get_by_role("row").filter(has_text="many-000-and-still-here")).to_have_count(1)

        await page.goto("/")
        await expect(page.get_by_text(f"{MANY - 1} workspaces")).to_be_visible()
        await page.get_by_label("Rows").check()
        await expect(page.get_by_role("article")).to_have_count(MANY - 1)
        last = page.get_by_role("article").last
        await last.scroll_into_view_if_needed()
        await expect(last.get_by_role("button")).to_be_in_viewport()
        await page.get_by_role("searchbox").fill("many-10")
        await expect(page.get_by_role("article")).to_have_count(10)
