"""The dashboard as people use it: a real Chromium, the real ``codehub up``, nothing in between.

Every test is a person of its own, so limits and lists are theirs alone. No test reloads the page to see
something: what does not arrive by itself is a bug.
"""

import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.browser import Visit, require_dashboard, visit
from tests.support import tiny_server
from tests.support.instance import codehub_up
from tests.support.people import ADMIN_PASSWORD, PASSWORD, QUICK, Person
from tests.support.ports import free_port

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

IMAGES = {
    "files": f"{sys.executable} -m http.server {{port}} --bind 127.0.0.1 --directory {{home}}",
    "wrong": f"{sys.executable} {tiny_server.__file__} {{port}} --fail",
}
SETTINGS: dict[str, Any] = {
    **QUICK,
    "LOCAL_IMAGES": json.dumps(IMAGES),
    "CODEHUB_DEFAULT_IMAGE": "files",
    "RECONCILER_RETRY_BACKOFF": "0.2",
    "RECONCILER_MAX_RETRIES": "2",
    "LIMITS_MAX_RUNNING_PER_USER": "1",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    require_dashboard()
    # A port known beforehand: the addresses of workspaces are made from it.
    bind = f"127.0.0.1:{free_port()}"
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **SETTINGS) as instance:
        yield instance.url


@pytest_asyncio.fixture(loop_scope="module")
async def ann(url: str, browser: Browser, admin: Person) -> AsyncIterator[Visit]:
    """Somebody new, signed in, in front of an empty list."""
    username = f"ann-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with visit(browser, url) as window:
        await window.sign_in(username)
        yield window


async def test_the_first_workspace_from_the_empty_page_to_the_ide_and_back_to_nothing(ann: Visit) -> None:
    await expect(ann.page.get_by_role("heading", name="Your first workspace")).to_be_visible()
    card = await ann.create("atlas")
    await expect(card).to_have_attribute("data-status", "running")
    await expect(card).to_contain_text("Sleeps in")
    await expect(ann.page.get_by_text("1 of 1 running")).to_be_visible()

    async with ann.context.expect_page() as opening:
        await card.get_by_role("link", name="Open atlas").click()
    ide = await opening.value
    await expect(ide.get_by_text("Directory listing")).to_be_visible()
    await ide.close()

    await card.get_by_role("button", name="Stop").click()
    await expect(card).to_have_attribute("data-status", "standby")
    await expect(card).to_contain_text("Archived in")
    await card.get_by_role("button", name="More actions for atlas").click()
    await ann.page.get_by_role("menuitem", name="Archive").click()
    await expect(card).to_have_attribute("data-status", "archived")
    await card.get_by_role("button", name="Start").click()
    await expect(card).to_have_attribute("data-status", "running")

    await card.get_by_role("button", name="More actions for atlas").click()
    await ann.page.get_by_role("menuitem", name="Delete…").click()
    confirm = ann.page.get_by_role("button", name="Delete for good")
    await expect(confirm).to_be_disabled()
    await ann.page.get_by_label("Type atlas to confirm").fill("atlas")
    await confirm.click()
    await expect(card).to_have_count(0)
    await expect(ann.page.get_by_role("heading", name="Your first workspace")).to_be_visible()
    # Asking who is signed in, before anybody is, is the one red line of a visit in the browser's console.
    assert set(ann.refusals) <= {"401 /api/v1/auth/session"}


async def test_the_page_of_a_workspace_tells_what_happened_and_follows_its_output(ann: Visit) -> None:
    card = await ann.create("journal")
    await expect(card).to_have_attribute("data-status", "running")
    await card.get_by_role("link", name="journal", exact=True).click()
    timeline = ann.page.get_by_role("region", name="Timeline")
    await expect(timeline).to_contain_text("Created and started in")
    await expect(ann.page.get_by_text("following", exact=True)).to_be_visible()

    await ann.page.get_by_role("button", name="Stop").click()
    await expect(timeline).to_contain_text(re.compile(r"Ran \d+ \S+\. Put to sleep"))
    await timeline.get_by_label("Show every step").check()
    await expect(timeline).to_contain_text("Asleep, files in place")
    await timeline.get_by_label("Show every step").uncheck()
    await expect(timeline).not_to_contain_text("Asleep, files in place")

    await ann.page.get_by_label("Notes for yourself").fill("the one with the map")
    await ann.page.get_by_role("button", name="Save").click()
    await expect(timeline).to_contain_text("Settings changed")

    await ann.page.get_by_role("button", name="Rename journal").click()
    await ann.page.get_by_label("Rename journal").fill("diary")
    await ann.page.keyboard.press("Enter")
    await expect(timeline).to_contain_text("Renamed from journal to diary")


async def test_an_error_is_told_in_words_and_lifted_by_an_administrator(
    url: str, browser: Browser, ann: Visit
) -> None:
    limits = await ann.context.request.get("/api/v1/limits")
    assert (await limits.json())["attempts"] == 3, "as RECONCILER_MAX_RETRIES says"
    card = await ann.create("unlucky", image="wrong")
    await expect(card).to_have_attribute("data-status", "error")
    await expect(card).to_contain_text("Waits for a person")
    await card.get_by_role("link", name="Details").click()
    trouble = ann.page.get_by_role("region", name="What went wrong")
    await expect(trouble).to_contain_text("The last lines of the log usually say why.")
    await expect(trouble).to_contain_text("this command is wrong")
    await expect(trouble).to_contain_text("An administrator can recover this workspace.")
    assert await ann.axe() == []

    async with visit(browser, url) as window:
        await window.sign_in("admin", ADMIN_PASSWORD, path=urlsplit(ann.page.url).path)
        await window.page.get_by_role("button", name="Recover").click()
        timeline = window.page.get_by_role("region", name="Timeline")
        await expect(timeline).to_contain_text("Error cleared")
    await expect(ann.page.get_by_role("region", name="Timeline")).to_contain_text("Error cleared")


async def test_what_others_change_arrives_without_being_asked_for(ann: Visit, admin: Person) -> None:
    card = await ann.create("before", start=False)
    workspace_id = await card.get_attribute("data-workspace")
    assert workspace_id is not None
    await admin.change(workspace_id, name="after")
    await expect(ann.card("after")).to_be_visible()
    await expect(ann.card("before")).to_have_count(0)


async def test_at_the_limit_one_waits_in_line_or_takes_the_place_of_another(ann: Visit) -> None:
    first = await ann.create("first")
    await expect(first).to_have_attribute("data-status", "running")
    second = await ann.create("second", start=False)
    await second.get_by_role("button", name="Start").click()
    dialog = ann.page.get_by_role("dialog", name="One too many")
    await dialog.get_by_role("button", name="Wait in line").click()
    await expect(second).to_contain_text("In line: starts when another of yours sleeps")
    await first.get_by_role("button", name="Stop").click()
    await expect(second).to_have_attribute("data-status", "running")
    await first.get_by_role("button", name="Start").click()
    await dialog.get_by_role("button", name="Put second to sleep and start first").click()
    await expect(first).to_have_attribute("data-status", "running")
    await expect(second).to_have_attribute("data-status", "standby")


async def test_a_name_can_only_be_given_once_and_the_form_says_so(ann: Visit) -> None:
    await ann.create("twin", start=False)
    await ann.page.get_by_role("button", name="New workspace").click()
    dialog = ann.page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("twin")
    await dialog.get_by_role("button", name="Create workspace").click()
    await expect(dialog.get_by_text("You already have a workspace of that name.")).to_be_visible()
    await expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")


async def test_search_filter_and_the_way_back(ann: Visit) -> None:
    await ann.create("alpha", start=False)
    await ann.create("beta", start=False)
    await ann.page.get_by_role("searchbox").fill("alp")
    await expect(ann.card("alpha")).to_be_visible()
    await expect(ann.card("beta")).to_have_count(0)
    await ann.page.get_by_label("Trouble").check()
    await ann.page.get_by_role("button", name="Clear search and filter").click()
    await expect(ann.card("beta")).to_be_visible()


async def test_the_keyboard_is_enough(ann: Visit) -> None:
    page = ann.page
    await page.get_by_role("button", name="New workspace").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()
    await page.keyboard.type("by-hand")
    await page.keyboard.press("Enter")
    card = ann.card("by-hand")
    await expect(card).to_have_attribute("data-status", "running")

    menu = card.get_by_role("button", name="More actions for by-hand")
    await menu.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("menuitem", name="Details")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("menuitem", name="Files")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(menu).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("menuitem", name="Details")).to_be_focused()
    await page.keyboard.press("k")
    await expect(page.get_by_role("menuitem", name="Keep awake for 1 hour")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(card).to_contain_text("Kept awake until")

    await expect(menu).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("menuitem", name="Details")).to_be_focused()
    await page.keyboard.press("End")
    await expect(page.get_by_role("menuitem", name="Delete…")).to_be_focused()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Delete by-hand?")
    await expect(dialog.get_by_label("Type by-hand to confirm")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(menu).to_be_focused()


async def test_a_token_is_shown_once_and_works_until_revoked(ann: Visit) -> None:
    await ann.page.get_by_role("link", name="Tokens").click()
    await ann.page.get_by_role("button", name="New token").click()
    await ann.page.get_by_label("What is it for?").fill("laptop")
    await ann.page.get_by_role("dialog").get_by_role("button", name="New token").click()
    secret = await ann.page.get_by_role("textbox", name="Token laptop").input_value()
    headers = {"Authorization": f"Bearer {secret}", "Cookie": ""}
    asked = await ann.context.request.get("/api/v1/workspaces", headers=headers)
    assert asked.ok
    await ann.page.get_by_role("button", name="I have copied it").click()
    await expect(ann.page.get_by_text(secret)).to_have_count(0)
    await ann.page.get_by_role("button", name="Revoke laptop").click()
    await ann.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(ann.page.get_by_text("No tokens yet.")).to_be_visible()


async def test_language_and_theme_are_remembered(ann: Visit) -> None:
    await ann.page.goto("/account")
    await ann.page.get_by_label("한국어").click()
    await ann.page.get_by_label("어둡게").check()
    await ann.page.goto("/")
    await expect(ann.page.get_by_role("heading", name="첫 워크스페이스")).to_be_visible()
    html = ann.page.locator("html")
    await expect(html).to_have_attribute("lang", "ko")
    await expect(html).to_have_attribute("data-theme", "dark")


async def test_a_wrong_password_and_the_way_back_to_where_one_wanted(
    url: str, browser: Browser, admin: Person
) -> None:
    username = f"bo-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with visit(browser, url) as window:
        await window.page.goto("/tokens")
        await window.page.get_by_label("Name").fill(username)
        await window.page.get_by_label("Password").fill("not the password")
        await window.page.get_by_role("button", name="Sign in").click()
        await expect(window.page.get_by_role("alert")).to_have_text(
            "That name and password do not belong together."
        )
        await window.page.get_by_label("Password").fill(PASSWORD)
        await window.page.get_by_role("button", name="Sign in").click()
        await expect(window.page.get_by_role("heading", name="Tokens")).to_be_visible()


async def test_next_never_leads_to_another_host(url: str, browser: Browser, admin: Person) -> None:
    username = f"cy-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with visit(browser, url) as window:
        await window.sign_in(username, path="/login?next=//evil.example/x")
        await expect(window.page).to_have_url(re.compile(rf"^{re.escape(url)}/$"))


async def test_who_is_disabled_is_signed_out_where_they_stand(
    url: str, browser: Browser, admin: Person
) -> None:
    username = f"di-{uuid4().hex[:8]}"
    user = await admin.add_user(username)
    async with visit(browser, url) as window:
        await window.sign_in(username)
        await expect(window.page.get_by_role("heading", name="Your first workspace")).to_be_visible()
        await admin.api("PATCH", f"/users/{user['id']}", json={"disabled": True})
        await expect(window.page.get_by_text("Your session has ended.")).to_be_visible()


async def test_the_operators_console(url: str, browser: Browser, admin: Person, ann: Visit) -> None:
    await ann.create("seen-by-admin", start=False)
    async with visit(browser, url) as window:
        page = window.page
        await window.sign_in("admin", ADMIN_PASSWORD, path="/admin")
        coordinators = page.get_by_role("table", name="Coordinators")
        for name in ("Observer", "Reconciler", "TTL manager", "Archive GC", "Event listener"):
            await expect(coordinators.get_by_role("row").filter(has_text=name)).to_contain_text("this node")

        await page.get_by_role("link", name="Workspaces").last.click()
        row = page.get_by_role("row").filter(has_text="seen-by-admin")
        await row.get_by_role("button").click()
        await page.get_by_role("menuitem", name="Start").click()
        await expect(row).to_contain_text("Running")
        await expect(ann.card("seen-by-admin")).to_have_attribute("data-status", "running")

        await page.get_by_role("link", name="Users").click()
        await page.get_by_role("button", name="Add user").click()
        dialog = page.get_by_role("dialog")
        newcomer = f"ed-{uuid4().hex[:8]}"
        await dialog.get_by_label("Name").fill(newcomer)
        await dialog.get_by_label("First password").fill(PASSWORD)
        await dialog.get_by_role("button", name="Add user").click()
        await expect(page.get_by_role("row").filter(has_text=newcomer)).to_contain_text("Active")

        await page.get_by_role("link", name="Audit").click()
        await expect(page.get_by_role("row").filter(has_text=newcomer).first).to_contain_text("user.create")
        await page.get_by_role("link", name="Findings").click()
        await expect(page.get_by_text("Where the database, the engine and the archive store")).to_be_visible()
        await page.get_by_role("link", name="Settings").click()
        await expect(page.get_by_role("row").filter(has_text="CODEHUB_ADMIN_PASSWORD")).to_contain_text("set")


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_no_page_has_anything_axe_objects_to(
    url: str, browser: Browser, admin: Person, theme: str, language: str
) -> None:
    username = f"fi-{uuid4().hex[:8]}"
    await admin.add_user(username, role="admin")
    locale = "ko-KR" if language == "ko" else "en-GB"
    async with visit(browser, url, color_scheme=theme, locale=locale) as window:
        page = window.page
        await page.goto("/")
        await page.locator(".sign-in").wait_for()
        found = {"sign-in": await window.axe()}
        await window.sign_in(username)
        await page.locator(".first").wait_for()
        found["empty list"] = await window.axe()
        await page.locator(".first .button--primary").click()
        dialog = page.locator("dialog")
        await dialog.locator("input").first.fill("looked-at")
        found["create"] = await window.axe()
        await dialog.locator(".button--primary").click()
        await page.locator("article[data-status=running]").wait_for()
        found["list"] = await window.axe()
        await page.locator("article h2 a").click()
        await page.locator(".timeline__item").first.wait_for()
        found["workspace"] = await window.axe()
        for path, there in PAGES.items():
            await page.goto(path)
            await page.locator(there).first.wait_for()
            found[path] = await window.axe()
            assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth"), path
        assert {name: violations for name, violations in found.items() if violations} == {}


PAGES = {
    "/tokens": ".empty-line",
    "/account": ".account",
    "/admin": ".table",
    "/admin/workspaces": ".table",
    "/admin/users": ".table",
    "/admin/findings": ".page__lead",
    "/admin/settings": ".table",
    "/admin/audit": ".table",
    "/nowhere": ".not-found",
}


async def test_a_lost_connection_is_shown_and_heals(browser: Browser, tmp_path: Path) -> None:
    require_dashboard()
    bind = f"127.0.0.1:{free_port()}"
    async with (
        codehub_up(tmp_path / "data", bind=bind, **SETTINGS) as first,
        visit(browser, first.url, expected_complaints=True) as window,
    ):
        await window.sign_in("admin", ADMIN_PASSWORD)
        await window.create("patient", start=False)
        await first.end()
        await expect(window.page.get_by_text("Connection lost.")).to_be_visible()
        await expect(window.card("patient")).to_be_visible()
        async with codehub_up(tmp_path / "data", bind=bind, **SETTINGS), Person.admin(first.url) as admin:
            await expect(window.page.get_by_text("Connection lost.")).to_have_count(0)
            workspace_id = await window.card("patient").get_attribute("data-workspace")
            assert workspace_id is not None
            await admin.change(workspace_id, name="rewarded")
            await expect(window.card("rewarded")).to_be_visible()
