"""Ports in a real browser: found while one looks, shared by a link, hot reload of Vite through it, and taken back."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.e2e.browser import ROOT, Visit, require_dashboard
from tests.support.instance import codehub_up
from tests.support.people import ECHO, PASSWORD, QUICK, Person
from tests.support.ports import free_port
from tests.support.requirements import require_inside

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

VITE = ROOT / "web" / "node_modules" / "vite" / "bin" / "vite.js"
MAIN = "document.querySelector('h1').textContent = '{text}'; import.meta.hot.accept();"
SETTLED = "Promise.allSettled(document.getAnimations().map((each) => each.finished))"
PAGE = '<!doctype html><title>demo</title><h1></h1><script type="module" src="/main.js"></script>'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    require_dashboard()
    require_inside()
    port = free_port()
    settings: dict[str, Any] = {
        **QUICK,
        "LOCAL_IMAGES": json.dumps({"echo": ECHO}),
        "CODEHUB_BASE_URL": f"http://localhost:{port}",
        "CODEHUB_BASE_DOMAIN": f"localhost:{port}",
        "CODEHUB_PORT_SHARE_CEILING": "public",
    }
    bind = f"127.0.0.1:{port}"
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **settings) as instance:
        yield instance.url


async def running(person: Person, name: str) -> str:
    workspace_id = await person.create(name)
    await person.until_status(workspace_id, "running")
    return workspace_id


@contextlib.asynccontextmanager
async def running_in(person: Person, workspace_id: str, argv: list[str]) -> AsyncIterator[None]:
    """A program in the workspace, until this is left."""
    path = f"/api/v1/workspaces/{workspace_id}/exec"
    body = {"argv": argv, "timeout_seconds": 300}
    async with person.client.stream("POST", path, json=body, timeout=300) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield


async def write(person: Person, workspace_id: str, name: str, text: str) -> None:
    answer = await person.client.put(
        f"/api/v1/workspaces/{workspace_id}/files/content", params={"path": name}, content=text.encode()
    )
    assert answer.status_code == 200, answer.text


async def show(page: Page, name: str) -> None:
    """A picture for whoever looks: ``CODEHUB_TEST_PICTURES`` names a directory."""
    if directory := os.environ.get("CODEHUB_TEST_PICTURES"):
        await page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)


async def looks(page: Page, name: str) -> None:
    """The same page wide and narrow, light and dark, without a fault that axe finds."""
    for width, light in ((1280, "light"), (390, "light"), (1280, "dark")):
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=light, reduced_motion="reduce")  # type: ignore[arg-type]
        await page.evaluate(SETTLED)  # colours that change have no contrast yet
        await show(page, f"{name}-{width}-{light}")
        assert await Visit(page, page.context, "").axe() == []
    await page.set_viewport_size({"width": 1280, "height": 900})
    await page.emulate_media(color_scheme="light")


async def owner_at(context: BrowserContext, url: str, person: Person, workspace_id: str) -> Page:
    page = await context.new_page()
    visit = Visit(page, context, url)
    await visit.sign_in(person.username, PASSWORD, path=f"/workspaces/{workspace_id}")
    return page


async def test_a_port_is_found_shared_used_live_and_taken_back(
    browser: Browser, admin: Person, url: str
) -> None:
    node = shutil.which("node")
    if node is None or not VITE.is_file():
        pytest.skip("needs Node.js and the dashboard's packages: npm ci in web/")
    await admin.add_user("ann")
    async with (
        Person.sign_in(url, "ann") as ann,
        await browser.new_context(base_url=url, locale="en-GB") as mine,
        await browser.new_context(locale="en-GB") as theirs,
    ):
        workspace_id, port = await running(ann, "demo"), free_port()
        page = await owner_at(mine, url, ann, workspace_id)
        panel = page.locator(".inside__part", has=page.get_by_role("heading", name="Ports"))
        await expect(panel).to_contain_text("No program listens on a port.")
        await looks(panel.page, "empty")
        await write(ann, workspace_id, "index.html", PAGE)
        await write(ann, workspace_id, "main.js", MAIN.format(text="one"))
        async with running_in(ann, workspace_id, [node, str(VITE), "--port", str(port), "--strictPort"]):
            await expect(
                panel.get_by_role("link", name=f"Open port {port}")
            ).to_be_visible()  # nobody reloaded
            link = await share_publicly(page, port)
            await looks(page, "listed")

            visitor = await theirs.new_page()
            await visitor.goto(link)
            await expect(visitor.locator("h1")).to_have_text("one")
            origin = f"http://{port}--{workspace_id}.{urlsplit(url).netloc}"
            assert visitor.url == f"{origin}/"  # the key is in no address any more
            assert [each["name"] for each in await theirs.cookies(origin)] == ["codehub_share"]
            await visitor.evaluate("window.stayed = true")
            await write(ann, workspace_id, "main.js", MAIN.format(text="two"))
            await expect(visitor.locator("h1")).to_have_text("two")  # over the WebSocket of its hot reload
            assert await visitor.evaluate("window.stayed") is True

            await ann.intent(workspace_id, "stop")
            await ann.until_status(workspace_id, "standby")
        await visitor.goto(f"{origin}/")
        await expect(visitor.locator("h1")).to_have_text("Asleep at the moment")
        await looks(visitor, "asleep")
        assert (await ann.workspace(workspace_id))["desired_state"] == "STANDBY"

        await page.get_by_role("button", name=f"Share or label port {port}").click()
        await page.get_by_role("button", name="Take back").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(panel).not_to_contain_text("the demo")
        await visitor.goto(f"{origin}/")
        await expect(visitor).to_have_url(re.compile(re.escape(f"{url}/login")))
        await visitor.goto(link)
        await expect(visitor.locator("h1")).to_have_text("This link is over")
        await looks(visitor, "over")


async def share_publicly(page: Page, port: int) -> str:
    """Share a port by a link, in the dialog; gives the link."""
    await page.get_by_role("button", name=f"Share or label port {port}").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Label").fill("the demo")
    await dialog.get_by_label("Who may open it").select_option("public")
    await dialog.get_by_role("button", name="Save").click()
    code = dialog.locator("code", has_text="/_codehub/share?key=")
    link = await code.text_content()
    assert link is not None
    await looks(page, "dialog")
    await page.keyboard.press("Escape")
    await expect(page.get_by_text("Public link · ", exact=False)).to_be_visible()
    return link


async def test_korean_and_a_colleague_who_is_signed_in(browser: Browser, admin: Person, url: str) -> None:
    for name in ("bea", "col"):
        await admin.add_user(name)
    async with (
        Person.sign_in(url, "bea") as bea,
        await browser.new_context(base_url=url, locale="ko-KR") as mine,
        await browser.new_context(base_url=url, locale="en-GB") as theirs,
    ):
        workspace_id, port = await running(bea, "데모"), free_port()
        argv = ["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1"]
        async with running_in(bea, workspace_id, argv):
            page = await owner_at(mine, url, bea, workspace_id)
            await page.get_by_role("button", name=f"포트 {port} 공유 또는 이름 붙이기").click()
            await page.get_by_label("열 수 있는 사람").select_option("signed_in")
            await looks(page, "dialog-ko")
            await page.get_by_role("dialog").get_by_role("button", name="저장").click()
            await expect(page.locator(".ports .tag", has_text="로그인한 사람")).to_be_visible()
            await looks(page, "listed-ko")
            origin = f"http://{port}--{workspace_id}.{urlsplit(url).netloc}"
            colleague = await theirs.new_page()
            await colleague.goto(f"{origin}/")
            await colleague.locator("input[autocomplete=username]").fill("col")
            await colleague.locator("input[type=password]").fill(PASSWORD)
            await colleague.locator("form button:not([type=button])").click()
            await expect(colleague.locator("h1")).to_contain_text("Directory listing")
            assert colleague.url == f"{origin}/"
            answer = await colleague.goto(f"http://{workspace_id}.{urlsplit(url).netloc}/")
            assert answer is not None
            assert answer.status == 404  # the IDE is not shared
