"""An IDE that does what it is told, by a word in ``$HOME/work``: the first line of that file.

    python working_server.py PORT-OR-SOCKET

``kernel``: a notebook executes; ``job``: a shell's loop runs in a terminal; ``burn``: a process computes; ``silent``:
it accepts and does not answer; ``broken``: it answers 500; anything else: nothing. ``$HOME/works`` holds the word that
is carried out.
"""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

LOOP = "set -m; while :; do sleep 0.3; done"
BURN = "while True: pass"
home = Path(os.environ["HOME"])


def word() -> str:
    try:
        return (home / "work").read_text().strip()
    except FileNotFoundError:
        return ""


def begin(what: str) -> list[int]:
    """Begin that work; the processes to end afterwards."""
    if what == "burn":
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", BURN], start_new_session=True)
        return [child.pid]
    if what == "job":
        pid, _terminal = pty.fork()
        if pid == 0:
            os.execlp("sh", "sh", "-c", LOOP)
        return [pid]
    return []


def work() -> None:
    doing = ""
    children: list[int] = []
    while True:
        if (what := word()) != doing:
            for child in children:
                os.kill(child, signal.SIGKILL)  # a shell's job gets SIGHUP with it
                os.waitpid(child, 0)
            doing, children = what, begin(what)
            (home / "works.new").write_text(what)
            (home / "works.new").rename(home / "works")
        time.sleep(0.1)


def answer(connection: socket.socket) -> None:
    with connection:
        connection.settimeout(60)
        if not connection.recv(65536):
            return
        if word() == "silent":
            connection.recv(1)  # until the other side gives up
            return
        kernels = [{"id": "k", "execution_state": "busy" if word() == "kernel" else "idle"}]
        body = json.dumps(kernels).encode()
        status = "500 No" if word() == "broken" else "200 OK"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    where = sys.argv[1]
    listener = socket.socket(socket.AF_INET if where.isdigit() else socket.AF_UNIX)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(where)) if where.isdigit() else where)
    listener.listen(64)
    threading.Thread(target=work, daemon=True).start()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
