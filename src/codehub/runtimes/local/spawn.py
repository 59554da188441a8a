"""Spawn a process that records itself before it runs the command.

If CodeHub started an IDE and were killed before it had recorded the pid, the IDE would run unknown, and the next
leader would start a second one on the same home. So the process records *itself*: it begins as a few lines of
shell which write pid and start tick, and then becomes the command with ``exec`` (same pid, same start). Until it
has written, it holds the workspace's lock through an inherited descriptor, so no holder of the lock can miss it.

Why a shell: it starts in about a millisecond, everything below is built in (no further process), and
``/bin/sh`` is everywhere. The command is passed as arguments and never parsed by it.

CodeHub killed before the fork: nothing happened. After it: the child continues alone, in a session of its
own. If the record cannot be written (disk full) the shim ends and the command never runs.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.local.listen_addresses import ListenAddress

WORKSPACE_VARIABLE = "CODEHUB_WORKSPACE_ID"
JOB_VARIABLE = "CODEHUB_STORAGE_JOB_OF"
SHIM_FAILED = 125

# $1: the record's file; $2: its end, known beforehand; the rest: the command.
# "start" gets its own argument list, so "$@" of the script stays as it is.
_RECORD = """
start() { shift 19; start_ticks=$1; }
read -r stat <"/proc/$$/stat" || exit 125
set -f
start ${stat##*) }
printf '{"pid": %s, "start_ticks": %s, %s\\n' "$$" "$start_ticks" "$2" >"$1" || exit 125
shift 2
"""

# A workspace starts with the lock as its standard input; replacing that releases the lock. When memory
# runs out the kernel shall kill a workspace, not CodeHub.
_WORKSPACE_SHIM = (
    "umask 077"
    + _RECORD
    + """
printf 500 2>/dev/null >"/proc/$$/oom_score_adj"
umask 022
exec "$@" </dev/null
"""
)

# A storage job keeps its lock (another descriptor) as long as it lives; its standard input is the order.
_JOB_SHIM = "umask 077" + _RECORD + 'exec "$@"\n'

_INHERITED = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL")


class DetachedProcess(subprocess.Popen[bytes]):
    """A process that may outlive us: no warning if it is not waited for."""

    def __del__(self) -> None:  # the parent class warns here, and would wait for it at exit
        pass


def spawn_workspace(
    command: Sequence[str],
    *,
    record: Path,
    head: str,
    lock_fd: int,
    output: Path,
    home: Path,
    env: Mapping[str, str],
) -> DetachedProcess:
    """Start ``command`` as a workspace. Its record is written before it runs."""
    return _spawn(
        _WORKSPACE_SHIM, command, record=record, head=head, stdin=lock_fd, output=output, cwd=home, env=env
    )


def spawn_job(
    command: Sequence[str],
    *,
    record: Path,
    head: str,
    lock_fd: int,
    output: Path,
    cwd: Path,
    env: Mapping[str, str],
) -> DetachedProcess:
    """Start a storage job: order on stdin, messages on stdout, stderr to ``output``."""
    return _spawn(
        _JOB_SHIM,
        command,
        record=record,
        head=head,
        stdin=None,
        output=output,
        cwd=cwd,
        env=env,
        keep_fd=lock_fd,
    )


def workspace_environment(
    workspace_id: UUID, *, home: Path, listen: ListenAddress, base_path: str, given: Mapping[str, str]
) -> dict[str, str]:
    """Environment of a workspace, built from scratch: no secret of CodeHub is in it."""
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    env.setdefault("PATH", os.defpath)
    env.setdefault("SHELL", "/bin/sh")
    env.setdefault("USER", "codehub")
    env |= {"TERM": "xterm-256color", "TMPDIR": "/tmp"}
    return {
        **env,
        **given,
        "HOME": str(home),
        WORKSPACE_VARIABLE: str(workspace_id),
        "CODEHUB_BASE_PATH": base_path,
        **listen.variables,
    }


def job_environment(workspace_id: UUID, given: Mapping[str, str]) -> dict[str, str]:
    """Environment of a storage job: only what the wiring passes."""
    env = {
        name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR") if name in os.environ
    }
    return {**env, **given, JOB_VARIABLE: str(workspace_id)}


def command_of(template: str, *, listen: ListenAddress, home: Path, base_path: str) -> list[str]:
    """Split a command line into words and fill in the placeholders.

    In this order: a home with spaces stays one word, and no shell parses any of it.
    """
    values = {**listen.values, "{home}": str(home), "{base_path}": base_path}
    words = shlex.split(template)
    for placeholder, value in values.items():
        words = [word.replace(placeholder, value) for word in words]
    return words


def _spawn(
    script: str,
    command: Sequence[str],
    *,
    record: Path,
    head: str,
    stdin: int | None,
    output: Path,
    cwd: Path,
    env: Mapping[str, str],
    keep_fd: int | None = None,
) -> DetachedProcess:
    with open(output, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
        try:
            return DetachedProcess(
                ["/bin/sh", "-c", script, "codehub", str(record), head, *command],
                stdin=subprocess.PIPE if stdin is None else stdin,
                stdout=subprocess.PIPE if stdin is None else log,
                stderr=log,
                cwd=cwd,
                env=dict(env),
                pass_fds=() if keep_fd is None else (keep_fd,),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL byte in an argument
            raise EffectError(
                FailureCode.CONTAINER_START_FAILED, f"cannot start a process: {error}", command=command[0]
            ) from error
