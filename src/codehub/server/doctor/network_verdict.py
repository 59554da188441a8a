"""Judge what the network probe of ``codehub doctor`` found. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from codehub.server.doctor.findings import Finding, Severity

WHAT = "network policy"
API_SERVER = "the API server"
METADATA = "the metadata address"
INGRESS = "a workspace"

_PAGE = "docs/operate/runtime-kubernetes.md"
_USE_ANOTHER = "Use a network plug-in that enforces them, such as Calico or Cilium."
_ADD_ONE = f"Add one: the chart's workspaces.networkPolicy.enabled, or the one in {_PAGE}."


@dataclass(frozen=True)
class Probes:
    """What answered, by name: to a pod with a workspace's labels, and to one without."""

    workspace: Mapping[str, bool]
    neighbour: Mapping[str, bool]

    @property
    def let_through(self) -> list[str]:
        """What should not have answered, and did."""
        reached = [f"a workspace reaches {name}" for name, answered in self.workspace.items() if answered]
        inward = ["a pod that is not the proxy reaches a workspace"] if self.neighbour.get(INGRESS) else []
        return [*reached, *inward]

    @property
    def kept_away(self) -> list[str]:
        """What a policy kept away: the neighbour reached it, so it is there.

        The neighbour's way into the workspace counts if its network works at all.
        """
        closed = [
            f"a workspace does not reach {name}"
            for name, answered in self.workspace.items()
            if not answered and self.neighbour.get(name)
        ]
        works = any(answered for name, answered in self.neighbour.items() if name != INGRESS)
        inward = works and self.neighbour.get(INGRESS) is False
        return [*closed, *(["a pod that is not the proxy does not reach a workspace"] if inward else [])]

    @property
    def silent(self) -> list[str]:
        """What answered neither: nothing is there, or something closes it to every pod."""
        return [
            name for name, answered in self.workspace.items() if not answered and not self.neighbour.get(name)
        ]


def verdict(seen: Probes, *, has_policy: bool | None) -> Finding:
    """``has_policy``: whether the namespace has any; None: CodeHub may not list them."""
    silent = f"; no answer to any pod: {_listed(seen.silent)}" if seen.silent else ""
    if seen.let_through and seen.kept_away:
        detail = f"enforced, but it lets through: {_listed(seen.let_through)}"
        advice = (
            f"Put these addresses into the policy: workspaces.networkPolicy.blocked of the chart, or {_PAGE}."
        )
        return Finding(WHAT, Severity.BAD, detail + silent, advice)
    if seen.let_through:
        return _open(_listed(seen.let_through) + silent, has_policy=has_policy)
    if seen.kept_away:
        return Finding(WHAT, Severity.OK, f"enforced: {_listed(seen.kept_away)}{silent}")
    return not_tried(f"no pod reached anything ({_listed(seen.silent)}), so nothing can be told apart")


def _open(detail: str, *, has_policy: bool | None) -> Finding:
    if has_policy:
        said, advice = "not enforced by this cluster's network plug-in", _USE_ANOTHER
    elif has_policy is None:
        said = "there is none for workspaces, or this cluster's network plug-in does not enforce it"
        advice = f"{_ADD_ONE} {_USE_ANOTHER}"
    else:
        said, advice = "there is no NetworkPolicy in this namespace", f"{_ADD_ONE} {_USE_ANOTHER}"
    return Finding(WHAT, Severity.BAD, f"{said}: {detail}", advice)


def not_tried(why: str) -> Finding:
    advice = (
        "Without this check, nobody knows whether workspaces reach the cluster. Try again, or try it by hand."
    )
    return Finding(WHAT, Severity.NOTE, f"could not be tried, because {why}", advice)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)
