"""Somebody with write access to the store puts another archive in the place of a workspace's own."""

import hashlib
import json
import shutil

import zstandard

from codehub.domain.errors import Reason
from tests.support.archive_forgery import tar_of
from tests.support.control import ControlEnvironment


async def test_another_archive_in_its_place_is_data_lost(environment: ControlEnvironment) -> None:
    async with environment.replica():
        mine, other = await environment.create(name="mine"), await environment.create(name="other")
        keys = {}
        for workspace_id in (mine, other):
            await environment.until_status(workspace_id, "running")
            await environment.intent(workspace_id, "archive")
            keys[workspace_id] = (await environment.until_status(workspace_id, "archived")).archive_key
        for suffix in ("", ".meta"):
            store = environment.data_dir / "archives"
            shutil.copy(store / f"{keys[other]}{suffix}", store / f"{keys[mine]}{suffix}")
        await environment.intent(mine, "start")
        ws = await environment.until_status(mine, "error")
        assert ws.error_info is not None
        assert ws.error_info.reason is Reason.DATA_LOST
        assert ws.error_info.context["code"] == "ARCHIVE_MISMATCH"


async def test_an_empty_archive_made_to_match_is_data_lost(environment: ControlEnvironment) -> None:
    """Its meta names this workspace and its own checksum: only the row tells that it is another archive."""
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        await environment.intent(workspace_id, "archive")
        key = (await environment.until_status(workspace_id, "archived")).archive_key
        raw = zstandard.ZstdCompressor().compress(tar_of())
        (environment.data_dir / "archives" / f"{key}").write_bytes(raw)
        meta = environment.data_dir / "archives" / f"{key}.meta"
        matching = {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw), "files": 0}
        meta.write_text(json.dumps(json.loads(meta.read_bytes()) | matching))
        await environment.intent(workspace_id, "start")
        ws = await environment.until_status(workspace_id, "error")
        assert ws.error_info is not None
        assert ws.error_info.context["code"] == "ARCHIVE_MISMATCH"
