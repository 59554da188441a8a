"""Remove pods that a ``codehub doctor`` left behind when it was killed.

They carry the name of an installation that does not exist, so no CodeHub takes them for its own. One that may still be
in use is left alone: it has a deadline of its own.
"""

from datetime import UTC, datetime, timedelta

from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, NotFound, namespaced
from codehub.runtimes.kubernetes.inventory import read_pod
from codehub.runtimes.kubernetes.names import Document, Names

PROBE = "doctor"
DEADLINE_SECONDS = 150
"""After this nothing of a probe runs (``activeDeadlineSeconds``)."""


async def remove_old_probes(api: ApiClient, *, namespace: str) -> None:
    for found in await api.list(namespaced(namespace, "pods"), labels=Names(PROBE).ours):
        pod = read_pod(found)
        if not (pod.has_ended or _is_old(found)):
            continue
        try:
            await api.delete(namespaced(namespace, "pods", pod.name), uid=pod.uid, version=pod.version)
        except (NotFound, Conflict, CallRefused):
            continue  # gone meanwhile, or the next one removes it


def _is_old(pod: Document) -> bool:
    made_at = datetime.fromisoformat(str(pod["metadata"]["creationTimestamp"]))
    return datetime.now(UTC) - made_at > timedelta(seconds=2 * DEADLINE_SECONDS)
