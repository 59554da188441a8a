"""Create, release, watch and remove pods. Idempotent, fenced.

A pod is created with a scheduling gate and released by a patch that names its uid and resource version (``fences``).
It is removed with the grace period of its own specification, never by force: an object that was removed by force may
have containers that still write to the home. Removing ends when the object is gone.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.base import FencingToken
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, Expired, NotFound, namespaced
from codehub.runtimes.kubernetes.inventory import Pod, read_pod
from codehub.runtimes.kubernetes.names import TOKEN, Document, token_text, unchanged
from codehub.runtimes.kubernetes.reasons import not_gone, refusal

_WATCH_SECONDS = 60.0
_TRIES = 20

Check = Callable[[], Awaitable[None]]
"""Raises ``STALE_TOKEN`` if a newer leader has taken over."""


async def no_check() -> None:
    """For what is ours to remove whatever the fence says."""


class Pods:
    def __init__(self, api: ApiClient, *, namespace: str, gone_seconds: float) -> None:
        self._api = api
        self._namespace = namespace
        self._gone_seconds = gone_seconds

    def path(self, name: str, *rest: str) -> str:
        return namespaced(self._namespace, "pods", name, *rest)

    async def find(self, name: str) -> Pod | None:
        try:
            return read_pod(await self._api.get(self.path(name)))
        except NotFound:
            return None

    async def create(self, manifest: Document) -> Pod | None:
        """Create a gated pod; None: its name is taken."""
        try:
            return read_pod(await self._api.create(self.path(""), manifest))
        except Conflict:
            return None
        except (CallRefused, NotFound) as error:
            refused = error if isinstance(error, CallRefused) else CallRefused(str(error), status=404)
            raise refusal(refused, what="The pod") from error

    async def release(self, pod: Pod, *, check: Check) -> Pod:
        """Remove the gate. The caller has read the fence since it read the pod."""
        for _ in range(_TRIES):
            body = {"metadata": unchanged(pod.uid, pod.version), "spec": {"schedulingGates": []}}
            try:
                return read_pod(await self._api.patch(self.path(pod.name), body))
            except NotFound:
                await check()
                raise _vanished(pod) from None
            except Conflict:
                await check()
                pod = await self._same(pod)
                if not pod.gated:
                    return pod  # by another process with the same token
                await check()
            except CallRefused as error:
                raise refusal(error, what="The pod") from error
        raise _vanished(pod)

    async def stamp(self, pod: Pod, token: FencingToken, *, check: Check) -> None:
        """Put our token on a pod that is kept, so that an older leader's call finds it changed."""
        for _ in range(_TRIES):
            if pod.token >= token:
                return
            body = {
                "metadata": {**unchanged(pod.uid, pod.version), "annotations": {TOKEN: token_text(token)}}
            }
            try:
                await self._api.patch(self.path(pod.name), body)
            except NotFound:
                await check()
                raise _vanished(pod) from None
            except Conflict:
                await check()
                pod = await self._same(pod)
            else:
                return
        raise _vanished(pod)

    async def remove(self, pod: Pod, *, check: Check) -> None:
        """Delete a pod and return when it is gone. A pod that took its name meanwhile is left alone."""
        for _ in range(_TRIES):
            if pod.terminating:
                break
            try:
                await self._api.delete(self.path(pod.name), uid=pod.uid, version=pod.version)
                break
            except NotFound:
                return
            except Conflict:
                current = await self.find(pod.name)
                if current is None or current.uid != pod.uid:
                    return
                await check()
                pod = current
            except CallRefused as error:
                raise EffectError(FailureCode.CONTAINER_STOP_FAILED, str(error)) from error
        await self._wait_until_gone(pod)

    async def follow(
        self, pod: Pod, *, seconds: float, known: bool = False
    ) -> AsyncGenerator[Pod | None, None]:
        """The pod as it is now and after each change, for ``seconds``; None: it is gone, which is the last.

        ``known``: ``pod`` was just read, so the first look is not taken.
        """
        deadline = monotonic() + seconds
        while True:
            current = pod if known else await self.find(pod.name)
            known = False
            if current is None or current.uid != pod.uid:
                yield None
                return
            yield current
            left = deadline - monotonic()
            if left <= 0:
                return
            with suppress(Expired):  # too old: read it again
                async with aclosing(self._changes(current, seconds=min(left, _WATCH_SECONDS))) as changes:
                    async for change in changes:
                        yield change
                        if change is None:
                            return

    async def _changes(self, pod: Pod, *, seconds: float) -> AsyncGenerator[Pod | None, None]:
        events = self._api.watch(
            self.path(""), version=pod.version, seconds=seconds, fieldSelector=f"metadata.name={pod.name}"
        )
        async with aclosing(events):
            async for kind, found in events:
                if kind not in ("ADDED", "MODIFIED", "DELETED"):
                    continue
                current = read_pod(found)
                if kind == "DELETED" or current.uid != pod.uid:
                    yield None
                    return
                yield current

    async def _wait_until_gone(self, pod: Pod) -> None:
        grace = float((pod.document.get("spec") or {}).get("terminationGracePeriodSeconds") or 30)
        seconds = grace + self._gone_seconds
        async with aclosing(self.follow(pod, seconds=seconds)) as states:
            async for current in states:
                if current is None:
                    return
                pod = current
        raise not_gone(pod, seconds=seconds)

    async def _same(self, pod: Pod) -> Pod:
        current = await self.find(pod.name)
        if current is None or current.uid != pod.uid or current.terminating:
            raise _vanished(pod)
        return current


def _vanished(pod: Pod) -> EffectError:
    return EffectError(
        FailureCode.CONTAINER_START_FAILED, f"The pod {pod.name} was removed by somebody else."
    )
