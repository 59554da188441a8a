"""The store for coordinators and services: its functions under one name.

This module is PostgreSQL's ``coordinators/control_store.ControlStore`` and ``services/intent_store.IntentStore``.
Each function is defined, and its guarantees are documented, in the module it is imported from.
"""

from codehub.store.accounts.audit import append as append_audit
from codehub.store.cluster.orphans import copied_among, forget, load_owners, orphans_among, replace_seen
from codehub.store.cluster.terms import (
    acquire_term,
    hold_term,
    last_tick_at,
    read_terms,
    record_error,
    record_tick,
)
from codehub.store.db.context import set_actor
from codehub.store.db.fencing import Fence, FencedSession
from codehub.store.db.row_locks import lock_in_order
from codehub.store.db.session import Connection, Session, SingleConnection
from codehub.store.db.statements import now
from codehub.store.workspaces.bulk_claims import claim_all, complete_all
from codehub.store.workspaces.claims import (
    catch_up,
    commit_archive_key,
    go_terminal,
    holds,
    mark_home,
    mark_restored,
    record_crash,
    record_failure,
    release,
    set_error_without_operation,
    switch_archive,
)
from codehub.store.workspaces.due import load_in_flight, load_work
from codehub.store.workspaces.events import append_note
from codehub.store.workspaces.intents import (
    create,
    mark_deleted,
    recover,
    set_awake_until,
    set_busy,
    set_copy_of,
    set_desired,
    set_queued,
    set_restore_from,
    set_snapshots,
    touch,
    update_details,
)
from codehub.store.workspaces.limits import lock_limits, running_of, usage_for
from codehub.store.workspaces.observations import (
    load_named,
    load_watched,
    set_invariant_error,
    stamp_coarse,
    stamp_in_flight,
    write_observations,
)
from codehub.store.workspaces.queries import find, find_locked
from codehub.store.workspaces.start_queue import load_start_queue
from codehub.store.workspaces.ttl import load_archive_candidates, load_standby_candidates


def session_on(connection: Connection) -> Session:
    """Open a session on a connection the caller owns."""
    return Session(SingleConnection(connection))


def fenced_session_on(connection: Connection, fence: Fence) -> FencedSession:
    """Open a session for one statement, fenced, on a connection the caller owns."""
    return FencedSession(SingleConnection(connection), fence)


__all__ = [
    "acquire_term",
    "append_audit",
    "append_note",
    "catch_up",
    "claim_all",
    "commit_archive_key",
    "complete_all",
    "copied_among",
    "create",
    "fenced_session_on",
    "find",
    "find_locked",
    "forget",
    "go_terminal",
    "hold_term",
    "holds",
    "last_tick_at",
    "load_archive_candidates",
    "load_in_flight",
    "load_named",
    "load_owners",
    "load_standby_candidates",
    "load_start_queue",
    "load_watched",
    "load_work",
    "lock_in_order",
    "lock_limits",
    "mark_deleted",
    "mark_home",
    "mark_restored",
    "now",
    "orphans_among",
    "read_terms",
    "record_crash",
    "record_error",
    "record_failure",
    "record_tick",
    "recover",
    "release",
    "replace_seen",
    "running_of",
    "session_on",
    "set_actor",
    "set_awake_until",
    "set_busy",
    "set_copy_of",
    "set_desired",
    "set_error_without_operation",
    "set_invariant_error",
    "set_queued",
    "set_restore_from",
    "set_snapshots",
    "stamp_coarse",
    "stamp_in_flight",
    "switch_archive",
    "touch",
    "update_details",
    "usage_for",
    "write_observations",
]
