"""Commands run in the container for what an engine's exec cannot do: ending it, its surroundings.

Neither Docker nor Kubernetes can signal a command they run in a container: they forget it, and it goes on
(opencontainers/runc#3359). So a second exec, with the rights of the first, finds it by its mark and signals it.

This is done by ``inside``, which a workspace mounts. One that was started without it (by an older release, or where it
was not built) needs ``/bin/sh`` of its image, for a few lines that are all built in.
"""

import re
from collections.abc import Mapping, Sequence

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.exec_stream import MARK
from codehub.runtimes.inside import PROGRAM

# $1: the mark; $2: the signal. SIGKILL is repeated until nobody with the mark is left, as processes fork meanwhile.
# NUL bytes, which separate the entries of an environment, are dropped by "read".
_SIGNAL = """
rounds=0
while [ "$rounds" -lt 100 ]; do
  found=
  for folder in /proc/[0-9]*; do
    [ "$folder" = "/proc/$$" ] && continue
    while IFS= read -r line || [ -n "$line" ]; do
      case $line in *"$1"*) kill "-$2" "${folder#/proc/}" && found=1; break ;; esac
    done 2>/dev/null <"$folder/environ"
  done
  [ -n "$found" ] && [ "$2" = KILL ] || exit 0
  rounds=$((rounds + 1))
done
exit 1
"""


# $1: the directory, or nothing; then entries of the environment up to "--"; then the command.
_LAUNCH = """
if [ -n "$1" ]; then
  cd -- "$1" 2>/dev/null || { echo "$1 cannot be entered" >&2; exit 126; }
fi
shift
while [ "$1" != -- ]; do export "$1"; shift; done
shift
exec "$@"
"""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def mark_of(exec_id: str) -> str:
    """The entry in the environment of all that this exec started."""
    return f"{MARK}={exec_id}"


def launch_command(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, has_inside: bool
) -> Sequence[str]:
    """A command that sets directory and environment, and becomes ``argv``."""
    odd = [name for name in env if not _NAME.fullmatch(name)]
    if odd:
        raise EffectError(FailureCode.EXEC_FAILED, f"not the name of a variable: {odd[0]!r}")
    entries = [f"{name}={value}" for name, value in env.items()]
    if has_inside:
        options = [] if cwd is None else ["--cwd", cwd]
        for entry in entries:
            options += ["--env", entry]
        return [PROGRAM, "run", *options, "--", *argv]
    return ["/bin/sh", "-c", _LAUNCH, "codehub", cwd or "", *entries, "--", *argv]


def signal_command(exec_id: str, signal: str, *, has_inside: bool) -> Sequence[str]:
    """A command that signals all that this exec started, by the signal's name: HUP or KILL."""
    if has_inside:
        return [PROGRAM, "kill", signal, mark_of(exec_id)]
    return ["/bin/sh", "-c", _SIGNAL, "codehub", mark_of(exec_id), signal]
