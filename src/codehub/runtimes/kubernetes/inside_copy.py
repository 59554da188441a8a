"""Copy ``inside`` into a pod that runs, when it is used there for the first time. Idempotent.

An ephemeral container does it (``inside_mount``). It is added by a patch that names the pod's uid; replicas that add it
at once agree on its name, and the second patch changes nothing. A crash after the patch leaves a copy that is finished
without us. One that failed stays so until the workspace is started again or the setting names another image: ephemeral
containers can be neither changed nor removed, and each further attempt would stay in the pod.
"""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.kubernetes import inside_mount
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, NotFound
from codehub.runtimes.kubernetes.inventory import Pod, read_pod
from codehub.runtimes.kubernetes.pods import Pods
from codehub.runtimes.kubernetes.reasons import waiting_failure
from codehub.runtimes.kubernetes.settings import KubernetesSettings

_SECONDS = 20.0
"""For the image to be pulled as well; what takes longer goes on, and the next command finds it."""


class InsideCopies:
    """Brings ``inside`` into pods of one namespace."""

    def __init__(self, api: ApiClient, pods: Pods, settings: KubernetesSettings) -> None:
        self._api = api
        self._pods = pods
        self._image = settings.inside_image
        self._user = settings.user

    async def ensure(self, pod: Pod) -> None:
        """Return when ``inside`` is in the pod. Raises ``EXEC_FAILED`` with why it is not."""
        if inside_mount.is_copied(pod.document):
            return
        if self._image is None or not inside_mount.has_mount(pod.document):
            raise _failed("this workspace was started without it. Start it again")
        container = inside_mount.copying_container(self._image, user=self._user)
        name = str(container["name"])
        if not inside_mount.is_asked_for(pod.document, name):
            pod = await self._ask(pod, container)
        async with aclosing(self._pods.follow(pod, seconds=_SECONDS, known=True)) as states:
            async for current in states:
                if current is None or not current.is_running:
                    raise _failed("the workspace ended")
                if inside_mount.is_copied(current.document):
                    return
                _raise_failure(inside_mount.copying_status(current.document, name))
        raise _failed(f"its image {self._image} is not there after {_SECONDS:g} s. Try again")

    async def _ask(self, pod: Pod, container: Mapping[str, Any]) -> Pod:
        body = {"metadata": {"uid": pod.uid}, "spec": {"ephemeralContainers": [container]}}
        path = self._pods.path(pod.name, "ephemeralcontainers")
        try:
            return read_pod(await self._api.patch(path, body, strategic=True))
        except (CallRefused, Conflict, NotFound) as error:
            raise _failed(f"the cluster refused to add a container to its pod: {error}") from error


def _raise_failure(status: Mapping[str, Any]) -> None:
    """Raise if the copying has failed, or its kubelet cannot begin with it."""
    stuck = waiting_failure(status)
    if stuck is not None:
        raise _failed(f"{stuck.message}. Check CODEHUB_KUBERNETES_INSIDE_IMAGE")
    if (ended := inside_mount.terminated_of(status)) and ended.get("exitCode") != 0:
        said = str(ended.get("message") or "").strip() or f"it ended with {ended.get('exitCode')}"
        raise _failed(
            f"it could not be copied from {status.get('image')}: {said}. Check CODEHUB_KUBERNETES_INSIDE_IMAGE, then "
            "start the workspace again"
        )


def _failed(why: str) -> EffectError:
    return EffectError(
        FailureCode.EXEC_FAILED, f"The program for commands is not in the workspace: {why.rstrip('.')}."
    )
