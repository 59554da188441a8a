"""Make a few workspaces in different states, for ``codehub up --demo`` and ``make dev``.

Idempotent: what exists is left alone.
"""

import asyncio
from collections.abc import Mapping

import httpx

WORKSPACES: Mapping[str, str | None] = {"thesis": None, "scratch": "stop", "old-project": "archive"}
"""Name → what is done with it once it runs."""

LOOK_SECONDS = 0.2
START_SECONDS = 120.0


async def make_demo(url: str, *, username: str, password: str) -> None:
    """Sign in and make the workspaces, one after the other: they share the running places.

    Raises ``httpx.HTTPError`` or ``TimeoutError`` if the server refuses, or a workspace does not start.
    """
    headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    async with httpx.AsyncClient(
        base_url=f"{url}/api/v1", headers=headers, timeout=60, trust_env=False
    ) as client:
        signed_in = await client.post("/auth/login", json={"username": username, "password": password})
        signed_in.raise_for_status()
        for name, verb in WORKSPACES.items():
            made = await client.post("/workspaces", json={"name": name, "start": True})
            if made.status_code == httpx.codes.CONFLICT:
                continue
            made.raise_for_status()
            if verb is not None:
                await _until_running(client, made.json()["id"])
                (await client.post(f"/workspaces/{made.json()['id']}/{verb}")).raise_for_status()


async def _until_running(client: httpx.AsyncClient, workspace_id: str) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            answer = await client.get(f"/workspaces/{workspace_id}")
            answer.raise_for_status()
            if answer.json()["status"] == "running":
                return
            await asyncio.sleep(LOOK_SECONDS)
