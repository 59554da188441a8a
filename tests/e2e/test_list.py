"""The list of workspaces as somebody with many of them uses it: a real Chromium, the real ``codehub up``."""

import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.browser import Visit, require_dashboard, visit
from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person
from tests.support.ports import free_port

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

IMAGES = {"files": f"{sys.executable} -m http.server {{port}} --bind 127.0.0.1 --directory {{home}}"}
SETTINGS: dict[str, Any] = {
    **QUICK,
    "LOCAL_IMAGES": json.dumps(IMAGES),
    "CODEHUB_DEFAULT_IMAGE": "files",
    "LIMITS_MAX_RUNNING_PER_USER": "1",
}
STARTS = "**/api/v1/workspaces/*/start"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    require_dashboard()
    bind = f"127.0.0.1:{free_port()}"
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **SETTINGS) as instance:
        yield instance.url


@pytest_asyncio.fixture(loop_scope="module")
async def ann(url: str, browser: Browser, admin: Person) -> AsyncIterator[Visit]:
    username = f"ann-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with visit(browser, url) as window:
        await window.sign_in(username)
        yield window


async def names(window: Visit) -> list[str]:
    items = await window.page.get_by_role("article").all()
    return [await item.get_attribute("aria-label") or "" for item in items]


async def test_several_at_once_with_one_question_and_what_failed(ann: Visit) -> None:
    page = ann.page
    for name in ("run 10", "run 2"):
        await ann.create(name, start=False)
    await ann.create("awake")
    await expect(ann.card("awake")).to_have_attribute("data-status", "running")
    await page.get_by_label("Rows").check()
    # Newest first of those that do not run; what runs is above them.
    assert await names(ann) == ["awake", "run 2", "run 10"]
    assert await ann.axe() == []

    await page.get_by_label("Select awake").click()
    await page.get_by_label("Select run 10").click(modifiers=["Shift"])
    bar = page.get_by_role("region", name="Selected workspaces")
    await expect(bar).to_contain_text("3 selected")
    assert await ann.axe() == []
    await bar.get_by_role("button", name="Start").click()
    question = page.get_by_role("dialog", name="Start 2 workspaces?")
    await expect(question).to_contain_text("It changes nothing for 1 of those you selected.")
    assert await ann.axe() == []
    # As a program that does not ask to wait in line, and is refused.
    await page.route(STARTS, lambda route: route.continue_(post_data="{}"))
    await question.get_by_role("button", name="Start").click()
    summary = page.get_by_role("dialog", name="2 of 2 could not be asked")
    await expect(summary.get_by_role("listitem")).to_have_count(2)
    await expect(summary).to_contain_text("1 of 1")
    await summary.get_by_role("button", name="Close").click()

    await page.unroute(STARTS)
    await bar.get_by_role("button", name="Start").click()
    await question.get_by_role("button", name="Start").click()
    for name in ("run 10", "run 2"):
        await expect(ann.card(name)).to_contain_text(re.compile("in line", re.I))

    await page.get_by_label("Select awake").click()
    await bar.get_by_role("button", name="Stop").click()
    await page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    await expect(ann.card("awake")).to_have_attribute("data-status", "standby")
    await expect(bar).to_have_count(0)

    await page.reload()
    await expect(page.get_by_label("Rows")).to_be_checked()


async def test_the_keys_of_the_list(ann: Visit) -> None:
    page = ann.page
    await ann.create("one", start=False)
    await page.keyboard.press("n")
    dialog = page.get_by_role("dialog", name="New workspace")
    await expect(dialog.get_by_label("Name")).to_be_focused()
    await page.keyboard.type("n/j?")
    await expect(dialog.get_by_label("Name")).to_have_value("n/j?")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)

    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    await expect(keys).to_contain_text("Next workspace")
    assert await ann.axe() == []
    await page.keyboard.press("Escape")
    await expect(keys).to_have_count(0)

    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name="one", exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Timeline")).to_be_visible()


async def test_an_open_menu_is_not_cut_off_by_its_row(ann: Visit) -> None:
    page = ann.page
    for name in ("above", "below"):
        await ann.create(name, start=False)
    await page.get_by_label("Rows").check()
    await page.get_by_role("button", name="More actions for below").click()
    delete = page.get_by_role("menuitem", name="Delete…")
    await expect(delete).to_be_visible()
    # A click lands on what is painted there: on the row below, if the menu were cut off.
    await delete.click()
    await expect(page.get_by_role("dialog", name="Delete below?")).to_be_visible()
