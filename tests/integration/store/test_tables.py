"""Each column of ``workspaces`` has the one writer the specification names."""

from codehub.store.schema.tables import Writer, workspaces

WRITERS = {
    Writer.API: {
        "id",
        "owner_id",
        "name",
        "description",
        "memo",
        "tags",
        "pinned",
        "image_ref",
        "desired_state",
        "standby_ttl_seconds",
        "archive_ttl_seconds",
        "last_access_at",
        "awake_until",
        "active_until",
        "busy",
        "restore_from",
        "snapshot_as",
        "snapshots",
        "copy_of",
        "queued_at",
        "deleted_at",
    },
    Writer.OBSERVER: {"observed_status", "health_status", "observed_at"},
    Writer.RECONCILER: {
        "operation",
        "op_id",
        "op_seq",
        "op_started_at",
        "op_acted_at",
        "archive_key",
        "error_count",
        "error_info",
        "last_retry_at",
        "previous_status",
        "home_ctx",
    },
    Writer.DATABASE: {
        "version",
        "created_at",
        "updated_at",
        "due_lane",
        "due_since",
        "archive_due_at",
        "holds_place",
        "watched",
        "status",
    },
}


def test_every_column_names_its_writer() -> None:
    written_by: dict[Writer, set[str]] = {writer: set() for writer in Writer}
    for column in workspaces.columns:
        written_by[column.info["writer"]].add(column.name)
    assert written_by == WRITERS


def test_every_time_has_a_zone() -> None:
    for table in workspaces.metadata.tables.values():
        for column in table.columns:
            if column.name.endswith(("_at", "_until", "_since")) or column.name == "at":
                assert getattr(column.type, "timezone", False), f"{table.name}.{column.name}"
