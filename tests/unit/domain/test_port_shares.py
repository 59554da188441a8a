"""A share never lasts beyond its time or above the installation's ceiling, and links tell nothing of each other."""

from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import UUID

import pytest

from codehub.domain.port_shares import PortShare, ShareLevel, SharePolicy, level_now, link_key

NOW = datetime(2025, 1, 1, tzinfo=UTC)
ONE, OTHER = UUID(int=1), UUID(int=2)


def share(level: ShareLevel, ends: timedelta | None = None, link: UUID | None = None) -> PortShare:
    return PortShare(3000, "", level, None if ends is None else NOW + ends, link)


@pytest.mark.parametrize(("level", "ceiling"), list(product(ShareLevel, ShareLevel)))
def test_the_ceiling_stands_above_every_share(level: ShareLevel, ceiling: ShareLevel) -> None:
    policy = SharePolicy(ceiling=ceiling, has_origins=True)
    order = [ShareLevel.PRIVATE, ShareLevel.SIGNED_IN, ShareLevel.PUBLIC]
    expected = level if order.index(level) <= order.index(ceiling) else ShareLevel.PRIVATE
    assert level_now(share(level), policy, now=NOW) is expected
    assert level_now(share(level), SharePolicy(ceiling=ceiling), now=NOW) is ShareLevel.PRIVATE  # no origins


def test_a_share_is_over_at_its_time() -> None:
    policy = SharePolicy(ceiling=ShareLevel.PUBLIC, has_origins=True)
    assert level_now(share(ShareLevel.PUBLIC, timedelta(seconds=1)), policy, now=NOW) is ShareLevel.PUBLIC
    assert level_now(share(ShareLevel.PUBLIC, timedelta(0)), policy, now=NOW) is ShareLevel.PRIVATE


def test_nothing_is_public_unless_the_installation_says_so() -> None:
    assert SharePolicy().ceiling is ShareLevel.SIGNED_IN
    assert SharePolicy().highest is ShareLevel.PRIVATE


def test_keys_differ_by_link_port_workspace_and_secret() -> None:
    made = share(ShareLevel.PUBLIC, link=ONE)
    keys = {
        link_key(b"s", ONE, made),
        link_key(b"s", OTHER, made),
        link_key(b"t", ONE, made),
        link_key(b"s", ONE, share(ShareLevel.PUBLIC, link=OTHER)),
        link_key(b"s", ONE, PortShare(3001, "", ShareLevel.PUBLIC, None, ONE)),
    }
    assert len(keys) == 5
    assert link_key(b"s", ONE, made) == link_key(b"s", ONE, made)
    assert link_key(b"s", ONE, share(ShareLevel.SIGNED_IN)) is None
