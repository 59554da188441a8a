"""Every alert for Prometheus fires on the trouble it names, and not beside it; promtool plays the time."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.integration.api.test_grafana import NAME, measured
from tests.support.requirements import require_program

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "codehub-rules.yml"
MINUTES = 70  # longer than the longest ``for``
SUFFIX = re.compile(r"_(bucket|count|total)$")


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation: a first value, how much it grows each minute."""

    alert: str
    trouble: dict[str, str]
    calm: dict[str, str]


def grows(step: int) -> str:
    return f"0+{step}x{MINUTES}"


def stays(value: int) -> str:
    return f"{value}x{MINUTES}"


def takes(name: str, labels: str, *, short: int, long: int) -> dict[str, str]:
    """A histogram: so many observations a minute within a second, and so many within five minutes."""
    bucket = f"{name}_bucket{{{labels}{labels and ', '}le="
    return {
        bucket + f'"{le}"}}': grows(count)
        for le, count in (("1", short), ("300", short + long), ("+Inf", short + long))
    }


STARTING = 'operation="STARTING"'
CASES = [
    Case("CodeHubReplicaDown", {'up{job="codehub"}': stays(0)}, {'up{job="codehub"}': stays(1)}),
    Case(
        "CodeHubNobodyLeads",
        {f'codehub_is_leader{{coordinator="observer", instance="{name}"}}': stays(0) for name in "ab"},
        {
            'codehub_is_leader{coordinator="observer", instance="a"}': stays(0),
            'codehub_is_leader{coordinator="observer", instance="b"}': stays(1),
        },
    ),
    Case(
        "CodeHubTwoLeaders",
        {'codehub_rival_leaders{coordinator="observer"}': stays(1)},
        {'codehub_rival_leaders{coordinator="observer"}': stays(0)},
    ),
    Case(
        "CodeHubEngineAway",
        {'codehub_engine_away{engine="runtime"}': stays(1)},
        {'codehub_engine_away{engine="runtime"}': f"{'1 ' * 5}0x{MINUTES}"},
    ),
    Case(
        "CodeHubDatabaseFails",
        {'codehub_database_failures_total{use="api"}': grows(2)},
        {'codehub_database_failures_total{use="api"}': stays(7)},
    ),
    Case(
        "CodeHubRedisFails",
        {'codehub_redis_failures_total{use="activity"}': grows(2)},
        {'codehub_redis_failures_total{use="activity"}': stays(7)},
    ),
    Case(
        "CodeHubTicksFail",
        {'codehub_tick_failures_total{coordinator="observer"}': grows(1)},
        {'codehub_tick_failures_total{coordinator="observer"}': f"0 1x{MINUTES}"},
    ),
    Case(
        "CodeHubTicksLate",
        takes("codehub_tick_lag_seconds", 'coordinator="observer"', short=1, long=9),
        takes("codehub_tick_lag_seconds", 'coordinator="observer"', short=99, long=1),
    ),
    Case(
        "CodeHubStartsSlow",
        takes("codehub_operation_duration_seconds", STARTING, short=1, long=9),
        takes("codehub_operation_duration_seconds", 'operation="ARCHIVING"', short=1, long=9),
    ),
    Case(
        "CodeHubWorkspacesInError",
        {'codehub_workspaces{status="error"}': stays(2)},
        {'codehub_workspaces{status="error"}': stays(0), 'codehub_workspaces{status="running"}': stays(9)},
    ),
    Case(
        "CodeHubWorkspacesCrash",
        {'codehub_workspace_crashes_total{kind="memory"}': grows(1)},
        {'codehub_workspace_crashes_total{kind="memory"}': f"0 5x{MINUTES}"},
    ),
    Case(
        "CodeHubMassIdle",
        {"codehub_ttl_mass_idle_total": grows(1)},
        {"codehub_ttl_mass_idle_total": stays(3)},
    ),
    Case(
        "CodeHubOrphans",
        {'codehub_orphan_resources{kind="volume"}': stays(1)},
        {'codehub_orphan_resources{kind="volume"}': stays(0)},
    ),
    Case(
        "CodeHubRequestsFail",
        {
            'codehub_http_request_seconds_count{status="500"}': grows(1),
            'codehub_http_request_seconds_count{status="200"}': grows(9),
        },
        {
            'codehub_http_request_seconds_count{status="500"}': grows(1),
            'codehub_http_request_seconds_count{status="200"}': grows(99),
        },
    ),
]


def rules() -> list[dict[str, str]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def fired(series: dict[str, str], directory: Path) -> set[str]:
    """The alerts that fire at the end, as promtool tells."""
    promtool = require_program("promtool", package="prometheus")
    names = [rule["alert"] for rule in rules()]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                # Nothing is expected: what fires is in the answer.
                "alert_rule_test": [{"eval_time": f"{MINUTES}m", "alertname": name} for name in names],
            }
        ],
    }
    file = directory / "test.yml"
    file.write_text(json.dumps(test))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    found = set(re.findall(r"alertname: ?(\w+)", said))
    assert (done.returncode == 0) == (not found), said
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_it_fires_on_its_trouble_alone(case: Case, tmp_path: Path) -> None:
    assert fired(case.trouble, tmp_path) == {case.alert}
    assert fired(case.calm, tmp_path) == set()


def test_every_alert_has_a_case_and_says_what_to_do() -> None:
    assert [case.alert for case in CASES] == [rule["alert"] for rule in rules()]
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "action"}


def test_alerts_ask_only_for_what_is_measured() -> None:
    asked = {SUFFIX.sub("", name) for rule in rules() for name in NAME.findall(rule["expr"])}
    assert asked <= {SUFFIX.sub("", name) for name in measured()}
