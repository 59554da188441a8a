"""``python -m tests.chart``: render every profile anew, as the snapshots that tests compare with."""

import sys

from tests.chart.helm import PROFILES, render_snapshot, snapshot_path

for profile in sys.argv[1:] or PROFILES:
    snapshot_path(profile).write_text(render_snapshot(profile))
