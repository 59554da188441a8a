"""Snapshots and copies in the dashboard: a real Chromium, the real ``codehub up``."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.e2e.browser import require_dashboard, visit
from tests.e2e.test_dashboard import SETTINGS
from tests.support.instance import codehub_up
from tests.support.people import Person
from tests.support.ports import free_port

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PATIENCE = 60_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    require_dashboard()
    bind = f"127.0.0.1:{free_port()}"
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **SETTINGS) as instance:
        yield instance.url


async def picture(page: Page, name: str) -> None:
    """Where a folder is named: pictures to look at, wide, narrow, dark."""
    folder = os.environ.get("CODEHUB_TEST_PICTURES")
    if folder is None:
        return
    for kind, width, scheme in (("wide", 1280, "light"), ("narrow", 390, "light"), ("dark", 1280, "dark")):
        await page.set_viewport_size({"width": width, "height": 1000})
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        await page.screenshot(path=Path(folder) / f"{name}-{kind}.png", full_page=True)
    await page.set_viewport_size({"width": 1280, "height": 1000})
    await page.emulate_media(color_scheme="light")


async def test_a_snapshot_is_taken_and_a_copy_opened(url: str, browser: Browser, admin: Person) -> None:
    await admin.add_user("ann")
    async with visit(browser, url) as ann:
        await ann.sign_in("ann")
        card = await ann.create("atlas")
        await expect(card).to_have_attribute("data-status", "running", timeout=PATIENCE)
        workspace_id = await card.get_attribute("data-workspace")
        await ann.page.goto(f"{url}/workspaces/{workspace_id}")
        detail = ann.page.locator("article.detail")
        archives = ann.page.locator(".generations li")
        await ann.page.evaluate(
            "id => fetch(`/api/v1/workspaces/${id}/stop`, {method: 'POST'})", workspace_id
        )
        await expect(detail).to_have_attribute("data-status", "standby", timeout=PATIENCE)

        await ann.page.get_by_role("button", name="Take a snapshot").click()
        dialog = ann.page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("before the upgrade")
        await picture(ann.page, "take")
        await dialog.get_by_role("button", name="Keep").click()
        await expect(archives).to_have_count(1, timeout=PATIENCE)
        await expect(archives).to_contain_text("before the upgrade")
        await expect(detail).to_have_attribute("data-status", "standby", timeout=PATIENCE)
        await picture(ann.page, "kept")

        await archives.get_by_role("button", name="More with the archive of").click()
        await picture(ann.page, "menu")
        await ann.page.get_by_role("menuitem", name="Open beside today’s").click()
        await dialog.get_by_label("Name of the copy").fill("atlas, older")
        await picture(ann.page, "copy")
        await dialog.get_by_role("button", name="Open the copy").click()
        await expect(dialog).to_have_count(0)
        await expect(ann.page.get_by_role("heading", name="atlas, older")).to_be_visible(timeout=PATIENCE)
        await expect(detail).to_have_attribute("data-status", "running", timeout=PATIENCE)
        await picture(ann.page, "copied")

        await ann.page.goto(f"{url}/workspaces/{workspace_id}")
        await archives.get_by_role("button", name="More with the archive of").click()
        await ann.page.get_by_role("menuitem", name="Delete the snapshot").click()
        await dialog.get_by_role("button", name="Delete the snapshot").click()
        await expect(archives).not_to_contain_text("before the upgrade")
        assert await ann.axe() == []
        await ann.page.evaluate("localStorage.setItem('codehub.language', 'ko')")
        await ann.page.reload()
        await ann.page.get_by_role("button", name="사본 열기").click()
        await expect(dialog).to_contain_text("먼저 스냅샷을 만들고")
        await picture(ann.page, "korean")
