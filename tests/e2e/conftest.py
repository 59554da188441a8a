"""What most of these tests share: one Chromium and one signed-in admin for all tests of a file."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from tests.e2e.browser import chromium
from tests.support.people import Person


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as launched:
        yield launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(url: str) -> AsyncIterator[Person]:
    """Of the CodeHub at ``url``, which each file starts for itself."""
    async with Person.admin(url) as person:
        yield person
