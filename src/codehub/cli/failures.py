"""Errors of commands: a message for people, and an exit code for scripts."""

from enum import IntEnum

from codehub.domain.errors import CodeHubError


class ExitCode(IntEnum):
    """Exit codes of the ``codehub`` command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_SIGNED_IN = 3
    NOT_FOUND = 4
    CONFLICT = 5  # or a limit
    INTERRUPTED = 130  # by Ctrl-C, as shells count it


class CommandError(CodeHubError):
    """A command failed. ``main.run`` prints the message and exits with ``exit_code``.

    The message says what is wrong and what to do.
    """

    code = "command_failed"

    def __init__(self, sentence: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(sentence)
        self.exit_code = int(exit_code)


class Unreachable(CommandError):
    """The server did not answer, or not as CodeHub. May be retried."""

    code = "unreachable"
