"""Images that an installation of the chart needs, on the nodes of the test cluster. None comes from a registry."""

import fcntl
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.cluster.fixtures import KubernetesUnderTest
from tests.cluster.images import image_archive
from tests.support.built_images import built_image
from tests.support.kubernetes_environment import ensure_images, load_image

STORE = "codehub-test/rclone:1"
"""The S3 server of an evaluation, made of rclone's wheel."""


def ensure_chart_images(kubernetes: KubernetesUnderTest) -> str:
    """Bring CodeHub's own image and the store's to every node, once for each cluster; CodeHub's reference."""
    ensure_images(kubernetes)
    reference = built_image("codehub")
    uid = kubernetes.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    done = Path(tempfile.gettempdir()) / f"codehub-test-chart-{uid}-{reference.rpartition(':')[2]}"
    with open(done.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            with tempfile.TemporaryDirectory() as folder:
                own, store = Path(folder) / "codehub.tar", Path(folder) / "store.tar"
                subprocess.run(["docker", "save", "--output", str(own), reference], check=True)
                store.write_bytes(_store_archive())
                load_image(kubernetes, own)
                load_image(kubernetes, store)
            done.touch()
    return reference


def _store_archive() -> bytes:
    program = Path(sys.executable).with_name("rclone").read_bytes()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        member = tarfile.TarInfo("bin/rclone")
        member.size, member.mode = len(program), 0o755
        tar.addfile(member, io.BytesIO(program))
    return image_archive(f"docker.io/{STORE}", layer.getvalue(), {"Env": ["PATH=/bin"]})
