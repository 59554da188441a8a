"""asyncssh's server connection, with what a port for strangers needs besides.

asyncssh ignores that the network is slow, copies all it has received for every packet, and accepts signatures with
SHA-1 and certificates wherever it accepts a key. Here sending waits for the network, bytes are given to it in small
pieces, and a signature is verified only if its key and algorithm are among ours.
"""

import asyncio
from typing import Any

import asyncssh
from asyncssh.public_key import SSHKey

from codehub.api.ssh.gateway.limits import LOGIN_SECONDS
from codehub.domain.ssh_keys import KEY_TYPES

VERSION = "CodeHub_gateway_1"
PIECE = 4096
"""asyncssh copies what it has not read yet for every packet: a quarter megabyte of small ones would take seconds."""

KEEPALIVE_SECONDS = 25.0
KEEPALIVES = 3
WINDOW = 1024 * 1024
"""What a client may send on a channel before it was passed on."""

KEX = ("mlkem768x25519-sha256", "curve25519-sha256", "curve25519-sha256@libssh.org")
CIPHERS = ("chacha20-poly1305@openssh.com", "aes256-gcm@openssh.com", "aes128-gcm@openssh.com")
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com")
"""Named in the handshake only: the ciphers authenticate by themselves."""

SIGNATURES = (*sorted(KEY_TYPES - {"ssh-rsa"}), "rsa-sha2-512", "rsa-sha2-256")

_KEY_TYPES = frozenset(name.encode() for name in KEY_TYPES)
_SIGNATURES = frozenset(name.encode() for name in SIGNATURES)


class GatewayConnection(asyncssh.SSHServerConnection):
    """One connection. ``can_write``: the network takes more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, options: asyncssh.SSHServerConnectionOptions) -> None:
        super().__init__(loop, options)
        self.can_write = asyncio.Event()
        self.can_write.set()

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        for start in range(0, len(data), PIECE):
            super().data_received(data[start : start + PIECE], datatype)

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def connection_lost(self, exc: Exception | None = None) -> None:
        self.can_write.set()  # whoever waits finds out that it is gone
        super().connection_lost(exc)

    def end(self, sentence: str) -> None:
        """End the connection with a sentence, which ``ssh`` shows.

        Not ``disconnect``, which closes channels first: ``ssh -J`` may leave on that, before it reads the sentence.
        """
        self._send_disconnect(asyncssh.DISC_BY_APPLICATION, sentence, "en")
        self._force_close(None)

    async def reload_config(self) -> None:
        """There are no files to read for each user name."""

    async def validate_public_key(self, username: str, key_data: bytes, msg: bytes, signature: bytes) -> bool:
        if _first_field(key_data) not in _KEY_TYPES:
            return False  # a certificate, which asyncssh would take apart
        if msg and _first_field(signature) not in _SIGNATURES:
            return False
        return await super().validate_public_key(username, key_data, msg, signature)


def build_options(host_key: SSHKey, server_factory: Any) -> asyncssh.SSHServerConnectionOptions:
    """Everything off that is not needed to sign in by key and to open channels."""
    return asyncssh.SSHServerConnectionOptions(
        server_factory=server_factory,
        server_version=VERSION,
        server_host_keys=[host_key],
        kex_algs=KEX,
        encryption_algs=CIPHERS,
        mac_algs=MACS,
        compression_algs=None,
        signature_algs=SIGNATURES,
        public_key_auth=True,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
        gss_kex=False,
        gss_auth=False,
        allow_pty=False,
        line_editor=False,
        x11_forwarding=False,
        agent_forwarding=False,
        login_timeout=LOGIN_SECONDS,
        keepalive_interval=KEEPALIVE_SECONDS,
        keepalive_count_max=KEEPALIVES,
        window=WINDOW,
    )


def _first_field(data: bytes) -> bytes:
    """The first string in SSH's wire format; its length is not trusted."""
    return data[4 : 4 + min(int.from_bytes(data[:4], "big"), 64)]
