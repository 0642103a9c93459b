"""Runs a real daemon for the tests. The variables KENTD and KENT name the programs of the daemon and of `kent`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: The arguments for a certificate that the CA of the same directory signs.
SIGNED = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE")
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def program(name: str) -> str:
    found = os.environ.get(name.upper()) or next(
        (str(path) for kind in ("release", "debug") if (path := TARGET / kind / name).exists()), None
    )
    assert found, f"build it first: cargo build --release -p kentd -p kent-cli, or set {name.upper()}"
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def certificate(directory: Path, name: str, *extension: str) -> None:
    """Makes NAME.pem and NAME.key in a directory."""
    request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"]
    subprocess.run(["openssl", *request, *files, *extension], cwd=directory, check=True, capture_output=True)


def server_certificate(directory: Path) -> tuple[str, ...]:
    """Makes a CA, and a certificate that it signs for 127.0.0.1. Returns the daemon's flags for it."""
    certificate(directory, "ca")
    certificate(directory, "server", *SIGNED, "-addext", "subjectAltName=IP:127.0.0.1")
    return "--tls-cert", f"{directory}/server.pem", "--tls-key", f"{directory}/server.key"


class Daemon:
    def __init__(self, data: Path, *flags: str, socket: str | None = None) -> None:
        self.data, self.flags, self.socket = data, flags, socket
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        http, listen = free_port(), self.address if self.socket is None else f"{self.address},{self.socket}"
        args = [program("kentd"), "--data", str(self.data / "d"), "--listen", listen, *self.flags]
        log = (self.data / "log").open("a")
        self.process = subprocess.Popen([*args, "--http", f"127.0.0.1:{http}"], stdout=log, stderr=log)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None, (self.data / "log").read_text()
            time.sleep(0.05)
        raise AssertionError("the daemon does not listen")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def kent(self, *args: str, endpoint: str | None = None) -> str:
        done = subprocess.run(
            [program("kent"), "--endpoint", endpoint or self.address, *args],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def running(daemon: Daemon):
    try:
        yield daemon
    finally:
        daemon.kill()


@pytest.fixture
def daemon(tmp_path: Path):
    made = Daemon(tmp_path)
    yield made
    made.kill()
