"""The smallest workspace: answers every request with "ok". The port is the argument, or JupyterHub's."""

import os
import socket
import sys
from urllib.parse import urlsplit


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"]).port
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port or 0))
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(1)
            try:
                if connection.recv(65536):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            except OSError:
                continue


if __name__ == "__main__":
    main()
