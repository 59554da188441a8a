"""``/_codehub/alive``: the proxy's own answer to whoever watches its process, whatever is behind it."""

import pytest

from tests.integration.proxy.conftest import MakeEnvironment
from tests.integration.proxy.test_own_origin import HUB, ask, host_of


@pytest.mark.parametrize("host", [b"10.42.0.7:8000", b"hub.localhost:8000", b""], ids=["pod", "hub", "own"])
async def test_it_answers_without_the_api_or_a_workspace(
    host: bytes, make_environment: MakeEnvironment
) -> None:
    environment = await make_environment(public_url=HUB, base_domain="localhost")
    await environment.api.stop()
    answer = await ask(environment, host or host_of(environment), "/_codehub/alive")
    assert (answer.status, answer.body) == (204, b"")
    assert environment.upstream.requests == []
