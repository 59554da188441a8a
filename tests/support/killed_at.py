"""Run a function in a process of its own that is killed right before its n-th step.

A step is an audit event of the interpreter: every opening, listing, moving, removing and changing of files
raises one before it happens. The kill is real (SIGKILL), so nothing is tidied up.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable

_FILES = ("open", "os.", "shutil.", "ctypes.dlsym")


def killed_before_step(
    work: Callable[[], None],
    step: int | None,
    *,
    uid: int | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> bool:
    """True if it was killed, False if it had come to its end before. ``step`` None: let it run.

    ``prepare`` runs before steps are counted. ``uid``: all of it as this user, where we are root. Raises
    AssertionError where it raised.
    """
    child = os.fork()
    if child == 0:
        _run(prepare, work, step, uid)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "it failed; its traceback is in the captured output"
    return False


def kill_before_step(step: int) -> None:
    """From now on this process counts its steps, and dies before this one."""
    seen = 0

    def hook(event: str, _arguments: object) -> None:
        nonlocal seen
        if event.startswith(_FILES):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _run(prepare: Callable[[], None], work: Callable[[], None], step: int | None, uid: int | None) -> None:
    code = 1
    try:
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        prepare()
        if step is not None:
            kill_before_step(step)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it was, the parent learns of it
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
