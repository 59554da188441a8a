"""A workspace that shows what reaches it: headers over HTTP, messages over WebSocket, more ports on request.

python echo_server.py PORT-OR-SOCKET

``/headers`` answers with the request as JSON. ``/listen?host=…`` opens one more port and names it; with
``child=1`` a process in a session of its own opens it, as a program started in a terminal does, with
``shared=1`` others of this user may listen there too. ``/close`` closes all of them, ``/leave`` the first
one. Other paths answer with a small page. WebSockets get their messages back.
"""

import asyncio
import json
import sys
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

PAGE = "<!doctype html><title>echo</title><h1>echo</h1><p id=path>{path}</p>"
first: list[Server] = []
opened: list[Server] = []
children: list[asyncio.subprocess.Process] = []


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


async def answer(connection: ServerConnection, request: Request) -> Response | None:
    if request.headers.get("Upgrade", "").lower() == "websocket":
        return None
    url = urlsplit(request.path)
    query = {key: values[-1] for key, values in parse_qs(url.query).items()}
    match url.path:
        case "/headers":
            fields = [[name, value] for name, value in request.headers.raw_items()]
            return said(json.dumps({"path": request.path, "headers": fields}), "application/json")
        case "/listen":
            host = query.get("host", "127.0.0.1")
            return said(str(await listen(host, in_child="child" in query, shared="shared" in query)))
        case "/close":
            for server in opened:
                server.close()
            return said("closed")
        case "/leave":
            first[0].close()
            return said("left")
    return said(PAGE.format(path=url.path), "text/html")


def said(text: str, kind: str = "text/plain") -> Response:
    body = text.encode()
    headers = Headers({"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"})
    return Response(HTTPStatus.OK, "OK", headers, body)


async def listen(host: str, *, in_child: bool, shared: bool) -> int:
    if in_child:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(Path(__file__)), "0"),
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        children.append(child)
        assert child.stdout is not None
        return int(await child.stdout.readline())
    server = await serve(echo, host, 0, process_request=answer, reuse_port=shared)
    opened.append(server)
    return port_of(server)


def port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


async def main() -> None:
    where = sys.argv[1]
    if where.isdigit():
        first.append(await serve(echo, "127.0.0.1", int(where), process_request=answer))
        print(port_of(first[0]), flush=True)
    else:
        first.append(await unix_serve(echo, where, process_request=answer))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
