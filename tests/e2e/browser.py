"""A real Chromium in front of a real CodeHub, and what tests ask of a page."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

from tests.support.people import PASSWORD
from tests.support.requirements import require_chromium

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "src" / "codehub" / "api" / "static"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"

PATIENCE_MS = 30_000

expect.set_options(timeout=PATIENCE_MS)


def require_dashboard() -> None:
    if not (STATIC / "index.html").is_file() or not AXE.is_file():
        pytest.skip("needs the dashboard: npm ci && npm run build in web/")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(require_chromium()), args=["--no-sandbox"]
        )
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Visit:
    """One person's browser window, with what went wrong in it."""

    page: Page
    context: BrowserContext
    origin: str
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("response", lambda answer: self._note_refusal(answer.status, answer.url))
        self.page.on("request", lambda request: self._watch(request.url))

    def _note(self, kind: str, text: str) -> None:
        # A refused request is told to the person by the page; the browser's own line about it is no fault.
        if kind == "error" and "Failed to load resource" not in text:
            self.complaints.append(text)

    def _note_refusal(self, status: int, url: str) -> None:
        if status >= 400:  # the browser writes a red line about each
            self.refusals.append(f"{status} {urlsplit(url).path}")

    def _watch(self, url: str) -> None:
        if url.startswith("http") and urlsplit(url).netloc != urlsplit(self.origin).netloc:
            self.strangers.append(url)

    async def sign_in(self, username: str, password: str = PASSWORD, *, path: str = "/") -> None:
        await self.page.goto(path)
        await self.page.locator("input[autocomplete=username]").fill(username)
        await self.page.locator("input[type=password]").fill(password)
        await self.page.locator("form button:not([type=button])").click()
        await self.page.locator("header.top").wait_for()

    def card(self, name: str) -> Locator:
        return self.page.get_by_role("article", name=name, exact=True)

    async def create(self, name: str, *, start: bool = True, image: str = "files") -> Locator:
        await self.page.get_by_role("button", name="New workspace").first.click()
        dialog = self.page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill(name)
        await dialog.locator("label", has=self.page.locator(f'input[type=radio][value="{image}"]')).click()
        await dialog.get_by_label("Start it now").set_checked(start)
        await dialog.get_by_role("button", name="Create workspace").click()
        await dialog.wait_for(state="detached")
        return self.card(name)

    async def axe(self) -> list[str]:
        """What axe has against the page as it is. Evaluated from outside: the page's own policy stays."""
        await self.page.evaluate(AXE.read_text())
        found: Mapping[str, Any] = await self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]


@asynccontextmanager
async def visit(
    browser: Browser, url: str, *, expected_complaints: bool = False, strangers: bool = False, **options: Any
) -> AsyncIterator[Visit]:
    """A window of one's own. At its end: nothing threw, nothing broke the policy, nobody else was asked.

    ``strangers``: what is shown may ask others, such as an IDE its marketplace; nobody answers.
    """
    context = await browser.new_context(
        base_url=url, **{"locale": "en-GB", "reduced_motion": "reduce", **options}
    )
    context.set_default_timeout(PATIENCE_MS)
    seen = Visit(await context.new_page(), context, url)
    seen.listen()
    if strangers:
        await context.route(
            lambda asked: urlsplit(asked).netloc != urlsplit(url).netloc, lambda route: route.abort()
        )
    try:
        yield seen
        assert strangers or not seen.strangers
        assert expected_complaints or not seen.complaints
    finally:
        await context.close()
