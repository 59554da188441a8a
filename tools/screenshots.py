"""``make screenshots``: the pictures of the README, taken from the real product.

Starts ``codehub up --demo`` with a data directory of its own, opens it in Chromium and writes docs/images: the list,
one workspace, and a short animation of a workspace that wakes.
"""

import asyncio
import os
import shutil
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from playwright.async_api import Page, ViewportSize, async_playwright, expect
from tests.support.ports import free_port

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PASSWORD = "demo password"
VIEW: ViewportSize = {"width": 1200, "height": 750}
SMALL: ViewportSize = {"width": 960, "height": 600}
READY_SECONDS = 300.0
FRAME_MILLISECONDS = 400
LAST_FRAME_MILLISECONDS = 3000
MAX_FRAMES = 40


async def main() -> None:
    if (browser := shutil.which("chromium")) is None:
        sys.exit("make screenshots needs a browser: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    async with _codehub() as url, async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        context = await chromium.new_context(viewport=VIEW, device_scale_factor=1.5)
        page = await context.new_page()
        await _sign_in(page, url)
        await _photograph(page, url)
        small = await chromium.new_context(viewport=SMALL, storage_state=await context.storage_state())
        write_animation(IMAGES / "waking.png", await _wake(await small.new_page(), url))
        await chromium.close()


@asynccontextmanager
async def _codehub() -> AsyncIterator[str]:
    """A new installation with the demo's workspaces, one of each kind."""
    url = f"http://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as directory:
        environ = {
            **os.environ,
            "CODEHUB_DATA_DIR": directory,
            "CODEHUB_BIND": url.removeprefix("http://"),
            "CODEHUB_ADMIN_PASSWORD": PASSWORD,
        }
        process = await asyncio.create_subprocess_exec(
            ROOT / ".venv/bin/codehub", "up", "--demo", env=environ, stdout=sys.stderr
        )
        try:
            await _until_settled(url)
            yield url
        finally:
            process.terminate()
            await process.wait()


async def _until_settled(url: str) -> None:
    wanted = {"running", "standby", "archived"}
    headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    async with asyncio.timeout(READY_SECONDS), httpx.AsyncClient(base_url=url, headers=headers) as client:
        while True:
            await asyncio.sleep(1)
            try:
                await client.post("/api/v1/auth/login", json={"username": "admin", "password": PASSWORD})
                answer = await client.get("/api/v1/workspaces")
            except httpx.TransportError:
                continue  # not listening yet
            if answer.is_success and {each["status"] for each in answer.json()["items"]} == wanted:
                return


async def _sign_in(page: Page, url: str) -> None:
    await page.goto(url)
    await page.locator("input[autocomplete=username]").fill("admin")
    await page.locator("input[type=password]").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.locator("[data-workspace]").first.wait_for()


async def _photograph(page: Page, url: str) -> None:
    await page.locator("[aria-label='old-project']").first.wait_for()
    await page.screenshot(path=IMAGES / "list.png")
    await page.goto(f"{url}/workspaces/{await _id(page, 'thesis')}")
    await page.locator(".timeline__item").first.wait_for()
    await expect(page.get_by_text("Loading…")).to_have_count(0)  # what listens inside is asked for last
    await page.screenshot(path=IMAGES / "workspace.png")


async def _wake(page: Page, url: str) -> list[bytes]:
    """Open the link of the archived workspace, and look until its editor is there."""
    await page.goto(url)
    await page.locator("[data-workspace]").first.wait_for()
    link = f"{url}/w/{await _id(page, 'old-project')}/"
    frames = [await page.screenshot()]
    await page.goto(link)
    for _ in range(MAX_FRAMES):
        frames.append(await page.screenshot())
        if await page.locator("#jp-top-panel, .jp-Launcher").count():
            break
        await asyncio.sleep(FRAME_MILLISECONDS / 1000)
    await page.locator(".jp-Launcher").first.wait_for(timeout=READY_SECONDS * 1000)
    return [*frames, await page.screenshot()]


async def _id(page: Page, name: str) -> str:
    found = await page.locator(f"[aria-label='{name}'][data-workspace]").first.get_attribute("data-workspace")
    assert found is not None
    return found


def write_animation(path: Path, frames: Sequence[bytes]) -> None:
    """Join PNGs of one size and kind to an animated PNG. A frame that repeats the one before lengthens it."""
    shown: list[tuple[bytes, int]] = []
    for frame in frames:
        if shown and shown[-1][0] == frame:
            shown[-1] = (frame, shown[-1][1] + FRAME_MILLISECONDS)
        else:
            shown.append((frame, FRAME_MILLISECONDS))
    shown[-1] = (shown[-1][0], LAST_FRAME_MILLISECONDS)
    numbers = iter(range(2 * len(shown)))
    head = dict(_chunks(shown[0][0]))[b"IHDR"]
    width, height = struct.unpack(">II", head[:8])
    parts = [b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", head), _chunk(b"acTL", struct.pack(">II", len(shown), 0))]
    for index, (frame, milliseconds) in enumerate(shown):
        place = struct.pack(">IIIIIHHBB", next(numbers), width, height, 0, 0, milliseconds, 1000, 0, 0)
        parts.append(_chunk(b"fcTL", place))
        data = b"".join(content for kind, content in _chunks(frame) if kind == b"IDAT")
        if index == 0:
            parts.append(_chunk(b"IDAT", data))
        else:
            parts.append(_chunk(b"fdAT", struct.pack(">I", next(numbers)) + data))
    path.write_bytes(b"".join([*parts, _chunk(b"IEND", b"")]))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 8
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        place += 12 + length


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


if __name__ == "__main__":
    started = time.monotonic()
    asyncio.run(main())
    print(f"Pictures are in {IMAGES.relative_to(ROOT)}, after {time.monotonic() - started:.0f} s.")
