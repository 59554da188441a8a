"""Exec a program that ends with its parent, as another user if asked to.

Run as a script (``python -I -S launch.py … -- program arguments``), never imported: between fork and exec of
a threaded parent almost nothing is safe to do, so the few system calls needed here happen in a small
interpreter of its own, which then turns into the program. The process id stays the same throughout.

* ``--dies-with PARENT SIGNAL``: the kernel sends SIGNAL when PARENT ends, whichever way, kill -9 included.
* ``--as UID GID``: change to this user. PostgreSQL refuses to run as root, even in a container where root is
  the only user.
* ``--may-search``: keep, of root's capabilities, the one to pass through directories that are closed to others
  (``/root``, where both the environment and the data directory often are). The alternative is to open these
  directories to everybody, which the operator has to decide.

**access(2) ignores capabilities** of a user other than root unless the securebit NO_SETUID_FIXUP is set, and
PostgreSQL's programs find each other with it. So the bit is set as well.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_SET_SECUREBITS = 28
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
SECBIT_NO_SETUID_FIXUP = 1 << 2
SECBIT_KEEP_CAPS = 1 << 4
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522

ADVICE = (
    "Run CodeHub as an ordinary user, set DATABASE_URL, or put both CodeHub and CODEHUB_DATA_DIR "
    "where everybody may enter."
)


def main(arguments: list[str]) -> None:
    split = arguments.index("--")
    options, command = arguments[:split], arguments[split + 1 :]
    if "--as" in options:
        at = options.index("--as")
        keep_one_of = searching(command[0]) if "--may-search" in options else ()
        become(int(options[at + 1]), int(options[at + 2]), keep_one_of=keep_one_of)
    if "--dies-with" in options:  # after become(): a change of user clears it
        at = options.index("--dies-with")
        die_with(int(options[at + 1]), int(options[at + 2]))
    os.execv(command[0], command)


def searching(program: str) -> tuple[int, ...]:
    """Capabilities to run ``program`` and pass through directories, the least first.

    CAP_DAC_READ_SEARCH cannot execute a file closed to others (``umask 077``).
    """
    may_everybody_run = os.stat(program).st_mode & 0o001
    return (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE) if may_everybody_run else (CAP_DAC_OVERRIDE,)


def become(uid: int, gid: int, *, keep_one_of: tuple[int, ...]) -> None:
    if keep_one_of and prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_KEEP_CAPS) != 0:
        sys.exit(f"This root has no CAP_SETPCAP. {ADVICE}")
    try:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        sys.exit(f"This root may not become another user (uid {uid}): {error.strerror}. {ADVICE}")
    if keep_one_of and not any(keep_capability(one) for one in keep_one_of):
        sys.exit(f"This root may not pass through directories that are closed to others. {ADVICE}")


def keep_capability(capability: int) -> bool:
    """Keep exactly one capability through the next exec. False: this root lacks it."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    bit = 1 << capability
    data = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)  # effective, permitted, inheritable; low, then high
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(ctypes.byref(header), ctypes.byref(data)) != 0:
        return False
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability) == 0


def die_with(parent: int, signal: int) -> None:
    if sys.platform != "linux":
        return
    prctl(PR_SET_PDEATHSIG, signal)
    if os.getppid() != parent:  # it died before the prctl, so no signal will come
        sys.exit(0)


def prctl(option: int, first: int, second: int = 0) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(value) for value in (first, second, 0, 0)]
    return int(libc.prctl(ctypes.c_int(option), *arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
