"""Say in people's words why a pod does not run, or how it ended. Pure.

The words are the kubelet's, the scheduler's or an admission plug-in's own where they have any: they name the node, the
quota or the registry, which is what an operator needs.
"""

from collections.abc import Mapping
from typing import Any

from codehub.domain.endings import Disruption, Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.kubernetes.client import CallRefused
from codehub.runtimes.kubernetes.inventory import Pod
from codehub.runtimes.kubernetes.quantities import find_bytes

_NO_IMAGE = {
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
}
_NO_CONTAINER = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreStartHookError",
}
_DISRUPTIONS = {
    "Evicted": Disruption.EVICTED,
    "TerminationByKubelet": Disruption.EVICTED,
    "EvictionByEvictionAPI": Disruption.EVICTED,
    "Preempting": Disruption.PREEMPTED,
    "PreemptionByScheduler": Disruption.PREEMPTED,
    "NodeLost": Disruption.NODE_LOST,
    "NodeShutdown": Disruption.NODE_LOST,
    "Terminated": Disruption.NODE_LOST,  # by a kubelet that shuts its node down
    "DeletionByTaintManager": Disruption.NODE_LOST,
    "DeletionByPodGC": Disruption.NODE_LOST,
}
NO_SCHEDULER = "no scheduler has looked at it"


def refusal(error: CallRefused, *, what: str) -> EffectError:
    """A call the API server, a quota or an admission plug-in refused. ``what``: as "The pod"."""
    message = str(error)
    if "exceeded quota" in message:
        return EffectError(
            FailureCode.QUOTA_EXCEEDED, f"{what} does not fit into the namespace's quota: {message}"
        )
    return EffectError(FailureCode.ADMISSION_REFUSED, f"{what} was refused by the cluster: {message}")


def start_failure(pod: Pod) -> EffectError | None:
    """Why a pod that has a node will not start; None: it may yet."""
    return waiting_failure(pod.container)


def waiting_failure(container: Mapping[str, Any]) -> EffectError | None:
    """Why the kubelet cannot begin with a container, by its status; None: it may yet."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if reason in _NO_IMAGE:
        image = str(container.get("image") or "")
        return EffectError(
            FailureCode.IMAGE_PULL_FAILED,
            f"The image {image} could not be pulled ({reason}): {message}",
            image=image,
        )
    if reason in _NO_CONTAINER:
        return EffectError(FailureCode.CONTAINER_START_FAILED, f"{reason}: {message}")
    return None


def scheduler_words(pod: Pod) -> str:
    """Why no node takes the pod, as the scheduler says; empty: it has said nothing."""
    return str(_condition(pod, "PodScheduled").get("message") or "")


def unscheduled(pod: Pod, *, seconds: float) -> EffectError:
    """A pod that no node took in time, with what the scheduler says of it."""
    said = scheduler_words(pod) or NO_SCHEDULER
    return EffectError(
        FailureCode.UNSCHEDULABLE, f"No node took the workspace within {seconds:g} s: {said}", scheduler=said
    )


def home_node_unavailable(error: EffectError, *, node: str) -> EffectError:
    """No node took a pod whose home is on one of them."""
    said = str(error.context.get("scheduler") or error.message)
    return EffectError(
        FailureCode.HOME_NODE_UNAVAILABLE,
        f"The home of this workspace is on the node {node}, which did not take it: {said} The home is whole as long "
        "as that node can come back. If it is lost for good, what was written since the last archive is lost too.",
        node=node,
        scheduler=said,
    )


def not_gone(pod: Pod, *, seconds: float) -> EffectError:
    """A pod that is being deleted and stays: its node has not confirmed that its containers ended."""
    node = pod.node or "its node"
    return EffectError(
        FailureCode.CONTAINER_STOP_FAILED,
        f"The pod {pod.name} is not gone after {seconds:g} s: {node} has not confirmed that its containers have "
        "ended. If that node is lost for good, delete it or taint it node.kubernetes.io/out-of-service once it is "
        "certainly off: CodeHub never removes a pod that may still write to its home.",
        node=pod.node,
        pod=pod.name,
    )


def ending_of(pod: Pod) -> Ending | None:
    """How a pod ended; None: it has not, or nothing is known."""
    disruption, detail = _disruption(pod)
    terminated = (pod.container.get("state") or {}).get("terminated") or {}
    if not pod.has_ended and disruption is None:
        return None
    exit_code = terminated.get("exitCode")
    return Ending(
        exit_code=None if exit_code is None else int(exit_code),
        out_of_memory=terminated.get("reason") == "OOMKilled",
        memory_limit_bytes=_memory_limit(pod),
        disruption=disruption,
        detail=detail,
    )


def start_ended(pod: Pod, *, output: list[str]) -> EffectError:
    """A pod that ended right after it was started."""
    ending = ending_of(pod) or Ending()
    terminated = (pod.container.get("state") or {}).get("terminated") or {}
    said = str(terminated.get("message") or "") if terminated.get("reason") not in (None, "Error") else ""
    failure = (
        FailureCode.CONTAINER_START_FAILED
        if ending.failure is FailureCode.CONTAINER_ENDED
        else ending.failure
    )
    context = {key: value for key, value in ending.context.items() if key != "code"}
    message = f"The container {ending.words}, right after it was started."
    return EffectError(failure, f"{message} {said}".strip(), **context, output=output)


def _disruption(pod: Pod) -> tuple[Disruption | None, str]:
    """Who ended the pod, if it was not its own program, and their words."""
    reason = str(pod.status.get("reason") or "")
    if reason in _DISRUPTIONS:
        return _DISRUPTIONS[reason], str(pod.status.get("message") or "")
    condition = _condition(pod, "DisruptionTarget")
    if condition.get("status") == "True":
        found = _DISRUPTIONS.get(str(condition.get("reason") or ""), Disruption.EVICTED)
        return found, str(condition.get("message") or "")
    return None, ""


def _condition(pod: Pod, kind: str) -> Mapping[str, Any]:
    for each in pod.status.get("conditions") or ():
        if each.get("type") == kind:
            return dict(each)
    return {}


def _memory_limit(pod: Pod) -> int | None:
    containers = (pod.document.get("spec") or {}).get("containers") or [{}]
    return find_bytes(((containers[0].get("resources") or {}).get("limits") or {}).get("memory"))
