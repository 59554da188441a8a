"""The Grafana dashboard asks only for measurements that exist, and leaves none of them out."""

import importlib
import json
import pkgutil
import re
from pathlib import Path

from prometheus_client import REGISTRY

import codehub

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "codehub.json"
NAME = re.compile(r"codehub_[a-z_]+")
PACKAGES = ("api", "coordinators", "signals", "services")


def measured() -> set[str]:
    for name in PACKAGES:
        package = importlib.import_module(f"codehub.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"codehub.{name}."):
            importlib.import_module(module.name)
    return {family.name for family in REGISTRY.collect() if family.name.startswith("codehub_")}


def test_the_dashboard_shows_what_is_measured() -> None:
    assert codehub.__version__
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = {
        name.removesuffix("_bucket").removesuffix("_count").removesuffix("_total")
        for panel in panels
        for target in panel.get("targets", ())
        for name in NAME.findall(target["expr"])
    }
    assert asked == measured()


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
