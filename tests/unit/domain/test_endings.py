"""How a container ended, in words a person can act on."""

from datetime import timedelta

import pytest

from codehub.domain.endings import CrashKind, Disruption, Ending, crash_words
from codehub.domain.errors import FailureCode

ENDINGS = [
    (
        Ending(exit_code=137, out_of_memory=True, memory_limit_bytes=512 * 1024**2),
        CrashKind.OUT_OF_MEMORY,
        "ran out of memory and was killed (its limit is 512 MiB)",
    ),
    (Ending(exit_code=0, out_of_memory=True), CrashKind.OUT_OF_MEMORY, "ran out of memory and was killed"),
    (
        Ending(exit_code=137),
        CrashKind.SIGNAL,
        "was killed from outside (exit 137, SIGKILL), by a person or for lack of memory",
    ),
    (Ending(exit_code=139), CrashKind.SIGNAL, "was ended by signal 11 (SIGSEGV)"),
    (Ending(exit_code=3), CrashKind.EXIT, "ended by itself with exit code 3"),
    (Ending(exit_code=255), CrashKind.EXIT, "ended by itself with exit code 255"),
    (Ending(), CrashKind.UNKNOWN, "ended by itself"),
    (
        Ending(exit_code=137, disruption=Disruption.EVICTED, detail="The node was low on memory."),
        CrashKind.EVICTED,
        "was evicted from its node (The node was low on memory.)",
    ),
    (
        Ending(disruption=Disruption.PREEMPTED),
        CrashKind.PREEMPTED,
        "had to make room for something more important",
    ),
    (Ending(disruption=Disruption.NODE_LOST), CrashKind.NODE_LOST, "was lost with its node"),
]
CODES = {
    CrashKind.OUT_OF_MEMORY: FailureCode.OUT_OF_MEMORY,
    CrashKind.EVICTED: FailureCode.EVICTED,
    CrashKind.PREEMPTED: FailureCode.PREEMPTED,
    CrashKind.NODE_LOST: FailureCode.NODE_LOST,
}


@pytest.mark.parametrize(("ending", "kind", "words"), ENDINGS)
def test_each_ending_has_a_name_and_words(ending: Ending, kind: CrashKind, words: str) -> None:
    assert (ending.kind, ending.words) == (kind, words)
    assert ending.context["code"] == CODES.get(kind, FailureCode.CONTAINER_ENDED).value
    assert ending.context["crash"] == kind.value


def test_the_sentence_says_when() -> None:
    ending = Ending(exit_code=3)
    soon = crash_words(ending, ran_for=timedelta(seconds=5), soon=True)
    assert soon == "The workspace's process ended by itself with exit code 3, soon after it had started."
    late = crash_words(ending, ran_for=timedelta(hours=3, minutes=5), soon=False)
    assert late == "The workspace's process ended by itself with exit code 3, after it had run for 3 h."
