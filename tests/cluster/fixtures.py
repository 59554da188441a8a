"""A pytest plugin: a cluster for whoever asks for one.

``kubernetes`` is one for the whole run, shared by all workers; nobody breaks it. It is that of
``CODEHUB_TEST_KUBECONFIG`` if this is set (kind, for example), and one of our own otherwise.
``breakable_kubernetes`` is a worker's own, mended after each test.
``namespace`` is an empty one in ``kubernetes``, removed afterwards.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.api import KubernetesApi
from tests.cluster.binary import built_programs
from tests.cluster.cluster import Cluster
from tests.cluster.processes import Process
from tests.cluster.requirements import require_cluster_programs
from tests.cluster.waiting import until

GIVEN = "CODEHUB_TEST_KUBECONFIG"
_FIXTURES = {"kubernetes", "own_cluster"}
_TIMEOUT_SECONDS = 1200
"""Whoever asks first may have to wait for the build."""


@dataclass(frozen=True)
class KubernetesUnderTest:
    """A cluster that tests may fill and must not break."""

    kubeconfig: Path
    api: KubernetesApi
    cluster: Cluster | None
    """None where somebody else runs it."""

    @property
    def kubectl(self) -> list[str]:
        """How to run kubectl as its administrator: the one that was built with the cluster."""
        return [str(built_programs().kubernetes), "kubectl", f"--kubeconfig={self.kubeconfig}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on a cluster come last, when it has been built in the background."""
    for item in items:
        if _FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("needs_built_images")
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[KubernetesUnderTest]:
    if given := os.environ.get(GIVEN):
        api = KubernetesApi(Path(given))
        yield KubernetesUnderTest(Path(given), api, None)
        api.close()
        return
    require_cluster_programs()
    with _shared_cluster(_run_name()) as cluster:
        yield KubernetesUnderTest(cluster.kubeconfig, cluster.api, cluster)


@pytest.fixture
def namespace(kubernetes: KubernetesUnderTest) -> Iterator[str]:
    """Its name. What is left in it is removed in the background."""
    with fresh_namespace(kubernetes.api) as name:
        yield name


@contextmanager
def fresh_namespace(api: KubernetesApi) -> Iterator[str]:
    name = f"test-{uuid4().hex[:12]}"
    path = f"/api/v1/namespaces/{name}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    until(lambda: api.find(f"{path}/serviceaccounts/default"), "there is a service account")
    yield name
    api.delete(path)


@pytest.fixture(scope="session")
def own_cluster() -> Iterator[Cluster]:
    """Ask for ``breakable_kubernetes`` instead: this one may be left broken by a test."""
    require_cluster_programs()
    cluster = Cluster.start(f"own-{os.getpid()}", built_programs(), owner=_owner())
    yield cluster
    cluster.stop()


@pytest.fixture
def breakable_kubernetes(own_cluster: Cluster) -> Iterator[Cluster]:
    """Kill, freeze and partition as you like."""
    yield own_cluster
    own_cluster.mend()


def _run_name() -> str:
    """The same in all workers of a run."""
    return f"run-{os.environ.get('PYTEST_XDIST_TESTRUNUID', str(os.getpid()))[:12]}"


def _owner() -> Process | None:
    """The process whose end is the end of the run: workers come and go."""
    return Process.find(os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid())


@contextmanager
def _shared_cluster(name: str) -> Iterator[Cluster]:
    """Whoever comes first starts it, whoever leaves last stops it.

    Every user holds a shared lock on a file in the cluster's directory, which the kernel takes from those that die.
    Coming and leaving exclude each other.
    """
    with _coming_or_leaving():
        cluster = Cluster.find(name) or Cluster.start(name, built_programs(), owner=_owner())
        users = cluster.layout.path("users").open("w")
        fcntl.flock(users, fcntl.LOCK_SH)
    try:
        yield cluster
    finally:
        with _coming_or_leaving(), users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                cluster.close()  # others use it
            else:
                cluster.stop()


@contextmanager
def _coming_or_leaving() -> Iterator[None]:
    with open(Path(tempfile.gettempdir()) / "codehub-cluster-users.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
