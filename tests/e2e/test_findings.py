"""The operator's console: a home without a workspace is adopted by a click, and every file is there."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from codehub.kit.ids import uuid7
from tests.e2e.browser import require_dashboard, visit
from tests.e2e.test_dashboard import SETTINGS
from tests.support.instance import codehub_up
from tests.support.people import ADMIN_PASSWORD
from tests.support.ports import free_port

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PATIENCE = 60_000


async def test_a_home_without_a_workspace_is_adopted(browser: Browser, tmp_path: Path) -> None:
    require_dashboard()
    data = tmp_path / "data"
    async with (
        codehub_up(data, bind=f"127.0.0.1:{free_port()}", **SETTINGS) as instance,
        visit(browser, instance.url) as admin,
    ):
        await admin.sign_in("admin", ADMIN_PASSWORD)
        workspace_id = uuid7()
        home = data / "volumes" / f"ws-{workspace_id}-home"
        home.mkdir(parents=True)
        (home / "notes.md").write_text("kept")
        await admin.page.goto("/admin/findings")
        row = admin.page.locator("tr", has_text=f"ws-{workspace_id}-home")
        await row.get_by_role("button", name="Adopt").click()
        dialog = admin.page.get_by_role("dialog")
        await dialog.get_by_label("Name of the new workspace").fill("found again")
        await dialog.get_by_role("button", name="Adopt").click()
        await expect(row).to_have_count(0)
        await admin.page.goto(f"/workspaces/{workspace_id}")
        detail = admin.page.locator("article.detail")
        await expect(detail).to_have_attribute("data-status", "archived", timeout=PATIENCE)
        assert not home.exists()
        await admin.page.evaluate(
            "id => fetch(`/api/v1/workspaces/${id}/start`, {method: 'POST'})", str(workspace_id)
        )
        await expect(detail).to_have_attribute("data-status", "running", timeout=PATIENCE)
        assert (home / "notes.md").read_text() == "kept"
