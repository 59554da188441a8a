"""A witness inside the cluster: every write of its API server is read and judged.

It follows etcd itself, so it sees each state of each pod in the order in which they were written, whatever happens to
the API server. Wrong are two pods on one home that may run at the same time, whether or not they did, and a pod that
was removed while its containers may still have run.
"""

import threading
from dataclasses import dataclass

from tests.chaos.etcd import EtcdFollower, Write, message, messages, read_object, text

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class SeenPod:
    name: str
    uid: str
    node: str
    phase: str
    gated: bool
    claims: frozenset[str]

    @property
    def may_run(self) -> bool:
        """It runs, or it may begin to without another write of CodeHub."""
        return not self.gated and self.phase not in _ENDED

    def __str__(self) -> str:
        return f"{self.name} ({self.uid}, {self.phase or 'new'} on {self.node or 'no node'})"


class ClusterWitness:
    """Follows pods and claims of one namespace."""

    def __init__(self, etcd_url: str, namespace: str) -> None:
        self._pods: dict[str, SeenPod] = {}
        self._claims: dict[str, str] = {}
        self._problems: list[str] = []
        self._lock = threading.Lock()
        self._followers = [
            EtcdFollower(etcd_url, f"/registry/persistentvolumeclaims/{namespace}/", self._take_claim),
            EtcdFollower(etcd_url, f"/registry/pods/{namespace}/", self._take_pod),
        ]

    @property
    def writes(self) -> int:
        return sum(each.writes for each in self._followers)

    @property
    def problems(self) -> list[str]:
        missed = [each for follower in self._followers for each in follower.missed]
        with self._lock:
            return [*self._problems, *missed]

    def claims(self) -> dict[str, str]:
        """Every claim that exists, with its uid."""
        with self._lock:
            return dict(self._claims)

    def close(self) -> None:
        for each in self._followers:
            each.close()

    def _take_claim(self, write: Write) -> None:
        with self._lock:
            if write.value is None:
                self._claims.pop(write.name, None)
            else:
                self._claims[write.name] = text(message(read_object(write.value), 1), 5)

    def _take_pod(self, write: Write) -> None:
        with self._lock:
            if write.value is None:
                gone = self._pods.pop(write.name, None)
                if gone is not None and gone.node and gone.may_run:
                    self._problems.append(f"write {write.revision}: {gone} was removed before it had ended")
                return
            pod = self._pods[write.name] = read_pod(write.name, write.value)
            if not pod.may_run:
                return
            for other in self._pods.values():
                if other.name != pod.name and other.may_run and other.claims & pod.claims:
                    self._problems.append(f"write {write.revision}: {pod} and {other} may run on one home")


def read_pod(name: str, value: bytes) -> SeenPod:
    pod = read_object(value)
    metadata, spec, status = (message(pod, number) for number in (1, 2, 3))
    sources = [message(volume, 2) for volume in messages(spec, 1)]
    return SeenPod(
        name=name,
        uid=text(metadata, 5),
        node=text(spec, 10),
        phase=text(status, 1),
        gated=38 in spec,
        claims=frozenset(text(message(each, 10), 1) for each in sources if 10 in each),
    )
