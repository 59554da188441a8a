"""The compose file's front door in a real Caddy, with a name and a certificate, and the script of its backups."""

import asyncio
import os
import re
import ssl
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import yaml  # type: ignore[import-untyped]
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.ports import free_port
from tests.support.requirements import require_program
from tests.support.waiting import until

COMPOSE = Path(__file__).parents[3] / "deploy" / "compose"
CADDYFILE = COMPOSE / "Caddyfile"
DASHBOARD, WORKSPACE = "codehub.test", "a1.ws.codehub.test"


@pytest.fixture
async def upstream() -> AsyncIterator[int]:
    """A replica's stand-in that is ready and says how it was asked."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.headers.get('X-Forwarded-Proto')} {request.host}")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


def write_certificate(directory: Path, *names: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (directory / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


async def test_a_name_and_a_wildcard_with_a_certificate(upstream: int, tmp_path: Path) -> None:
    write_certificate(tmp_path, DASHBOARD, "*.ws.codehub.test")
    port = free_port()
    file = tmp_path / "Caddyfile"
    replicas = re.sub(r"127\.0\.0\.1:800[12]", f"127.0.0.1:{upstream}", CADDYFILE.read_text())
    file.write_text(replicas.replace("admin off", "admin off\n\tauto_https disable_redirects"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "FRONT_SITES": f"{DASHBOARD}:{port}, *.ws.codehub.test:{port}",
        "FRONT_TLS": f"tls {tmp_path}/cert.pem {tmp_path}/key.pem",
    }
    caddy = require_program("caddy", package="caddy")
    process = await asyncio.create_subprocess_exec(
        caddy, "run", "--config", file, "--adapter", "caddyfile", env=environment, stderr=subprocess.DEVNULL
    )
    trust = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    try:
        async with aiohttp.ClientSession() as session:

            async def ask(name: str) -> str | None:
                url = f"https://127.0.0.1:{port}/"
                try:
                    async with session.get(
                        url, headers={"Host": name}, ssl=trust, server_hostname=name
                    ) as answer:
                        return await answer.text()
                except aiohttp.ClientConnectorCertificateError:
                    raise
                except aiohttp.ClientConnectionError:
                    return None  # not listening yet

            assert await until(lambda: ask(DASHBOARD), what="the front answers") == f"https {DASHBOARD}"
            assert await ask(WORKSPACE) == f"https {WORKSPACE}"
    finally:
        process.terminate()
        await process.wait()


def test_backups_are_thinned_out_and_a_failed_one_ends_the_service(tmp_path: Path) -> None:
    backup = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]["backup"]
    assert backup["volumes"] == ["backups:/var/lib/codehub"]
    (shell, options, script) = backup["command"]
    programs = tmp_path / "programs"
    programs.mkdir()
    stubs = {
        "codehub": '[ -e allowed ] && [ "$1" = backup ] && echo new > "$2"',
        "sleep": "echo slept; exit 1",
    }
    for name, body in stubs.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    kept = tmp_path / "kept"
    kept.mkdir()
    for day in range(20):
        old = kept / f"codehub-2026-01-{day:02}-033000.backup"
        old.write_text("old")
        os.utime(old, (day, day))
    here = script.replace("$$", "$").replace("cd /var/lib/codehub", f"cd {kept}")

    def run() -> str:
        env = {"PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run([shell, options, here], env=env, stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        return done.stdout

    assert run() == "", "a backup that fails ends it before anything is thrown away"
    assert len(list(kept.iterdir())) == 20
    (kept / "allowed").touch()
    assert run() == "slept\n"
    left = sorted(kept.glob("*.backup"))
    assert [each.read_text() for each in left] == ["old"] * 13 + ["new\n"]
