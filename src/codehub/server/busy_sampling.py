"""Build the sampler of busy workspaces from the settings."""

from codehub.domain.workspace import WorkspaceView
from codehub.server.runtime_choice import HostedRuntime
from codehub.server.settings.tree import Settings
from codehub.services.busy_sampler import SHORTEST_WINDOW, BusySampler, BusySignals

WINDOW_SHARE = 0.8
"""Of a tick: two ticks in a row are two looks, although their distance varies a little."""


def build_busy_sampler(settings: Settings, runtime: HostedRuntime) -> BusySampler:
    config = settings.ttl

    def base_path(ws: WorkspaceView) -> str:
        return f"/w/{ws.id}/" if runtime.uses_base_path(ws.image_ref) else "/"

    return BusySampler(
        runtime,
        signals=BusySignals(
            cpu_cores=config.busy_cpu_percent / 100, jobs=config.busy_jobs, paths=config.busy_paths
        ),
        base_path=base_path,
        window_seconds=min(SHORTEST_WINDOW, config.interval) * WINDOW_SHARE,
    )
