"""How a command ends when it did not do what it was asked: a sentence, and an exit code scripts can go by."""

from enum import IntEnum

from codehub.domain.errors import CodeHubError


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_SIGNED_IN = 3
    NOT_FOUND = 4
    CONFLICT = 5  # or a limit
    INTERRUPTED = 130  # by Ctrl-C, as shells count it


class CommandError(CodeHubError):
    """The sentence says what is wrong and what to do; ``main.run`` prints it and leaves with the code."""

    code = "command_failed"

    def __init__(self, sentence: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(sentence)
        self.exit_code = int(exit_code)


class Unreachable(CommandError):
    """No answer, or none that makes sense: worth another try for whoever has time."""

    code = "unreachable"
