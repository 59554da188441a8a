"""Tell work on an SSH connection from packets that only keep it alive.

CodeHub carries ciphertext: it sees how many bytes pass, and when. A keep-alive is some fifty bytes every few seconds;
keys in a row, files and output are more. Times are monotonic seconds.
"""

WINDOW_SECONDS = 10.0
INPUT_BYTES = 600
"""Of the client within the window: some seventeen keys, or twelve keep-alives of OpenSSH."""
OUTPUT_BYTES = 2048
"""Of the workspace within the window: a screen of text."""


class TrafficMeter:
    """When a connection was last used. ``used_at``: its opening counts."""

    def __init__(self, now: float) -> None:
        self.used_at = now
        self._input = _Window(INPUT_BYTES, now)
        self._output = _Window(OUTPUT_BYTES, now)

    def on_input(self, size: int, now: float) -> None:
        """Count bytes that the client sent."""
        if self._input.is_full(size, now):
            self.used_at = now

    def on_output(self, size: int, now: float) -> None:
        """Count bytes that the workspace sent."""
        if self._output.is_full(size, now):
            self.used_at = now


class _Window:
    """Counts bytes in windows of time, one after another."""

    def __init__(self, limit: int, now: float) -> None:
        self._limit = limit
        self._began_at = now
        self._bytes = 0

    def is_full(self, size: int, now: float) -> bool:
        """Add ``size`` to the present window. Returns whether it has more than the limit."""
        if now - self._began_at > WINDOW_SECONDS:
            self._began_at, self._bytes = now, 0
        self._bytes += size
        return self._bytes > self._limit
