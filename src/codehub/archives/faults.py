"""Translate errors of object storage to ``EffectError``, in one place.

An error becomes one of three things: the object does not exist, the disk is full, or the store could not be
reached. Messages of the library carry URLs and response bodies: they are cut short, and request signatures
are removed.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError

from codehub.domain.errors import EffectError, FailureCode

LIBRARY_ERRORS: tuple[type[Exception], ...] = (BaseError, OSError, ValueError)
"""What obstore raises: its own exceptions, FileNotFoundError, and ValueError for an invalid URL."""

_DETAIL_LENGTH = 300
_QUERY = re.compile(r"\?[^\s\"')]*")


class ObjectMissing(Exception):
    """The store answered that no object has this key.

    Whether data is lost is decided by ``ArchiveStore.missing``.
    """


@contextmanager
def translated(doing: str, *, endpoint: str, may_miss: bool = False) -> Iterator[None]:
    """Translate errors of store calls; ``doing`` completes "… failed while …".

    ``may_miss``: the object may not exist, raised as ``ObjectMissing``. For all other calls "not found" is
    about the bucket or the directory: the store is away.
    """
    try:
        yield
    except LIBRARY_ERRORS as error:
        if may_miss and isinstance(error, FileNotFoundError):
            raise ObjectMissing(str(error)) from error
        raise access_error(error, doing, endpoint=endpoint) from error


def access_error(error: BaseException, doing: str, *, endpoint: str) -> EffectError:
    """Build the ``NO_SPACE`` or ``S3_ACCESS_ERROR`` of a library error."""
    detail = describe(error)
    if _is_disk_full(error, detail):
        return EffectError(
            FailureCode.NO_SPACE,
            f"The archive store {endpoint} is full: no space left while {doing}. "
            "Free some space there or give it a larger disk.",
            endpoint=endpoint,
        )
    return EffectError(
        FailureCode.S3_ACCESS_ERROR,
        f"The archive store {endpoint} failed while {doing}: {detail}",
        endpoint=endpoint,
        detail=detail,
    )


def describe(error: BaseException) -> str:
    """Return the first line of an error without query strings, at most 300 characters."""
    lines = str(error).strip().splitlines()
    text = _QUERY.sub("", lines[0]) if lines else type(error).__name__
    return text if len(text) <= _DETAIL_LENGTH else text[:_DETAIL_LENGTH] + "…"


def _is_disk_full(error: BaseException, detail: str) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return "No space left on device" in detail or "Disk quota exceeded" in detail
