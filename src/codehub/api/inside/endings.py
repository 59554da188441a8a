"""How a person's session in a workspace ended: SSH (``api/ssh``) and terminals (``api/terminal``)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionEnd:
    """How a session ended: the WebSocket's code, one sentence for the person, and what helps who has our command."""

    code: int
    sentence: str
    command: str = ""

    @property
    def reason(self) -> str:
        """One line for somebody who has our command."""
        return f"{self.sentence} {self.command}".rstrip()


_EXPLAIN = "codehub ws explain NAME says why."

CLOSED = SessionEnd(1000, "")
LOST = SessionEnd(1001, "The connection was lost.")
STOPPED = SessionEnd(
    4001, "The workspace was stopped or put to sleep.", "To wake it: codehub ssh --wake NAME"
)
ENDING = SessionEnd(1001, "This CodeHub process ends: connect again.")
REVOKED = SessionEnd(4002, "You were signed out, or the token or key was revoked.")
DELETED = SessionEnd(4003, "The workspace was deleted.")
BROKEN = SessionEnd(4004, "The workspace is in error.", _EXPLAIN)
NOT_STARTED = SessionEnd(4005, "The workspace did not start in time.", _EXPLAIN)
NO_TUNNEL = SessionEnd(
    4006, "CodeHub could not connect into the workspace: stop and start it once. The server's log says why."
)

_CLOSED_BY_CLIENT = 1000


def end_of_socket(code: int | None) -> SessionEnd:
    """How a client left its WebSocket. A proxy that ends says 1001: the client was not asked, and may come back."""
    return CLOSED if code == _CLOSED_BY_CLIENT else LOST


# Of terminals. A browser shows words of its own for each code.
TAKEN_OVER = SessionEnd(4007, "The terminal was opened somewhere else.")
SHELL_ENDED = SessionEnd(4008, "The shell has ended.")
TOO_MANY_SHELLS = SessionEnd(4009, "The workspace has as many terminals open as it may.")
NO_SHELL = SessionEnd(4010, "There is no shell in this workspace.")
NOT_AVAILABLE = SessionEnd(
    4011, "Terminals are not available here. On the server, codehub doctor says why (ssh)."
)
BUSY = SessionEnd(4012, "The workspace has too many commands, transfers and terminals under way.")
MISUSED = SessionEnd(1008, "Not what a terminal sends.")
MISUSED_COMMAND = SessionEnd(1008, "Not what a command is sent, or more input than it has taken.")
AWAY = SessionEnd(1013, "Try again in a moment.")
