"""Returning to an earlier archive in the dashboard: a real Chromium, the real ``codehub up``."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

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


async def test_an_owner_returns_to_an_earlier_archive(url: str, browser: Browser, admin: Person) -> None:
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
            "id => fetch(`/api/v1/workspaces/${id}/archive`, {method: 'POST'})", workspace_id
        )
        await expect(detail).to_have_attribute("data-status", "archived", timeout=PATIENCE)
        await expect(archives).to_have_count(1)
        await ann.page.evaluate(
            "id => fetch(`/api/v1/workspaces/${id}/start`, {method: 'POST'})", workspace_id
        )
        await expect(detail).to_have_attribute("data-status", "running", timeout=PATIENCE)

        await archives.get_by_role("button", name="Restore the archive of").click()
        dialog = ann.page.get_by_role("dialog")
        await expect(dialog).to_contain_text("Your present files are archived first")
        await dialog.get_by_role("button", name="Return to this archive").click()
        await expect(dialog).to_have_count(0)
        # It ends running, at the first archive; what was left is the second one.
        await expect(archives).to_have_count(2, timeout=PATIENCE)
        timeline = ann.page.get_by_text("The chosen archive is the home now")
        await expect(timeline.first).to_be_visible(timeout=PATIENCE)
        await expect(detail).to_have_attribute("data-status", "running", timeout=PATIENCE)
        await expect(archives.nth(1)).to_contain_text("current")
        await expect(archives.nth(0)).not_to_contain_text("current")
