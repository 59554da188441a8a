"""What strikes: each fault breaks something real, lets it be for a while, and undoes only its own doing.

``strike`` happens in the middle of the load. A replica that was killed is started again, as any service
manager would do; everything else the product has to mend by itself.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from tests.chaos import audit
from tests.chaos.environment import ChaosEnvironment
from tests.chaos.runtime_setups import DockerSetup, LocalSetup
from tests.support.broken_link import Break, BrokenLink
from tests.support.faulty_http import Fault as StoreFault
from tests.support.faulty_http import FaultyProxy
from tests.support.private_dockerd import PrivateDockerd
from tests.support.waiting import until

LEASH_SECONDS = 90.0
"""A frozen or stranded leader's session is ended by PostgreSQL itself after 30 s of silence."""


@dataclass(frozen=True)
class Fault:
    name: str
    strike: Callable[[ChaosEnvironment, random.Random], Awaitable[None]]
    slow: bool = False  # waits for a timeout of the product, half a minute: not in the short round


async def kill_leader(environment: ChaosEnvironment, chance: random.Random) -> None:
    leader = await environment.leader()
    await leader.kill()
    await leader.start()


async def freeze_leader(environment: ChaosEnvironment, chance: random.Random) -> None:
    """SIGSTOP for longer than its session may idle: the other leads, then the old one wakes up."""
    leader = await environment.leader()
    leader.freeze()
    try:
        await _until_another_leads(environment, leader.name)
        await asyncio.sleep(chance.uniform(0, 2))
    finally:
        leader.thaw()


async def end_lock_sessions(environment: ChaosEnvironment, chance: random.Random) -> None:
    await environment.value(
        "SELECT count(pg_terminate_backend(pid)) FROM"
        " (SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND granted) holders"
    )


async def end_all_sessions(environment: ChaosEnvironment, chance: random.Random) -> None:
    await environment.value(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


async def restart_postgres(environment: ChaosEnvironment, chance: random.Random) -> None:
    """Immediate: as after a crash, it comes back by replaying its log."""
    await asyncio.to_thread(environment.postgres.stop)
    await asyncio.sleep(chance.uniform(0, 3))
    await asyncio.to_thread(environment.postgres.start)


async def kill_redis(environment: ChaosEnvironment, chance: random.Random) -> None:
    """It comes back empty."""
    await asyncio.to_thread(environment.redis.kill)
    await asyncio.sleep(chance.uniform(0, 3))
    await asyncio.to_thread(environment.redis.start)


async def flush_redis(environment: ChaosEnvironment, chance: random.Random) -> None:
    await asyncio.to_thread(environment.redis.flush)


async def freeze_redis(environment: ChaosEnvironment, chance: random.Random) -> None:
    environment.redis.freeze()
    await asyncio.sleep(chance.uniform(2, 8))
    environment.redis.thaw()


def _break_database(how: Break) -> Callable[[ChaosEnvironment, random.Random], Awaitable[None]]:
    async def strike(environment: ChaosEnvironment, chance: random.Random) -> None:
        leader = await environment.leader()
        await _broken(leader.database, how, seconds=chance.uniform(1, 12))

    return strike


def _break_redis(how: Break) -> Callable[[ChaosEnvironment, random.Random], Awaitable[None]]:
    async def strike(environment: ChaosEnvironment, chance: random.Random) -> None:
        leader = await environment.leader()
        await _broken(leader.redis, how, seconds=chance.uniform(1, 8))

    return strike


async def strand_leader_for_long(environment: ChaosEnvironment, chance: random.Random) -> None:
    """The leader's packets go nowhere until the other leads; then they come back, all at once."""
    leader = await environment.leader()
    leader.database.break_(Break.STALL)
    try:
        await _until_another_leads(environment, leader.name)
    finally:
        leader.database.heal()


def _break_store(kind: StoreFault) -> Callable[[ChaosEnvironment, random.Random], Awaitable[None]]:
    async def strike(environment: ChaosEnvironment, chance: random.Random) -> None:
        store = _store(environment)
        store.released.clear()
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            store.inject(kind, method=method)
        await asyncio.sleep(chance.uniform(1, 8))
        store.heal()
        store.released.set()

    return strike


def _spoil_store(
    kind: StoreFault, method: str
) -> Callable[[ChaosEnvironment, random.Random], Awaitable[None]]:
    """Not an outage: the next few bodies are not what they should be."""

    async def strike(environment: ChaosEnvironment, chance: random.Random) -> None:
        store = _store(environment)
        store.inject(kind, method=method, part="home.tar.zst ", times=2)
        await asyncio.sleep(chance.uniform(2, 6))
        store.heal()

    return strike


async def kill_docker(environment: ChaosEnvironment, chance: random.Random) -> None:
    """kill -9 of the engine: its containers live on until it is back and, by its defaults, ends them."""
    engine = _engine(environment)
    await asyncio.to_thread(engine.kill)
    await asyncio.sleep(chance.uniform(0, 3))
    await asyncio.to_thread(engine.start)


async def freeze_docker(environment: ChaosEnvironment, chance: random.Random) -> None:
    engine = _engine(environment)
    engine.freeze()
    await asyncio.sleep(chance.uniform(2, 10))
    engine.thaw()


def _store(environment: ChaosEnvironment) -> FaultyProxy:
    assert isinstance(environment.setup, LocalSetup)
    return environment.setup.store


def _engine(environment: ChaosEnvironment) -> PrivateDockerd:
    assert isinstance(environment.setup, DockerSetup)
    return environment.setup.engine


async def _broken(link: BrokenLink, how: Break, *, seconds: float) -> None:
    link.break_(how)
    try:
        await asyncio.sleep(seconds)
    finally:
        link.heal()


async def _until_another_leads(environment: ChaosEnvironment, name: str) -> None:
    since = await audit.now(environment)

    async def replaced() -> bool:
        taken = await audit.take_over(environment, since)
        return taken is not None and taken.holder != name

    await until(replaced, seconds=LEASH_SECONDS, what="the other replica to lead")


KILL = Fault("kill -9 of the leader", kill_leader)
FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        KILL,
        Fault("SIGSTOP of the leader", freeze_leader, slow=True),
        Fault("pg_terminate_backend of lock holders", end_lock_sessions),
        Fault("pg_terminate_backend of everybody", end_all_sessions),
        Fault("PostgreSQL restart", restart_postgres),
        Fault("Redis kill -9", kill_redis),
        Fault("Redis FLUSHALL", flush_redis),
        Fault("Redis frozen", freeze_redis),
        Fault("link to PostgreSQL cut", _break_database(Break.CUT)),
        Fault("link to PostgreSQL stalled", _break_database(Break.STALL)),
        Fault("link to PostgreSQL one way", _break_database(Break.STRAND)),
        Fault("link to PostgreSQL stalled until replaced", strand_leader_for_long, slow=True),
        Fault("link to Redis cut", _break_redis(Break.CUT)),
        Fault("link to Redis stalled", _break_redis(Break.STALL)),
        Fault("link to Redis one way", _break_redis(Break.STRAND)),
        Fault("archive store answers 503", _break_store(StoreFault.STATUS_503)),
        Fault("archive store hangs", _break_store(StoreFault.HANG)),
        Fault("archive store resets", _break_store(StoreFault.RESET)),
        Fault("archive store flips a bit", _spoil_store(StoreFault.FLIP, "GET")),
        Fault("archive store truncates", _spoil_store(StoreFault.TRUNCATE, "GET")),
    )
}

DOCKER_FAULTS = (
    Fault("Docker kill -9", kill_docker),
    Fault("Docker frozen", freeze_docker),
    KILL,
)
"""With the Docker setup alone: only there is an engine to break."""


def schedule(
    seed: int, *, kills: int, others: int, slow: bool, faults: Mapping[str, Fault] = FAULTS
) -> list[Fault]:
    """Kills, and the other faults in turn, in an order drawn from the seed."""
    chance = random.Random(f"{seed}/schedule")
    kinds = [fault for fault in faults.values() if fault is not KILL and (slow or not fault.slow)]
    chance.shuffle(kinds)
    chosen = [kinds[number % len(kinds)] for number in range(others)]
    drawn = [KILL] * kills + chosen
    chance.shuffle(drawn)
    return drawn
