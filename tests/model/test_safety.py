"""In every order of everything: nothing is lost, nobody meets a wrong home, and all of it settles."""

import pytest

from tests.model.rules import Rules
from tests.model.scenarios import SCENARIOS
from tests.model.search import search


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_order_of_events_is_safe_and_settles(name: str) -> None:
    result = search(SCENARIOS[name], Rules())
    assert result.broken is None, str(result)
    print(result)
