"""Image archives as ``docker save`` writes them, made without Docker. ``ctr images import`` reads them."""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.docker_images import busybox_tar
from tests.support.requirements import require_program

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

PAUSE_SOURCE = r"""
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }

int main(void) {
  struct sigaction ending = {.sa_handler = end}, reaping = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGINT, &ending, 0);
  sigaction(SIGTERM, &ending, 0);
  sigaction(SIGCHLD, &reaping, 0);
  for (;;) pause();
}
"""


def build_pause(path: Path) -> None:
    """Compile the program that holds a pod's namespaces, and a node's: it waits and reaps."""
    compiler = require_program("gcc", package="gcc libc6-dev")
    command = [str(compiler), "-static", "-Os", "-s", "-x", "c", "-o", str(path), "-"]
    subprocess.run(command, input=PAUSE_SOURCE.encode(), check=True, capture_output=True)


def pause_archive(program: Path, reference: str) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        member = tarfile.TarInfo("pause")
        member.size, member.mode = program.stat().st_size, 0o755
        tar.addfile(member, io.BytesIO(program.read_bytes()))
    return image_archive(reference, layer.getvalue(), {"Entrypoint": ["/pause"]})


def busybox_archive(reference: str) -> bytes:
    """A small image with a shell and a web server, for tests of the cluster itself."""
    return image_archive(reference, busybox_tar(), {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sh", "-c"]})


def image_archive(reference: str, layer: bytes, config: Mapping[str, Any]) -> bytes:
    """The archive of an image with this name and this one layer."""
    document = json.dumps(
        {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": dict(config),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(document).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [reference], "Layers": ["layer.tar"]}]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        files = {name: document, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
        for each, content in files.items():
            member = tarfile.TarInfo(each)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()
