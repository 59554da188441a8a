"""From asleep to a usable editor, as a person sees it: JupyterLab in Chromium, by its link.

A second image starts the same JupyterLab as its own documentation says (``python -m jupyterlab``). Usable means: the
launcher is drawn, with the kernels that the server told. CPU time is that of JupyterLab's server until then; it says
what the start costs on a machine that does other things as well.
"""

import json
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from playwright.async_api import Page, async_playwright

from bench.codehub_side import CodeHub, Events, codehub, events
from bench.processes import command_line, cpu_seconds
from bench.runner import Bar, Measure, Report, take_turns
from bench.starts import stop
from codehub.runtimes.local.ides.catalogue import JUPYTER_STARTER
from codehub.runtimes.local.images import default_images

SECONDS = 120_000.0


async def editor(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "editor",
        "asleep → a usable JupyterLab in Chromium, by its link",
        bars=[
            Bar("seconds", "codehub", at_most=2.5),
            Bar("server CPU seconds", "codehub", "python -m jupyterlab", at_most=0.5),
        ],
    )
    ours = default_images()["jupyterlab"]
    images = {"codehub": ours, "python -m jupyterlab": ours.replace(str(JUPYTER_STARTER), "-m jupyterlab")}
    async with (
        codehub(directory, LOCAL_IMAGES=json.dumps(images)) as hub,
        events(hub) as seen,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        context = await browser.new_context(base_url=hub.url)
        await context.add_cookies(
            [{"name": name, "value": value, "url": hub.url} for name, value in hub.client.cookies.items()]
        )
        sides: dict[str, Measure] = {}
        for number, image in enumerate(images):
            workspace_id = await hub.create(f"editor-{number}", image=image)
            await seen.until(workspace_id, "running")
            await stop(hub, seen, workspace_id)
            sides[image] = _measure(hub, seen, await context.new_page(), workspace_id)
        for side in sides.values():  # the browser's cache is nobody's figure
            await side()
        await take_turns(report, sides, rounds=rounds)
        await browser.close()
    return report


def _measure(hub: CodeHub, seen: Events, page: Page, workspace_id: str) -> Measure:
    async def once() -> Mapping[str, float]:
        began = time.perf_counter()
        await page.goto(f"/w/{workspace_id}/", wait_until="commit")
        await page.locator(".jp-Launcher .jp-LauncherCard").first.wait_for(timeout=SECONDS)
        took = time.perf_counter() - began
        cpu = cpu_seconds(_servers(workspace_id))
        await page.goto("about:blank")
        await stop(hub, seen, workspace_id)
        return {"seconds": took, "server CPU seconds": cpu}

    return once


def _servers(workspace_id: str) -> list[int]:
    """JupyterLab's own process: neither the sandbox around it nor kernels below it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            line = command_line(int(entry.name))
            if line.startswith(sys.executable) and f"/w/{workspace_id}/" in line:
                found.append(int(entry.name))
    return found
