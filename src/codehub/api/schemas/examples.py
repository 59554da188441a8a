"""Examples for the OpenAPI document. A test checks each against its model."""

from typing import Any

_ID = "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f"
_OWNER = "0190c7a0-0000-7000-8000-000000000001"
_OP = "7b0f5c1e-52c4-4f5e-9d0e-1f1d5b5f6a01"
_KEY = f"{_ID}/{_OP}/0190c7a25b1e7c3d9f003a5d2c1b4e6f/home.tar.zst"

WORKSPACE: dict[str, Any] = {
    "id": _ID,
    "owner_id": _OWNER,
    "name": "thesis",
    "description": "",
    "memo": "",
    "tags": ["papers"],
    "pinned": False,
    "image_ref": "jupyterlab",
    "desired_state": "RUNNING",
    "standby_ttl_seconds": 300,
    "archive_ttl_seconds": 86400,
    "last_access_at": "2025-01-01T12:00:00+00:00",
    "awake_until": None,
    "active_until": None,
    "queued_at": None,
    "deleted_at": None,
    "observed_status": "RUNNING",
    "health_status": "OK",
    "observed_at": "2025-01-01T12:00:05+00:00",
    "operation": "NONE",
    "op_id": None,
    "op_seq": 3,
    "op_started_at": None,
    "op_acted_at": None,
    "archive_key": None,
    "archived_at": None,
    "node_local_home": False,
    "restore_from": None,
    "snapshot_as": None,
    "copy_of": None,
    "return_given_up": None,
    "error_count": 0,
    "error_info": None,
    "last_retry_at": None,
    "previous_status": None,
    "version": 9,
    "created_at": "2025-01-01T11:00:00+00:00",
    "updated_at": "2025-01-01T12:00:05+00:00",
    "status": "running",
    "holds_place": True,
    "progress": None,
    "waiting_for": None,
    "url": f"https://codehub.example.org/w/{_ID}/",
    "activity": {
        "connections": 0,
        "last_seen_at": "2025-01-01T12:00:00+00:00",
        "kind": "http",
        "awake": {"because": "used", "since": "2025-01-01T12:00:00+00:00", "work": None},
        "next": {"to": "STANDBY", "at": "2025-01-01T12:05:00+00:00", "why": "idle for 5 min"},
        "queue": None,
    },
}
NEW_WORKSPACE: dict[str, Any] = {"name": "thesis", "image_ref": "jupyterlab", "start": True}
USER: dict[str, Any] = {
    "id": _OWNER,
    "username": "ann",
    "role": "user",
    "created_at": "2025-01-01T10:00:00+00:00",
    "disabled_at": None,
}
TOKEN: dict[str, Any] = {
    "id": _ID,
    "name": "laptop",
    "created_at": "2025-01-01T10:00:00+00:00",
    "expires_at": "2025-04-01T10:00:00+00:00",
    "last_used_at": None,
}
SSH_KEY: dict[str, Any] = {
    "id": _ID,
    "name": "laptop",
    "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII38LAmTqn7IksOkCKTigyQQ14kQ0F8LndRfe+nmkQ2S",
    "fingerprint": "SHA256:WxML8JEKqn6a2mQEje+Z7z+ElgmfAcZpeRAgOrZ11Qo",
    "added_at": "2025-01-01T10:00:00+00:00",
    "last_used_at": None,
}
SSH_GATEWAY: dict[str, Any] = {
    "host": "codehub.example.org",
    "port": 2222,
    "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBJ9GfX85iiqotD+ELkt1S9yLMdTE1NVAU7ZjPktZN6q",
    "fingerprint": "SHA256:lTKuXpVfL4OT8vVB+h1O2gzOERv3g81TE/2UmlQZfY0",
}
HISTORY_ENTRY: dict[str, Any] = {
    "seq": 41,
    "version": 9,
    "at": "2025-01-01T12:00:05+00:00",
    "changes": {"observed_status": ["STANDBY", "RUNNING"]},
    "actor": "observer",
    "cause": None,
    "cause_code": None,
    "cause_params": {},
}
ARCHIVE: dict[str, Any] = {
    "key": _KEY,
    "bytes": 1048576,
    "files": 120,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "created_at": "2025-01-01T09:00:00+00:00",
    "current": False,
    "chosen": False,
    "damaged": False,
    "expiring": False,
    "snapshot": {"id": _ID, "name": "before the upgrade"},
}
RESTORE: dict[str, Any] = {"op_id": _KEY.split("/")[1], "attempt": _KEY.split("/")[2], "start": True}
AUDIT_ENTRY: dict[str, Any] = {
    "seq": 7,
    "at": "2025-01-01T12:00:00+00:00",
    "actor": "user:ann",
    "action": "workspace.desired.running",
    "subject": _ID,
    "detail": {},
}
ORPHAN: dict[str, Any] = {
    "kind": "archive",
    "name": _KEY,
    "first_seen_at": "2025-01-01T09:00:00+00:00",
    "bytes": None,
    "why": "expiring",
}
FINDING: dict[str, Any] = {
    "kind": "unknown_volume",
    "subject": "ws-0190b6a8-4f7e-7c3b-9d2e-1f6a5b4c3d2e-home",
    "workspace_id": "0190b6a8-4f7e-7c3b-9d2e-1f6a5b4c3d2e",
    "name": None,
    "owner": None,
    "since": None,
    "bytes": None,
    "message": None,
    "operation": None,
    "repairs": ["adopt"],
}
SETTING: dict[str, Any] = {
    "name": "STANDBY_TTL",
    "value": "600",
    "default": "300",
    "meaning": "Idle seconds before a workspace sleeps",
    "secret": False,
    "changed": True,
}
OVERVIEW: dict[str, Any] = {
    "counts": {"running": 3, "standby": 5, "archived": 40},
    "leaders": [
        {
            "name": "coordinator:wc",
            "holder_id": "host-1",
            "acquired_at": "2025-01-01T08:00:00+00:00",
            "epoch": 4,
            "last_tick_at": "2025-01-01T12:00:00+00:00",
        }
    ],
    "archive_bytes": 5368709120,
}
