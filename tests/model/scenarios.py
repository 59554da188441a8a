"""Where the search begins and how much may happen. Together they cover what 02-states protects against.

Budgets keep each scenario in the tens of thousands of states; faults that meet in no scenario would only
repeat what two of them show.
"""

from codehub.domain.states import DesiredState, ObservedStatus
from tests.model.search import Scenario
from tests.model.state import Budget, Resources, Row, State

INTENTS = ("start", "stop", "archive")

NEW = State(
    Row(desired=DesiredState.PENDING, observed=ObservedStatus.PENDING, mark=False),
    Resources(volume=None),
    newest=0,
)
"""Just created: no volume, no archive."""

FIRST_HOME = State(Row(), Resources())
"""Stopped, with files in its first volume and no archive yet."""

RESTORED = State(Row(archive_key="0/0", marker="0/0"), Resources(archives=(("0/0", 1),)))
"""Stopped, on a volume that was restored from the archive 0/0."""

ARCHIVED = State(
    Row(
        desired=DesiredState.PENDING,
        observed=ObservedStatus.PENDING,
        archive_key="0/0",
        mark=False,
    ),
    Resources(volume=None, archives=(("0/0", 1),)),
)
"""Only the archive 0/0 is left."""


def _scenario(name: str, start: State, budget: Budget, intents: tuple[str, ...] = INTENTS) -> Scenario:
    return Scenario(name, start._replace(budget=budget), intents)


ALL = [
    _scenario("first steps", NEW, Budget(intents=2, edits=1, takeovers=1, failures=1)),
    _scenario("two leaders", RESTORED, Budget(intents=3, edits=1, takeovers=1)),
    _scenario("three leaders in turn", RESTORED, Budget(intents=2, edits=1, takeovers=2)),
    _scenario(
        "everything fails once", RESTORED, Budget(intents=2, edits=1, failures=2, timeouts=1, recoveries=1)
    ),
    _scenario(
        "restore fails under two leaders",
        ARCHIVED,
        Budget(intents=2, takeovers=1, timeouts=1, recoveries=1),
        ("start", "archive"),
    ),
    _scenario(
        "archive expires under two leaders",
        FIRST_HOME,
        Budget(intents=2, takeovers=1, timeouts=1, recoveries=1),
        ("start", "archive"),
    ),
    _scenario("container dies", RESTORED, Budget(intents=3, edits=1, crashes=1)),
    _scenario(
        "disk away from a new home", NEW, Budget(intents=2, edits=1, unmounts=1, recoveries=2, timeouts=1)
    ),
    _scenario(
        "disk away from a restored home", RESTORED, Budget(intents=2, edits=1, unmounts=1, recoveries=2)
    ),
    _scenario(
        "disk away while archiving",
        FIRST_HOME,
        Budget(intents=2, timeouts=1, unmounts=1, recoveries=2),
        ("archive", "start"),
    ),
    _scenario(
        "home given up for its archive",
        RESTORED,
        Budget(intents=2, edits=1, crashes=1, timeouts=1, returns=1),
        ("start", "archive"),
    ),
    _scenario(
        "home given up under two leaders",
        RESTORED,
        Budget(intents=1, edits=1, crashes=1, timeouts=1, takeovers=1, returns=1),
        ("start",),
    ),
    _scenario("returns to an archive", RESTORED, Budget(intents=1, edits=1, choices=2)),
    _scenario("returns under two leaders", RESTORED, Budget(edits=1, choices=1, takeovers=1), ("start",)),
    _scenario(
        "returns while everything fails",
        RESTORED,
        Budget(intents=1, failures=1, timeouts=1, recoveries=1, choices=1),
        ("start", "archive"),
    ),
    _scenario(
        "returns without a disk",
        RESTORED,
        Budget(intents=1, unmounts=1, recoveries=2, choices=1),
        ("start", "archive"),
    ),
    _scenario("takes snapshots", RESTORED, Budget(intents=2, edits=1, snapshots=2)),
    _scenario(
        "takes a snapshot of a first home", FIRST_HOME, Budget(intents=1, edits=1, snapshots=1, takeovers=1)
    ),
    _scenario(
        "takes snapshots while everything fails",
        RESTORED,
        Budget(intents=1, failures=1, timeouts=1, recoveries=1, snapshots=1),
        ("start", "archive"),
    ),
    _scenario(
        "takes a snapshot and returns",
        RESTORED,
        Budget(snapshots=1, choices=1, takeovers=1),
        ("start",),
    ),
    _scenario(
        "takes a snapshot without a disk",
        FIRST_HOME,
        Budget(intents=1, unmounts=1, recoveries=2, snapshots=1),
        ("start", "archive"),
    ),
    _scenario(
        "deleted at any moment",
        ARCHIVED,
        Budget(intents=2, takeovers=1, failures=1),
        ("start", "delete"),
    ),
    _scenario(
        "deleted before it was made", NEW, Budget(intents=2, takeovers=1, timeouts=1), ("start", "delete")
    ),
]

SCENARIOS = {scenario.name: scenario for scenario in ALL}
