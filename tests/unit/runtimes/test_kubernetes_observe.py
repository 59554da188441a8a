"""A look at the whole cluster: two listings side by side, and no pod without the claim it was made after."""

import asyncio
from typing import Any

from codehub.runtimes.base import Sighting
from codehub.runtimes.kubernetes.inventory import observation
from codehub.runtimes.kubernetes.observe import ClusterObserver
from tests.unit.runtimes.test_kubernetes_sight import NAMES, WS, claim, pod


class Listings:
    """An API server whose claims change from one listing to the next."""

    def __init__(self, *claims: list[dict[str, Any]]) -> None:
        self.claims = list(claims)
        self.open: set[str] = set()
        self.together = asyncio.Event()

    async def list(self, path: str, *, labels: str) -> list[dict[str, Any]]:
        assert labels == NAMES.ours
        kind = path.rpartition("/")[2]
        self.open.add(kind)
        if len(self.open) == 2:
            self.together.set()
        await self.together.wait()
        return [pod()] if kind == "pods" else self.claims.pop(0)


class Marker:
    async def require(self) -> None:
        pass


async def sighting(listings: Listings) -> Sighting:
    observer = ClusterObserver(listings, NAMES, Marker(), namespace="ns")  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        return observation(await observer.observe_all()).sightings[WS]


async def test_both_listings_are_asked_for_at_once() -> None:
    listings = Listings([claim()])
    assert (await sighting(listings)).volume
    assert not listings.claims


async def test_a_pod_started_between_the_listings_has_its_claim() -> None:
    assert (await sighting(Listings([], [claim()]))).volume


async def test_a_claim_that_is_lost_under_its_pod_is_reported_lost() -> None:
    assert not (await sighting(Listings([], []))).volume
