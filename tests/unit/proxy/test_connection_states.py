"""The states of a client's connection, as a table."""

from codehub.proxy.connection import TRANSITIONS, ConnectionState

S = ConnectionState


def test_every_state_has_its_row() -> None:
    assert set(TRANSITIONS) == set(S)


def test_every_state_may_close_and_nothing_leaves_closed() -> None:
    assert all(S.CLOSED in following for following in TRANSITIONS.values())
    assert TRANSITIONS[S.CLOSED] == {S.CLOSED}


def test_a_tunnel_never_becomes_a_request_again() -> None:
    assert TRANSITIONS[S.TUNNEL] == {S.CLOSED}


def test_after_the_last_answer_nothing_is_read_any_more() -> None:
    assert TRANSITIONS[S.LINGERING] == {S.CLOSED}
