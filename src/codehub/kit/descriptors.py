"""Raise the limit of open files and sockets of this process."""

import resource


def allow_many() -> None:
    """Raise the soft limit RLIMIT_NOFILE to the hard limit.

    The usual soft limit, 1024, is for programs that use ``select``. Not for a process that starts others:
    they inherit the limit, and some of them use ``select``.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
