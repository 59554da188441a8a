"""Remove discarded homes in a background thread.

A home may hold a million files, so this has a daemon thread of its own: ending CodeHub does not wait for it. A
crash anywhere is harmless: the next server continues.
"""

import os
import threading
from contextlib import suppress

from codehub.kit.trees import remove_tree
from codehub.runtimes.local.layout import Layout


class TrashSweeper:
    """Empties the trash after each ``sweep_soon``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._wanted = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def sweep_soon(self) -> None:
        self._wanted.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="codehub-trash", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            empty_trash(self._layout)


def empty_trash(layout: Layout) -> None:
    """Delete everything in the trash. Idempotent, also with several callers at once."""
    try:
        entries = os.listdir(layout.trash)
    except OSError:
        return
    for name in entries:
        with suppress(OSError):  # what cannot be deleted now is tried again next time
            remove_tree(layout.trash / name)
