"""Settings of the coordinators: intervals, timeouts, batch sizes, limits."""

import json
import os
import socket
from collections.abc import Mapping

from pydantic import field_validator

from codehub.server.settings.variables import Group, WholeSeconds, variable


class CoordinatorSettings(Group):
    node_id: str = variable(
        "COORDINATOR_NODE_ID",
        "",
        meaning="Name of this process in logs and locks",
        shown="hostname-pid",
        validate_default=True,
    )
    lock_id: str | None = variable(
        "COORDINATOR_LOCK_ID", meaning="Keeps installations apart that share one database"
    )
    retry_interval: float = variable(
        "COORDINATOR_RETRY_INTERVAL", 5.0, meaning="Seconds to wait after a failed election", gt=0
    )
    verify_interval: float = variable(
        "COORDINATOR_VERIFY_INTERVAL",
        4.0,
        meaning="Seconds between checks that a leader still leads; above 4 a frozen one is replaced later",
        gt=0,
        le=11,
    )
    start_jitter: float = variable(
        "COORDINATOR_START_JITTER", 5.0, meaning="Longest random delay at the start, in seconds", ge=0
    )

    @field_validator("node_id")
    @classmethod
    def _name_this_process(cls, value: str) -> str:
        return value.strip() or f"{socket.gethostname()}-{os.getpid()}"


class ObserverSettings(Group):
    interval: float = variable("OBSERVER_INTERVAL", 10.0, meaning="Seconds between looks when idle", gt=0)
    active_interval: float = variable(
        "OBSERVER_ACTIVE_INTERVAL", 2.0, meaning="Seconds between looks while operations run", gt=0
    )
    batch_size: int = variable(
        "OBSERVER_BATCH_SIZE", 1000, meaning="Rows it compares and writes in one transaction", ge=1
    )


class ReconcilerSettings(Group):
    interval: float = variable("RECONCILER_INTERVAL", 10.0, meaning="Seconds between ticks when idle", gt=0)
    active_interval: float = variable(
        "RECONCILER_ACTIVE_INTERVAL", 2.0, meaning="Seconds between ticks while operations run", gt=0
    )
    converge_interval: float = variable(
        "RECONCILER_CONVERGE_INTERVAL",
        5.0,
        meaning="Seconds between ticks while something has to change",
        gt=0,
    )
    max_retries: int = variable(
        "RECONCILER_MAX_RETRIES", 3, meaning="Retries of a failed operation before a person is needed", ge=0
    )
    retry_backoff: float = variable(
        "RECONCILER_RETRY_BACKOFF", 30.0, meaning="Seconds between retries, give or take some jitter", ge=0
    )
    max_concurrent: int | None = variable(
        "RECONCILER_MAX_CONCURRENT", meaning="Actions at once", shown="32; on Kubernetes 128", ge=1
    )
    max_storage_jobs: int = variable(
        "RECONCILER_MAX_STORAGE_JOBS", 4, meaning="Archives and restores at once", ge=1
    )
    batch_size: int = variable("RECONCILER_BATCH_SIZE", 200, meaning="Rows a tick reads at most", ge=1)
    provisioning_timeout: float = variable(
        "RECONCILER_PROVISIONING_TIMEOUT", 300.0, meaning="Seconds PROVISIONING may take", gt=0
    )
    starting_timeout: float = variable(
        "RECONCILER_STARTING_TIMEOUT", 300.0, meaning="Seconds STARTING may take", gt=0
    )
    stopping_timeout: float = variable(
        "RECONCILER_STOPPING_TIMEOUT", 300.0, meaning="Seconds STOPPING may take", gt=0
    )
    deleting_timeout: float = variable(
        "RECONCILER_DELETING_TIMEOUT", 300.0, meaning="Seconds DELETING may take", gt=0
    )
    archiving_timeout: float = variable(
        "RECONCILER_ARCHIVING_TIMEOUT", 1800.0, meaning="Seconds ARCHIVING may stand still", gt=0
    )
    restoring_timeout: float = variable(
        "RECONCILER_RESTORING_TIMEOUT", 1800.0, meaning="Seconds RESTORING may stand still", gt=0
    )


class TtlSettings(Group):
    interval: float = variable("TTL_INTERVAL", 60.0, meaning="Seconds between ticks", gt=0)
    batch_size: int = variable(
        "TTL_BATCH_SIZE", 200, meaning="Rows it reads at once, and puts to sleep in one tick at most", ge=1
    )
    standby_seconds: WholeSeconds = variable(
        "TTL_STANDBY_SECONDS", 300, meaning="Idle time before a new workspace sleeps; 0: never", ge=0
    )
    archive_seconds: WholeSeconds = variable(
        "TTL_ARCHIVE_SECONDS", 86400, meaning="Sleep before a new workspace is archived; 0: never", ge=0
    )
    untouched_limit: WholeSeconds = variable(
        "ACTIVITY_UNTOUCHED_LIMIT",
        28800,
        meaning="Seconds an open window keeps a workspace awake without input of a person; 0: for ever; at least 90",
        ge=0,
    )
    busy_limit: WholeSeconds = variable(
        "ACTIVITY_BUSY_LIMIT",
        43200,
        meaning="Seconds work keeps a workspace awake without a person; 0: work does not count",
        ge=0,
    )
    busy_cpu_percent: float = variable(
        "ACTIVITY_BUSY_CPU_PERCENT",
        10.0,
        meaning="Percent of one processor from which on a workspace counts as at work; 0: they do not count",
        ge=0,
    )
    busy_jobs: bool = variable(
        "ACTIVITY_BUSY_JOBS",
        True,
        meaning="Count a program in the foreground of a terminal, and a detached process, as work",
    )
    busy_paths: Mapping[str, str] = variable(
        "ACTIVITY_BUSY_PATHS",
        {},
        meaning='Where an image says whether it works: {"image": "path"}; else Jupyter\'s list of kernels is asked for',
    )

    @field_validator("busy_paths", mode="before")
    @classmethod
    def _parse_paths(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"is not JSON: {error}") from error


class GcSettings(Group):
    interval: float = variable("GC_INTERVAL", 3600.0, meaning="Seconds between collections", gt=0)
    delay: float = variable("GC_DELAY", 7200.0, meaning="Seconds an orphan archive is kept at least", ge=0)
    keep_generations: int = variable(
        "GC_KEEP_GENERATIONS", 3, meaning="Archives kept of each workspace, for going back", ge=1
    )
    keep_daily: int = variable(
        "GC_KEEP_DAILY",
        0,
        meaning="Beyond those: the newest archive of each of so many days (UTC) with one",
        ge=0,
        le=3650,
    )
    keep_weekly: int = variable(
        "GC_KEEP_WEEKLY",
        0,
        meaning="Beyond those: the newest archive of each of so many weeks with one",
        ge=0,
        le=520,
    )


class LimitsSettings(Group):
    max_running_per_user: int = variable(
        "LIMITS_MAX_RUNNING_PER_USER", 2, meaning="Workspaces one person may run at once", ge=0
    )
    max_running_global: int = variable(
        "LIMITS_MAX_RUNNING_GLOBAL", 100, meaning="Workspaces that may run at once in all", ge=0
    )
