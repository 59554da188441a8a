from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codehub.store.db.session import Sessions
from tests.cluster.fixtures import KubernetesUnderTest, fresh_namespace
from tests.support.cluster_control import BUCKET, ClusterControlEnvironment
from tests.support.control import ControlEnvironment
from tests.support.kubernetes_environment import KubernetesEnvironment, address_for_pods, ensure_images
from tests.support.object_stores import rclone_server


@pytest.fixture
async def environment(
    request: pytest.FixtureRequest,
    database_url: str,
    redis_url: str,
    session_factory: Sessions,
    tmp_path: Path,
) -> AsyncIterator[ControlEnvironment]:
    """On this machine; on a cluster where a test asks for it (``engines``)."""
    if getattr(request, "param", "local") == "local":
        environment = ControlEnvironment(database_url, redis_url, tmp_path, session_factory)
        await environment.prepare()
        yield environment
        return
    kubernetes: KubernetesUnderTest = request.getfixturevalue("kubernetes")
    if kubernetes.cluster is None:
        pytest.skip("needs a cluster of our own: homes are read from its disks")
    ensure_images(kubernetes)
    (tmp_path / BUCKET).mkdir()  # before the server looks
    with (
        rclone_server(tmp_path, address_for_pods(kubernetes.api)) as store,
        fresh_namespace(kubernetes.api) as namespace,
    ):
        pods = KubernetesEnvironment(kubernetes, namespace, store)
        await pods.prepare()
        on_cluster = ClusterControlEnvironment(
            database_url,
            redis_url,
            tmp_path,
            session_factory,
            kubernetes=pods,
            store=store,
            volumes=kubernetes.cluster.layout.path("volumes"),
        )
        await on_cluster.prepare()
        yield on_cluster
        await pods.close()
