"""The common part of every benchmark: sides take turns, medians are compared, a table and a file come out.

A machine has moods. So the sides of a comparison are measured in turns within one run, in an order that
changes every round, and only the ratio of their medians is judged. Whatever slows the machine down for a
while slows both.
"""

# ruff: noqa: T201 - a program that prints
import json
import os
import platform
import random
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"

Measure = Callable[[], Awaitable[Mapping[str, float]]]
"""One turn of one side: metric → value."""


@dataclass(frozen=True)
class Bar:
    """What one side's median must be, as a multiple of another's, or (``peer`` None) by itself."""

    metric: str
    ours: str
    peer: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    every_round: bool = False  # a promise, not a speed: the worst round counts, a median would hide it

    def holds(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )

    def describe(self) -> str:
        sign, limit = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {limit:g}" + (f" × {self.peer}" if self.peer else "")


@dataclass
class Report:
    """Everything measured by one benchmark."""

    name: str
    title: str
    bars: Sequence[Bar] = ()
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # side → metric → one per round
    notes: list[str] = field(default_factory=list)

    def add(self, side: str, values: Mapping[str, float]) -> None:
        for metric, value in values.items():
            self.values.setdefault(side, {}).setdefault(metric, []).append(value)

    def median(self, side: str, metric: str) -> float | None:
        values = self.values.get(side, {}).get(metric)
        return statistics.median(values) if values else None

    def judge(self, bar: Bar) -> tuple[float, bool] | None:
        """The value the bar is about and whether it holds; None where a side has not measured it."""
        ours = self.median(bar.ours, bar.metric)
        if ours is None:
            return None
        if bar.every_round:
            values = self.values[bar.ours][bar.metric]
            ours = max(values) if bar.at_most is not None else min(values)
        if bar.peer is None:
            return ours, bar.holds(ours)
        theirs = self.median(bar.peer, bar.metric)
        if not theirs:
            return None
        return ours / theirs, bar.holds(ours / theirs)

    def table(self) -> str:
        rows = [["side", "metric", "median", "lowest", "highest", "rounds"]]
        for side, metrics in self.values.items():
            for metric, values in metrics.items():
                figures = (statistics.median(values), min(values), max(values))
                rows.append([side, metric, *(f"{figure:,.4g}" for figure in figures), str(len(values))])
        lines = [f"## {self.title}", "", *_columns(rows)]
        for bar in self.bars:
            judged = self.judge(bar)
            if judged is not None:
                value, holds = judged
                verdict = "holds" if holds else "MISSED"
                lines.append(f"{verdict}: {bar.ours}, {bar.metric} = {value:.3g} ({bar.describe()})")
        return "\n".join([*lines, *self.notes, ""])

    def save(self) -> Path:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        bars = [(bar, self.judge(bar)) for bar in self.bars]
        document = {
            "benchmark": self.name,
            "title": self.title,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {
                "cpus": os.cpu_count(),
                "model": _cpu_model(),
                "system": platform.platform(),
                "python": platform.python_version(),
                "load_average": os.getloadavg(),
            },
            "values": self.values,
            "bars": [
                {
                    "metric": bar.metric,
                    "ours": bar.ours,
                    "bar": bar.describe(),
                    "value": judged[0],
                    "holds": judged[1],
                }
                for bar, judged in bars
                if judged is not None
            ],
            "notes": self.notes,
        }
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        unfinished.rename(path)
        return path


async def take_turns(report: Report, sides: Mapping[str, Measure], *, rounds: int) -> None:
    """Every side once a round, in a new order each time."""
    for number in range(rounds):
        for side in random.sample(list(sides), len(sides)):
            values = await sides[side]()
            report.add(side, values)
            shown = ", ".join(f"{metric} {value:.4g}" for metric, value in values.items())
            print(f"  round {number + 1}/{rounds}  {side}: {shown}", flush=True)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:], ""]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
