"""``inside`` in a pod: there, on its way, or not to be had."""

from typing import Any

import pytest

from codehub.runtimes.kubernetes import inside_mount
from codehub.runtimes.kubernetes.inside_mount import add_inside, copying_container

COPYING = copying_container("codehub/codehub:1", user=1000)
NAME = COPYING["name"]


def pod(state: dict[str, Any] | None = None, *, name: str = NAME, **spec: Any) -> dict[str, Any]:
    statuses = [] if state is None else [{"name": name, "state": state}]
    return {"spec": spec, "status": {"ephemeralContainerStatuses": statuses}}


def test_a_workspace_has_a_mount_it_cannot_write_to_and_no_container_more() -> None:
    made: dict[str, Any] = {
        "spec": {"volumes": [], "containers": [{"name": "workspace", "volumeMounts": []}]}
    }
    assert not inside_mount.has_mount(made)
    add_inside(made)
    assert inside_mount.has_mount(made)
    (container,) = made["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/.codehub", True)


def test_what_copies_it_is_restricted_and_another_user() -> None:
    security = COPYING["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    # As the workspace's own user its writable mount could be reached through /proc/{pid}/root.
    assert security["runAsUser"] == 1001
    assert "resources" not in COPYING  # which ephemeral containers may not have


def test_an_image_has_one_name_and_another_image_another() -> None:
    assert copying_container("codehub/codehub:1", user=1000)["name"] == NAME
    assert copying_container("codehub/codehub:2", user=1000)["name"] != NAME


@pytest.mark.parametrize(
    ("seen", "copied"),
    [
        (pod(), False),
        (pod({"running": {}}), False),
        (pod({"terminated": {"exitCode": 128}}), False),
        (pod({"terminated": {"exitCode": 0}}), True),
        (pod({"terminated": {"exitCode": 0}}, name="inside-of-yesterday"), True),
        (pod({"terminated": {"exitCode": 0}}, name="debugger-12345"), False),
        (pod(initContainers=[{"name": "inside"}]), True),  # of an earlier release
    ],
)
def test_when_it_is_there(seen: dict[str, Any], copied: bool) -> None:
    assert inside_mount.is_copied(seen) is copied


def test_what_was_asked_for_is_not_asked_for_again() -> None:
    assert inside_mount.is_asked_for(pod(ephemeralContainers=[COPYING]), NAME)
    assert not inside_mount.is_asked_for(pod(ephemeralContainers=[{"name": "debugger"}]), NAME)
