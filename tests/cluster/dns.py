"""Names of services for pods: ``python -m tests.cluster.dns``. Everything else is asked of this machine's server.

Answers ``service.namespace.svc.cluster.local`` with the service's address, or with those of its pods if it has none of
its own; ``pod.service…`` with that pod's. Every question is looked up anew, so an answer is never older than a moment.
"""

import re
import socket
import socketserver
import struct
import sys
from pathlib import Path

import httpx

from tests.cluster.api import ApiError, KubernetesApi

DOMAIN = "cluster.local"
_SERVICE = re.compile(rf"^(?:([a-z0-9-]+)\.)?([a-z0-9-]+)\.([a-z0-9-]+)\.svc\.{re.escape(DOMAIN)}$")
_ADDRESS = 1
_TTL_SECONDS = 1
_ANSWER, _AUTHORITATIVE, _RECURSION, _FAILED, _NO_SUCH_NAME = 0x8000, 0x0400, 0x0080, 2, 3
_HEADER = struct.Struct("!HHHHHH")


class Names(socketserver.ThreadingUDPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: str, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.upstream = _upstream()
        super().__init__((address, 53), _Question)

    def find(self, name: str) -> list[str] | None:
        """The addresses of this name; None if there is no such name."""
        if (match := _SERVICE.match(name.lower())) is None:
            return None
        host, service, namespace = match.groups()
        api = KubernetesApi(self.kubeconfig)
        try:
            return _find(api, host, service, namespace)
        finally:
            api.close()


class _Question(socketserver.BaseRequestHandler):
    server: Names

    def handle(self) -> None:
        data, our_socket = self.request
        name, kind, end = _read_question(data)
        if not f".{name}".lower().endswith(f".{DOMAIN}"):
            reply = _ask(self.server.upstream, data)
        else:
            try:
                addresses, failure = self.server.find(name), _NO_SUCH_NAME
            except (httpx.HTTPError, ApiError):
                addresses, failure = None, _FAILED
            reply = _reply(data, end, addresses, asked=kind == _ADDRESS, failure=failure)
        our_socket.sendto(reply, self.client_address)


def _find(api: KubernetesApi, host: str | None, service: str, namespace: str) -> list[str] | None:
    found = api.find(f"/api/v1/namespaces/{namespace}/services/{service}")
    if found is None:
        return None
    if host is None and (address := found["spec"].get("clusterIP")) not in {None, "", "None"}:
        return [str(address)]
    slices = api.get(
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        labelSelector=f"kubernetes.io/service-name={service}",
    )
    endpoints = [each for one in slices["items"] for each in one.get("endpoints") or []]
    ready = [each for each in endpoints if each.get("conditions", {}).get("ready") is not False]
    chosen = ready if host is None else [each for each in endpoints if each.get("hostname") == host]
    return [address for each in chosen for address in each["addresses"]] or (None if host else [])


def _read_question(data: bytes) -> tuple[str, int, int]:
    """The first question's name and type, and where it ends."""
    labels, at = [], _HEADER.size
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode("ascii", "replace"))
        at += 1 + length
    (kind,) = struct.unpack_from("!H", data, at + 1)
    return ".".join(labels), kind, at + 5


def _reply(data: bytes, end: int, addresses: list[str] | None, *, asked: bool, failure: int) -> bytes:
    (number, flags, *_) = _HEADER.unpack_from(data)
    found = addresses if addresses is not None and asked else []
    flags = (flags & 0x0100) | _ANSWER | _AUTHORITATIVE | _RECURSION | (failure if addresses is None else 0)
    records = b"".join(
        struct.pack("!HHHIH4s", 0xC00C, _ADDRESS, 1, _TTL_SECONDS, 4, socket.inet_aton(each))
        for each in found
    )
    return _HEADER.pack(number, flags, 1, len(found), 0, 0) + data[_HEADER.size : end] + records


def _ask(server: str, data: bytes) -> bytes:
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.settimeout(5)
            asking.sendto(data, (server, 53))
            return asking.recv(4096)
    except OSError:
        (number, *_) = _HEADER.unpack_from(data)
        return _HEADER.pack(number, _ANSWER | _RECURSION | _FAILED, 0, 0, 0, 0)


def _upstream() -> str:
    found = re.search(r"^nameserver\s+(\S+)", Path("/etc/resolv.conf").read_text(), re.M)
    return found[1] if found else "127.0.0.1"


if __name__ == "__main__":
    Names(sys.argv[1], Path(sys.argv[2])).serve_forever()
