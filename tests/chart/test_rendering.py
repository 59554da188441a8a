"""What the chart renders: without complaint, as it did before, and as a real API server takes it.

The API server's own dry run is a better judge than a validator of schemas: it knows defaults, immutable and conflicting
fields and the names of ports, and asks admission (PodSecurity ``restricted``) too.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.chart.crds import crd_files
from tests.chart.helm import (
    CHART,
    PROFILES,
    Helm,
    HelmError,
    render_snapshot,
    snapshot_path,
    values_file,
    values_of,
)
from tests.cluster.fixtures import KubernetesUnderTest

pytestmark = [pytest.mark.needs_built_images, pytest.mark.timeout(1200)]

WARNED = {
    "pod-security.kubernetes.io/warn": "restricted"
}  # a Deployment is warned of, only its pods are refused
EXTERNAL = yaml.safe_load(PROFILES["external"].read_text())
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown value": ({"replicas": 3}, "replicas"),
    "an unknown value inside": ({"proxy": {"replica": 3}}, "replica"),
    "a topology that is none": ({"topology": "both"}, "topology"),
    "no replica": ({"controlPlane": {"replicas": 0}}, "controlPlane"),
    "an address with a path": ({"baseUrl": "https://example.org/codehub"}, "baseUrl"),
    "a wildcard as domain": ({"baseDomain": "*.example.org"}, "baseDomain"),
    "a store nobody speaks to": ({"archive": {"url": "ftp://homes"}}, "archive"),
    "a pull policy that is none": ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    "a number as text": ({"workspaces": {"standbySeconds": "soon"}}, "standbySeconds"),
    "networks that are no list": ({"trustedProxies": "10.0.0.0/8"}, "trustedProxies"),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_lint_has_nothing_to_say(profile: str) -> None:
    Helm().lint(*values_of(profile))


@pytest.mark.parametrize("profile", PROFILES)
def test_it_renders_what_it_rendered(profile: str) -> None:
    """After a change that is meant: python -m tests.chart, and look at the difference."""
    assert render_snapshot(profile) == snapshot_path(profile).read_text(), "renew: python -m tests.chart"


def test_there_is_no_snapshot_without_a_profile() -> None:
    assert {path.stem for path in snapshot_path("any").parent.iterdir()} == set(PROFILES)


@pytest.mark.parametrize("what", WRONG)
def test_the_schema_refuses(what: str, tmp_path: Path) -> None:
    wrong, named = WRONG[what]
    with pytest.raises(HelmError, match=named) as refusal:
        Helm().template(*values_of("external"), "--values", values_file(tmp_path / "wrong.yaml", wrong))
    assert "don't meet the specifications of the schema" in str(refusal.value)


@pytest.mark.parametrize("needed", ["baseUrl", "database", "redis", "archive"])
def test_what_is_needed_is_asked_for(needed: str, tmp_path: Path) -> None:
    lacking = {key: value for key, value in EXTERNAL.items() if key != needed}
    with pytest.raises(HelmError, match=f"{needed}.* is needed"):
        Helm().template("--values", values_file(tmp_path / "lacking.yaml", lacking))


def test_every_value_is_in_the_schema(tmp_path: Path) -> None:
    """Defaults pass, so the schema knows every name that the chart's own file has."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    Helm().template(
        *values_of("evaluation"), "--values", values_file(tmp_path / "all.yaml", _no_nulls(values))
    )


@pytest.fixture(scope="module")
def cluster_with_kinds(kubernetes: KubernetesUnderTest) -> KubernetesUnderTest:
    for file in crd_files():
        _kubectl(kubernetes, "apply", "--server-side", "--force-conflicts", "--filename", str(file))
        _kubectl(kubernetes, "wait", "--for=condition=Established", "--timeout=60s", "--filename", str(file))
    return kubernetes


@pytest.mark.parametrize("profile", PROFILES)
def test_a_cluster_takes_it(profile: str, cluster_with_kinds: KubernetesUnderTest, namespace: str) -> None:
    cluster_with_kinds.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": WARNED}})
    rendered = Helm().template(*values_of(profile), namespace=namespace)
    said = _kubectl(
        cluster_with_kinds,
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "--namespace", namespace),
        *("--filename", "-"),
        given=rendered,
    )
    expected = sum(1 for each in yaml.safe_load_all(rendered) if each)
    assert "Warning" not in said
    assert len(said.splitlines()) == expected


def _kubectl(kubernetes: KubernetesUnderTest, *arguments: str, given: str = "") -> str:
    done = subprocess.run(
        [*kubernetes.kubectl, *arguments],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _no_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and key != "evaluation"}
