"""Tests the clients against a real daemon."""

import asyncio
import os
import random
import re
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, SIGNED, Daemon, certificate, free_port, running, server_certificate

import kent
from kent import aio
from kent.v1 import access_pb2, admin_pb2, codec_pb2, regions_pb2


def test_ok_each_source_has_its_type(daemon):
    with kent.Client(daemon.address) as client:
        daemon.kent("region", "create", "orders", "--suffix", "40")
        for source, version in ((client.uuid_v7(), 7), (client.uuid_v6(), 6)):
            first, second = source.next(), source.next()
            assert (first.version, first.variant) == (version, uuid.RFC_4122) and first < second
            assert uuid.UUID(str(first)) == first and hash(uuid.UUID(str(first))) == hash(first)
        assert isinstance(client.region("orders").next(), int)
        assert len(client.xid().next()) == len(client.source("uid11-fullrand").next()) == 11
        assert isinstance(client.source("serial:GBP").next(), uuid.UUID)


def test_ok_threads_share_a_source_and_nothing_comes_twice(daemon):
    with kent.Client(daemon.address, block_size=100) as client:
        parts: list[list[uuid.UUID]] = [[] for _ in range(8)]

        def work(part):
            source = client.uuid_v7()
            for _ in range(5000):
                part.append(source.next())
            part.extend(source.take(3000))

        threads = [threading.Thread(target=work, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        everything = [one for part in parts for one in part]
        assert len(everything) == len(set(everything)) == 8 * 8000
        assert all(part[:5000] == sorted(part[:5000]) for part in parts)


def test_ok_a_forked_child_takes_other_identifiers(daemon):
    with kent.Client(daemon.address) as client:
        source = client.uuid_v7()
        source.next()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, b"".join(source.next().bytes for _ in range(100)))
            finally:
                os._exit(0)
        mine = {source.next() for _ in range(500)}
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        theirs = {uuid.UUID(bytes=data[at : at + 16]) for at in range(0, len(data), 16)}
        assert len(theirs) == 100 and not mine & theirs


SOAKED = {"block_size": 50, "block_size_max": 200, "request_timeout": 60}


def threads(address, parts, ended):
    """Takes identifiers in a thread for each part."""
    with kent.Client(address, **SOAKED) as client, ThreadPoolExecutor(len(parts)) as pool:
        sources = (client.uuid_v7(), client.region("orders"), client.xid())

        def work(part):
            try:
                while not ended.is_set():
                    for source in sources:
                        part += [source.next(), *source.take(2)]
                    time.sleep(0.002)
            finally:
                ended.set()  # After an error, the others end, too.

        list(pool.map(work, parts))


def tasks(address, parts, ended):
    """Takes identifiers in a task for each part."""

    async def main():
        async with aio.Client(address, **SOAKED) as client:
            sources = (client.uuid_v7(), client.region("orders"), client.xid())

            async def work(part):
                while not ended.is_set():
                    for source in sources:
                        part += [await source.next(), *await source.take(2)]
                    await asyncio.sleep(0.002)

            await asyncio.gather(*map(work, parts))

    asyncio.run(main())


@pytest.mark.parametrize("take", [threads, tasks])
def test_ok_all_go_on_after_each_kill_and_nothing_comes_twice(daemon, take):
    """Kills and restarts the daemon repeatedly, for KENT_SOAK_SECONDS."""
    daemon.kent("region", "create", "orders", "--suffix", "40")
    seconds = float(os.environ.get("KENT_SOAK_SECONDS", "6"))
    began, kills, ended = time.monotonic(), 0, threading.Event()
    parts: list[list[object]] = [[] for _ in range(8)]
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(take, daemon.address, parts, ended)
        try:
            while time.monotonic() - began < seconds and not taking.done():
                time.sleep(random.uniform(0.5, 1.5))
                daemon.kill()
                kills += 1
                time.sleep(0.3)
                daemon.start()
                # More than all of them together can take from prefetched blocks.
                after = [len(part) + 500 for part in parts]
                while any(len(part) < least for part, least in zip(parts, after, strict=True)) and not taking.done():
                    time.sleep(0.01)
        finally:
            ended.set()
        taking.result()
    everything = [one for part in parts for one in part]
    assert len(set(everything)) == len(everything) and time.monotonic() - began >= seconds
    name, least = take.__name__, min(map(len, parts))
    print(
        f"\nsoak: {seconds:.0f} s, {kills} kills, {len(everything)} identifiers, at least {least} by each of 8 {name}"
    )


def test_ok_another_endpoint_takes_over(daemon):
    with kent.Client(f"127.0.0.1:{free_port()}", daemon.address, request_timeout=5) as client:
        assert client.uuid_v7().next().version == 7


def test_ok_a_request_id_is_granted_once(daemon):
    daemon.kent("region", "create", "invoices", "--suffix", "40")
    daemon.kent("region", "set", "invoices", "--strict", "--yes")
    with kent.Client(daemon.address) as client:
        source = client.region("invoices")
        first = source.fetch(3, request_id="r")
        assert source.fetch(3, request_id="r") == first and source.fetch(3, request_id="s") != first


def test_err_refusals_have_their_reason(daemon):
    daemon.kent("region", "create", "orders", "--suffix", "40")
    daemon.kent("region", "seal", "orders", "--yes")
    with kent.Client(daemon.address) as client:
        for source, reason in (("region:orders", "SEALED"), ("region:absent", "NO_SUCH_REGION")):
            with pytest.raises(kent.Refused) as caught:
                client.source(source).next()
            assert caught.value.reason == reason and caught.value.message


def test_err_without_a_daemon_the_endpoint_is_named():
    address = f"127.0.0.1:{free_port()}"
    with kent.Client(address, request_timeout=0.3) as client:
        began = time.monotonic()
        with pytest.raises(kent.Unavailable, match=address):
            client.uuid_v7().next()
        assert client.uuid_v7().try_next() is None and time.monotonic() - began < 60
    with pytest.raises(kent.Closed):
        client.uuid_v7().next()


def test_ok_a_token_file_is_read_again(tmp_path):
    daemon = Daemon(tmp_path, "--auth", "required", socket=f"unix:{tmp_path}/s")
    try:
        # Over the Unix socket, the daemon's own user may do everything.
        made = (daemon.kent("token", "create", name, "--allow", "allocate:*", endpoint=daemon.socket) for name in "ab")
        token, other = (next(word for word in text.split() if word.startswith("kent_")) for text in made)
        file = tmp_path / "token"
        file.write_text(token)
        with kent.Client(daemon.address, token_file=file, block_size=1, block_size_max=1) as client:
            assert client.uuid_v7().next()
            file.write_text(other)
            daemon.kent("token", "revoke", token.split("_")[1], "--yes", endpoint=daemon.socket)
            client.uuid_v7().take(2)
            assert client.metadata()[0][1] == f"Bearer {other}"
        with kent.Client(daemon.address) as client, pytest.raises(kent.Refused, match="UNAUTHENTICATED"):
            client.uuid_v7().next()
    finally:
        daemon.kill()


def test_ok_asyncio(daemon):
    daemon.kent("region", "create", "orders", "--suffix", "40")

    async def main():
        async with aio.Client(daemon.address, block_size=100) as client:
            source = client.uuid_v7()

            async def work():
                return [await source.next() for _ in range(2000)] + await source.take(1000)

            parts = await asyncio.gather(*(work() for _ in range(8)))
            everything = [one for part in parts for one in part]
            assert len(everything) == len(set(everything)) == 8 * 3000
            assert isinstance(await client.region("orders").next(), int)
            with pytest.raises(kent.Refused):
                await client.region("absent").next()
        with pytest.raises(kent.Closed):
            await source.next()

    asyncio.run(main())


def test_ok_the_stubs_of_both_clients(daemon):
    page = regions_pb2.ListRegionsRequest(parent="spaces/default")
    text = codec_pb2.InspectRequest(texts=["01a1fb52-f1e1-7000-8000-0282f49051b2"])
    status, tokens = admin_pb2.GetStatusRequest(), access_pb2.ListTokensRequest()

    async def main():
        async with aio.Client(daemon.address) as client:
            sent = {"metadata": client.metadata(), "timeout": 10}
            return [
                await client.regions.ListRegions(page, **sent),
                await client.codec.Inspect(text, **sent),
                await client.admin.GetStatus(status, **sent),
                await client.access.ListTokens(tokens, **sent),
            ]

    with kent.Client(daemon.address) as client:
        listed, inspected, found, made = asyncio.run(main())
        assert client.regions.ListRegions(page) == listed and client.codec.Inspect(text) == inspected
        assert type(client.admin.GetStatus(status)) is type(found) and client.access.ListTokens(tokens) == made


def test_ok_the_examples_of_the_docs_run(daemon):
    daemon.kent("region", "create", "orders", "--suffix", "40")
    text = (Path(__file__).parent.parent / "README.md").read_text().replace("127.0.0.1:7600", daemon.address)
    blocking, asynchronous = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(blocking, {})
    daemon.kent("region", "create", "r1", "--suffix", "40")
    page = (ROOT / "docs/clients.md").read_text().replace("127.0.0.1:7600", daemon.address)
    exec(re.findall(r"```py\n(.*?)```", page, re.DOTALL)[0], {})
    exec(asynchronous, {})


def test_ok_tls_and_client_certificates(tmp_path):
    flags = server_certificate(tmp_path)
    certificate(tmp_path, "client", *SIGNED, "-addext", "subjectAltName=DNS:orders")
    certificate(tmp_path, "other")
    files = {name: str(tmp_path / name) for name in ("ca.pem", "client.pem", "client.key", "other.pem")}
    for name in ("plain", "mutual"):
        (tmp_path / name).mkdir()
    identity = {"cert": files["client.pem"], "key": files["client.key"]}
    ca, other = {"ca": files["ca.pem"]}, {"ca": files["other.pem"]}

    async def asynchronous(address, arguments):
        async with aio.Client(address, **arguments) as client:
            return await client.uuid_v7().next()

    with (
        running(Daemon(tmp_path / "plain", *flags)) as plain,
        running(Daemon(tmp_path / "mutual", *flags, "--tls-client-ca", files["ca.pem"])) as mutual,
    ):
        content = {"ca": (tmp_path / "ca.pem").read_bytes()}
        for daemon, arguments in ((plain, ca), (plain, content), (plain, ca | identity), (mutual, ca | identity)):
            for address in (f"https://{daemon.address}", daemon.address):  # With a CA, TLS is used without a scheme.
                with kent.Client(address, **arguments) as client:
                    assert client.uuid_v7().next().version == 7
                assert asyncio.run(asynchronous(address, arguments)).version == 7
        for endpoint, arguments in (
            (f"https://{plain.address}", other),
            (f"https://{plain.address}", {}),
            (f"https://localhost:{plain.port}", ca),
            (plain.address, {}),
            (f"https://{mutual.address}", other | identity),
            (f"https://{mutual.address}", ca),
            (f"https://localhost:{mutual.port}", ca | identity),
            (mutual.address, {}),
        ):
            arguments = {"request_timeout": 1, **arguments}
            with kent.Client(endpoint, **arguments) as client, pytest.raises(kent.Unavailable):
                client.uuid_v7().next()
            with pytest.raises(kent.Unavailable):
                asyncio.run(asynchronous(endpoint, arguments))
