"""Watch for pods of workspaces that ended or were removed.

The Observer gets a hint only: it finds every ended pod by itself, later. So a watch that breaks is opened again from
now, and missed events are not recovered. What took a pod away (an eviction, a preemption, its node) goes with its
object, so the last word about a removed pod is kept here for a while; lost with the process, it is not known.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing
from uuid import UUID

import structlog

from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, Expired, NotFound, namespaced
from codehub.runtimes.kubernetes.inventory import read_pod
from codehub.runtimes.kubernetes.names import ROLE, Document, Names, ObjectRole, find_workspace
from codehub.runtimes.kubernetes.reasons import ending_of

OnExit = Callable[[UUID], None]

log = structlog.get_logger(__name__)

_WATCH_SECONDS = 300.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_MOST_KEPT = 1000


class ExitWatch:
    def __init__(self, api: ApiClient, names: Names, on_exit: OnExit | None, *, namespace: str) -> None:
        self._api = api
        self._on_exit = on_exit
        self._path = namespaced(namespace, "pods")
        self._labels = f"{names.ours},{ROLE}={ObjectRole.WORKSPACE.value}"
        self._endings: OrderedDict[UUID, Ending] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._on_exit is not None and self._task is None:
            self._task = asyncio.create_task(self._listen())

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])

    def find_ending(self, workspace_id: UUID) -> Ending | None:
        """How the last pod of a workspace was taken away, if that was seen."""
        return self._endings.get(workspace_id)

    def forget(self, workspace_id: UUID) -> None:
        """A new pod is being started: what became of the last one is of no interest."""
        self._endings.pop(workspace_id, None)

    async def _listen(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                version = await self._api.newest_version(self._path)
                events = self._api.watch(
                    self._path, version=version, seconds=_WATCH_SECONDS, labelSelector=self._labels
                )
                async with aclosing(events):
                    async for kind, found in events:
                        pause = _FIRST_PAUSE_SECONDS
                        self._note(kind, found)
                pause = _FIRST_PAUSE_SECONDS
            except (EffectError, NotFound, CallRefused, Conflict, Expired) as error:
                log.info("not hearing from the Kubernetes API", error=str(error), pause_seconds=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _note(self, kind: str, found: Document) -> None:
        workspace_id = find_workspace(found)
        if workspace_id is None or kind not in ("MODIFIED", "DELETED"):
            return
        try:
            pod = read_pod(found)
        except (KeyError, TypeError):
            return
        ending = ending_of(pod)
        if ending is not None and ending.disruption is not None:
            self._endings[workspace_id] = ending
            while len(self._endings) > _MOST_KEPT:
                self._endings.popitem(last=False)
        if self._on_exit is not None and (kind == "DELETED" or pod.has_ended):
            self._on_exit(workspace_id)
