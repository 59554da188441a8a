"""The tab of a workspace that went to sleep: it says so, wakes nothing by itself, and leads back by a click."""

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.browser import Visit, chromium
from tests.support.instance import codehub_up
from tests.support.people import ADMIN_PASSWORD, QUICK, Person
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_browser, pytest.mark.timeout(400)]

SLOW_MS = 90_000
# A closed shadow root is closed to tests and to axe as well: open it, in this browser only.
OPEN_SHADOWS = """const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (options) { return attach.call(this, {...options, mode: 'open'}); };"""
SERVER = Path(__file__).parents[1] / "support" / "page_server.py"
IMAGES = {"page": f"{sys.executable} {SERVER} {{socket}}"}


@asynccontextmanager
async def codehub(tmp_path: Path, *, own_hosts: bool = False, **more: Any) -> AsyncIterator[str]:
    port = free_port()
    settings: dict[str, Any] = {**QUICK, **more}
    if own_hosts:
        settings["CODEHUB_BASE_URL"] = f"http://localhost:{port}"
        settings["CODEHUB_BASE_DOMAIN"] = f"localhost:{port}"
    async with codehub_up(tmp_path / "data", bind=f"127.0.0.1:{port}", **settings) as instance:
        yield instance.url


async def show(page: Page, name: str) -> None:
    """Keep a picture where CODEHUB_TEST_SCREENSHOTS names a directory."""
    if directory := os.environ.get("CODEHUB_TEST_SCREENSHOTS"):
        await page.screenshot(path=Path(directory) / f"{name}.png")


def layer(page: Page) -> Locator:
    return page.locator("codehub-tab dialog")


async def asks(page: Page, *, times: int) -> None:
    """Wait until the script has asked how the workspace is, some times more."""
    for _ in range(times):
        async with page.expect_response(
            lambda answer: (
                "/_codehub/state" in answer.url or bool(re.search(r"/workspaces/[^/]+$", answer.url))
            )
        ):
            pass


@asynccontextmanager
async def signed_in(browser: Browser, url: str, **options: Any) -> AsyncIterator[Visit]:
    """A window whose page may ask other hosts: those of workspaces."""
    context = await browser.new_context(
        base_url=url, **{"locale": "en-GB", "reduced_motion": "reduce", **options}
    )
    await context.add_init_script(OPEN_SHADOWS)
    window = Visit(await context.new_page(), context, url)
    await window.sign_in("admin", ADMIN_PASSWORD)
    yield window
    await context.close()


@pytest.mark.parametrize("own_hosts", [False, True], ids=["paths", "own hosts"])
async def test_it_sleeps_while_the_tab_is_open_and_comes_back_by_a_click(
    tmp_path: Path, own_hosts: bool
) -> None:
    images = {"LOCAL_IMAGES": json.dumps(IMAGES)}
    async with codehub(tmp_path, own_hosts=own_hosts, **images) as url, Person.admin(url) as person:
        workspace_id = await person.create("thesis", image="page", standby_ttl_seconds=600)
        link = str((await person.api("GET", f"/workspaces/{workspace_id}"))["url"]) + "deep/place?x=1#part"
        async with chromium() as browser, signed_in(browser, url) as window:
            page = window.page
            await page.goto(link)
            await expect(page.locator("h1")).to_have_text("the editor", timeout=SLOW_MS)
            await expect(page).to_have_title("thesis · Editor")
            await page.evaluate("document.title = 'a file'")
            await expect(page).to_have_title("thesis · a file")
            await expect(layer(page)).to_be_hidden()

            # The page asks its server again and again, as an IDE does, and stays where it is.
            await person.intent(workspace_id, "stop")
            await person.until_status(workspace_id, "standby")
            await expect(layer(page)).to_be_visible(timeout=SLOW_MS)
            await expect(layer(page)).to_contain_text("Your files are safe.")
            await asks(page, times=3)
            assert await page.evaluate("window.refused") > 3, "the page went on asking"
            assert (await person.api("GET", f"/workspaces/{workspace_id}"))["status"] == "standby"
            await show(page, f"tab-asleep-{'hosts' if own_hosts else 'paths'}")
            assert await window.axe() == []
            # What a script of the page does is no person's click.
            await page.evaluate(
                "document.querySelector('codehub-tab').shadowRoot.querySelector('.main').click()"
            )
            await asks(page, times=1)
            assert (await person.api("GET", f"/workspaces/{workspace_id}"))["status"] == "standby"

            await page.keyboard.press("Enter")  # the button has the focus
            await expect(page.locator("h1")).to_have_text("the editor", timeout=SLOW_MS)
            assert page.url == link
            await expect(layer(page)).to_be_hidden()


@pytest.mark.parametrize("own_hosts", [False, True], ids=["paths", "own hosts"])
async def test_it_warns_before_it_sleeps_and_can_be_kept_awake(tmp_path: Path, own_hosts: bool) -> None:
    async with (
        codehub(tmp_path, own_hosts=own_hosts, LOCAL_IMAGES=json.dumps(IMAGES)) as url,
        Person.admin(url) as person,
        chromium() as browser,
        signed_in(browser, url) as window,
    ):
        workspace_id = await person.create("thesis", image="page", standby_ttl_seconds=600)
        page = window.page
        await page.goto(str((await person.workspace(workspace_id))["url"]) + "quiet")
        await expect(page.locator("h1")).to_have_text("the editor", timeout=SLOW_MS)
        await person.change(workspace_id, standby_ttl_seconds=40)
        notice = page.get_by_role("status")
        await expect(notice).to_contain_text("Goes to sleep in 1 min", timeout=SLOW_MS)
        await show(page, "tab-notice")
        before = (await person.api("GET", f"/workspaces/{workspace_id}"))["activity"]["next"]["at"]
        await page.get_by_role("button", name="Keep awake").click()
        await expect(notice).to_be_hidden()

        async def is_kept() -> bool:
            seen = await person.workspace(workspace_id)
            return seen["awake_until"] is not None and seen["activity"]["next"]["at"] > before

        await until(is_kept, what="it to be kept awake")
        await person.api("POST", f"/workspaces/{workspace_id}/keep-awake", json={"hours": 0})
        if own_hosts:
            return
        # Nobody does anything any more: it sleeps by itself, and the tab says how long it was idle.
        await person.change(workspace_id, standby_ttl_seconds=8)
        await person.until_status(workspace_id, "standby", seconds=150)
        await expect(layer(page)).to_contain_text("It was idle for 8 s.", timeout=SLOW_MS)
        assert await window.axe() == []


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("korean-narrow", {"locale": "ko-KR", "viewport": {"width": 390, "height": 780}}, "깨우기"),
        ("dark", {"color_scheme": "dark"}, "Wake"),
    ],
)
async def test_it_fits_everywhere(tmp_path: Path, name: str, options: dict[str, Any], words: str) -> None:
    async with (
        codehub(tmp_path, LOCAL_IMAGES=json.dumps(IMAGES)) as url,
        Person.admin(url) as person,
        chromium() as browser,
        signed_in(browser, url, **options) as window,
    ):
        workspace_id = await person.create("thesis", image="page", standby_ttl_seconds=600)
        page = window.page
        await page.goto(f"/w/{workspace_id}/")
        await expect(page.locator("h1")).to_have_text("the editor", timeout=SLOW_MS)
        await person.intent(workspace_id, "stop")
        button = layer(page).get_by_role("button", name=words, exact=True)
        await expect(button).to_be_focused(timeout=SLOW_MS)
        assert await window.axe() == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await show(page, f"tab-{name}")
        # Put aside, to look at what is not saved; it stays in sight, and leads back when it was woken elsewhere.
        await layer(page).get_by_role("button").nth(1).click()
        await expect(layer(page)).to_be_hidden()
        notice = page.locator("codehub-tab [role=status]:not([hidden])")
        await expect(notice.get_by_role("button", name=words, exact=True)).to_be_visible()
        await show(page, f"tab-aside-{name}")
        assert await window.axe() == []
        await person.until_status(workspace_id, "standby")
        await person.intent(workspace_id, "start")
        await expect(notice).to_have_text(
            "It is running againReload" if words == "Wake" else "다시 실행 중입니다새로 불러오기",
            timeout=SLOW_MS,
        )
        await notice.get_by_role("button").click()
        await expect(page.locator("h1")).to_have_text("the editor", timeout=SLOW_MS)
