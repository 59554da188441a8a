"""Nobody whom the kernel has connected is cut off by the end of a listening socket."""

import asyncio
import contextlib
import socket

from codehub.kit.listening import stop_arrivals


def call(port: int, *, timeout: float) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=timeout)


async def test_who_is_in_the_queue_stays_and_nobody_comes_after() -> None:
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        early = stack.enter_context(call(port, timeout=10))
        early.sendall(b"hello")
        await stop_arrivals(listening, timeout=0.2)  # nobody accepts: it gives up waiting

        late = asyncio.create_task(asyncio.to_thread(call, port, timeout=30))
        accepted, _ = listening.accept()
        stack.enter_context(accepted)
        assert accepted.recv(5) == b"hello"
        listening.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            listening.accept()
            raise AssertionError("a new connection was accepted")
        listening.close()
        accepted.sendall(b"good-bye")  # the filter that it inherited lets its packets pass
        assert early.recv(8) == b"good-bye"
        outcome = (await asyncio.gather(late, return_exceptions=True))[0]
        assert isinstance(outcome, ConnectionRefusedError)


async def test_it_waits_until_the_queue_has_been_emptied() -> None:
    answered = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        answered += 1
        writer.close()

    listening = socket.create_server(("127.0.0.1", 0))
    callers = [call(listening.getsockname()[1], timeout=10) for _ in range(20)]
    server = await asyncio.start_server(answer, sock=listening)
    async with server:
        await stop_arrivals(listening, timeout=30)
        server.close()
    assert answered == len(callers)
    for caller in callers:
        assert caller.recv(1) == b""  # closed by the server, not reset
        caller.close()
