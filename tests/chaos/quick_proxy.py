"""The proxy's real process with short times: leases of three seconds, an outage after one.

python quick_proxy.py FD NUMBERS, with the settings in the environment, as ``codehub.server.proxy.process``.
"""

from functools import partial

from codehub.proxy import leases as activity
from codehub.server.proxy import process as proxy_process

LEASE_SECONDS = 3.0
RENEWAL_SECONDS = 1.0
OUTAGE_SECONDS = 1.0


def main() -> None:
    times = {
        "ActivityLog": {"lease_seconds": LEASE_SECONDS},
        "ProxySettings": {"lease_renewal": RENEWAL_SECONDS},
    }
    for name, arguments in times.items():
        setattr(proxy_process, name, partial(getattr(proxy_process, name), **arguments))
    setattr(activity, "OUTAGE", OUTAGE_SECONDS)  # noqa: B010 - a constant, shortened here alone
    proxy_process.main()


if __name__ == "__main__":
    main()
