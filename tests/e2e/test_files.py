"""The file browser of the dashboard, in a real Chromium: files go in and out byte for byte, and nothing that a
workspace holds runs on the dashboard's origin."""

import base64
import json
import os
import re
import struct
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Error, FilePayload, Locator, Page, expect

from tests.e2e.browser import Visit, require_dashboard, visit
from tests.support.instance import codehub_up
from tests.support.people import QUICK, Person
from tests.support.ports import free_port
from tests.support.requirements import require_inside

pytestmark = [pytest.mark.needs_browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

IMAGES = {"files": f"{sys.executable} -m http.server {{port}} --bind 127.0.0.1 --directory {{home}}"}
SETTINGS: dict[str, Any] = {
    **QUICK,
    "LOCAL_IMAGES": json.dumps(IMAGES),
    "CODEHUB_DEFAULT_IMAGE": "files",
    "LIMITS_MAX_RUNNING_PER_USER": "1",
}
SCRIPT = "localStorage.setItem('ran', location.href)"
HTML = f"<!doctype html><title>x</title><script>{SCRIPT}</script><img src=x onerror={SCRIPT!r}>"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{SCRIPT}"><script>{SCRIPT}</script></svg>'
HOSTILE = {"x.html": HTML, "x.svg": SVG, "picture.png": HTML, "<img src=x onerror=alert(1)>.txt": HTML}


def png() -> bytes:
    """A picture of 2 × 3 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x20\x80\xff" * 2 for _ in range(3))
    head = struct.pack(">IIBBBBB", 2, 3, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def payload(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    require_dashboard()
    require_inside()
    bind = f"127.0.0.1:{free_port()}"
    async with codehub_up(tmp_path_factory.mktemp("codehub") / "data", bind=bind, **SETTINGS) as instance:
        yield instance.url


@pytest_asyncio.fixture(loop_scope="module")
async def ann(url: str, browser: Browser, admin: Person) -> AsyncIterator[Visit]:
    """Somebody new, in front of the empty home of a workspace that runs."""
    username = f"ann-{uuid4().hex[:8]}"
    await admin.add_user(username)
    async with Person.sign_in(url, username) as person:
        workspace_id = await person.running("atlas", image="files")
    async with visit(browser, url) as window:
        await window.sign_in(username, path=f"/workspaces/{workspace_id}/files")
        await expect(window.page.get_by_role("heading", name="Files")).to_be_visible()
        yield window


def workspace_of(page: Page) -> str:
    found = re.search(r"/workspaces/([0-9a-f-]{36})", page.url)
    assert found is not None
    return found[1]


async def upload(page: Page, *files: FilePayload) -> None:
    await page.locator("input[type=file]").set_input_files(list(files))


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


async def choose(page: Page, name: str, action: str) -> None:
    await row(page, name).get_by_role("button", name=f"Actions for {name}").click()
    await page.get_by_role("menuitem", name=action).click()


async def saved(page: Page, click: Locator, directory: Path) -> tuple[str, bytes]:
    async with page.expect_download() as downloading:
        await click.click()
    download = await downloading.value
    path = directory / uuid4().hex
    await download.save_as(path)
    return download.suggested_filename, path.read_bytes()


async def test_files_go_in_and_out_byte_for_byte(ann: Visit, tmp_path: Path) -> None:
    page = ann.page
    await expect(page.get_by_text("This folder is empty.")).to_be_visible()
    content = os.urandom(2_000_000)
    await upload(
        page, payload("한국어 data.bin", content), payload("notes10.txt", b"ten"), payload("notes9.txt", b"")
    )
    for name in ("한국어 data.bin", "notes10.txt", "notes9.txt"):
        await expect(row(page, name)).to_be_visible()
    names = await page.locator(".entries__name a").all_inner_texts()
    assert names == ["notes9.txt", "notes10.txt", "한국어 data.bin"]

    await page.get_by_role("link", name="한국어 data.bin").click()
    name, found = await saved(page, page.get_by_role("link", name="Download"), tmp_path)
    assert (name, found) == ("한국어 data.bin", content)
    await page.go_back()
    await expect(row(page, "notes10.txt")).to_be_visible()
    assert await ann.axe() == []


async def test_what_exists_is_replaced_only_after_a_question(ann: Visit) -> None:
    page = ann.page
    await upload(page, payload("paper.txt", b"first"))
    await expect(row(page, "paper.txt")).to_be_visible()
    await upload(page, payload("paper.txt", b"second"))
    dialog = page.get_by_role("dialog", name="Replace a file?")
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("link", name="paper.txt").click()
    await expect(page.get_by_label("Content of paper.txt")).to_have_text("first")
    await page.go_back()
    await upload(page, payload("paper.txt", b"second"))
    await dialog.get_by_role("button", name="Replace").click()
    await expect(page.locator(".uploads__line[data-state=done]")).to_have_count(2)
    await page.get_by_role("link", name="paper.txt").click()
    await expect(page.get_by_label("Content of paper.txt")).to_have_text("second")


async def test_folders_are_made_entered_left_renamed_and_deleted(ann: Visit, tmp_path: Path) -> None:
    page = ann.page
    await page.get_by_role("button", name="New folder").click()
    await page.get_by_label("Name of the folder").fill("project")
    await page.get_by_role("dialog").get_by_role("button", name="Create").click()
    await page.get_by_role("link", name="project", exact=True).click()
    await expect(page).to_have_url(re.compile(r"\?path=project$"))
    await expect(page.get_by_text("This folder is empty.")).to_be_visible()

    # Dropped, as from the desktop.
    dropped = await page.evaluate_handle(
        "content => { const data = new DataTransfer();"
        " data.items.add(new File([atob(content)], 'dropped.txt')); return data; }",
        base64.b64encode(b"by hand").decode(),
    )
    await page.dispatch_event(".files__zone", "dragover", {"dataTransfer": dropped})
    await expect(page.get_by_text("Drop to upload")).to_be_visible()
    await page.dispatch_event(".files__zone", "drop", {"dataTransfer": dropped})
    await expect(row(page, "dropped.txt")).to_be_visible()

    await choose(page, "dropped.txt", "Rename…")
    await page.get_by_label("New name").fill(".kept")
    await page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    await expect(page.get_by_text("Only a hidden file is in this folder.")).to_be_visible()
    await page.get_by_label("Show hidden files").check()
    await page.get_by_role("link", name=".kept").click()
    await expect(page.get_by_label("Content of .kept")).to_have_text("by hand")

    await page.go_back()
    await expect(row(page, ".kept")).to_be_visible()
    name, tar = await saved(page, page.get_by_role("link", name="Download as tar"), tmp_path)
    assert (name, b"by hand" in tar) == ("project.tar", True)
    await page.go_back()
    await choose(page, "project", "Delete…")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("link", name="project", exact=True)).to_have_count(0)
    await page.go_forward()
    await expect(page.get_by_role("alert")).to_contain_text("It is not there any more")


async def test_a_picture_is_shown(ann: Visit) -> None:
    page = ann.page
    await upload(page, payload("pixels.png", png()))
    await page.get_by_role("link", name="pixels.png").click()
    picture = page.get_by_role("img", name="pixels.png")
    await expect(picture).to_be_visible()
    assert await picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [2, 3]
    assert str(await picture.get_attribute("src")).startswith("data:image/png;base64,")  # no origin


async def test_nothing_a_workspace_holds_runs_on_the_dashboards_origin(ann: Visit, url: str) -> None:
    page = ann.page
    files = f"{url}/api/v1/workspaces/{workspace_of(page)}/files"
    for name, content in HOSTILE.items():
        sent = await ann.context.request.put(
            f"{files}/content", params={"path": name}, data=content.encode(), headers={"Origin": url}
        )
        assert sent.ok
    await page.get_by_role("button", name="Refresh").click()
    for name, content in HOSTILE.items():
        await page.get_by_role("link", name=name, exact=True).click()
        await expect(page.get_by_label(f"Content of {name}")).to_have_text(content)
        await page.go_back()

        # Opened by its address, in a tab of its own: it is saved, and no page.
        tab = await ann.context.new_page()
        address = f"{files}/content?path={name}"
        async with tab.expect_download() as downloading:
            with pytest.raises(Error, match=r"Download is starting|ERR_ABORTED"):
                await tab.goto(address)
        await (await downloading.value).cancel()
        await tab.close()
        answer = await ann.context.request.get(f"{files}/content", params={"path": name})
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == "attachment"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert await page.evaluate("localStorage.getItem('ran')") is None


async def test_looking_wakes_nothing(ann: Visit, url: str) -> None:
    page = ann.page
    await upload(page, payload("stays.txt", b"x"))
    await expect(row(page, "stays.txt")).to_be_visible()
    workspace = f"{url}/api/v1/workspaces/{workspace_of(page)}"
    await ann.context.request.post(f"{workspace}/stop", headers={"Origin": url})
    await expect(page.get_by_text("Asleep. Files can be seen while the workspace runs.")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("button", name="Wake")).to_be_visible()
    now = await (await ann.context.request.get(workspace)).json()
    assert now["desired_state"] == "STANDBY"
    await page.get_by_role("button", name="Wake").click()
    await expect(row(page, "stays.txt")).to_be_visible(timeout=60_000)


async def test_on_a_phone_in_korean_and_in_the_dark(ann: Visit) -> None:
    page = ann.page
    address = page.url
    await upload(page, payload("보고서.txt", "안녕".encode()))
    await expect(row(page, "보고서.txt")).to_be_visible()
    await page.goto("/account")
    await page.get_by_label("한국어").click()
    await page.get_by_label("어둡게").check()
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(address)
    await page.get_by_role("link", name="보고서.txt").click()
    await expect(page.get_by_label("보고서.txt의 내용")).to_have_text("안녕")
    assert await ann.axe() == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
