"""What most of these tests share: one Chromium and one signed-in admin for all tests of a file."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from tests.e2e.browser import AdminApi, chromium


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as launched:
        yield launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(url: str) -> AsyncIterator[AdminApi]:
    """Of the CodeHub at ``url``, which each file starts for itself."""
    async with AdminApi.open(url) as api:
        yield api
