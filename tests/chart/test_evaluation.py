"""A first try on a cluster, as docs/operate/kubernetes.md describes it: install, use, upgrade, remove.

One test, because installing is most of its time.
"""

from pathlib import Path

import pytest

from tests.chart.images import STORE, ensure_chart_images
from tests.chart.release import Release, common_values
from tests.cluster.fixtures import KubernetesUnderTest
from tests.support.kubernetes_environment import RESTRICTED
from tests.support.people import Person

pytestmark = [pytest.mark.needs_docker, pytest.mark.needs_built_images, pytest.mark.timeout(1800)]


async def test_install_use_upgrade_and_uninstall(
    kubernetes: KubernetesUnderTest, namespace: str, tmp_path: Path
) -> None:
    values = {
        **common_values(kubernetes, ensure_chart_images(kubernetes)),
        "evaluation": {
            "enabled": True,
            "storageClass": "network",
            "databaseSize": "1Gi",
            "archiveSize": "1Gi",
            "store": {"image": STORE},
        },
    }
    release = Release(kubernetes, namespace, tmp_path)
    kubernetes.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": RESTRICTED}})

    notes = release.install(values)
    assert f"kubectl -n {namespace} port-forward service/codehub" in notes
    assert "error" not in release.doctor().lower()
    password = release.secret("codehub-admin", "password")
    async with (
        release.forwarded() as url,
        Person.sign_in(url, "admin", password) as person,
    ):
        workspace_id = await person.running("project", image="tiny")
        release.write(workspace_id, "notes.txt", "mine")
        await person.intent(workspace_id, "stop")
        await person.until_status(workspace_id, "standby")
        await person.intent(workspace_id, "archive")
        await person.until_status(workspace_id, "archived", seconds=180)
        release.wait_until_gone("persistentvolumeclaims", f"ws-{workspace_id}-home")
        await person.navigate(f"/w/{workspace_id}/")  # whoever opens the address brings it back
        await person.until_open(workspace_id, seconds=180)
        assert release.read(workspace_id, "notes.txt") == "mine"

    release.upgrade({**values, "env": {"LOG_LEVEL": "WARNING"}})
    assert release.secret("codehub-admin", "password") == password
    async with (
        release.forwarded() as url,
        Person.sign_in(url, "admin", password) as person,
    ):
        await person.until_open(workspace_id, seconds=180)  # it ran on meanwhile
        await person.until_status(workspace_id, "running")

    release.uninstall()
    assert release.names("persistentvolumeclaims") == {
        *(f"codehub-{each}" for each in ("data", "archive")),
        f"ws-{workspace_id}-home",
    }
    assert release.read(workspace_id, "notes.txt") == "mine"
