"""A small IDE for tests: one page at every address, whose script asks the server again and again.

    python page_server.py <socket>

``…/quiet`` asks nothing after it was loaded, so that the workspace falls idle. The page has a policy that names
where its scripts come from, as careful IDEs do.
"""

import asyncio
import sys

PAGE = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Editor</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>the editor</h1><p>Some work that was open in the tab.</p></main><script nonce="page">
window.refused = 0;
const ask = () => fetch(location.pathname + "/ping").then((answer) => { window.refused += !answer.ok; }, () => {});
if (!location.pathname.endsWith("/quiet")) setInterval(ask, 500);
</script></body></html>"""
POLICY = "script-src 'nonce-page'; connect-src 'self'"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = (
                f"Content-Type: text/html\r\nContent-Length: {len(PAGE)}\r\nContent-Security-Policy: {POLICY}"
            )
            body = b"" if head.startswith(b"HEAD") else PAGE
            writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_unix_server(serve, sys.argv[1])
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
