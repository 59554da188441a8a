"""``make release VERSION=0.1.0``: first the version and the changelog, then the files of a release.

Where the package or the changelog do not speak of this version yet, they are changed and nothing else is
done: a person reads the result, commits it and runs the same command again. That one builds, from a clean
tree: sdist, wheel (with the dashboard inside), release notes, the tags of the images, a bill of materials
and checksums of all of it.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

from tools.sbom import bill_of_materials

ROOT = Path(__file__).parents[1]
IMAGES = {
    "codehub/codehub": "deploy/compose/Dockerfile",
    "codehub/job": "images/job/Dockerfile",
    "codehub/jupyterlab": "images/jupyterlab/Dockerfile",
    "codehub/code-server": "images/code-server/Dockerfile",
}
"""Image → Dockerfile. code-server is built from its own folder, the others from the root."""
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


class ReleaseError(Exception):
    """A release cannot be made."""


def prepare(root: Path, version: str, *, today: date) -> list[str]:
    """Write the version where it is said, and its heading into the changelog; the files that changed."""
    if _VERSION.fullmatch(version) is None:
        raise ReleaseError(f"VERSION={version!r} is no version such as 0.1.0 or 0.2.0rc1.")
    changes: dict[str, Callable[[str], str]] = {
        "pyproject.toml": lambda text: re.sub(
            r'(?m)^version = ".*"$', f'version = "{version}"', text, count=1
        ),
        "src/codehub/__init__.py": lambda text: re.sub(
            r'__version__ = ".*"', f'__version__ = "{version}"', text
        ),
        "CHANGELOG.md": lambda text: _with_section(text, version, today),
    }
    changed = []
    for name, change in changes.items():
        before = (root / name).read_text(encoding="utf-8")
        if (after := change(before)) != before:
            (root / name).write_text(after, encoding="utf-8")
            changed.append(name)
    return changed


def notes(changelog: str, version: str) -> str:
    """What the changelog says of one version."""
    match = re.search(
        rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if match is None or not match[1].strip():
        raise ReleaseError(f"CHANGELOG.md says nothing about {version}.")
    return match[1].strip() + "\n"


def _with_section(changelog: str, version: str, today: date) -> str:
    """Unreleased lines become this version's, below an empty Unreleased."""
    if re.search(rf"^## {re.escape(version)}\b", changelog, re.MULTILINE):
        return changelog
    return changelog.replace("## Unreleased\n", f"## Unreleased\n\n## {version} – {today.isoformat()}\n", 1)


def build(root: Path, version: str, *, output: Path, images: bool) -> None:
    if changes := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"The tree has changes that are not committed:\n{changes}")
    if output.exists() and any(output.iterdir()):
        raise ReleaseError(f"{output} is not empty: checksums are for one release only.")
    output.mkdir(parents=True, exist_ok=True)
    made_at = datetime.fromtimestamp(int(_git(root, "show", "-s", "--format=%ct", "HEAD")), tz=UTC)
    _run(root, sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(output))
    _check_wheel(next(output.glob("*.whl")))
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    (output / "RELEASE_NOTES.md").write_text(
        f"# CodeHub {version}\n\n{notes(changelog, version)}", encoding="utf-8"
    )
    bill = bill_of_materials(root, version=version, made_at=made_at)
    (output / f"codehub-{version}.cdx.json").write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    tags = [f"{name}:{tag}" for name in IMAGES for tag in image_tags(version)]
    (output / "image-tags.txt").write_text("\n".join(tags) + "\n", encoding="utf-8")
    if images:
        _build_images(root, version)
    write_checksums(output)


def image_tags(version: str) -> list[str]:
    """0.1.0 is also 0.1 and latest; a pre-release is only itself."""
    final = re.fullmatch(r"(\d+\.\d+)\.\d+", version)
    return [version, final[1], "latest"] if final else [version]


def write_checksums(output: Path) -> None:
    files = sorted(path for path in output.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (output / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def _check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if "codehub/api/static/index.html" not in names:
        raise ReleaseError(f"{wheel.name} has no dashboard: run make web.")
    if not {f"codehub/runtimes/_inside/{machine}/inside" for machine in ("amd64", "arm64")} <= set(names):
        raise ReleaseError(f"{wheel.name} has no program for SSH: run make inside.")


def _build_images(root: Path, version: str) -> None:
    for name, dockerfile in IMAGES.items():
        context = str(Path(dockerfile).parent) if name == "codehub/code-server" else "."
        tags = [part for tag in image_tags(version) for part in ("--tag", f"{name}:{tag}")]
        _run(root, "docker", "build", *tags, "--file", dockerfile, context)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def _run(root: Path, *command: str) -> None:
    subprocess.run(command, cwd=root, check=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make release")
    parser.add_argument("version", help="VERSION=, as 0.1.0")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--images", action="store_true", help="build and tag the images, too")
    options = parser.parse_args(arguments)
    try:
        if changed := prepare(ROOT, options.version, today=datetime.now(tz=UTC).date()):
            print(f"Changed {' and '.join(changed)}. Read them, commit them, and run the same command again.")
            return 0
        build(ROOT, options.version, output=options.output, images=options.images)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Wrote {options.output}. Tag it: git tag --annotate v{options.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
