"""Connect to a Unix socket in a directory that another user may write to.

That user could put a link there instead, to a socket that only the caller can reach. So the path's last part
is opened without following links, and the connection goes to exactly that file.
"""

import os
import socket
import stat

LONGEST_PATH = 107
"""Bytes: ``sun_path`` has 108, the last of which is a NUL."""


def connect_without_links(path: str) -> socket.socket:
    """Return a connected, non-blocking socket.

    Raises ``OSError`` at once if no process listens or the file is no socket.
    """
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(found).st_mode):
            raise ConnectionRefusedError(f"{path} is not a socket")
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.setblocking(False)
            connected.connect(f"/proc/self/fd/{found}")
        except BaseException:
            connected.close()
            raise
        return connected
    finally:
        os.close(found)
