"""How many files and sockets this process may have open at once."""

import resource


def allow_many() -> None:
    """As many as the system lets it have. The usual first limit, 1024, is for programs that use ``select``.

    Not for a process that starts others: they would inherit it, and some of them do.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
