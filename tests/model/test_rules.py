"""Each rule is needed: without it, the search finds the shortest way to the harm it prevents."""

from dataclasses import fields, replace

import pytest

from tests.model.invariants import LEFT_UNARCHIVED, TWO_ACTORS
from tests.model.rules import Rules
from tests.model.scenarios import SCENARIOS
from tests.model.search import search

LOST = "content is lost"
WRONG_HOME = "a container runs on a home that is not the newest"
DISTURBED = "a container runs during a storage job"
UNTRUE = "completed, though its target was never true"
EMPTY_FOR_VANISHED = "an empty home was made in place of one that vanished"

HARM = {  # rule: the scenario, the harm
    "tokens": ("two leaders", TWO_ACTORS),
    "trust": ("restore fails under two leaders", WRONG_HOME),
    "clear_marker": ("disk away while archiving", WRONG_HOME),
    "freshness": ("container dies", UNTRUE),
    "fenced_writes": ("two leaders", UNTRUE),
    "stop_first": ("container dies", "never settles"),
    "commit_before_delete": (
        "archive expires under two leaders",
        "a volume went before its archive was committed",
    ),
    "volume_mark": ("disk away from a restored home", LOST),
    "archive_lookup": ("disk away while archiving", "an empty home was made beside an archive"),
    "confirm_gone": ("everything fails once", DISTURBED),
    "mark_what_is_there": ("disk away from a new home", EMPTY_FOR_VANISHED),
    "deleted_at_rest": ("deleted before it was made", "stuck"),
    "accept_loss_when_told": ("disk away from a restored home", LOST),
    "look_after_recovery": ("disk away from a restored home", LOST),
    "untrust_what_is_given_up": ("home given up for its archive", LOST),
    "archive_before_return": ("returns to an archive", LEFT_UNARCHIVED),
    "snapshot_once": ("takes snapshots", "never settles"),
    "return_once": ("returns to an archive", "never settles"),
    "restart_untrusted": ("disk away while archiving", WRONG_HOME),
}
LIVENESS_ONLY = {"stop_first", "deleted_at_rest", "return_once", "snapshot_once"}
"""Their absence loses nothing and ends nowhere: the search has to ask whether it settles."""


def test_every_rule_is_put_to_the_test() -> None:
    assert {field.name for field in fields(Rules)} == set(HARM)


@pytest.mark.parametrize("rule", HARM)
def test_without_this_rule_there_is_harm(rule: str) -> None:
    scenario, harm = HARM[rule]
    without: dict[str, bool] = {rule: False}
    result = search(SCENARIOS[scenario], replace(Rules(), **without), liveness=rule in LIVENESS_ONLY)
    print(f"without {rule}: {result}")
    assert result.broken is not None, f"{rule} is not needed in '{scenario}'"
    assert result.broken.startswith(harm), str(result)
    assert result.trace


def test_without_tokens_a_replaced_leader_can_lose_what_a_person_wrote() -> None:
    """Two actors at once is the rule broken; this is what it is there for."""
    scenario = SCENARIOS["two leaders"]
    result = search(scenario, Rules(tokens=False), liveness=False, unless={TWO_ACTORS, DISTURBED})
    print(result)
    assert result.broken == LOST, str(result)
