"""A workspace that shows what reaches it: headers over HTTP, messages over WebSocket, more ports on request.

python echo_server.py PORT

``/headers`` answers with the request as JSON. ``/listen?host=…`` opens one more port and names it; with
``child=1`` a process in a session of its own opens it, as a program started in a terminal does. ``/close``
closes all of them. Other paths answer with a small page. WebSockets get their messages back.
"""

import asyncio
import json
import sys
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

PAGE = "<!doctype html><title>echo</title><h1>echo</h1><p id=path>{path}</p>"
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
            return said(str(await listen(query.get("host", "127.0.0.1"), in_child="child" in query)))
        case "/close":
            for server in opened:
                server.close()
            return said("closed")
    return said(PAGE.format(path=url.path), "text/html")


def said(text: str, kind: str = "text/plain") -> Response:
    body = text.encode()
    headers = Headers({"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"})
    return Response(HTTPStatus.OK, "OK", headers, body)


async def listen(host: str, *, in_child: bool) -> int:
    if in_child:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(Path(__file__)), "0"),
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        children.append(child)
        assert child.stdout is not None
        return int(await child.stdout.readline())
    server = await serve(echo, host, 0, process_request=answer)
    opened.append(server)
    return port_of(server)


def port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


async def main() -> None:
    async with serve(echo, "127.0.0.1", int(sys.argv[1]), process_request=answer) as server:
        print(port_of(server), flush=True)
        await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main())
