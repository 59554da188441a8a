"""Make a bill of materials (CycloneDX 1.6, JSON) from the pinned requirements and the lock files.

It lists what a release carries or installs: the packages of ``requirements/run.txt``, the packages bundled into the
dashboard and the modules linked into ``inside``. What builds and tests it is left out. Same inputs, same output.
"""

import json
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MODULE = re.compile(r"^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v(\S+)", re.MULTILINE)
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")


def bill_of_materials(root: Path, *, version: str, made_at: datetime) -> dict[str, Any]:
    components = [
        *_python(root / "requirements" / "run.txt"),
        *_javascript(root / "web" / "package-lock.json"),
        *_go(root / "inside" / "go.mod"),
    ]
    identity = json.dumps([version, components], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, identity)}",
        "version": 1,
        "metadata": {
            "timestamp": made_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": "codehub",
                "name": "codehub",
                "version": version,
                "purl": f"pkg:pypi/codehub@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": "codehub", "dependsOn": [one["bom-ref"] for one in components]}],
    }


def _python(requirements: Path) -> Iterator[dict[str, Any]]:
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if match := PIN.match(line):
            name = re.sub(r"[-_.]+", "-", match[1]).lower()
            yield _component("pypi", name, match[2])


def _javascript(lock: Path) -> Iterator[dict[str, Any]]:
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    for place, package in sorted(packages.items()):
        if place and not package.get("dev") and not package.get("optional"):
            yield _component("npm", place.rpartition("node_modules/")[2], package["version"])


def _go(modules: Path) -> Iterator[dict[str, Any]]:
    for name, version in MODULE.findall(modules.read_text(encoding="utf-8")):
        yield _component("golang", name, f"v{version}")


def _component(ecosystem: str, name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:{ecosystem}/{name.replace('@', '%40')}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
