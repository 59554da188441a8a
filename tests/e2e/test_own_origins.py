"""Each workspace at an origin of its own, in a real browser: signed in by a code, and kept there."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.support.instance import codehub_up
from tests.support.people import ECHO, PASSWORD, QUICK, Person, refused_with
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

TRY_THE_API = """async (hub) => {
  try {
    const answer = await fetch(hub + '/api/v1/workspaces', {credentials: 'include'});
    return 'read ' + answer.status;
  } catch (error) { return error.name; }
}"""
TRY_TO_STOP = """async ([hub, id]) => {
  const form = {method: 'POST', mode: 'no-cors', credentials: 'include'};
  try {
    return (await fetch(`${hub}/api/v1/workspaces/${id}/stop`, form)).type;
  } catch (error) { return error.name; }
}"""
TRY_A_SOCKET = """(address) => new Promise((resolve) => {
  const socket = new WebSocket(address);
  socket.onopen = () => resolve('open');
  socket.onerror = () => resolve('refused');
})"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    port = free_port()
    settings: dict[str, Any] = {
        **QUICK,
        "LOCAL_IMAGES": json.dumps({"echo": ECHO}),
        "CODEHUB_BASE_URL": f"http://localhost:{port}",
        "CODEHUB_BASE_DOMAIN": f"localhost:{port}",
    }
    bind = f"127.0.0.1:{port}"
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **settings) as instance:
        yield instance.url


@pytest_asyncio.fixture(loop_scope="module")
async def ann(url: str) -> AsyncIterator[Person]:
    username = f"ann-{uuid4().hex[:8]}"
    async with Person.admin(url) as admin:
        await admin.add_user(username)
    async with Person.sign_in(url, username) as person:
        yield person


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, url: str) -> AsyncIterator[Page]:
    context = await browser.new_context(base_url=url, locale="en-GB")
    yield await context.new_page()
    await context.close()


async def sign_in(page: Page, username: str) -> None:
    """At the sign-in page, wherever that leads afterwards."""
    await page.locator("input[autocomplete=username]").fill(username)
    await page.locator("input[type=password]").fill(PASSWORD)
    await page.locator("form button:not([type=button])").click()


async def started(ann: Person, name: str) -> tuple[str, str]:
    """A running workspace and its origin."""
    workspace_id = await ann.create(name)
    seen = await ann.until_status(workspace_id, "running")
    address = urlsplit(seen["url"])
    assert address.hostname == f"{workspace_id}.localhost"
    return workspace_id, f"{address.scheme}://{address.netloc}"


async def test_the_code_opens_the_door_once(ann: Person, page: Page, browser: Browser, url: str) -> None:
    _, origin = await started(ann, "door")
    visited: list[str] = []
    page.on("request", lambda request: visited.append(request.url))
    await page.goto(f"{origin}/deep/path?x=1")
    await expect(page).to_have_url(re.compile(re.escape(f"{url}/login")))
    await sign_in(page, ann.username)
    await expect(page.locator("h1")).to_have_text("echo")
    assert page.url == f"{origin}/deep/path?x=1"
    (with_code,) = (each for each in visited if "/_codehub/auth?code=" in each)
    (cookie,) = await page.context.cookies(origin)
    assert (cookie["name"], cookie["httpOnly"], cookie["domain"]) == (
        "codehub_ws",
        True,
        urlsplit(origin).hostname,
    )

    async with await browser.new_context() as thief:
        again = await thief.new_page()
        await again.goto(with_code)
        await expect(again.locator("input[type=password]")).to_be_visible()
        assert await thief.cookies(origin) == []


async def test_a_page_of_a_workspace_cannot_act_as_its_person(ann: Person, page: Page, url: str) -> None:
    workspace_id, origin = await started(ann, "curious")
    await page.goto(url)
    await sign_in(page, ann.username)
    await expect(page.locator("header.top")).to_be_visible()
    await page.goto(f"{origin}/")
    await expect(page.locator("h1")).to_have_text("echo")

    assert await page.evaluate(TRY_THE_API, url) == "TypeError"
    assert await page.evaluate(TRY_TO_STOP, [url, workspace_id]) in ("TypeError", "opaque")
    assert (await ann.workspace(workspace_id))["desired_state"] == "RUNNING"
    socket = url.replace("http", "ws") + f"/w/{workspace_id}/socket"
    assert await page.evaluate(TRY_A_SOCKET, socket) == "refused"
    assert await page.evaluate(TRY_A_SOCKET, origin.replace("http", "ws") + "/socket") == "open"

    # Nor by leading the person to the path, where it would be a page of the dashboard's origin.
    await page.goto(f"{url}/w/{workspace_id}/evil")
    assert page.url == f"{origin}/evil"
    seen = await page.evaluate("async () => (await fetch('/headers')).text()")
    assert "codehub_" not in seen


async def test_hostile_origins_get_no_socket(ann: Person, page: Page, url: str) -> None:
    workspace_id, origin = await started(ann, "sockets")
    other_id, other_origin = await started(ann, "hostile")
    await page.goto(url)
    await sign_in(page, ann.username)
    await expect(page.locator("header.top")).to_be_visible()
    await page.goto(f"{origin}/")
    await page.goto(f"{other_origin}/")
    await expect(page.locator("h1")).to_have_text("echo")
    assert await page.evaluate(TRY_A_SOCKET, origin.replace("http", "ws") + "/socket") == "refused"
    assert await page.evaluate(TRY_A_SOCKET, other_origin.replace("http", "ws") + "/socket") == "open"
    # Also if a browser did send the cookie along.
    (cookie,) = await page.context.cookies(origin)
    for hostile in (other_origin, url, "http://evil.example"):
        attempt = ann.socket(
            "/socket", origin=hostile, host=urlsplit(origin).netloc, cookie=f"codehub_ws={cookie['value']}"
        )
        assert await refused_with(attempt) == 403
    assert other_id != workspace_id


async def test_signing_out_closes_the_own_origin_too(ann: Person, page: Page, url: str) -> None:
    _, origin = await started(ann, "leaving")
    await page.goto(f"{origin}/")
    await sign_in(page, ann.username)
    await expect(page.locator("h1")).to_have_text("echo")
    signed_out = await page.context.request.post(f"{url}/api/v1/auth/logout", headers={"Origin": url})
    assert signed_out.status == 204

    async def refused() -> bool:
        return bool(await page.evaluate("async () => (await fetch('/headers')).status === 401"))

    await until(refused, what="the own origin to notice the sign-out")
    await page.reload()
    await expect(page.locator("input[type=password]")).to_be_visible()


async def test_a_sleeping_workspace_wakes_at_its_own_origin(ann: Person, page: Page) -> None:
    workspace_id, origin = await started(ann, "sleeper")
    await ann.intent(workspace_id, "stop")
    await ann.until_status(workspace_id, "standby")
    await page.goto(f"{origin}/work")
    await sign_in(page, ann.username)
    await expect(page.locator("main[data-page=waiting]").or_(page.locator("#path"))).to_be_visible()
    await expect(page.locator("#path")).to_have_text("/work", timeout=60_000)
