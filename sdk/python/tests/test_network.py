"""Tests the connections of the clients: over a slow network, and to a daemon that does not answer."""

import asyncio
import socket
import statistics
import threading
import time
from contextlib import closing

import pytest
from conftest import Daemon, running, server_certificate

import kent
from kent import aio

DELAY = 0.15


class SlowProxy:
    """Forwards connections to a port. All data arrives later by `DELAY`, in both directions."""

    def __init__(self, port):
        self.to = port
        self.loop = asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    async def serve(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self.to)
        await asyncio.gather(self.forward(reader, back), self.forward(there, writer), return_exceptions=True)

    async def forward(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                self.loop.call_later(DELAY, writer.write, data)
        finally:
            self.loop.call_later(DELAY, writer.close)

    async def end(self):
        self.server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def test_ok_tls_over_a_slow_network(tmp_path):
    async def asynchronous(address, ca):
        async with aio.Client(address, ca=ca) as client:
            return await client.uuid_v7().next()

    flags, ca = server_certificate(tmp_path), f"{tmp_path}/ca.pem"
    with running(Daemon(tmp_path, *flags)) as daemon, closing(SlowProxy(daemon.port)) as proxy:
        address = f"https://127.0.0.1:{proxy.port}"
        with kent.Client(address, ca=ca) as client:
            began = time.monotonic()
            assert client.uuid_v7().next().version == 7
            assert time.monotonic() - began >= 4 * DELAY
        assert asyncio.run(asynchronous(address, ca)).version == 7


def test_ok_the_pause_between_failed_connections_stays_short():
    with socket.create_server(("127.0.0.1", 0)) as server:
        times = []

        def refuse():
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return
                times.append(time.monotonic())

        refusing = threading.Thread(target=refuse, daemon=True)
        refusing.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with kent.Client(address, request_timeout=6) as client, pytest.raises(kent.Unavailable):
            client.uuid_v7().next()
        server.shutdown(socket.SHUT_RDWR)
        refusing.join()
    pauses = [after - before for before, after in zip(times, times[1:], strict=False)]
    # The default pauses of gRPC begin with one second.
    assert statistics.median(pauses) < 0.9, pauses
