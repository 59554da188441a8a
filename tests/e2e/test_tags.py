"""Tags, pins and groups of the list, in a real Chromium."""

import pytest
from playwright.async_api import expect

from tests.e2e.browser import Visit
from tests.e2e.test_list import ann, names, url

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

__all__ = ["ann", "url"]


async def test_tags_pins_and_groups(ann: Visit) -> None:
    page = ann.page
    for name in ("alpha", "beta", "gamma"):
        await ann.create(name, start=False)
    for name, tags in (("alpha", "papers, year 2"), ("beta", "papers")):
        await page.get_by_role("button", name=f"More actions for {name}").click()
        await page.get_by_role("menuitem", name="Tags…").click()
        await page.get_by_role("textbox", name="Tags").fill(tags)
        await page.keyboard.press("Enter")
        await expect(ann.card(name).get_by_role("list", name="Tags")).to_contain_text("papers")
    await page.get_by_role("button", name="More actions for alpha").click()
    await page.get_by_role("menuitem", name="Pin to the top").click()
    await expect(ann.card("alpha").get_by_text("Pinned")).to_be_attached()
    await page.reload()
    await expect(ann.card("alpha")).to_be_visible()
    assert await names(ann) == ["alpha", "gamma", "beta"]

    await page.get_by_role("button", name="year 2", exact=True).click()
    await expect(ann.card("beta")).to_have_count(0)
    await page.get_by_role("button", name="year 2", exact=True).click()
    await page.get_by_label("By tag").check()
    await expect(page.get_by_role("heading", name="Without a tag")).to_be_visible()
    assert await names(ann) == ["alpha", "beta", "alpha", "gamma"]
    assert await ann.axe() == []
    await page.reload()  # the browser remembers how the list is grouped
    await expect(page.get_by_role("heading", name="Without a tag")).to_be_visible()


async def test_what_is_no_tag_is_said_in_the_dialog(ann: Visit) -> None:
    page = ann.page
    await ann.create("one", start=False)
    await page.get_by_role("button", name="More actions for one").click()
    await page.get_by_role("menuitem", name="Tags…").click()
    await page.get_by_role("textbox", name="Tags").fill("#papers")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert").filter(has_text="no comma and no #")).to_be_visible()
