"""Errors the store raises, and which driver errors are outages."""

import asyncpg

from codehub.domain.errors import CodeHubError

# What the driver raises by itself. InternalClientError also means a server that has announced its shutdown and not
# closed the connection yet, beside defects of the driver.
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

DATABASE_FAILED = (*DRIVER_ERRORS, OSError, TimeoutError)
"""Everything a statement may fail with, network errors included."""

# Classes of SQLSTATE: connection exception, transaction rollback (retry), insufficient resources, lock not
# available, operator intervention.
_OUTAGES = frozenset({"08", "40", "53", "55", "57"})


class StoreError(CodeHubError):
    """The database could not be used as asked."""

    code = "store_error"


class DatabaseUrlInvalid(StoreError):
    """DATABASE_URL is not a PostgreSQL URL."""

    code = "database_url_invalid"


class DatabaseNewer(StoreError):
    """The database was migrated by a newer CodeHub than this one."""

    code = "database_newer"

    def __init__(self, revision: str, head: str) -> None:
        super().__init__(
            f"The database is at revision {revision}, which this CodeHub does not know "
            f"(its newest is {head}). A newer CodeHub has migrated it: upgrade this program, "
            "or restore a backup from before."
        )
        self.revision = revision
        self.head = head


class NoResult(LookupError):
    """A query that must return one row returned none or several: a defect of ours.

    Not an error for people.
    """


class TermOver(StoreError):
    """The term a write belongs to is over; nothing was written."""

    code = "term_over"


class NameTaken(StoreError):
    """Another live workspace of this owner has that name."""

    code = "name_taken"


class UsernameTaken(StoreError):
    """Another user has that name."""

    code = "username_taken"


class SshKeyTaken(StoreError):
    """Somebody has registered this public key already."""

    code = "key_taken"


def is_outage(error: BaseException) -> bool:
    """Return whether the error is an outage, so that a retry may succeed.

    A connection that broke, a server that shuts down or starts, a statement that waited too long. Anything
    else is the statement's own fault; a retry fails again.
    """
    if isinstance(error, asyncpg.PostgresError):
        return not error.sqlstate or error.sqlstate[:2] in _OUTAGES
    return isinstance(error, DATABASE_FAILED)


def database_failure(error: BaseException | None) -> BaseException | None:
    """Return the outage in the chain of causes of ``error``; None if there is none."""
    while error is not None and not is_outage(error):
        error = error.__cause__
    return error
