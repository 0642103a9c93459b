"""Runs a real daemon for the tests. The variables KENTD and KENT name the programs of the daemon and of `kent`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
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


@pytest.fixture
def daemon(tmp_path: Path):
    made = Daemon(tmp_path)
    yield made
    made.kill()
