"""What CodeHub asks of a cluster: pods that ``restricted`` lets in, and that no setting makes somebody else's."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from codehub.runtimes.base import FencingToken, ResourceLimits, StorageJob, StorageKind
from codehub.runtimes.kubernetes.catalogue import Image, parse_catalogue
from codehub.runtimes.kubernetes.inventory import GATE, claims_of, read_pod
from codehub.runtimes.kubernetes.manifests import Order, home_claim, job_pod, job_secret, workspace_pod
from codehub.runtimes.kubernetes.names import Names, ObjectRole
from codehub.runtimes.kubernetes.patches import merged
from codehub.runtimes.kubernetes.settings import JobSettings, KubernetesSettings, Placement

WS = UUID("11111111-2222-3333-4444-555555555555")
NAMES = Names("here")
IMAGE = Image("registry/ide:1", port=9000, home="/home/person", pull_secrets=("theirs",))
SETTINGS = KubernetesSettings(images={"ide": IMAGE}, requests=ResourceLimits(cpus=0.5, memory_bytes=2**30))
JOBS = JobSettings(image="job", archive_url="s3://bucket/homes", env={"AWS_SECRET_ACCESS_KEY": "hidden"})


def pod_of(
    settings: KubernetesSettings = SETTINGS, *, limits: ResourceLimits | None = None
) -> dict[str, Any]:
    order = Order(
        WS, FencingToken(7, 2), "ide", {"HOME": "/elsewhere", "LANG": "C"}, limits or ResourceLimits()
    )
    return workspace_pod(order, image=IMAGE, names=NAMES, settings=settings)


def job_of(kind: StorageKind, jobs: JobSettings = JOBS) -> dict[str, Any]:
    job = StorageJob(kind, WS, UUID(int=9))
    return job_pod(job, FencingToken(7, 2), secret="s", names=NAMES, settings=SETTINGS, jobs=jobs)


@pytest.mark.parametrize("pod", [pod_of(), job_of(StorageKind.ARCHIVE), job_of(StorageKind.RESTORE)])
def test_every_pod_is_gated_ours_and_restricted(pod: dict[str, Any]) -> None:
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert spec["schedulingGates"] == [{"name": GATE}]
    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert claims_of(pod) == {NAMES.home(WS)}
    read = read_pod({**pod, "metadata": {**pod["metadata"], "uid": "u", "resourceVersion": "1"}})
    assert (read.token, read.gated, read.may_run) == (FencingToken(7, 2), True, False)


def test_a_home_is_a_folder_of_its_volume() -> None:
    (mount,) = pod_of()["spec"]["containers"][0]["volumeMounts"]
    assert mount == {"name": "home", "mountPath": "/home/person", "subPath": "home"}


def test_the_environment_is_ours_where_it_matters() -> None:
    env = {each["name"]: each["value"] for each in pod_of()["spec"]["containers"][0]["env"]}
    assert env == {
        "HOME": "/home/person",
        "LANG": "C",
        "CODEHUB_WORKSPACE_ID": str(WS),
        "CODEHUB_PORT": "9000",
        "CODEHUB_BASE_PATH": f"/w/{WS}/",
    }


@pytest.mark.parametrize(
    ("limits", "most", "least"),
    [
        (ResourceLimits(), {}, {"cpu": "500m", "memory": str(2**30)}),
        (
            ResourceLimits(cpus=0.25, memory_bytes=2**20),
            {"cpu": "250m", "memory": str(2**20)},
            {"cpu": "250m", "memory": str(2**20)},
        ),
        (ResourceLimits(cpus=2), {"cpu": "2000m"}, {"cpu": "500m", "memory": str(2**30)}),
    ],
)
def test_requests_are_never_above_limits(
    limits: ResourceLimits, most: dict[str, str], least: dict[str, str]
) -> None:
    resources = pod_of(limits=limits)["spec"]["containers"][0]["resources"]
    assert resources == {"limits": most, "requests": least}


def test_a_patch_adds_what_has_no_setting_and_takes_nothing_of_ours() -> None:
    patch = {
        "metadata": {"labels": {"team": "blue", "codehub.installation": "theirs"}, "annotations": None},
        "spec": {
            "restartPolicy": "Always",
            "schedulingGates": None,
            "containers": [{"name": "workspace", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            "volumes": [{"name": "cache", "emptyDir": {}}],
        },
    }
    pod = pod_of(replace(SETTINGS, pod_patch=patch), limits=ResourceLimits(cpus=1))
    assert pod["metadata"]["labels"] == {"team": "blue", **NAMES.labels(WS, ObjectRole.WORKSPACE)}
    assert pod["metadata"]["annotations"]["codehub.token"] == "7.2"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["schedulingGates"] == [{"name": GATE}]
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "1000m", "nvidia.com/gpu": "1"}
    assert [each["name"] for each in pod["spec"]["volumes"]] == ["home", "cache"]


def test_an_images_own_patch_comes_after_that_of_the_settings() -> None:
    entry = {"image": "gpu:1", "pod_patch": {"spec": {"nodeSelector": {"pool": "gpu"}}}}
    (image,) = parse_catalogue(json.dumps({"gpu": entry})).values()
    settings = replace(SETTINGS, pod_patch={"spec": {"nodeSelector": {"pool": "cheap", "zone": "a"}}})
    order = Order(WS, FencingToken(7, 2), "gpu", {}, ResourceLimits())
    pod = workspace_pod(order, image=image, names=NAMES, settings=settings)
    assert pod["spec"]["nodeSelector"] == {"pool": "gpu", "zone": "a"}
    with pytest.raises(ValueError, match="pod_patch must be an object"):
        parse_catalogue(json.dumps({"gpu": {"image": "gpu:1", "pod_patch": []}}))


def test_merging_like_kubectl() -> None:
    before = {"a": {"b": 1, "c": 2}, "env": [{"name": "x", "value": "1"}], "args": ["1"], "gone": 1}
    patch = {"a": {"b": 3}, "env": [{"name": "y"}, {"name": "x", "value": "2"}], "args": ["2"], "gone": None}
    assert merged(before, patch) == {
        "a": {"b": 3, "c": 2},
        "env": [{"name": "x", "value": "2"}, {"name": "y"}],
        "args": ["2"],
    }
    assert before["env"] == [{"name": "x", "value": "1"}]


def test_placement_is_for_workspaces_and_jobs() -> None:
    placement = Placement(
        node_selector={"pool": "ide"},
        tolerations=[{"key": "ide"}],
        labels={"team": "blue"},
        pull_secrets=("ours",),
        runtime_class="gvisor",
        priority_class="low",
    )
    settings = replace(SETTINGS, placement=placement)
    job = StorageJob(StorageKind.ARCHIVE, WS, UUID(int=9))
    for pod in (
        pod_of(settings),
        job_pod(job, FencingToken(1, 1), secret="s", names=NAMES, settings=settings, jobs=JOBS),
    ):
        assert pod["spec"]["nodeSelector"] == {"pool": "ide"}
        assert pod["spec"]["tolerations"] == [{"key": "ide"}]
        assert pod["spec"]["runtimeClassName"] == "gvisor"
        assert pod["spec"]["priorityClassName"] == "low"
        assert pod["metadata"]["labels"]["team"] == "blue"
        assert {"name": "ours"} in pod["spec"]["imagePullSecrets"]
    assert {"name": "theirs"} in pod_of(settings)["spec"]["imagePullSecrets"]


class TestStorageJobs:
    def test_an_archive_cannot_change_the_home(self) -> None:
        mounts = {
            each["name"]: each
            for each in job_of(StorageKind.ARCHIVE)["spec"]["containers"][0]["volumeMounts"]
        }
        assert mounts["home"] == {
            "name": "home",
            "mountPath": "/volume/home",
            "subPath": "home",
            "readOnly": True,
        }

    def test_credentials_are_in_the_secret_alone(self) -> None:
        job = StorageJob(StorageKind.ARCHIVE, WS, UUID(int=9))
        assert "hidden" not in json.dumps(job_of(StorageKind.ARCHIVE))
        secret = job_secret(job, name="s", pod_uid="u", names=NAMES, jobs=JOBS)
        assert secret["stringData"]["AWS_SECRET_ACCESS_KEY"] == "hidden"
        assert secret["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Pod", "name": NAMES.job(WS), "uid": "u"}
        ]
        order = json.loads(secret["stringData"]["order.json"])
        assert (order["kind"], order["volume_path"]) == ("archive", "/volume/home")

    def test_an_identity_instead_of_keys(self) -> None:
        jobs = replace(JOBS, env={}, service_account="archiver")
        pod = job_of(StorageKind.RESTORE, jobs)
        assert pod["spec"]["serviceAccountName"] == "archiver"
        assert pod["spec"]["containers"][0]["env"] == []

    def test_archives_in_a_directory_are_mounted_from_a_claim(self) -> None:
        jobs = replace(JOBS, archive_url="file:///archives", archive_claim="archives")
        pod = job_of(StorageKind.ARCHIVE, jobs)
        assert claims_of(pod) == {NAMES.home(WS), "archives"}
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        assert {"name": "archives", "mountPath": "/archives"} in mounts


def test_nothing_owns_a_home() -> None:
    settings = replace(SETTINGS, storage_class="fast", home_bytes=5, access_mode="ReadWriteOnce")
    claim = home_claim(WS, FencingToken(1, 2), names=NAMES, settings=settings)
    assert set(claim["metadata"]) == {"name", "labels", "annotations"}
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5"}},
        "storageClassName": "fast",
    }


def test_a_catalogue() -> None:
    text = json.dumps(
        {"plain": "ide:1", "full": {"image": "ide:2", "port": 1, "base_path": True, "args": ["-x"]}}
    )
    assert parse_catalogue(text) == {
        "plain": Image("ide:1"),
        "full": Image("ide:2", port=1, base_path=True, args=("-x",)),
    }
