"""The figures of a round, for people to read."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.audit import TakeOver
from tests.chaos.load import Figures


@dataclass(frozen=True)
class Strike:
    """One fault and what became of it."""

    name: str
    in_flight: int  # operations when it struck
    take_over: TakeOver | None
    converge_seconds: float  # from the end of the load to rest
    recovered: int  # terminal errors that a person had to lift
    lost: int
    doubled: int


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def table(strikes: Sequence[Strike], load: Figures, *, seed: int) -> str:
    by_name: dict[str, list[Strike]] = defaultdict(list)
    for strike in strikes:
        by_name[strike.name].append(strike)
    lines = [
        f"seed {seed}: {len(strikes)} faults under load; {load.created} workspaces created, "
        f"{load.intents} intents, {load.written} files written, {load.deleted} deleted, "
        f"{load.retried_requests} requests asked again, {load.late_intents} intents met late",
        "",
        "| fault | times | operations in flight (sum, max) | lock taken p50 / p99 / max "
        "| first act p50 / p99 / max | at rest p50 / max | errors a person lifted | lost | doubled |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(name, mine) for name, mine in by_name.items()]
    if len(by_name) > 1:
        lines.append(_line("all", strikes))
    return "\n".join(lines)


def _line(name: str, strikes: Sequence[Strike]) -> str:
    taken = [each.take_over for each in strikes if each.take_over is not None]
    flying = [each.in_flight for each in strikes]
    rest = [each.converge_seconds for each in strikes]
    cells = (
        name,
        str(len(strikes)),
        f"{sum(flying)}, {max(flying)}",
        _spread([each.lock_seconds for each in taken]),
        _spread([each.act_seconds for each in taken if each.act_seconds is not None]),
        f"{percentile(rest, 0.5):.1f} / {max(rest):.1f} s",
        *(str(sum(each)) for each in zip(*((s.recovered, s.lost, s.doubled) for s in strikes), strict=True)),
    )
    return f"| {' | '.join(cells)} |"


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "no take-over"
    return (
        " / ".join(
            f"{each:.2f}" for each in (percentile(seconds, 0.5), percentile(seconds, 0.99), max(seconds))
        )
        + " s"
    )
