"""The tab of a real JupyterLab whose workspace was stopped: it says so over the IDE's own error, and leads back."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.e2e.browser import chromium
from tests.e2e.test_jupyterlab import until_lab
from tests.e2e.test_tab import SLOW_MS, layer, signed_in
from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_browser, pytest.mark.timeout(400)]

SETTINGS: dict[str, Any] = dict(QUICK)


async def test_it_leads_back_to_the_file_that_was_open(tmp_path: Path) -> None:
    async with (
        codehub_up(tmp_path / "data", bind=f"127.0.0.1:{free_port()}", **SETTINGS) as instance,
        Person.admin(instance.url) as person,
        chromium() as browser,
        signed_in(browser, instance.url) as window,
    ):
        workspace_id = await person.create("thesis", image="jupyterlab", standby_ttl_seconds=600)
        await person.until_status(workspace_id, "running")
        (home,) = (tmp_path / "data" / "volumes").glob(f"ws-{workspace_id}*")
        (home / "chapter.txt").write_text("It was a dark night.\n")
        page = window.page
        link = f"{instance.url}/w/{workspace_id}/lab/tree/chapter.txt"
        await page.goto(link)
        await until_lab(page)
        text = page.locator(".jp-FileEditor", has_text="It was a dark night.")
        await expect(text).to_be_visible(timeout=SLOW_MS)
        assert (await page.title()).startswith("thesis · ")

        await person.intent(workspace_id, "stop")
        await expect(layer(page)).to_contain_text("Your files are safe.", timeout=SLOW_MS)
        await person.until_status(workspace_id, "standby")
        if directory := os.environ.get("CODEHUB_TEST_SCREENSHOTS"):
            await page.screenshot(path=Path(directory) / "tab-jupyterlab.png")
        await layer(page).get_by_role("button", name="Wake", exact=True).click()
        await person.until_status(workspace_id, "running", seconds=90)
        await expect(layer(page)).to_be_hidden(timeout=SLOW_MS)
        await expect(text).to_be_visible(timeout=SLOW_MS)

        async def is_back() -> bool:
            return page.url.partition("?")[0] == link

        await until(is_back, what="the address that was open")
