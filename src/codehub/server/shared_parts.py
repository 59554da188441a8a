"""Build the parts that the API's and the proxy's process share, from the settings."""

from datetime import timedelta

from codehub.domain.ttl import UsePolicy
from codehub.server.settings.tree import Settings
from codehub.services.workspaces import RunningLimits
from codehub.signals.connection import RedisLink


def redis_link(settings: Settings, url: str, *, client_name: str) -> RedisLink:
    return RedisLink(url, client_name=client_name, channel_prefix=settings.redis.channel_prefix)


def running_limits(settings: Settings) -> RunningLimits:
    limits = settings.limits
    return RunningLimits(per_user=limits.max_running_per_user, in_all=limits.max_running_global)


def use_policy(settings: Settings) -> UsePolicy:
    return UsePolicy(
        untouched_limit=timedelta(seconds=settings.ttl.untouched_limit),
        busy_limit=timedelta(seconds=settings.ttl.busy_limit),
    )
