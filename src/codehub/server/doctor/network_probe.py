"""Try addresses from inside a pod and report which answered. Run by ``codehub doctor`` as ``python3 -c``.

Nothing but the standard library is imported: the image it runs in may hold an older CodeHub, or none.

The order is JSON in the first argument: ``targets`` (name to host, port, and whether it is expected to answer),
``listen`` (a port, or null) and ``patience_seconds``. A network that has just got a pod may not treat it as it will, so
a target is tried until two tries in a row came out as expected, or patience ends; the last try counts.
"""

import json
import os
import socket
import sys
import threading
import time
from typing import Any

MARK = "codehub-network-probe: "
CONNECT_SECONDS = 2.0
PAUSE_SECONDS = 0.5


def main(order: dict[str, Any]) -> None:
    if order["listen"] is not None:
        threading.Thread(target=serve, args=(order["listen"],), daemon=True).start()
    found: dict[str, bool] = {}
    tries = [
        threading.Thread(target=settle, args=(found, name, order["targets"][name], order["patience_seconds"]))
        for name in order["targets"]
    ]
    for each in tries:
        each.start()
    for each in tries:
        each.join()
    sys.stdout.write(f"{MARK}{json.dumps({name: found[name] for name in order['targets']})}\n")
    sys.stdout.flush()
    if order["listen"] is not None:
        time.sleep(3600)  # listens until it is removed, or its deadline comes


def settle(found: dict[str, bool], name: str, target: tuple[str, int, bool], patience_seconds: float) -> None:
    """Try one target until the answer is the expected one twice, or patience ends."""
    host, port, expected = target
    if host.startswith("$"):  # a variable of the pod's environment
        host = os.environ.get(host[1:], "")
    ends_at = time.monotonic() + patience_seconds
    in_a_row = 0
    while True:
        found[name] = connects(host, port)
        in_a_row = in_a_row + 1 if found[name] == expected else 0
        if in_a_row == 2 or time.monotonic() > ends_at:
            return
        time.sleep(PAUSE_SECONDS)


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def serve(port: int) -> None:
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.create_server(
        ("", port), family=family, dualstack_ipv6=family is socket.AF_INET6
    ) as listening:
        while True:
            listening.accept()[0].close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
