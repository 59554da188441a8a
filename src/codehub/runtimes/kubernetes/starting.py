"""Wait until a released pod runs, and say why if it does not.

Three waits follow each other, each with a limit of its own: for a node (an autoscaler may be making one), for the
kubelet to start the container (it may be pulling the image), and for the container to listen or to live for a
moment. The pod is watched, not polled: a start should cost no more than the pod itself. While it waits for a node,
``NodeWait`` says so again and again.
"""

import asyncio
from contextlib import aclosing, suppress
from typing import Any

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import Address, OnWait
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, NotFound, namespaced
from codehub.runtimes.kubernetes.inventory import Pod
from codehub.runtimes.kubernetes.node_wait import NodeWait
from codehub.runtimes.kubernetes.pods import Pods
from codehub.runtimes.kubernetes.reasons import start_ended, start_failure, unscheduled

TAIL_LINES = 40
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.05
_UNWATCHED_SECONDS = 0.1
_DAY_SECONDS = 86400.0


class Starts:
    def __init__(
        self, api: ApiClient, pods: Pods, *, namespace: str, schedule_seconds: float, start_seconds: float
    ) -> None:
        self._api = api
        self._pods = pods
        self._namespace = namespace
        self._schedule_seconds = schedule_seconds
        self._start_seconds = start_seconds

    async def wait_until_started(self, pod: Pod, *, on_wait: OnWait = None) -> Pod:
        """The pod once it runs or has ended. ``pod`` was just read. Raises why it cannot start."""
        try:
            async with (
                asyncio.timeout(self._schedule_seconds) as limit,
                NodeWait(on_wait) as wait,
                aclosing(self._pods.follow(pod, seconds=_DAY_SECONDS, known=True)) as states,
            ):
                async for current in states:
                    if current is None:
                        raise _removed(pod)
                    wait.see(current)
                    if current.is_running or current.has_ended:
                        return current
                    if (failure := start_failure(current)) is not None:
                        raise failure
                    if pod.node is None and current.node is not None:
                        limit.reschedule(asyncio.get_running_loop().time() + self._start_seconds)
                    pod = current
        except TimeoutError:
            pass
        if pod.node is None:
            raise unscheduled(pod, seconds=self._schedule_seconds)
        said = await self._last_warning(pod) or "nothing is told why"
        raise EffectError(
            FailureCode.CONTAINER_START_FAILED,
            f"The pod did not start on {pod.node} within {self._start_seconds:g} s: {said}",
            node=pod.node,
        )

    async def settle(self, pod: Pod, *, seconds: float) -> None:
        """Return when the pod listens, or ``seconds`` are over. Raises if it ends before."""
        listens = asyncio.create_task(_wait_until_listening(pod.address))
        waiting: set[asyncio.Task[Any]] = {listens}
        try:
            # Most listen by now. Only for those that do not a second watch is opened, which is a connection.
            await asyncio.wait(waiting, timeout=min(seconds, _UNWATCHED_SECONDS))
            if listens.done():
                return
            ended = asyncio.create_task(self._wait_until_ended(pod, seconds=seconds))
            waiting.add(ended)
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            last = ended.result() if ended.done() else None
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        if last is not None:
            raise await self.report(last)

    async def report(self, pod: Pod) -> EffectError:
        """The failure of a pod that ended right after it was started, with its last lines."""
        return start_ended(pod, output=await self.last_lines(pod))

    async def last_lines(self, pod: Pod) -> list[str]:
        output = b""
        with suppress(NotFound, CallRefused):
            pieces = self._api.output(
                self._pods.path(pod.name, "log"), container=pod.container_name, tailLines=str(TAIL_LINES)
            )
            async for piece in pieces:
                output += piece
        return output.decode(errors="replace").splitlines()[-TAIL_LINES:]

    async def _wait_until_ended(self, pod: Pod, *, seconds: float) -> Pod | None:
        async with aclosing(self._pods.follow(pod, seconds=seconds)) as states:
            async for current in states:
                if current is None:
                    raise _removed(pod)
                if current.has_ended:
                    return current
        return None

    async def _last_warning(self, pod: Pod) -> str:
        """What the kubelet said last against this pod: a volume that cannot be mounted, for example."""
        with suppress(EffectError):  # reading events may not be allowed
            events = await self._api.list(
                namespaced(self._namespace, "events"), fields=f"involvedObject.uid={pod.uid},type=Warning"
            )
            if events:
                last = max(
                    events, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or "")
                )
                return f"{last.get('reason')}: {last.get('message')}"
        return ""


async def _wait_until_listening(address: Address | None) -> None:
    pause = _FIRST_PAUSE_SECONDS
    while address is None or not await _accepts(address):
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


async def _accepts(address: Address) -> bool:
    try:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _removed(pod: Pod) -> EffectError:
    return EffectError(
        FailureCode.CONTAINER_START_FAILED,
        f"The pod {pod.name} was removed by somebody else while it started.",
    )
