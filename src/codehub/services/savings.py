"""What sleeping saved this month: hours that were not run, gigabytes on no disk, and their price."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from codehub.kit.cache import TtlCache
from codehub.store.db.session import Sessions
from codehub.store.workspaces import hours
from codehub.store.workspaces.hours import Hours

MONTH_HOURS = 730.0
CACHE_SECONDS = 60.0
CACHED_PEOPLE = 1000


@dataclass(frozen=True)
class Price:
    """What an hour of a running workspace and a gigabyte of disk cost here."""

    per_hour: float
    currency: str
    per_gb_month: float = 0.0

    def of(self, hours: Hours) -> float:
        return hours.saved * self.per_hour + hours.gb_hours / MONTH_HOURS * self.per_gb_month


@dataclass(frozen=True)
class Savings:
    """Of one person or of everybody, since ``since``."""

    since: datetime
    hours: Hours
    money: float | None  # None: no price is configured


class SavingsReader:
    """Reads savings of the current month (UTC). Answers up to 60 s old are reused: adding up reads the timeline."""

    def __init__(self, reading: Sessions, *, price: Price | None) -> None:
        self._reading = reading
        self.price = price
        self._cache: TtlCache[UUID | None, Savings] = TtlCache(size=CACHED_PEOPLE, ttl=CACHE_SECONDS)

    async def of(self, owner_id: UUID | None) -> Savings:
        """Savings of a person; ``None``: of everybody."""
        found = self._cache.get(owner_id)
        if found is None:
            found = await self._read(owner_id)
            self._cache.put(owner_id, found)
        return found

    async def _read(self, owner_id: UUID | None) -> Savings:
        now = datetime.now(UTC)
        since = month_of(now)
        async with self._reading() as session:
            total = await hours.add_up(session, owner_id=owner_id, since=since, until=now)
        money = None if self.price is None else self.price.of(total)
        return Savings(since, total, money)


def month_of(now: datetime) -> datetime:
    """The first moment of the month, in UTC."""
    return now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
