"""What is made of a cluster's answers: states, reasons in words, and nothing from what cannot be read."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.domain.endings import CrashKind
from codehub.domain.errors import FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Address, FencingToken, Sighting
from codehub.runtimes.kubernetes.client import CallRefused
from codehub.runtimes.kubernetes.inventory import find_strangers, observation, read_pod, sort_resources
from codehub.runtimes.kubernetes.names import Names, ObjectRole
from codehub.runtimes.kubernetes.reasons import (
    ending_of,
    not_gone,
    refusal,
    start_ended,
    start_failure,
    unscheduled,
)

WS = UUID("11111111-2222-3333-4444-555555555555")
NAMES = Names("here")


def pod(
    role: ObjectRole = ObjectRole.WORKSPACE, *, names: Names = NAMES, name: str | None = None, **status: Any
) -> dict[str, Any]:
    right = NAMES.job(WS) if role is ObjectRole.STORAGE_JOB else NAMES.pod(WS)
    return {
        "metadata": {
            "name": name or right,
            "uid": "u",
            "resourceVersion": "5",
            "labels": names.labels(WS, role),
            "annotations": {"codehub.token": "3.4", "codehub.port": "8081"},
        },
        "spec": {
            "nodeName": "node-1",
            "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": NAMES.home(WS)}}],
            "containers": [{"name": "workspace", "resources": {"limits": {"memory": "512Mi"}}}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.7", **status},
    }


def claim(*, names: Names = NAMES, name: str | None = None) -> dict[str, Any]:
    metadata = {"name": name or NAMES.home(WS), "uid": "c", "resourceVersion": "1"}
    return {"metadata": {**metadata, "labels": names.labels(WS, ObjectRole.HOME)}}


def sighting_of(*pods: dict[str, Any], claims: tuple[dict[str, Any], ...] = ()) -> Sighting:
    found = observation(sort_resources(NAMES, pods=pods, claims=claims))
    assert not found.unreadable
    return found.sightings.get(WS, Sighting())


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("Running", ContainerState.RUNNING),
        ("Unknown", ContainerState.RUNNING),  # its node is away: it may run
        ("Pending", ContainerState.DEAD),
        ("Failed", ContainerState.DEAD),
        ("Succeeded", ContainerState.DEAD),
    ],
)
def test_phases(phase: str, state: ContainerState) -> None:
    seen = sighting_of(pod(phase=phase), claims=(claim(),))
    assert (seen.container, seen.volume) == (state, True)
    running = state is ContainerState.RUNNING
    assert seen.address == (Address("10.0.0.7", 8081) if running else None)


def test_a_pod_that_is_being_deleted_is_there() -> None:
    going = pod()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert sighting_of(going).container is ContainerState.RUNNING


@pytest.mark.parametrize(("phase", "works"), [("Pending", True), ("Running", True), ("Succeeded", False)])
def test_storage_jobs(phase: str, works: bool) -> None:
    assert sighting_of(pod(ObjectRole.STORAGE_JOB, phase=phase)) == Sighting(storage_job=works)


@pytest.mark.parametrize(
    "theirs",
    [
        pod(names=Names("elsewhere")),
        pod(name="ws-copy"),
        pod(ObjectRole.HOME),
        {"metadata": {"name": NAMES.pod(WS)}},
        {"metadata": {"name": NAMES.pod(WS), "labels": {"codehub.workspace": "nonsense"}}},
    ],
)
def test_what_is_not_ours_by_name_and_labels_is_left_out(theirs: dict[str, Any]) -> None:
    assert sort_resources(NAMES, pods=[theirs], claims=[]) == {}


def test_an_unreadable_item_fails_nothing_else() -> None:
    other = uuid4()
    broken = pod()
    del broken["metadata"]["uid"]
    fine = claim(name=NAMES.home(other))
    fine["metadata"]["labels"] = NAMES.labels(other, ObjectRole.HOME)
    found = observation(sort_resources(NAMES, pods=[broken], claims=[claim(), fine]))
    assert found.unreadable == {WS}
    assert found.sightings == {other: Sighting(volume=True)}


def test_strangers_on_a_home() -> None:
    theirs = pod(names=Names("elsewhere"), name="debugger")
    copied = pod(name="ws-copy")
    over = pod(name="done", phase="Succeeded")
    elsewhere = {"metadata": {"name": "x"}, "spec": {"volumes": [{"name": "y", "emptyDir": {}}]}}
    pods = [pod(), pod(ObjectRole.STORAGE_JOB), theirs, copied, over, elsewhere]
    assert find_strangers(NAMES, WS, pods) == ["debugger", "ws-copy"]


def terminated(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "workspace", "state": state}]}


def waiting(reason: str, message: str = "because") -> dict[str, Any]:
    return {
        "phase": "Pending",
        "containerStatuses": [
            {"name": "workspace", "state": {"waiting": {"reason": reason, "message": message}}}
        ],
    }


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "reason": reason, "message": message}]}


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        ({"phase": "Failed", **terminated(3)}, CrashKind.EXIT, "ended by itself with exit code 3"),
        (
            {"phase": "Failed", **terminated(137, "OOMKilled")},
            CrashKind.OUT_OF_MEMORY,
            "ran out of memory and was killed (its limit is 512 MiB)",
        ),
        (
            {
                "phase": "Failed",
                "reason": "Evicted",
                "message": "The node was low on resource: ephemeral-storage.",
            },
            CrashKind.EVICTED,
            "was evicted from its node (The node was low on resource: ephemeral-storage.)",
        ),
        (
            condition("DisruptionTarget", "True", "PreemptionByScheduler", "preempting to accommodate"),
            CrashKind.PREEMPTED,
            "had to make room for something more important (preempting to accommodate)",
        ),
        (
            condition("DisruptionTarget", "True", "DeletionByTaintManager"),
            CrashKind.NODE_LOST,
            "was lost with its node",
        ),
    ],
)
def test_endings(status: dict[str, Any], kind: CrashKind, words: str) -> None:
    ending = ending_of(read_pod(pod(**status)))
    assert ending is not None
    assert (ending.kind, ending.words) == (kind, words)


def test_what_runs_has_no_ending() -> None:
    assert ending_of(read_pod(pod())) is None


@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        ("ImagePullBackOff", FailureCode.IMAGE_PULL_FAILED),
        ("InvalidImageName", FailureCode.IMAGE_PULL_FAILED),
        ("CreateContainerConfigError", FailureCode.CONTAINER_START_FAILED),
        ("ErrImagePull", None),  # tried again by the kubelet, which then says ImagePullBackOff
        ("ContainerCreating", None),
    ],
)
def test_why_it_does_not_start(reason: str, failure: FailureCode | None) -> None:
    found = start_failure(read_pod(pod(**waiting(reason, "no such host"))))
    assert (found.failure if found else None) is failure
    assert found is None or "no such host" in found.message


def beside(state: dict[str, Any], **own: Any) -> dict[str, Any]:
    """Statuses as a kubelet writes them, by name: that of an operator's container comes first."""
    return {"containerStatuses": [{"name": "sidecar", "state": state}, {"name": "workspace", "state": own}]}


@pytest.mark.parametrize(
    ("phase", "other", "own", "state"),
    [
        ("Running", {"running": {}}, {"terminated": {"exitCode": 1}}, ContainerState.DEAD),
        ("Running", {"terminated": {"exitCode": 1}}, {"running": {}}, ContainerState.RUNNING),
        ("Pending", {"waiting": {"reason": "ImagePullBackOff"}}, {"running": {}}, ContainerState.RUNNING),
        ("Pending", {"running": {}}, {"waiting": {"reason": "ContainerCreating"}}, ContainerState.DEAD),
        ("Unknown", {"running": {}}, {"terminated": {"exitCode": 1}}, ContainerState.RUNNING),
    ],
)
def test_a_workspace_is_its_own_container(
    phase: str, other: dict[str, Any], own: dict[str, Any], state: ContainerState
) -> None:
    seen = pod(phase=phase, **beside(other, **own))
    assert sighting_of(seen).container is state
    assert read_pod(seen).may_run  # whatever else is in the pod may still write to the home


def test_an_ending_is_that_of_the_own_container() -> None:
    over = pod(**beside({"running": {}}, terminated={"exitCode": 137, "reason": "OOMKilled"}))
    ending = ending_of(read_pod(over))
    assert ending is not None
    assert ending.kind is CrashKind.OUT_OF_MEMORY


def test_the_scheduler_is_quoted() -> None:
    status = {
        "phase": "Pending",
        **condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available"),
    }
    error = unscheduled(read_pod(pod(**status)), seconds=240)
    assert error.failure is FailureCode.UNSCHEDULABLE
    assert error.message == "No node took the workspace within 240 s: 0/3 nodes are available"


def test_a_node_that_does_not_answer_is_named() -> None:
    error = not_gone(read_pod(pod()), seconds=70)
    assert error.failure is FailureCode.CONTAINER_STOP_FAILED
    assert "node-1 has not confirmed" in error.message


def test_a_start_that_ends_at_once_tells_its_output() -> None:
    status = {"phase": "Failed", **terminated(128, "StartError", "exec: no such file")}
    error = start_ended(read_pod(pod(**status)), output=["this command is wrong"])
    assert error.failure is FailureCode.CONTAINER_START_FAILED
    assert "exec: no such file" in error.message
    assert error.context["output"] == ["this command is wrong"]
    starved = start_ended(read_pod(pod(phase="Failed", **terminated(137, "OOMKilled"))), output=[])
    assert starved.failure is FailureCode.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        ('pods "x" is forbidden: exceeded quota: few, requested: pods=1', FailureCode.QUOTA_EXCEEDED),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest"', FailureCode.ADMISSION_REFUSED),
    ],
)
def test_refusals(message: str, failure: FailureCode) -> None:
    error = refusal(CallRefused(message, status=403), what="The pod")
    assert error.failure is failure
    assert message in error.message


def test_tokens_are_read_back() -> None:
    assert read_pod(pod()).token == FencingToken(3, 4)
    broken = pod()
    broken["metadata"]["annotations"]["codehub.token"] = "x"
    assert read_pod(broken).token == FencingToken(0, 0)
