"""Build the parts that the API's and the proxy's process share, from the settings."""

from datetime import timedelta

from codehub.domain.limits import RunningLimits
from codehub.domain.port_shares import SharePolicy
from codehub.domain.ttl import UsePolicy
from codehub.server.settings.tree import Settings
from codehub.signals.connection import RedisLink


def redis_link(settings: Settings, url: str, *, client_name: str) -> RedisLink:
    return RedisLink(url, client_name=client_name, channel_prefix=settings.redis.channel_prefix)


def running_limits(settings: Settings) -> RunningLimits:
    limits = settings.limits
    return RunningLimits(per_user=limits.max_running_per_user, in_all=limits.max_running_global)


def share_policy(settings: Settings) -> SharePolicy:
    return SharePolicy(
        ceiling=settings.ports.share_ceiling,
        has_origins=settings.http.base_domain is not None,
        max_link=timedelta(hours=settings.ports.share_max_hours),
    )


def use_policy(settings: Settings) -> UsePolicy:
    return UsePolicy(
        untouched_limit=timedelta(seconds=settings.ttl.untouched_limit),
        busy_limit=timedelta(seconds=settings.ttl.busy_limit),
    )
