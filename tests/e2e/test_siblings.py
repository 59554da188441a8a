"""Two workspaces of one person, one of them hostile, in a real browser: what its pages can do to the other.

The base domain is ``ws.localhost``: its workspaces are one site to the browser, as those of ``ws.example``
are, so the victim's cookie goes along with what the hostile page asks for.
"""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

import tests.support
from tests.support.instance import codehub_up
from tests.support.people import PASSWORD, QUICK, Person
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

RECORDING = f"{sys.executable} {Path(tests.support.__file__).with_name('recording_server.py')} {{port}}"

# Each resolves once the browser has an answer, or has given up.
ATTACKS = {
    "fetch, POST": "victim => fetch(victim + '/fetch-post',"
    " {method: 'POST', mode: 'no-cors', credentials: 'include', body: 'x'}).catch(String)",
    "fetch, GET": "victim => fetch(victim + '/fetch-get', {mode: 'no-cors', credentials: 'include'})"
    ".catch(String)",
    "fetch, readable": "victim => fetch(victim + '/fetch-cors', {credentials: 'include'}).catch(String)",
    "fetch, HEAD": "victim => fetch(victim + '/fetch-head', {method: 'HEAD', mode: 'no-cors',"
    " credentials: 'include'}).catch(String)",
    "beacon": "victim => { navigator.sendBeacon(victim + '/beacon', 'x');"
    " return fetch(victim + '/after-beacon', {mode: 'no-cors'}).catch(String) }",
    "form in a frame": "victim => new Promise(resolve => { document.body.innerHTML ="
    " `<iframe name=f></iframe><form method=post target=f action='${victim}/form-in-frame'></form>`;"
    " document.querySelector('iframe').onload = event => resolve(1);"
    " document.querySelector('form').submit() })",
    "WebSocket": "victim => new Promise(resolve => {"
    " const socket = new WebSocket(victim.replace('http', 'ws') + '/socket');"
    " socket.onopen = socket.onerror = resolve })",
    **{
        f"{tag}": f"victim => new Promise(resolve => {{ const element = document.createElement('{tag}');"
        f" element.onload = element.onerror = () => resolve(1);"
        f" element.{source} = victim + '/{tag}'; {more} document.body.append(element);"
        " setTimeout(() => resolve('no event'), 1500) })"
        for tag, source, more in (
            ("iframe", "src", ""),
            ("embed", "src", "element.type = 'text/html';"),
            ("object", "data", ""),
            ("img", "src", ""),
            ("script", "src", ""),
            ("link", "href", "element.rel = 'stylesheet';"),
        )
    },
    "prefetch": "victim => new Promise(resolve => { const element = document.createElement('link');"
    " element.rel = 'prefetch'; element.href = victim + '/prefetch';"
    " element.onload = element.onerror = resolve; document.head.append(element) })",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    port = free_port()
    settings: dict[str, Any] = {
        **QUICK,
        "LOCAL_IMAGES": json.dumps({"recording": RECORDING}),
        "CODEHUB_BASE_URL": f"http://localhost:{port}",
        "CODEHUB_BASE_DOMAIN": f"ws.localhost:{port}",
    }
    bind = f"127.0.0.1:{port}"
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **settings) as instance:
        yield instance.url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(url: str) -> AsyncIterator[Person]:
    username = f"ann-{uuid4().hex[:8]}"
    async with Person.admin(url) as admin:
        await admin.add_user(username)
    async with Person.sign_in(url, username) as person:
        yield person


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def victim(ann: Person) -> str:
    return await started(ann, "victim")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hostile(ann: Person) -> str:
    return await started(ann, "hostile")


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, ann: Person, victim: str, hostile: str) -> AsyncIterator[Page]:
    """A page of the hostile workspace, in a browser that is signed in at both."""
    context = await browser.new_context(locale="en-GB")
    page = await context.new_page()
    await page.goto(victim)
    await page.locator("input[autocomplete=username]").fill(ann.username)
    await page.locator("input[type=password]").fill(PASSWORD)
    await page.locator("form button:not([type=button])").click()
    await expect(page.locator("h1")).to_have_text("recording")
    assert [each["name"] for each in await context.cookies(victim)] == ["codehub_ws"]
    await page.goto(hostile)
    await expect(page.locator("h1")).to_have_text("recording")
    yield page
    await context.close()


async def started(ann: Person, name: str) -> str:
    """The origin of a running workspace."""
    workspace_id = await ann.create(name, image="recording")
    address = urlsplit((await ann.until_status(workspace_id, "running"))["url"])
    return f"{address.scheme}://{address.netloc}"


async def seen_by(page: Page, origin: str) -> list[str]:
    """What reached this workspace, asked for by a page of its own."""
    window = await page.context.new_page()
    await window.goto(f"{origin}/look")
    seen: list[str] = await window.evaluate("async () => (await fetch('/seen')).json()")
    await window.close()
    return [each for each in seen if not each.endswith(("/look", "/favicon.ico"))]


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_a_sibling_reaches_nothing(page: Page, victim: str, hostile: str, attack: str) -> None:
    before = await seen_by(page, victim)
    await page.evaluate(attack, victim)
    assert await seen_by(page, victim) == before
    # The same from its own page does arrive: it is the gate that refused, not the attack that failed.
    await page.goto(f"{victim}/own")
    await page.evaluate(attack, victim)
    assert len(await seen_by(page, victim)) > len(before) + 1


async def test_a_form_that_takes_the_whole_tab_along(page: Page, victim: str) -> None:
    before = await seen_by(page, victim)
    post = f"document.body.innerHTML = '<form method=post action=\"{victim}/form\"></form>'"
    await page.evaluate(post)
    async with page.expect_navigation():
        await page.evaluate("document.querySelector('form').submit()")
    await expect(page.locator("h1")).to_have_text("Another site's page asked for this")
    assert await seen_by(page, victim) == before
    await page.get_by_role("link", name="Open it").click()  # the person's own intent
    await expect(page.locator("h1")).to_have_text("recording")
    assert (await seen_by(page, victim))[-1] == "GET /form"


async def test_a_link_leads_there(page: Page, victim: str) -> None:
    await page.evaluate(f"document.body.innerHTML = '<a href=\"{victim}/linked\">there</a>'")
    await page.get_by_text("there").click()
    await page.wait_for_url(f"{victim}/linked")
    await expect(page.locator("h1")).to_have_text("recording")
    assert "GET /linked" in await seen_by(page, victim)


async def test_a_window_opened_for_it_leads_there(page: Page, victim: str) -> None:
    async with page.expect_popup() as opened:
        await page.evaluate(f"void window.open('{victim}/window')")
    await expect((await opened.value).locator("h1")).to_have_text("recording")


async def test_a_frame_by_way_of_the_victims_service_worker(page: Page, victim: str, hostile: str) -> None:
    """Its worker forwards the navigation, and the browser no longer says that it is a frame's."""
    await page.goto(f"{victim}/registering")
    await page.evaluate(
        "navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready)"
    )
    try:
        await page.goto(f"{victim}/by-worker")  # one's own pages work as before
        await expect(page.locator("h1")).to_have_text("recording")
        await page.goto(hostile)
        before = await seen_by(page, victim)
        await page.evaluate(ATTACKS["iframe"], victim)
        assert await seen_by(page, victim) == before
        # A link looks the same there: the person is asked once.
        await page.evaluate(f"location.href = '{victim}/linked-to-worker'")
        await page.get_by_role("link", name="Open it").click()
        await expect(page.locator("h1")).to_have_text("recording")
    finally:
        await page.goto(f"{victim}/leaving")
        await page.evaluate(
            "navigator.serviceWorker.getRegistrations()"
            ".then(all => Promise.all(all.map(one => one.unregister())))"
        )


async def test_a_sibling_wakes_nobody_without_taking_the_person_along(
    page: Page, ann: Person, victim: str
) -> None:
    """The last one: the victim sleeps from here on."""
    workspace_id = urlsplit(victim).netloc.partition(".")[0]
    await ann.intent(workspace_id, "stop")
    await ann.until_status(workspace_id, "standby")
    for attack in ATTACKS.values():
        await page.evaluate(attack, victim)
    assert (await ann.workspace(workspace_id))["desired_state"] == "STANDBY"
    await page.evaluate(f"location.href = '{victim}/'")

    async def is_wanted() -> bool:
        return bool((await ann.workspace(workspace_id))["desired_state"] == "RUNNING")

    await until(is_wanted, what="the person to have been taken along")
    await expect(page.locator("h1")).to_have_text("recording", timeout=60_000)
