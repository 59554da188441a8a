"""What counts as use of an SSH connection, by the sizes that pass."""

import pytest

from codehub.api.ssh.traffic import TrafficMeter

HOUR = 3600.0


def last_use(*packets: tuple[float, str, int]) -> float:
    """When it was last used, after these packets: (time, direction, bytes). Opened at 0."""
    meter = TrafficMeter(0.0)
    for at, direction, size in packets:
        if direction == "in":
            meter.on_input(size, at)
        else:
            meter.on_output(size, at)
    return meter.used_at


def every(seconds: float, until: float, direction: str, size: int) -> list[tuple[float, str, int]]:
    return [(seconds * n, direction, size) for n in range(1, int(until / seconds))]


@pytest.mark.parametrize(
    "packets",
    [
        pytest.param([], id="nothing"),
        pytest.param(every(25, 9 * HOUR, "in", 36), id="answers to our keep-alive"),
        pytest.param(every(15, 9 * HOUR, "in", 52), id="OpenSSH's ServerAliveInterval 15"),
        pytest.param(every(1, 9 * HOUR, "in", 52), id="ServerAliveInterval 1"),
        pytest.param(every(1, HOUR, "out", 100), id="answers to it"),
        pytest.param(every(5, 9 * HOUR, "in", 140), id="two connections of an editor's window"),
    ],
)
def test_keep_alives_are_no_use(packets: list[tuple[float, str, int]]) -> None:
    assert last_use(*packets) == 0.0


def test_keys_in_a_row_are() -> None:
    keys = [(HOUR + 0.2 * n, "in", 36) for n in range(30)]
    assert last_use(*every(15, HOUR, "in", 52), *keys) == keys[-1][0]


def test_a_file_and_a_screen_of_text_are() -> None:
    assert last_use((HOUR, "in", 32768)) == HOUR
    assert last_use((HOUR, "out", 4000)) == HOUR
    quiet = [(HOUR + 10 + at, direction, size) for at, direction, size in every(1, HOUR, "out", 100)]
    assert last_use((HOUR, "out", 4000), *quiet) == HOUR
