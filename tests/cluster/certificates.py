"""Certificates and kubeconfig files of a cluster: one authority, one certificate per identity."""

import datetime
import ipaddress
import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 30


class Authority:
    """Signs certificates into ``folder``. Its own key is there too: the controllers sign with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, mode=0o700)
        self._key = _new_key(folder / "authority.key")
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "codehub-test-cluster")])
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "authority.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> None:
        """Write ``name``.crt and ``name``.key for this user (or server, at these hosts)."""
        key = _new_key(self.folder / f"{name}.key")
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        builder = _builder(x509.Name(subject), self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
            critical=False,
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        (self.folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def write_kubeconfig(self, name: str, *, server: str) -> Path:
        """A self-contained kubeconfig for the identity ``name``."""
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        cluster = {"server": server, "certificate-authority-data": _encoded(self.certificate)}
        user = {
            "client-certificate-data": _encoded(self.folder / f"{name}.crt"),
            "client-key-data": _encoded(self.folder / f"{name}.key"),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(document, indent=1))  # JSON is YAML
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return key


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encoded(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()
