"""A workspace that starts in no time: answers every request, writes lines, and can be told to misbehave.

python tiny_server.py PORT-OR-SOCKET [--ignore-term] [--child] [--escape] [--crash] [--fail]
"""

import os
import signal
import socket
import subprocess
import sys
import time


def main() -> None:
    where, flags = sys.argv[1], sys.argv[2:]
    if "--fail" in flags:
        print("this command is wrong", flush=True)
        sys.exit(3)
    if "--ignore-term" in flags:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--child" in flags:  # stays in the session
        subprocess.Popen(["sleep", "1000"])
    if "--escape" in flags:  # leaves it
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    listener = socket.socket(socket.AF_INET if where.isdigit() else socket.AF_UNIX)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(where)) if where.isdigit() else where)
    listener.listen(64)
    print(f"pid {os.getpid()} listens on {where} in {os.getcwd()}", flush=True)
    if "--crash" in flags:  # comes up, then goes down by itself
        print("going down", flush=True)
        time.sleep(0.5)
        sys.exit(7)
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(1)
            try:
                if not connection.recv(65536):
                    continue
                body = "\n".join(f"{name}={value}" for name, value in os.environ.items()).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                connection.sendall(head.encode() + body)
            except OSError:
                continue


if __name__ == "__main__":
    main()
