"""Library errors of object storage, translated once, at the edge.

Whatever the store says becomes one of three things: the object is not there, the disk is full, or the
store could not be reached. Messages of the library carry URLs and response bodies: they are cut short,
and request signatures are kept out.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError

from codehub.domain.errors import EffectError, FailureCode

LIBRARY_ERRORS: tuple[type[Exception], ...] = (BaseError, OSError, ValueError)
"""What obstore raises: its own tree, FileNotFoundError, and ValueError for a bad address."""

_DETAIL_LENGTH = 300
_QUERY = re.compile(r"\?[^\s\"')]*")


class ObjectMissing(Exception):
    """The store answered: no object has this key. Not yet a verdict, see ``ArchiveStore.read_meta``."""


@contextmanager
def translated(doing: str, *, endpoint: str, may_miss: bool = False) -> Iterator[None]:
    """Run a piece of work on the store; ``doing`` completes the sentence "… failed while …".

    ``may_miss``: the work is about an object that may not exist, told as ``ObjectMissing``. For all other
    work "not found" is about the bucket or the directory: the store is away.
    """
    try:
        yield
    except LIBRARY_ERRORS as error:
        if may_miss and isinstance(error, FileNotFoundError):
            raise ObjectMissing(str(error)) from error
        raise access_error(error, doing, endpoint=endpoint) from error


def access_error(error: BaseException, doing: str, *, endpoint: str) -> EffectError:
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
    """The library's first line without the query string, short enough for people and the database."""
    lines = str(error).strip().splitlines()
    text = _QUERY.sub("", lines[0]) if lines else type(error).__name__
    return text if len(text) <= _DETAIL_LENGTH else text[:_DETAIL_LENGTH] + "…"


def _is_disk_full(error: BaseException, detail: str) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return "No space left on device" in detail or "Disk quota exceeded" in detail
