"""The settings of the Kubernetes runtime as the runtime gets them."""

import json
from pathlib import Path
from typing import Any

import pytest

from codehub.runtimes.kubernetes.access import Access, FixedToken
from codehub.runtimes.kubernetes.catalogue import Image
from codehub.server.kubernetes_runtime import job_settings, runtime_settings
from codehub.server.settings.tree import Settings, load_settings
from codehub.server.settings.variables import SettingsError

ACCESS = Access("https://api", None, FixedToken(None), namespace="of-the-context")
S3 = {"ARCHIVE_URL": "s3://homes"}
ENV = {
    "AWS_REGION": "eu",
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "key",
    "AWS_SESSION_TOKEN": "t",
}


def settings(**variables: str) -> Settings:
    named = {f"CODEHUB_KUBERNETES_{name}": value for name, value in variables.items()}
    return load_settings({"CODEHUB_RUNTIME": "kubernetes", **S3, **named})


def test_defaults() -> None:
    found = runtime_settings(settings(), ACCESS)
    assert (found.namespace, found.user, found.access_mode) == ("of-the-context", 1000, "ReadWriteOncePod")
    assert found.images["jupyterlab"].base_path


def test_what_is_said_is_passed_on(tmp_path: Path) -> None:
    catalogue = tmp_path / "images.json"
    catalogue.write_text(json.dumps({"a": "a:1", "b": "b:1"}))
    found = runtime_settings(
        settings(
            NAMESPACE="ide",
            IMAGES=str(catalogue),
            HOME_SIZE="5g",
            LIMIT_CPUS="2",
            REQUEST_MEMORY="1g",
            NODE_SELECTOR='{"pool": "ide"}',
            TOLERATIONS='[{"key": "ide"}]',
            PULL_SECRETS="one, two",
            POD_PATCH='{"spec": {}}',
        ),
        ACCESS,
    )
    assert (found.namespace, found.home_bytes, found.default_limits.cpus) == ("ide", 5 * 1024**3, 2)
    assert dict(found.images) == {"a": Image("a:1"), "b": Image("b:1")}
    assert found.requests.memory_bytes == 1024**3
    assert found.placement.node_selector == {"pool": "ide"}
    assert list(found.placement.tolerations) == [{"key": "ide"}]
    assert found.placement.pull_secrets == ("one", "two")
    assert found.pod_patch == {"spec": {}}


def test_the_default_image_comes_first() -> None:
    chosen = {"CODEHUB_RUNTIME": "kubernetes", "CODEHUB_DEFAULT_IMAGE": "jupyterlab", **S3}
    assert list(runtime_settings(load_settings(chosen), ACCESS).images) == ["jupyterlab", "code-server"]
    unknown: dict[str, Any] = {**chosen, "CODEHUB_DEFAULT_IMAGE": "vim"}
    with pytest.raises(SettingsError, match="CODEHUB_KUBERNETES_IMAGES"):
        runtime_settings(load_settings(unknown), ACCESS)


def test_jobs_get_credentials_unless_they_have_an_identity() -> None:
    assert job_settings(settings(), ENV).env == ENV
    by_identity = job_settings(settings(JOB_SERVICE_ACCOUNT="archiver"), ENV)
    assert (by_identity.service_account, by_identity.env) == ("archiver", {"AWS_REGION": "eu"})


def test_archives_in_a_directory_need_a_claim() -> None:
    local = {"CODEHUB_RUNTIME": "kubernetes", "ARCHIVE_URL": "file:///archives"}
    with pytest.raises(SettingsError, match="CODEHUB_KUBERNETES_ARCHIVE_CLAIM"):
        job_settings(load_settings(local), {})
    claimed = load_settings({**local, "CODEHUB_KUBERNETES_ARCHIVE_CLAIM": "archives"})
    assert job_settings(claimed, {}).archive_claim == "archives"
