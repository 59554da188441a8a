"""The simulated ``ControlStore``: twins of the functions in ``codehub.store.control``, under the same names.

The coordinators get ``STORE`` where a server passes ``codehub.store.control`` (``environment``), the people of the
simulation pass it to the services. Planted bugs replace a function of this module. The twins take the
simulation's own session, which is why ``STORE`` is a cast; ``test_parity_refusals.py`` in
``tests/integration/store`` compares the signatures.
"""

import sys
from typing import cast

from codehub.coordinators.control_store import ControlStore
from codehub.store.db.fencing import Fence
from tests.simulation import queries_terms
from tests.simulation.connection import Connection, FencedSession, Session
from tests.simulation.queries import (
    append_note,
    catch_up,
    claim_all,
    commit_archive_key,
    complete_all,
    go_terminal,
    holds,
    lock_in_order,
    mark_home,
    mark_restored,
    now,
    record_crash,
    record_failure,
    release,
    set_actor,
    set_error_without_operation,
    switch_archive,
)
from tests.simulation.queries_due import (
    copied_among,
    forget,
    load_archive_candidates,
    load_in_flight,
    load_owners,
    load_standby_candidates,
    load_start_queue,
    load_work,
    lock_limits,
    orphans_among,
    replace_seen,
    running_of,
    usage_for,
)
from tests.simulation.queries_rows import (
    append_audit,
    create,
    find,
    find_locked,
    load_named,
    load_watched,
    mark_deleted,
    recover,
    set_awake_until,
    set_busy,
    set_copy_of,
    set_desired,
    set_invariant_error,
    set_queued,
    set_restore_from,
    set_snapshots,
    stamp_coarse,
    stamp_in_flight,
    touch,
    update_details,
    write_observations,
)
from tests.simulation.queries_terms import (
    acquire_term,
    hold_term,
    last_tick_at,
    read_terms,
    record_error,
    record_tick,
)


def session_on(connection: Connection) -> Session:
    return Session(connection)


def fenced_session_on(connection: Connection, fence: Fence) -> FencedSession:
    return FencedSession(connection, fence, queries_terms.term_lasts)


STORE = cast(ControlStore, sys.modules[__name__])

__all__ = [
    "STORE",
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
