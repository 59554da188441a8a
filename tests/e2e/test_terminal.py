"""The terminal in the dashboard: a real Chromium, the real ``codehub up``, a real shell."""

import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.e2e.browser import require_dashboard, visit
from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person
from tests.support.ports import free_port
from tests.support.requirements import require_inside

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SETTINGS: dict[str, Any] = {
    **QUICK,
    "LOCAL_IMAGES": json.dumps(
        {"files": f"{sys.executable} -m http.server {{port}} --bind 127.0.0.1 --directory {{home}}"}
    ),
    "CODEHUB_DEFAULT_IMAGE": "files",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    require_dashboard()
    require_inside()
    bind = f"127.0.0.1:{free_port()}"
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **SETTINGS) as instance:
        yield instance.url


async def shell_pid(page: Page, round: int) -> str:
    """The shell's pid, which it is asked for by keys."""
    await page.locator(".xterm-helper-textarea").focus()
    await page.keyboard.type(f"echo pid-{round}=$$.")
    await page.keyboard.press("Enter")
    rows = page.locator(".xterm-rows")
    pattern = re.compile(rf"pid-{round}=(\d+)\.")
    await expect(rows).to_contain_text(pattern)
    found = pattern.search(await rows.inner_text())
    assert found is not None
    return found[1]


async def test_the_same_shell_is_there_after_a_reload(url: str, browser: Browser, admin: Person) -> None:
    username = f"ann-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with visit(browser, url) as window:
        page = window.page
        await window.sign_in(username)
        card = await window.create("thesis", start=False)
        await card.get_by_role("link", name="thesis", exact=True).click()
        await page.get_by_role("link", name="Terminal").click()
        await expect(page.get_by_text("Asleep.")).to_be_visible()
        await page.get_by_role("button", name="Wake").click()
        await expect(page.locator("[data-phase=open]")).to_be_visible()
        pid = await shell_pid(page, 1)
        # Colours that only a style attribute can carry: the page's policy would forbid it (visit watches).
        await page.keyboard.type("printf '\\033[38;2;10;200;90mgreen\\033[0m\\n'")
        await page.keyboard.press("Enter")
        assert await window.axe() == []

        await page.reload()
        await expect(page.locator("[data-phase=open]")).to_be_visible()
        await expect(page.locator(".xterm-rows")).to_contain_text(f"pid-1={pid}.")
        assert await shell_pid(page, 2) == pid

        await page.keyboard.type("exit 3")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The shell has ended with code 3.")).to_be_visible()
        await page.get_by_role("button", name="Start a new shell").click()
        await expect(page.locator("[data-phase=open]")).to_be_visible()
        assert await shell_pid(page, 3) != pid
