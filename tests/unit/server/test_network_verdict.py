"""What ``codehub doctor`` says about the network policy, for every way the probe can come out."""

import pytest

from codehub.server.doctor.findings import Severity
from codehub.server.doctor.network_verdict import API_SERVER, INGRESS, METADATA, Probes, verdict

POLICIES = (True, False, None)


def probes(*, workspace: bool, neighbour: bool, inward: bool, metadata: bool = False) -> Probes:
    """Whether each reaches the API server, and the neighbour the workspace."""
    return Probes(
        {API_SERVER: workspace, METADATA: metadata},
        {API_SERVER: neighbour, METADATA: metadata, INGRESS: inward},
    )


@pytest.mark.parametrize("has_policy", POLICIES)
def test_all_doors_closed_is_enforced(has_policy: bool | None) -> None:
    found = verdict(probes(workspace=False, neighbour=True, inward=False), has_policy=has_policy)
    assert found.severity is Severity.OK
    assert found.detail.startswith(
        "enforced: a workspace does not reach the API server, a pod that is not the proxy"
    )
    assert "no answer to any pod: the metadata address" in found.detail


@pytest.mark.parametrize(
    ("has_policy", "said"),
    [
        (True, "not enforced by this cluster's network plug-in: "),
        (False, "there is no NetworkPolicy in this namespace: "),
        (None, "there is none for workspaces, or this cluster's network plug-in does not enforce it: "),
    ],
)
def test_all_doors_open(has_policy: bool | None, said: str) -> None:
    found = verdict(probes(workspace=True, neighbour=True, inward=True), has_policy=has_policy)
    assert found.severity is Severity.BAD
    assert found.detail.startswith(said)
    assert (
        "a workspace reaches the API server, a pod that is not the proxy reaches a workspace" in found.detail
    )


def test_a_policy_with_a_hole_is_enforced_and_bad() -> None:
    found = verdict(probes(workspace=False, neighbour=True, inward=True), has_policy=True)
    assert found.severity is Severity.BAD
    assert found.detail.startswith(
        "enforced, but it lets through: a pod that is not the proxy reaches a workspace"
    )
    found = verdict(probes(workspace=False, neighbour=True, inward=False, metadata=True), has_policy=True)
    assert found.detail.startswith("enforced, but it lets through: a workspace reaches the metadata address")


@pytest.mark.parametrize("has_policy", POLICIES)
def test_a_network_that_carries_nothing_proves_nothing(has_policy: bool | None) -> None:
    found = verdict(probes(workspace=False, neighbour=False, inward=False), has_policy=has_policy)
    assert found.severity is Severity.NOTE
    assert found.detail.startswith("could not be tried, because no pod reached anything")
