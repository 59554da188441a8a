"""The waiting page in a real browser: lives from events and turns into the workspace by itself."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import BrowserContext, async_playwright, expect

from codehub.domain.waking import Phase, RunningWorkspace, WakeOutcome, WakeResult
from tests.integration.proxy.conftest import MakeEnvironment
from tests.integration.proxy.fakes import SESSION
from tests.integration.proxy.raw import Received, ok, replies
from tests.support.waiting import until

pytestmark = pytest.mark.needs_browser

expect.set_options(timeout=30_000)  # the machine may be busy

PAGE = ok(b"<!doctype html><title>IDE</title><h1>the editor</h1>", b"Content-Type: text/html")


@pytest.fixture
async def browser() -> AsyncIterator[BrowserContext]:
    async with async_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        chromium = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = await chromium.new_context(locale="en-US")
        yield context
        await chromium.close()


class Events:
    """The API's event stream of one workspace, and its stop call."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[dict[str, object]] = asyncio.Queue()  # without status: news of progress
        self.stopped: list[bytes] = []
        self.output = b""

    async def serve(self, received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        if received.line.split(b" ")[1].endswith(b"/logs"):
            writer.write(ok(self.output, b"Content-Type: text/plain"))
            return
        if received.line.startswith(b"POST"):
            self.stopped.append(received.line.split(b" ")[1])
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}")
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        while True:
            news = await self.queue.get()
            kind = b"state_changed" if "status" in news else b"progress"
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


async def test_stopping_another_one_makes_room(
    make_environment: MakeEnvironment, browser: BrowserContext
) -> None:
    events = Events()
    environment = await make_environment(
        api=events.serve, target={"phase": Phase.ASLEEP, "status": "standby"}
    )
    beta = RunningWorkspace(environment.directory.add().id, "beta")
    environment.directory.outcome = WakeOutcome(WakeResult.LIMIT, (beta,), allowed=1)
    origin = f"http://127.0.0.1:{environment.server.port}"
    await browser.add_cookies([{"name": "codehub_session", "value": SESSION, "url": origin}])
    page = await browser.new_page()
    await page.goto(f"{origin}/w/{environment.workspace.id}/")
    await page.get_by_role("button", name="Stop beta").click()
    await expect(page.locator("button[data-stop]")).to_have_text("Stopping…")
    await events.queue.put({"id": str(beta.id), "progress": 10, "operation": "STOPPING"})  # not over yet
    environment.directory.outcome = WakeOutcome(WakeResult.WAKING)
    await events.queue.put({"status": "standby", "desired_state": "STANDBY"})
    await expect(page.locator("h1")).to_have_text("Opening your workspace")
    assert events.stopped == [f"/api/v1/workspaces/{beta.id}/stop".encode()]
