"""Real object stores for tests: two S3 servers that share no code, each on a port of its own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
from moto.server import ThreadedMotoServer

ACCESS_KEY, SECRET_KEY = "test-access-key", "test-secret-key"
_START_SECONDS = 30


@dataclass(frozen=True)
class S3Server:
    """A running endpoint."""

    name: str
    endpoint: str

    def options(self, *, endpoint: str | None = None, **more: Any) -> dict[str, Any]:
        """``storage_options`` for it; ``endpoint`` when something stands in between."""
        return {
            "endpoint": endpoint or self.endpoint,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "region": "us-east-1",
            **more,
        }

    def variables(self, bucket: str) -> dict[str, str]:
        """What CodeHub's environment says to keep archives in this bucket."""
        return {
            "ARCHIVE_URL": f"s3://{bucket}/homes",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }

    def client(self) -> Any:
        """An independent view of the same server."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )

    def new_bucket(self) -> str:
        name = f"bucket-{uuid4().hex}"
        self.client().create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str) -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


@contextmanager
def moto_server(address: str = "127.0.0.1") -> Iterator[S3Server]:
    server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(name="moto", endpoint=f"http://{host}:{port}")
    finally:
        server.stop()


@contextmanager
def rclone_server(directory: Path, address: str = "127.0.0.1") -> Iterator[S3Server]:
    """``rclone serve s3``: buckets are the folders of ``directory``."""
    rclone = Path(sys.executable).with_name("rclone")
    process = subprocess.Popen(
        [rclone, "serve", "s3", "--addr", f"{address}:0", "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}",
         "--config", os.devnull, "--vfs-cache-mode", "off", "--no-cleanup", str(directory)],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stderr is not None
    drain: threading.Thread | None = None
    watchdog = threading.Timer(_START_SECONDS, process.kill)
    watchdog.start()
    try:
        said = ""
        for line in process.stderr:
            said += line
            if match := re.search(rf"http://{re.escape(address)}:(\d+)", line):
                break
        else:
            raise RuntimeError(f"rclone did not start: {said}")
        watchdog.cancel()
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        yield S3Server(name="rclone", endpoint=match.group(0))
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        if drain is not None:
            drain.join()
        process.stderr.close()
