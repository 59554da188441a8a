"""Find packs that no manifest names: the archive GC's mark and sweep for format 2.

A pack is known only to the manifests that name it and to the job that wrote it. So once a look finds that no manifest
of its workspace names it and no operation of the workspace is under way, nobody can ever name it again: a job learns of
packs from manifests alone, and new packs have names nobody had before. The order of a look matters: the operation is
read first, the manifests afterwards. A job that began before is seen by its operation, one that ended before by its
manifest; one that begins in between finds no manifest that names the pack. Only two leaders at once could delete such a
manifest in between, which is why a pack must be unnamed in two looks, the first longer than the delay ago.

On any doubt nothing of that workspace is swept: a manifest that cannot be read, a key in its folder that is not ours or
of a newer release, a current archive that is not listed.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from codehub.archives.keys import ArchivePath, PackPath, prefix_of
from codehub.archives.store import ArchiveObject
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.retention import Owner, may_sweep_packs_of

_READS_AT_ONCE = 16


class PackObjects(Protocol):
    """The archive store, as the sweep uses it."""

    def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]: ...

    async def pack_names(self, path: ArchivePath, size: int) -> frozenset[str] | None: ...

    async def delete_packs(self, packs: Sequence[PackPath]) -> None: ...


class PackMarks:
    """Reads which packs manifests name. Manifests never change, so each is read once."""

    def __init__(self, archives: PackObjects) -> None:
        self._archives = archives
        self._read: dict[ArchivePath, frozenset[str]] = {}
        self._slots = asyncio.Semaphore(_READS_AT_ONCE)

    async def unnamed(
        self, packs: Collection[PackPath], manifests: Mapping[ArchivePath, int]
    ) -> dict[UUID, list[PackPath]]:
        """Return the packs that no listed manifest names, by workspace. A first, cheap look at a listing."""
        self._read = {path: names for path, names in self._read.items() if path in manifests}
        by_workspace: dict[UUID, dict[ArchivePath, int]] = defaultdict(dict)
        for path, size in manifests.items():
            by_workspace[path.workspace_id][path] = size
        found: dict[UUID, list[PackPath]] = defaultdict(list)
        for pack in packs:
            found[pack.workspace_id].append(pack)

        async def look(workspace_id: UUID) -> tuple[UUID, list[PackPath]]:
            named = await self._named(by_workspace[workspace_id])
            if named is not None and by_workspace[workspace_id]:
                named |= {"index"}  # it goes last
            return workspace_id, _without(found[workspace_id], named)

        looked = await asyncio.gather(*(look(workspace_id) for workspace_id in list(found)))
        return {workspace_id: rest for workspace_id, rest in looked if rest}

    async def orphans(
        self, unnamed: Mapping[UUID, Sequence[PackPath]], owners: Mapping[UUID, Owner]
    ) -> list[PackPath]:
        """Return those that may be swept. ``owners`` was read before: the manifests are listed anew here."""
        found: list[PackPath] = []
        for workspace_id, packs in unnamed.items():
            owner = owners.get(workspace_id)
            if owner is None or not may_sweep_packs_of(owner):
                continue
            manifests = await self._list(workspace_id, owner)
            named = await self._named(manifests) if manifests is not None else None
            found.extend(pack for pack in _without(packs, named) if pack.name != "index" or owner.deleted)
        return found

    async def _list(self, workspace_id: UUID, owner: Owner) -> dict[ArchivePath, int] | None:
        """List the manifests of a workspace; None on doubt."""
        manifests: dict[ArchivePath, int] = {}
        current_is_listed = owner.archive_key is None or owner.deleted
        async for page in self._archives.list_paths(prefix_of(workspace_id)):
            for entry in page:
                if entry.parsed is None:
                    return None
                current_is_listed |= entry.key == owner.archive_key
                if entry.parsed.path.format_version == 2 and not entry.parsed.is_meta:
                    manifests[entry.parsed.path] = entry.size
        return manifests if current_is_listed else None

    async def _named(self, manifests: Mapping[ArchivePath, int]) -> frozenset[str] | None:
        """Return the names of all packs these manifests name; None on doubt."""
        sets = await asyncio.gather(*(self._names_of(path, size) for path, size in manifests.items()))
        known = [names for names in sets if names is not None]
        return frozenset().union(*known) if len(known) == len(sets) else None

    async def _names_of(self, path: ArchivePath, size: int) -> frozenset[str] | None:
        if path in self._read:
            return self._read[path]
        try:
            async with self._slots:
                names = await self._archives.pack_names(path, size)
        except EffectError as error:
            if error.failure is FailureCode.S3_ACCESS_ERROR:
                raise  # the cycle is skipped
            return None
        if names is not None:
            self._read[path] = names
        return names


def _without(packs: Sequence[PackPath], named: frozenset[str] | None) -> list[PackPath]:
    return [] if named is None else [pack for pack in packs if pack.name not in named]
