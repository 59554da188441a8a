"""What the server refused, as errors of commands: the server's sentence, and an exit code by status.

Imports httpx, which is slow, so commands import this only when they run.
"""

from typing import Any

import httpx

from codehub.cli.failures import CommandError, ExitCode, Unreachable
from codehub.cli.words import clean

_EXIT_OF_STATUS = {
    401: ExitCode.NOT_SIGNED_IN,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    422: ExitCode.USAGE,
    429: ExitCode.CONFLICT,
}


class Refusal(CommandError):
    """The server refused the request; the message says why."""

    code = "refused"

    def __init__(self, sentence: str, *, status: int, problem: str) -> None:
        super().__init__(sentence, _EXIT_OF_STATUS.get(status, ExitCode.FAILED))
        self.status = status
        self.problem = problem

    @property
    def is_outage(self) -> bool:
        """Whether the server answers but something behind it does not: worth a retry."""
        return self.status >= 500


class NotFound(Refusal):
    """The object does not exist, or the person may not see it."""

    code = "not_found"


def content_of(response: httpx.Response, url: str) -> dict[str, Any]:
    """An answer's JSON object. Raises ``Unreachable`` if CodeHub would not answer so."""
    try:
        content = response.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Unreachable(f"What answers at {url} is not CodeHub, or something stands in between.")
    return content


def refusal_of(response: httpx.Response, url: str) -> CommandError:
    """Translate an answer that is no success, of whatever way it came."""
    try:
        problem = content_of(response, url)
    except Unreachable as error:
        return error
    detail = str(problem.get("detail") or problem.get("title") or f"Refused ({response.status_code}).")
    code = str(problem.get("code", ""))
    if code == "unauthorized":
        detail = f"{url} does not take this token any more. Sign in again: codehub login {url}"
    if running := problem.get("running"):
        names = ", ".join(str(each.get("name")) for each in running)
        detail += (
            f" Running: {names}. Stop one first (codehub ws stop NAME), let one give its place "
            "(codehub ws start --instead-of NAME), or wait in line (codehub ws start --queue)."
        )
    kind = NotFound if response.status_code == httpx.codes.NOT_FOUND else Refusal
    return kind(clean(detail), status=response.status_code, problem=code)
