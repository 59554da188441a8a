"""Public keys are read as OpenSSH writes them, and everything else is refused with a reason."""

import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from codehub.domain.ssh_keys import MAX_TEXT, UnfitKeyError, UnfitKeyReason, fingerprint_of, parse
from tests.support.requirements import require_program

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII38LAmTqn7IksOkCKTigyQQ14kQ0F8LndRfe+nmkQ2S"


def field(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def written(kind: str, *fields: bytes) -> str:
    blob = field(kind.encode()) + b"".join(field(each) for each in fields)
    return f"{kind} {b64encode(blob).decode()}"


def rsa(bits: int, exponent: bytes = b"\x01\x00\x01") -> str:
    return written("ssh-rsa", exponent, b"\x00" + (1 << (bits - 1) | 1).to_bytes(bits // 8, "big"))


POINT = b"\x04" + bytes(64)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ed25519", ()),
        ("ecdsa", ("-b", "256")),
        ("ecdsa", ("-b", "384")),
        ("ecdsa", ("-b", "521")),
        ("rsa", ()),
    ],
)
def test_what_openssh_makes_is_read(tmp_path: Path, kind: str, options: tuple[str, ...]) -> None:
    require_program("ssh-keygen", package="openssh-client")
    key = tmp_path / "key"
    making = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "ann at home", "-f", str(key), *options]
    subprocess.run(making, check=True)
    public = key.with_suffix(".pub")
    shown = subprocess.run(["ssh-keygen", "-lf", str(public)], check=True, capture_output=True, text=True)
    parsed = parse(public.read_text())
    assert parsed.fingerprint == shown.stdout.split()[1]
    assert parsed.comment == "ann at home"
    assert parsed.text == " ".join(public.read_text().split()[:2])


@pytest.mark.parametrize(
    "text",
    [
        written("sk-ssh-ed25519@openssh.com", bytes(32), b"ssh:"),
        written("sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", POINT, b"ssh:"),
        rsa(3072),
        rsa(16384),
        f"  {ED25519}  \r\n\n",
        f"# my laptop\n{ED25519} ann@laptop\n",
    ],
)
def test_these_are_read(text: str) -> None:
    parsed = parse(text)
    assert parsed.fingerprint == fingerprint_of(b64decode(parsed.text.split()[1]))


REFUSED = [
    ("", UnfitKeyReason.FORMAT),
    ("hello", UnfitKeyReason.FORMAT),
    ("hello there", UnfitKeyReason.FORMAT),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----", UnfitKeyReason.PRIVATE),
    ("-----BEGIN RSA PRIVATE KEY-----\nAAAA", UnfitKeyReason.PRIVATE),
    ("PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none", UnfitKeyReason.PRIVATE),
    ("---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----", UnfitKeyReason.FORMAT),
    (f"{ED25519}\n{ED25519}", UnfitKeyReason.SEVERAL),
    (f'command="sh",no-pty {ED25519}', UnfitKeyReason.OPTIONS),
    (f'from="10.0.0.0/8" {ED25519} ann', UnfitKeyReason.OPTIONS),
    (f"cert-authority {ED25519}", UnfitKeyReason.OPTIONS),
    ("ssh-dss AAAAB3NzaC1kc3MAAACB", UnfitKeyReason.TYPE),
    ("ssh-ed448 AAAAC3NzaC1kc3MAAACB", UnfitKeyReason.TYPE),
    ("ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5", UnfitKeyReason.CERTIFICATE),
    (rsa(2048), UnfitKeyReason.SHORT),
    (rsa(3064), UnfitKeyReason.SHORT),
    (rsa(16392), UnfitKeyReason.SHORT),
    (rsa(3072, b"\x01"), UnfitKeyReason.BROKEN),
    (rsa(3072, b"\x01" * 9), UnfitKeyReason.BROKEN),
    (ED25519[:-4], UnfitKeyReason.BROKEN),
    (ED25519 + "AAAA", UnfitKeyReason.BROKEN),
    (ED25519.replace("/", "").replace("+", "!"), UnfitKeyReason.BROKEN),
    ("ssh-rsa " + ED25519.split()[1], UnfitKeyReason.BROKEN),
    (written("ssh-ed25519", bytes(31)), UnfitKeyReason.BROKEN),
    (written("ssh-ed25519", bytes(32), b"more"), UnfitKeyReason.BROKEN),
    (written("ssh-ed25519"), UnfitKeyReason.BROKEN),
    (written("sk-ssh-ed25519@openssh.com", bytes(32)), UnfitKeyReason.BROKEN),
    (written("ecdsa-sha2-nistp256", b"nistp384", b"\x04" + bytes(96)), UnfitKeyReason.BROKEN),
    (written("ecdsa-sha2-nistp256", b"nistp256", b"\x02" + bytes(32)), UnfitKeyReason.BROKEN),
    (written("ecdsa-sha2-nistp256", b"nistp256", b"\x02" + bytes(64)), UnfitKeyReason.BROKEN),
    ("x" * (MAX_TEXT + 1), UnfitKeyReason.FORMAT),
]


@pytest.mark.parametrize(
    ("text", "reason"), REFUSED, ids=[f"{reason} {i}" for i, (_, reason) in enumerate(REFUSED)]
)
def test_everything_else_is_refused_with_its_reason(text: str, reason: UnfitKeyReason) -> None:
    with pytest.raises(UnfitKeyError) as refused:
        parse(text)
    assert refused.value.reason is reason
    assert str(refused.value).endswith(".")
