"""Write the heads sent to the upstream and to the client.

Fields that pass through are copied byte for byte; those the proxy sets are written anew. A workspace gets none
of CodeHub's secrets. From a workspace, fields that would reach beyond it are dropped or rewritten: cookies for
other hosts or with CodeHub's names, a service worker's scope, Clear-Site-Data for the whole site.
"""

from dataclasses import dataclass

from codehub.proxy.http1.request import RequestHead
from codehub.proxy.http1.response import ResponseHead
from codehub.proxy.identity import Identity, may_be_read_as_own_cookie


@dataclass(frozen=True, slots=True)
class HeaderPolicy:
    """How heads to and from a destination are written.

    ``prefix``: the path of this destination as the browser sees it; empty on a workspace host.
    ``strips``: the prefix is removed before forwarding, since the upstream does not know it.
    """

    to_workspace: bool
    prefix: bytes = b""
    strips: bool = False
    extra: bytes = b""  # whole field lines for the upstream


API_POLICY = HeaderPolicy(to_workspace=False)


def forwarded_lines(*, chain: bytes, peer: bytes, scheme: bytes, host: bytes, prefix: bytes) -> bytes:
    """Write ``X-Forwarded-*`` and ``Forwarded``.

    Constant per connection, host and destination.
    """
    node = b"[%b]" % peer if b":" in peer else peer
    lines = b"X-Forwarded-For: %b\r\nX-Forwarded-Proto: %b\r\nX-Forwarded-Host: %b\r\n" % (
        chain,
        scheme,
        host,
    )
    # Forwarded without ``host=``: a host with a port has to be quoted, and code-server takes the quotes for a part
    # of the name, which then differs from Origin, and refuses every WebSocket. X-Forwarded-Host has the host.
    lines += b'Forwarded: for="%b";proto=%b\r\n' % (node, scheme)
    if prefix:
        lines += b"X-Forwarded-Prefix: %b\r\n" % prefix
    return lines


def upstream_fields(
    request: RequestHead,
    *,
    identity: Identity | None,
    forwarded: bytes,
    policy: HeaderPolicy,
    uncompressed: bool = False,
) -> bytes:
    """Write the head for the upstream, without its first line. ``uncompressed``: ask for the body as it is."""
    fields = request.fields
    parts = [b"Host: " + request.host, *request.block.kept]
    if uncompressed:
        parts = [line for line in parts if line[:16].lower() != b"accept-encoding:"]
        parts.append(b"Accept-Encoding: identity")
    if identity is not None:  # to a workspace: without CodeHub's own secrets
        cookie, authorization = identity.cookie, identity.authorization
    else:
        cookie, authorization = fields.get(b"cookie", b""), fields.get(b"authorization", b"")
    if cookie:
        parts.append(b"Cookie: " + cookie)
    if authorization:
        parts.append(b"Authorization: " + authorization)
    if request.block.chunked:
        parts.append(b"Transfer-Encoding: chunked")
    elif b"content-length" in fields:
        parts.append(b"Content-Length: %d" % request.block.length)
    if request.websocket:
        parts.append(b"Connection: Upgrade\r\nUpgrade: websocket")
    parts.append(forwarded + policy.extra)
    return b"\r\n".join(parts) + b"\r\n"


def client_head(response: ResponseHead, request: RequestHead, policy: HeaderPolicy, *, close: bool) -> bytes:
    """Write the response head for the client. ``close``: with ``Connection: close``."""
    is_plain = not close and request.minor and request.method == b"GET" and not response.restricted
    if is_plain and response.plain is not None:
        return response.plain
    start, status = response.start, response.status
    parts = [start if response.minor else b"HTTP/1.1" + start[8:], *response.kept]
    if response.restricted:
        _append_restricted(response, request, policy, parts)
    if response.length is not None and status != 204 and status >= 200:
        parts.append(b"Content-Length: %d" % response.length)
    elif response.chunked and request.minor and response.has_body(request.method):
        parts.append(b"Transfer-Encoding: chunked")
    if status == 101:
        parts.append(b"Connection: Upgrade\r\nUpgrade: websocket")
    elif close and status >= 200:
        parts.append(b"Connection: close")
    parts.append(b"\r\n")
    head = b"\r\n".join(parts)
    if is_plain:
        response.plain = head
    return head


def _append_restricted(
    response: ResponseHead, request: RequestHead, policy: HeaderPolicy, parts: list[bytes]
) -> None:
    for name, value in response.restricted:
        line = b"%b: %b" % (name, value)
        if not policy.to_workspace:
            parts.append(line)
            continue
        match name:
            case b"set-cookie":
                if _may_set(value, request.host, on_workspace_host=not policy.prefix):
                    parts.append(line)
            case b"location":
                parts.append(b"Location: " + _add_prefix(value, request.host, policy))
            case b"service-worker-allowed":
                # A wider scope would let the worker control pages of other workspaces and the dashboard.
                parts.append(b"Service-Worker-Allowed: %b/" % policy.prefix)
            case b"clear-site-data" if not policy.prefix:
                parts.append(line)
            case _:
                pass  # Alt-Svc would move the origin elsewhere; Clear-Site-Data would sign the person out


def _may_set(value: bytes, host: bytes, *, on_workspace_host: bool) -> bool:
    pair, *attributes = value.split(b";")
    if may_be_read_as_own_cookie(pair):
        return False
    for attribute in attributes:
        key, _, domain = attribute.partition(b"=")
        if key.strip(b" \t").lower() != b"domain":
            continue
        domain = domain.strip(b" \t").lower().removeprefix(b".")
        if domain and not (on_workspace_host and domain == host.partition(b":")[0]):
            return False
    return True


def _add_prefix(value: bytes, host: bytes, policy: HeaderPolicy) -> bytes:
    """Add the prefix to a redirect of an upstream that does not know its prefix."""
    if not policy.strips:
        return value
    for origin in (b"http://" + host, b"https://" + host):
        if value.startswith(origin + b"/"):
            value = value[len(origin) :]
            break
    inside = value.startswith(b"/") and not value.startswith((b"//", b"/\\"))
    if not inside or value == policy.prefix or value.startswith(policy.prefix + b"/"):
        return value
    return policy.prefix + value
