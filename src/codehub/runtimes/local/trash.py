"""Taking discarded homes apart, out of everybody's way.

A home may hold a million files, so this has a thread of its own, and a daemon one: ending CodeHub does not
wait for it. Being cut off anywhere is fine, the next server goes on where this one stopped.
"""

import os
import threading
from contextlib import suppress

from codehub.kit.trees import remove_tree
from codehub.runtimes.local.layout import Layout


class TrashSweeper:
    """Empties the trash whenever it is told that something was thrown in."""

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
    """Delete what lies in the trash. May be killed anywhere and called by several at once."""
    try:
        entries = os.listdir(layout.trash)
    except OSError:
        return
    for name in entries:
        with suppress(OSError):  # what cannot go now is tried again next time
            remove_tree(layout.trash / name)
