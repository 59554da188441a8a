"""Running the real storage job, as a runtime would: a process, one JSON object in, JSON lines out."""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

_SECONDS = 110


@dataclass(frozen=True)
class Outcome:
    """What a job said and how it ended."""

    exit_code: int
    lines: list[dict[str, Any]]
    stderr: str

    @property
    def final(self) -> dict[str, Any]:
        assert self.lines, f"the job said nothing; stderr: {self.stderr}"
        assert [line["event"] for line in self.lines].count("done") <= 1
        return self.lines[-1]

    @property
    def done(self) -> dict[str, Any]:
        assert self.final["event"] == "done", f"{self.final}\n{self.stderr}"
        assert self.exit_code == 0
        return self.final

    @property
    def failed(self) -> dict[str, Any]:
        assert self.final["event"] == "failed", self.final
        assert self.exit_code == 1
        return self.final

    @property
    def key(self) -> str:
        return str(self.done["archive_key"])


@dataclass(frozen=True)
class StorageJobEnvironment:
    """A workspace with a volume, a staging place and an archive store."""

    root: Path
    archive_url: str
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    workspace_id: UUID = field(default_factory=uuid4)
    installation_id: str = "this-installation"
    retry_delays: tuple[float, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    format_version: int = 1
    drop_capabilities: tuple[int, ...] = ()  # what root shall not be able to do

    @property
    def volume(self) -> Path:
        return self.root / "volume"

    @property
    def staging(self) -> Path:
        return self.root / "staging"

    def with_(self, **changes: Any) -> "StorageJobEnvironment":
        return replace(self, **changes)

    def order(self, kind: str, **more: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "workspace_id": str(self.workspace_id),
            "op_id": str(uuid4()),
            "installation_id": self.installation_id,
            "archive_url": self.archive_url,
            "volume_path": str(self.volume),
            "staging_dir": str(self.staging),
            "storage_options": dict(self.storage_options),
            "retry_delays": list(self.retry_delays),
            "format_version": self.format_version,
            **more,
        }

    def archive(self, op_id: UUID | None = None, **more: Any) -> Outcome:
        return self.run(self.order("archive", op_id=str(op_id or uuid4()), **more))

    def restore(self, key: str, **more: Any) -> Outcome:
        return self.run(self.order("restore", archive_key=key, **more))

    def run(self, order: Mapping[str, Any]) -> Outcome:
        with self.started(order) as process:
            stdout, stderr = process.communicate(timeout=_SECONDS)
        return outcome_of(process.returncode, stdout, stderr)

    @contextmanager
    def started(self, order: Mapping[str, Any]) -> Iterator[subprocess.Popen[str]]:
        """The job with its order given; it is gone when the block is left."""
        process = subprocess.Popen(
            [sys.executable, "-m", "codehub.archives.job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.env},
            preexec_fn=self._drop if self.drop_capabilities else None,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(order))
        process.stdin.close()
        process.stdin = None
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def _drop(self) -> None:
        drop_from_bounding_set = 24
        for capability in self.drop_capabilities:
            ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


def outcome_of(exit_code: int, stdout: str, stderr: str) -> Outcome:
    lines = [json.loads(line) for line in stdout.splitlines() if line.endswith("}")]
    return Outcome(exit_code=exit_code, lines=lines, stderr=stderr)
