"""Check that an image is allowed, and pull it if the engine lacks it.

An image on the engine is used as it is, without asking a registry, so a registry that is away stops no start. A
missing one is pulled once, however many workspaces wait for it. A pull outlives the call that began it: a start
that times out while a large image is pulled finds it on its retry.
"""

from collections.abc import Sequence
from functools import partial

import structlog

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.kit.single_flight import SingleFlight
from codehub.runtimes.docker.engine import CallRefused, Conflict, DockerEngine, Document, NotFound

log = structlog.get_logger(__name__)

_REPORT_SECONDS = 10.0


class EngineImages:
    def __init__(self, engine: DockerEngine, allowed: Sequence[str]) -> None:
        self.allowed = list(allowed)
        self._engine = engine
        self._pulls: SingleFlight[str, None] = SingleFlight()

    def require_allowed(self, reference: str) -> None:
        if not reference or (self.allowed and reference not in self.allowed):
            raise EffectError(
                FailureCode.IMAGE_UNKNOWN, f"no image is called {reference!r}", known=list(self.allowed)
            )

    async def get(self, reference: str) -> Document:
        """The image's description; pulled first if the engine lacks it."""
        try:
            return await self._engine.image(reference)
        except NotFound:
            await self._pulls.run(reference, partial(self._pull, reference))
        except CallRefused as error:
            raise _failed(reference, str(error)) from error
        try:
            return await self._engine.image(reference)
        except (NotFound, CallRefused) as error:
            raise _failed(reference, str(error)) from error

    async def find(self, reference: str) -> Document | None:
        """The image's description; None: the engine lacks it."""
        try:
            return await self._engine.image(reference)
        except (NotFound, CallRefused):
            return None

    async def close(self) -> None:
        await self._pulls.close()

    async def _pull(self, reference: str) -> None:
        log.info("pulling image", image=reference)
        layers: dict[str, tuple[int, int]] = {}
        told_at = monotonic()
        try:
            async for line in self._engine.pull(reference):
                detail = line.get("progressDetail") or {}
                if detail.get("total") and line.get("status") == "Downloading":
                    layers[str(line.get("id"))] = int(detail.get("current") or 0), int(detail["total"])
                if layers and monotonic() - told_at > _REPORT_SECONDS:
                    told_at = monotonic()
                    done, total = (sum(each) for each in zip(*layers.values(), strict=True))
                    log.info("pulling image", image=reference, done_bytes=done, total_bytes=total)
        except (NotFound, CallRefused, Conflict) as error:
            raise _failed(reference, str(error)) from error


def _failed(reference: str, why: str) -> EffectError:
    return EffectError(
        FailureCode.IMAGE_PULL_FAILED,
        f"The image {reference} is not on this engine and could not be pulled: {why}",
        image=reference,
    )
