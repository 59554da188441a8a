"""Check what is open again, after something changed and every 15 s.

A WebSocket lasts for days, so its admission is repeated while it is open. A visitor's answers are checked too: a
download or an event stream must not outlive the share that allowed it.
"""

import time
from enum import Enum

from codehub.proxy.access.cache import DirectoryCache
from codehub.proxy.access.policy import is_visitor
from codehub.proxy.identity import Identity
from codehub.proxy.upstream.destinations import Destination


class Verdict(Enum):
    """What becomes of an open exchange or tunnel."""

    FINE = "fine"
    ENDED = "ended"  # whoever opened it may not any more
    PAUSED = "paused"  # the workspace accepts bytes and answers nothing


async def recheck(access: DirectoryCache, identity: Identity, to: Destination, *, is_tunnel: bool) -> Verdict:
    """Check an open exchange or tunnel with a workspace. Raises if the directory does not answer.

    Exchanges of people who may open the workspace are not checked for that: they end by themselves.
    """
    assert to.target is not None
    visits = to.visit_ends_at is not None
    if not visits and identity.credential is None:
        return Verdict.FINE
    principal = None
    if identity.credential is not None and (is_tunnel or visits):
        principal = await access.principal(identity.key, identity.credential)
    target = await access.target(to.target.id)
    if visits or is_tunnel:
        if target is None or target.paused:
            return Verdict.ENDED
        if principal is not None and principal.may_open(target):
            return Verdict.FINE
        visits = visits and is_visitor(
            to.port, principal=principal, target=target, link_key=identity.link_key, now=time.time()
        )
        return Verdict.FINE if visits else Verdict.ENDED
    return Verdict.PAUSED if target is not None and target.paused else Verdict.FINE
