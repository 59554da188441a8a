"""People who keep both replicas busy, and who remember exactly what they asked for and wrote.

Each tenant has one workspace at a time and is the only one to touch it, so what must be true of it is known
at any moment: which intent was last acknowledged, and which files with which content its home has. Everything
is drawn from the seed. Servers that do not answer are asked again, the other one first: a request whose
answer got lost may have been carried out, and asking twice must not do it twice. It may also be carried out
late, by a server that was frozen with it: such a intent counts as the person's, whenever it arrives.
"""

import asyncio
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.environment import ChaosEnvironment, client
from tests.support.waiting import until

PATIENCE_SECONDS = 120.0
SMALL_BYTES, LARGE_BYTES = 2_000, 6_000_000
LIKELY = {  # after this intent, how likely is which
    "start": {"start": 4, "stop": 4, "archive": 4, "delete": 1},
    "stop": {"start": 4, "archive": 5, "delete": 1},
    "archive": {"start": 8, "delete": 1},
}
STATUS = {"start": "running", "stop": "standby", "archive": "archived"}
WANTED = {"start": "RUNNING", "stop": "STANDBY", "archive": "PENDING"}


@dataclass
class Figures:
    created: int = 0
    deleted: int = 0
    intents: int = 0
    written: int = 0
    retried_requests: int = 0
    late_intents: int = 0


@dataclass
class Ledger:
    """What one workspace must be like."""

    id: str
    intent: str  # the last one acknowledged
    files: dict[str, str] = field(default_factory=dict)  # name → sha256
    late: set[str] = field(default_factory=set)  # intents that were never answered, and may yet be met

    def accept(self, desired_state: str) -> bool:
        """Whether this is what was asked for; a late intent is from now on the one that counts."""
        if WANTED[self.intent] == desired_state:
            return True
        late = next((intent for intent in self.late if WANTED[intent] == desired_state), None)
        self.intent = late or self.intent
        return late is not None


class Tenant:
    def __init__(self, environment: ChaosEnvironment, number: int, *, seed: int, figures: Figures) -> None:
        self._environment = environment
        self._random = random.Random(f"{seed}/{number}")
        self._number = number
        self._count = 0
        self._figures = figures
        self._client = client(environment)
        self.ledger: Ledger | None = None
        self.late: set[str] = (
            set()
        )  # names asked for without an answer: one may be made, or made again, later

    async def step(self, interrupted: asyncio.Event) -> None:
        """One thing a person does. Once ``interrupted`` it waits for nothing that takes long."""
        if self.ledger is None:
            await self._create()
            return
        if self.ledger.intent == "start" and await self._arrives(interrupted):
            await asyncio.to_thread(self._write, self.ledger)
        likely = LIKELY[self.ledger.intent]
        intent = self._random.choices(list(likely), list(likely.values()))[0]
        if intent == "delete":
            await self._delete(self.ledger)
        else:
            await self._intent(self.ledger, intent)
            if self._random.random() < 0.6:  # the others change their mind while it is under way
                await self._arrives(interrupted)

    async def recover(self) -> None:
        assert self.ledger is not None
        await self._ask("POST", f"/workspaces/{self.ledger.id}/recover")

    async def close(self) -> None:
        await self._client.aclose()

    async def _create(self) -> None:
        name = f"w{self._number}-{self._count}"
        self._count += 1
        start = self._random.random() < 0.8
        body = {"name": name, "image_ref": self._environment.setup.image, "start": start}
        answer = await self._ask("POST", "/workspaces", on_silence=lambda: self.late.add(name), json=body)
        if answer.status_code == httpx.codes.CONFLICT:  # made by a request whose answer got lost
            answer = await self._ask("GET", f"/workspaces?q={name}&limit=200")
            made = next(each for each in answer.json()["items"] if each["name"] == name)
        else:
            made = answer.json()
        self.ledger = Ledger(made["id"], "start" if start else "archive")
        self._figures.created += 1

    async def _intent(self, ledger: Ledger, intent: str) -> None:
        answer = await self._ask(
            "POST", f"/workspaces/{ledger.id}/{intent}", on_silence=lambda: ledger.late.add(intent)
        )
        if answer.is_success:
            ledger.intent = intent
            self._figures.intents += 1
        else:  # a late intent to archive came first, and a stop must not restore
            assert "archive" in ledger.late, answer.text
            ledger.intent = "archive"

    async def _delete(self, ledger: Ledger) -> None:
        await self._ask("DELETE", f"/workspaces/{ledger.id}")
        self.ledger = None
        self._figures.deleted += 1

    async def _arrives(self, interrupted: asyncio.Event) -> bool:
        """Whether the workspace got where it was asked to; False: there was no time to wait for it."""
        ledger = self.ledger
        assert ledger is not None
        while True:
            answer = await self._ask("GET", f"/workspaces/{ledger.id}")
            status = answer.json()["status"]
            if status in (STATUS[ledger.intent], "new") and not interrupted.is_set():
                return bool(status == STATUS[ledger.intent])
            if interrupted.is_set() or status == "error":
                return False
            await asyncio.sleep(0.1)

    def _write(self, ledger: Ledger) -> None:
        """As the workspace itself would: it runs, and nobody has asked for anything else."""
        home = self._environment.setup.home(ledger.id)
        if ledger.files and self._random.random() < 0.2:
            gone = self._random.choice(sorted(ledger.files))
            (home / gone).unlink()
            del ledger.files[gone]
        size = LARGE_BYTES if self._random.random() < 0.1 else SMALL_BYTES
        name = f"file-{self._random.randrange(6)}"
        content = self._random.randbytes(self._random.randrange(size))
        (home / name).write_bytes(content)
        ledger.files[name] = hashlib.sha256(content).hexdigest()
        self._figures.written += 1

    async def _ask(
        self, method: str, path: str, *, on_silence: Callable[[], None] = lambda: None, **options: Any
    ) -> httpx.Response:
        """Of either replica, until one answers for good. A refusal is an answer only where it may be one."""
        answer: httpx.Response | None = None
        replicas = list(self._environment.replicas)
        self._random.shuffle(replicas)
        tries = 0

        async def answered() -> bool:
            nonlocal answer, tries
            url = replicas[tries % len(replicas)].url
            tries += 1
            try:
                answer = await self._client.request(method, f"{url}/api/v1{path}", **options)
            except httpx.TransportError:
                on_silence()
                return False
            if answer.is_server_error:  # also from a proxy whose server died with the request in hand
                on_silence()
            return not answer.is_server_error and answer.status_code != httpx.codes.TOO_MANY_REQUESTS

        await until(answered, seconds=PATIENCE_SECONDS, what=f"{method} {path} to be answered")
        assert answer is not None
        self._figures.retried_requests += tries - 1
        conflict = method == "POST" and answer.status_code == httpx.codes.CONFLICT
        gone = method == "DELETE" and tries > 1 and answer.status_code in (404, 409)
        assert answer.is_success or conflict or gone, f"{method} {path}: {answer.text}"
        return answer


class Load:
    """All tenants, each at its own pace, until paused."""

    def __init__(self, environment: ChaosEnvironment, *, tenants: int, seed: int) -> None:
        self.figures = Figures()
        self.tenants: Sequence[Tenant] = [
            Tenant(environment, number, seed=seed, figures=self.figures) for number in range(tenants)
        ]
        self._random = random.Random(f"{seed}/load")
        self._interrupted = asyncio.Event()
        self._living: asyncio.Task[None] | None = None

    def go(self) -> None:
        self._interrupted.clear()
        self._living = asyncio.create_task(self._live())

    async def pause(self) -> None:
        """Everybody finishes what they are asking for; afterwards every ledger is exact."""
        self._interrupted.set()
        if self._living is not None:
            await self._living
            self._living = None

    async def close(self) -> None:
        if self._living is not None:
            self._living.cancel()
            await asyncio.gather(self._living, return_exceptions=True)
        for tenant in self.tenants:
            await tenant.close()

    def accept(self, desired: Mapping[str, str]) -> list[str]:
        """At rest: workspaces whose intent is not what was asked for. Nothing is under way any more."""
        wrong = []
        for key, ledger in self.ledgers().items():
            before = ledger.intent
            if key in desired and not ledger.accept(desired[key]):
                wrong.append(f"the intent to {ledger.intent} {key} is lost: {desired[key]} is wanted")
            self.figures.late_intents += ledger.intent != before
            ledger.late.clear()
        return wrong

    def late_names(self) -> set[str]:
        return {name for tenant in self.tenants for name in tenant.late}

    def ledgers(self) -> dict[str, Ledger]:
        return {each.ledger.id: each.ledger for each in self.tenants if each.ledger is not None}

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as group:
            for tenant in self.tenants:
                group.create_task(self._live_as(tenant))

    async def _live_as(self, tenant: Tenant) -> None:
        while not self._interrupted.is_set():
            await tenant.step(self._interrupted)
            await asyncio.sleep(self._random.uniform(0.05, 0.5))
