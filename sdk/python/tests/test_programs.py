"""Runs the example service and the benchmark, as processes, against a real daemon."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid

import pytest
from conftest import ROOT, free_port


@pytest.fixture
def service(daemon):
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "examples/python/server.py")],
        env={**os.environ, "PORT": str(port), "KENT_ENDPOINT": daemon.address},
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline().startswith(b"listening on")
    yield process, f"http://127.0.0.1:{port}"
    process.kill()
    process.wait()
    process.stdout.close()


def call(url, method="POST"):
    request = urllib.request.Request(url, b"{}" if method == "POST" else None, method=method)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_ok_the_example_numbers_orders_and_events(daemon, service):
    process, url = service

    def post(path, status):
        found, text = call(url + path)
        assert found == status, text
        return json.loads(text)

    assert call(f"{url}/healthz", "GET") == (200, "ok")
    assert call(f"{url}/nothing", "GET")[0] == call(f"{url}/nothing")[0] == 404
    assert "orders" in post("/orders", 503)["error"]
    daemon.kent("region", "create", "orders", "--suffix", "40")
    first, second, event = post("/orders", 200), post("/orders", 200), post("/events", 200)
    assert int(second["order"]) == int(first["order"]) + 1
    events = {uuid.UUID(one["event"]) for one in (first, second, event)}
    assert len(events) == 3 and {one.version for one in events} == {7}

    daemon.kill()
    for _ in range(2000):  # Until the identifiers in hand are used up.
        status, text = call(f"{url}/events")
        if status != 200:
            break
    assert status == 503 and "error" in json.loads(text)
    assert call(f"{url}/healthz", "GET") == (200, "ok")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_ok_the_benchmark_prints_a_line_of_json_a_round(daemon):
    program = [sys.executable, str(ROOT / "sdk/python/bench/bench.py"), "2", "1000"]
    env = {**os.environ, "KENT_ENDPOINT": daemon.address}
    lines = [json.loads(line) for line in subprocess.check_output(program, env=env).splitlines()]
    assert len(lines) == 2
    for line in lines:
        assert line["kent_ns"] > 0 and line["own_ns"] > 0 and line["calls"] == 1000
