"""Read public keys as OpenSSH writes them: ``ssh-ed25519 AAAA… comment``, one line.

Services call this when a person registers a key. What is returned is written anew from the bytes that were read, so
nothing of the text besides the key and its comment gets any further. Whether a key is a point of its curve is not
checked: one that is not never verifies a signature.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

from codehub.domain.errors import CodeHubError

MAX_TEXT = 16 * 1024
MIN_RSA_BITS = 3072
MAX_RSA_BITS = 16384

_POINT_LENGTHS = {b"nistp256": 65, b"nistp384": 97, b"nistp521": 133}
_ED25519_BYTES = 32
_TYPES = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
)
KEY_TYPES = frozenset(_TYPES)
# What a type looks like, known or not: to tell options in front of a key from a type that is not accepted.
_TYPE_LIKE = re.compile(r"(ssh|ecdsa|sk-ssh|sk-ecdsa)-[A-Za-z0-9@.-]+")


class UnfitKeyReason(StrEnum):
    """Why a text is no key that can be registered."""

    PRIVATE = "key_private"
    FORMAT = "key_format"
    SEVERAL = "key_several"
    OPTIONS = "key_options"
    CERTIFICATE = "key_certificate"
    TYPE = "key_type"
    SHORT = "key_short"
    BROKEN = "key_broken"


class UnfitKeyError(CodeHubError):
    """The text is no public key that can be registered."""

    code = "unfit_key"

    def __init__(self, reason: UnfitKeyReason) -> None:
        super().__init__(_SENTENCES[reason])
        self.reason = reason


_SENTENCES = {
    UnfitKeyReason.PRIVATE: "This is a private key. Nobody but you may have it, CodeHub neither: it was not stored. "
    "Give the public key, from the file that ends in .pub.",
    UnfitKeyReason.FORMAT: "This is no public key as OpenSSH writes it: one line such as ssh-ed25519 AAAA… name, "
    "from the file that ends in .pub.",
    UnfitKeyReason.SEVERAL: "These are several lines. Add one key at a time.",
    UnfitKeyReason.OPTIONS: "There are options in front of the key. Leave them out: the line begins with its type, "
    "such as ssh-ed25519.",
    UnfitKeyReason.CERTIFICATE: "This is a certificate. Give the key itself, from the file that ends in .pub.",
    UnfitKeyReason.TYPE: f"Keys of this type are not accepted. Accepted are {', '.join(_TYPES)}.",
    UnfitKeyReason.SHORT: f"This RSA key is not accepted: it must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits. "
    "Make a better one: ssh-keygen -t ed25519.",
    UnfitKeyReason.BROKEN: "The key is damaged: it ends too early, or has something else in it. Copy the whole line.",
}


@dataclass(frozen=True)
class PublicKey:
    """A key that can be registered. ``text``: its type and the key, as in ``authorized_keys``."""

    text: str
    fingerprint: str
    comment: str


def parse(text: str) -> PublicKey:
    """Read one public key. Raises ``UnfitKeyError``."""
    if len(text) > MAX_TEXT:
        raise UnfitKeyError(UnfitKeyReason.FORMAT)
    if "PRIVATE KEY" in text or "PuTTY-User-Key-File" in text:
        raise UnfitKeyError(UnfitKeyReason.PRIVATE)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    words = lines[0].split(None, 2) if lines else []
    if len(words) < 2:
        raise UnfitKeyError(UnfitKeyReason.FORMAT)
    kind, encoded = words[0], words[1]
    _check_type(kind, lines[0])
    if len(lines) > 1:
        raise UnfitKeyError(UnfitKeyReason.SEVERAL)
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise UnfitKeyError(UnfitKeyReason.BROKEN) from None
    _check_blob(kind.encode(), blob)
    return PublicKey(
        text=f"{kind} {base64.b64encode(blob).decode()}",
        fingerprint=fingerprint_of(blob),
        comment=words[2].strip() if len(words) > 2 else "",
    )


def fingerprint_of(blob: bytes) -> str:
    """The fingerprint of a key in its wire format, as ``ssh-keygen -l`` shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _check_type(kind: str, line: str) -> None:
    if kind in KEY_TYPES:
        return
    if "-cert-v0" in kind:
        raise UnfitKeyError(UnfitKeyReason.CERTIFICATE)
    if _TYPE_LIKE.fullmatch(kind):
        raise UnfitKeyError(UnfitKeyReason.TYPE)
    if any(f" {each} " in f" {line} " for each in _TYPES):
        raise UnfitKeyError(UnfitKeyReason.OPTIONS)
    raise UnfitKeyError(UnfitKeyReason.FORMAT)


def _check_blob(kind: bytes, blob: bytes) -> None:
    """Check that the key has exactly the fields of its type."""
    fields = _fields(blob)
    if not fields or fields[0] != kind:
        raise UnfitKeyError(UnfitKeyReason.BROKEN)
    rest = fields[1:]
    if kind.startswith(b"sk-"):
        rest = rest[:-1]  # the application, such as "ssh:"
    match rest:
        case [point] if b"ed25519" in kind:
            fits = len(point) == _ED25519_BYTES
        case [curve, point] if b"ecdsa" in kind:
            named = curve in _POINT_LENGTHS and curve in kind
            fits = named and len(point) == _POINT_LENGTHS[curve] and point.startswith(b"\x04")
        case [exponent, modulus] if kind == b"ssh-rsa":
            fits = _is_rsa(int.from_bytes(exponent, "big"), int.from_bytes(modulus, "big"))
        case _:
            fits = False
    if not fits:
        raise UnfitKeyError(UnfitKeyReason.BROKEN)


def _is_rsa(exponent: int, modulus: int) -> bool:
    if not MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS:
        raise UnfitKeyError(UnfitKeyReason.SHORT)
    # A huge exponent makes every verification slow.
    return exponent >= 3 and exponent.bit_length() <= 64 and exponent % 2 == 1 and modulus % 2 == 1


def _fields(blob: bytes) -> list[bytes]:
    """Split SSH's wire format: lengths of four bytes, each with as many bytes. Empty if it is none."""
    fields: list[bytes] = []
    at = 0
    while at < len(blob):
        length = int.from_bytes(blob[at : at + 4], "big")
        if at + 4 + length > len(blob):
            return []
        fields.append(blob[at + 4 : at + 4 + length])
        at += 4 + length
    return fields
