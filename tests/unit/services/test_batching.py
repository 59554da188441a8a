"""Equal questions share an answer, which is never older than any of them."""

import asyncio

import pytest

from codehub.kit.batching import Shared


class Source:
    """Loads that end when the test says so, and tell which version was committed when they began."""

    def __init__(self) -> None:
        self.version = 0
        self.loads: list[asyncio.Future[None]] = []

    async def load(self, key: str) -> str:
        seen = f"{key}{self.version}"
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.loads.append(ended)
        await ended
        return seen


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def ask(shared: Shared[str, str], key: str = "a") -> "asyncio.Task[str]":
    return asyncio.create_task(shared.get(key))


async def test_equal_questions_of_one_moment_are_one_load() -> None:
    source = Source()
    shared = Shared(source.load)
    asked = [ask(shared) for _ in range(10)]
    await settle()
    assert len(source.loads) == 1
    source.loads[0].set_result(None)
    assert set(await asyncio.gather(*asked)) == {"a0"}


async def test_who_asks_during_a_load_gets_a_later_one() -> None:
    source = Source()
    shared = Shared(source.load)
    early = ask(shared)
    await settle()
    source.version = 1  # committed after the first load looked, before the others ask
    late = [ask(shared) for _ in range(3)]
    await settle()
    assert len(source.loads) == 1
    source.loads[0].set_result(None)
    assert await early == "a0"
    await settle()
    assert len(source.loads) == 2
    source.loads[1].set_result(None)
    assert await asyncio.gather(*late) == ["a1", "a1", "a1"]


async def test_other_questions_do_not_wait() -> None:
    source = Source()
    shared = Shared(source.load)
    slow, quick = ask(shared, "a"), ask(shared, "b")
    await settle()
    source.loads[1].set_result(None)
    assert await quick == "b0"
    assert not slow.done()
    source.loads[0].set_result(None)
    assert await slow == "a0"


async def test_a_failure_reaches_everybody_and_is_not_kept() -> None:
    source = Source()
    shared = Shared(source.load)
    asked = [ask(shared) for _ in range(2)]
    await settle()
    source.loads[0].set_exception(LookupError("away"))
    for each in asked:
        with pytest.raises(LookupError):
            await each
    again = ask(shared)
    await settle()
    source.loads[1].set_result(None)
    assert await again == "a0"


async def test_an_asker_who_leaves_takes_nobodys_answer_along() -> None:
    source = Source()
    shared = Shared(source.load)
    leaves, stays = ask(shared), ask(shared)
    await settle()
    leaves.cancel()
    await settle()
    source.loads[0].set_result(None)
    assert await stays == "a0"
