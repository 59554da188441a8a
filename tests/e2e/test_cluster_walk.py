"""The walk of a person in a browser, with workspaces on a real cluster: made, opened, asleep, archived, woken."""

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.e2e.browser import Visit, chromium, require_dashboard, visit
from tests.support.instance import codehub_up
from tests.support.kubernetes_environment import KubernetesEnvironment, environment, store
from tests.support.kubernetes_product import product_variables
from tests.support.people import ADMIN_PASSWORD
from tests.support.ports import free_port

__all__ = ["environment", "store"]

pytestmark = [pytest.mark.needs_browser, pytest.mark.timeout(1200)]

PATIENCE_MS = 180_000
"""A pod on a machine that does ten other things."""

NOTES = "cgi-bin/notes"


async def test_what_a_person_wrote_is_there_after_sleep_archive_and_the_link(
    environment: KubernetesEnvironment, tmp_path: Path
) -> None:
    require_dashboard()
    bind = f"127.0.0.1:{free_port()}"
    async with (
        codehub_up(tmp_path / "data", bind=bind, **product_variables(environment)) as instance,
        chromium() as browser,
        visit(browser, instance.url) as person,
    ):
        await person.sign_in("admin", ADMIN_PASSWORD)
        await person.create("thesis", image="tiny")
        await has_status(person, "running")
        link = await write_note(person, "written before it slept")

        await person.card("thesis").get_by_role("button", name="Stop").click()
        await has_status(person, "standby")
        await person.card("thesis").get_by_role("button", name="More actions for thesis").click()
        await person.page.get_by_role("menuitem", name="Archive").click()
        await has_status(person, "archived")
        assert environment.api.get(environment.path("pods"))["items"] == []
        assert environment.api.get(environment.path("persistentvolumeclaims"))["items"] == []

        tab = await person.context.new_page()
        await tab.goto(link)  # whoever opens the link brings it back, and the page turns into it by itself
        await has_note(tab, "written before it slept")
        await has_status(person, "running")


async def write_note(person: Visit, text: str) -> str:
    """Open the workspace from its card and write into its home; the link of that page."""
    async with person.context.expect_page() as opening:
        await person.card("thesis").get_by_role("link", name="Open thesis").click()
    tab = await opening.value
    await expect(tab.get_by_text("a workspace")).to_be_visible(timeout=PATIENCE_MS)
    await tab.goto(f"{tab.url}{NOTES}")
    await tab.get_by_label("Note").fill(text)
    await tab.get_by_role("button", name="Save").click()
    await has_note(tab, text)
    link = tab.url
    await tab.close()
    return link


async def has_note(tab: Page, text: str) -> None:
    await expect(tab.locator("pre")).to_contain_text(text, timeout=PATIENCE_MS)


async def has_status(person: Visit, status: str) -> None:
    await expect(person.card("thesis")).to_have_attribute("data-status", status, timeout=PATIENCE_MS)
