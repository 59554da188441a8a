"""Compare an archive with the workspace it is restored into, or built upon."""

from dataclasses import fields

from codehub.archives.keys import ArchivePath
from codehub.archives.meta import ArchiveMeta, Binding
from codehub.archives.request import JobRequest
from codehub.domain.errors import EffectError, FailureCode


def require_ours(meta: ArchiveMeta, path: ArchivePath, request: JobRequest) -> None:
    """Raise ``ARCHIVE_MISMATCH`` (data lost) unless the archive is this workspace's, or the one it is a copy of.

    Its checksum must be the one the database committed together with its key; workspace, operation and
    installation must be the ones its meta names. What an older release did not record cannot be compared, and is not
    copied: the source of a copy is proven, or nothing is restored.
    """
    source_id = request.archive_source_id
    expected = Binding(source_id or request.workspace_id, path.op_id, request.installation_id)
    if path.workspace_id != expected.workspace_id:
        raise _not_ours(path, "it lies in the folder of another workspace")
    if source_id is not None and (meta.binding is None or request.archive_sha256 is None):
        raise _not_ours(path, "a copy is made of archives that name their workspace and checksum only")
    if path.format_version != meta.format_version:
        raise _not_ours(path, "its meta names another format")
    if meta.binding is not None:
        for field in fields(Binding):
            found, wanted = getattr(meta.binding, field.name), getattr(expected, field.name)
            if found != wanted:
                what = _NAMED[field.name]
                raise _not_ours(
                    path, f"its meta names another {what}", expected=str(wanted), actual=ascii(found)
                )
    if request.archive_sha256 is not None and meta.sha256 != request.archive_sha256:
        raise _not_ours(
            path,
            "its checksum is not the one that was committed with its key",
            expected=request.archive_sha256,
            actual=meta.sha256,
        )


_NAMED = {"workspace_id": "workspace", "op_id": "operation", "installation_id": "installation"}


def _not_ours(path: ArchivePath, why: str, **compared: str) -> EffectError:
    return EffectError(
        FailureCode.ARCHIVE_MISMATCH,
        f"The archive in this place is not the one that was made of this workspace: {why}. "
        "The volume was left as it was.",
        archive_key=path.key,
        detail=why,
        **compared,
    )
