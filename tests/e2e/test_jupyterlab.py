"""JupyterLab as people use it: work, sleep, archive, and always the same link."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.e2e.browser import chromium, visit
from tests.support.instance import codehub_up
from tests.support.people import ADMIN_PASSWORD, QUICK, Person
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_browser, pytest.mark.timeout(400)]

SLOW_MS = 90_000  # an IDE on a busy machine
SETTINGS: dict[str, Any] = dict(QUICK)


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    bind = f"127.0.0.1:{free_port()}"
    async with codehub_up(tmp_path / "data", bind=bind, **SETTINGS) as instance:
        yield instance.url


async def until_lab(page: Page) -> None:
    await expect(page.locator("#jp-main-dock-panel")).to_be_visible(timeout=SLOW_MS)


async def show(page: Page, name: str) -> None:
    """Keep a picture where CODEHUB_TEST_SCREENSHOTS names a directory."""
    if directory := os.environ.get("CODEHUB_TEST_SCREENSHOTS"):
        await page.screenshot(path=Path(directory) / f"{name}.png")


async def work_in_terminal(page: Page) -> None:
    await page.locator(".jp-LauncherCard", has_text="Terminal").click()
    keyboard = page.locator(".jp-Terminal .xterm-helper-textarea")
    await keyboard.wait_for(state="attached", timeout=SLOW_MS)
    await keyboard.focus()
    await page.keyboard.type("echo kept > from-terminal.txt\n")
    await expect(page.locator(".jp-DirListing-item", has_text="from-terminal.txt")).to_be_visible(
        timeout=SLOW_MS
    )


async def work_in_notebook(page: Page) -> None:
    await page.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    cell = page.locator(".jp-Notebook .jp-Cell .cm-content").first
    await cell.wait_for(timeout=SLOW_MS)
    await expect(page.get_by_text("| Idle")).to_be_visible(timeout=SLOW_MS)
    await cell.fill("print('answer', 6 * 7)")
    await expect(cell).to_have_text("print('answer', 6 * 7)")
    await page.keyboard.press("Shift+Enter")
    await expect(page.locator(".jp-OutputArea-output", has_text="answer 42")).to_be_visible(timeout=SLOW_MS)
    await page.keyboard.press("Control+s")
    rename = page.get_by_role("button", name="Rename")
    saved = page.locator(".lm-TabBar-tab.jp-mod-current:not(.jp-mod-dirty)", has_text=".ipynb")
    await expect(rename.or_(saved).first).to_be_visible()
    if await rename.is_visible():
        await rename.click()


async def has_work(page: Page, person: Person, workspace_id: str) -> None:
    """Notebook with its output on the screen, and the terminal's file as it was written."""
    await until_lab(page)
    await expect(page.locator(".jp-OutputArea-output", has_text="answer 42")).to_be_visible(timeout=SLOW_MS)
    kept = await person.background(f"/w/{workspace_id}/api/contents/from-terminal.txt")
    assert kept.json()["content"] == "kept\n"


async def is_saved(person: Person, workspace_id: str) -> bool:
    notebook = await person.background(f"/w/{workspace_id}/api/contents/Untitled.ipynb")
    return notebook.status_code == 200 and "answer 42" in notebook.text


async def test_work_survives_reload_sleep_and_archive_behind_one_link(url: str) -> None:
    async with Person.admin(url) as person, chromium() as browser:
        workspace_id = await person.create("thesis", image="jupyterlab")
        async with visit(browser, url, expected_complaints=True) as window:
            page = window.page
            await window.sign_in("admin", ADMIN_PASSWORD)
            await page.goto(f"/w/{workspace_id}/")
            await until_lab(page)
            await work_in_terminal(page)
            await page.keyboard.press("Control+Shift+L")  # the launcher again
            await work_in_notebook(page)
            await until(lambda: is_saved(person, workspace_id), what="the notebook to be saved")
            link = f"/w/{workspace_id}/lab/tree/Untitled.ipynb"
            await page.goto(link)
            await page.reload()
            await has_work(page, person, workspace_id)
            await show(page, "lab")

            # Asleep by itself once the page is closed, awake by the link.
            await person.change(workspace_id, standby_ttl_seconds=2)
            await page.goto("about:blank")
            await person.until_status(workspace_id, "standby", seconds=150)
            await person.change(workspace_id, standby_ttl_seconds=600)
            await page.goto(link)
            await expect(page.locator("main[data-page=waiting]")).to_be_visible()
            await expect(page.locator("[data-step=files]")).to_have_count(0)
            await show(page, "waking")
            await has_work(page, person, workspace_id)

            # The same through the archive.
            await page.goto("about:blank")
            await person.intent(workspace_id, "archive")
            await person.until_status(workspace_id, "archived", seconds=120)
            await page.goto(link)
            waiting = page.locator("main[data-page=waiting]")
            await expect(waiting).to_be_visible()
            await expect(waiting.locator("[data-step]")).to_have_count(3)
            await show(page, "restoring")
            await has_work(page, person, workspace_id)
