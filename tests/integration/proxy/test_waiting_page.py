"""The waiting page in a real browser: lives from events and turns into the workspace by itself."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import BrowserContext, Page, async_playwright, expect

from codehub.domain.waking import Phase, RunningWorkspace, WakeOutcome, WakeResult
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import SESSION
from tests.integration.proxy.raw import Received, ok, replies
from tests.support.waiting import until

pytestmark = pytest.mark.needs_browser

expect.set_options(timeout=30_000)  # the machine may be busy

PAGE = ok(b"<!doctype html><title>IDE</title><h1>the editor</h1>", b"Content-Type: text/html")


def idle_for(hours: int) -> dict[str, object]:
    return {
        "last_access_at": (datetime.now(UTC) - timedelta(hours=hours)).isoformat(),
        "activity": {"connections": 0, "awake": None, "last_seen_at": None},
    }


@pytest.fixture
async def browser() -> AsyncIterator[BrowserContext]:
    async with async_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        chromium = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = await chromium.new_context(locale="en-US")
        yield context
        await chromium.close()


class Events:
    """The API's event stream of one workspace, the workspaces it shows, and what it is asked for."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[dict[str, object]] = asyncio.Queue()  # without status: news of progress
        self.asked: list[tuple[str, object]] = []
        self.output = b""

    async def serve(self, received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        if received.line.split(b" ")[1].endswith(b"/logs"):
            writer.write(ok(self.output, b"Content-Type: text/plain"))
            return
        path = received.line.split(b" ")[1].decode()
        if received.line.startswith(b"POST"):
            self.asked.append((path, json.loads(received.body or b"null")))
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}")
            return
        if not path.endswith("/events"):
            writer.write(ok(json.dumps(idle_for(hours=3)).encode(), b"Content-Type: application/json"))
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        while True:
            news = await self.queue.get()
            kind = (
                b"state_changed" if "status" in news else b"activity" if "activity" in news else b"progress"
            )
            event = b"event: %b\ndata: %b\n\n" % (kind, json.dumps(news).encode())
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()


async def test_it_turns_into_the_workspace(
    make_environment: MakeEnvironment, browser: BrowserContext
) -> None:
    events = Events()
    asleep = {"phase": Phase.ASLEEP, "status": "archived"}
    environment = await make_environment(replies(PAGE), api=events.serve, target=asleep)
    origin = f"http://127.0.0.1:{environment.server.port}"
    await browser.add_cookies([{"name": "codehub_session", "value": SESSION, "url": origin}])
    page = await browser.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    await page.goto(f"{origin}/w/{environment.workspace.id}/")
    await expect(page.locator("h1")).to_have_text("Opening your workspace")
    assert len(environment.directory.wakes) == 1

    await events.queue.put({"status": "restoring", "progress": 42, "desired_state": "RUNNING"})
    await expect(page.locator("#percent")).to_have_text("42 %")
    await expect(page.locator("#doing")).to_have_text("Restoring your files, then starting")
    await expect(page.locator("[aria-current=step]")).to_have_text("Your files")
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "42")
    await events.queue.put({"id": str(environment.workspace.id), "progress": 57, "operation": "RESTORING"})
    await expect(page.locator("#percent")).to_have_text("57 %")
    await expect(page.locator("#doing")).to_have_text("Restoring your files, then starting")
    await expect(page.locator("[aria-current=step]")).to_have_text("Your files")
    await events.queue.put({"id": str(environment.workspace.id), "progress": 58})
    await expect(page.locator("#percent")).to_have_text("58 %")
    await expect(page.locator("#doing")).to_have_text("Restoring your files, then starting")
    waits = {"operation": "STARTING", "progress": None, "waiting_for": "0/2 nodes are available"}
    await events.queue.put({"id": str(environment.workspace.id), **waits})
    await expect(page.locator("#doing")).to_have_text("Waiting for a node: 0/2 nodes are available")
    await expect(page.locator("#amount")).to_be_hidden()
    restoring = {"id": str(environment.workspace.id), "operation": "RESTORING", "total_bytes": 960_000_000}
    await events.queue.put({**restoring, "progress": 10, "done_bytes": 96_000_000})
    await expect(page.locator("#amount")).to_have_text("96 MB of 960 MB")

    async def measured() -> bool:
        await events.queue.put({**restoring, "progress": 50, "done_bytes": 480_000_000})
        return "left" in await page.locator("#amount").inner_text()

    await until(measured, what="the time left, once the speed is known", every=0.2)
    await expect(page.locator("#amount")).to_have_text(re.compile(r"^480 MB of 960 MB · about \d+ s left$"))
    await expect(page.locator("#doing")).to_have_text("Restoring your files, then starting")
    await events.queue.put({"status": "restoring", "progress": 50, "desired_state": "RUNNING"})
    await expect(page.locator("#amount")).to_be_visible()
    await events.queue.put({"status": "starting", "progress": None, "desired_state": "RUNNING"})
    await expect(page.locator("[aria-current=step]")).to_have_text("Container")
    await expect(page.locator("#amount")).to_be_hidden()
    await expect(page.locator("#output")).to_be_hidden()
    events.output = b"".join(b"line %d\n" % number for number in range(60)) + b"<b>listening</b>\n"
    await page.get_by_text("Output of the start").click()
    await expect(page.locator("#output pre")).to_contain_text("line 59\n<b>listening</b>")
    await expect(page.locator("#output pre")).not_to_contain_text("line 12")
    assert problems == []

    environment.directory.change(environment.workspace.id, phase=Phase.RUNNING, status="running")
    await events.queue.put({"status": "running", "progress": None, "desired_state": "RUNNING"})
    await expect(page.locator("h1")).to_have_text("the editor")
    assert len(environment.directory.wakes) == 1, "the page itself wakes nothing"


async def test_it_says_when_the_workspace_went_back_to_sleep(
    make_environment: MakeEnvironment, browser: BrowserContext
) -> None:
    events = Events()
    environment = await make_environment(
        api=events.serve, target={"phase": Phase.ASLEEP, "status": "standby"}
    )
    origin = f"http://127.0.0.1:{environment.server.port}"
    await browser.add_cookies([{"name": "codehub_session", "value": SESSION, "url": origin}])
    await browser.add_cookies([{"name": "codehub_lang", "value": "ko", "url": origin}])
    page = await browser.new_page()
    await page.goto(f"{origin}/w/{environment.workspace.id}/")
    await events.queue.put({"status": "standby", "progress": None, "desired_state": "STANDBY"})
    await expect(page.get_by_role("link", name="다시 깨우기")).to_be_visible()
    assert len(environment.directory.wakes) == 1
    await page.get_by_role("link", name="다시 깨우기").click()
    await expect(page.locator("#doing")).to_have_text("깨우는 중…")
    assert len(environment.directory.wakes) == 2


@pytest.fixture
async def at_the_limit(
    make_environment: MakeEnvironment,
) -> tuple[ProxyEnvironment, "Events", RunningWorkspace]:
    events = Events()
    environment = await make_environment(
        api=events.serve, target={"phase": Phase.ASLEEP, "status": "standby"}
    )
    beta = RunningWorkspace(environment.directory.add().id, "beta")
    environment.directory.outcome = WakeOutcome(WakeResult.LIMIT, (beta,), allowed=1)
    return environment, events, beta


async def opened(environment: ProxyEnvironment, browser: BrowserContext) -> Page:
    origin = f"http://127.0.0.1:{environment.server.port}"
    await browser.add_cookies([{"name": "codehub_session", "value": SESSION, "url": origin}])
    page = await browser.new_page()
    await page.goto(f"{origin}/w/{environment.workspace.id}/")
    return page


async def test_another_one_gives_its_place(
    at_the_limit: tuple[ProxyEnvironment, "Events", RunningWorkspace], browser: BrowserContext
) -> None:
    environment, events, beta = at_the_limit
    page = await opened(environment, browser)
    await expect(page.locator(".idle")).to_have_text("idle for 3 h")
    environment.directory.outcome = WakeOutcome(WakeResult.WAKING)
    await page.get_by_role("button", name="Put beta to sleep and start this one").click()
    await expect(page.locator("h1")).to_have_text("Opening your workspace")
    (asked,) = events.asked
    assert asked == (
        f"/api/v1/workspaces/{environment.workspace.id}/start",
        {"instead_of": str(beta.id), "queue": True},
    )


async def test_somebody_who_waits_in_line_is_told_where_they_stand(
    at_the_limit: tuple[ProxyEnvironment, "Events", RunningWorkspace], browser: BrowserContext
) -> None:
    environment, events, _ = at_the_limit
    page = await opened(environment, browser)
    environment.directory.outcome = WakeOutcome(WakeResult.QUEUED)
    await page.get_by_role("button", name="Wait in line").click()
    await expect(page.locator("h1")).to_have_text("Waiting for a running place")
    assert events.asked == [(f"/api/v1/workspaces/{environment.workspace.id}/start", {"queue": True})]
    queue = {"place": 3, "limit": "limit_global", "since": "2030-01-01T00:00:00Z", "estimated_seconds": 300}
    await events.queue.put({"activity": {"queue": queue}})
    await expect(page.locator("#doing")).to_have_text("Number 3 in line")
    await expect(page.locator("#percent")).to_have_text("about 5 min")
    await events.queue.put({"activity": {"queue": queue | {"place": 1, "estimated_seconds": None}}})
    await expect(page.locator("#doing")).to_have_text("You are next in line")
    environment.directory.change(environment.workspace.id, phase=Phase.WAKING, status="starting")
    await events.queue.put({"status": "standby", "desired_state": "RUNNING", "queued_at": None})
    await expect(page.locator("h1")).to_have_text("Opening your workspace")
