"""Uses a daemon's Redis port with redis-py, in both versions of the protocol."""

import sys
import threading

import redis

host, port = sys.argv[1].split(":")
seen = set()


def take(client, key, count=1):
    last = client.incrby(key, count) if count > 1 else client.incr(key)
    for number in range(last - count + 1, last + 1):
        assert number not in seen, f"{number} was issued twice"
        seen.add(number)
    return last


for protocol in (2, 3):
    client = redis.Redis(host=host, port=int(port), protocol=protocol, client_name="tests", decode_responses=True)
    assert client.ping()
    assert client.client_getname() == "tests"
    assert client.client_id() > 0
    assert client.echo("text") == "text"
    first = take(client, "orders")
    assert take(client, "orders", 10) == first + 10
    assert client.get("orders") == str(first + 10)
    assert client.get("empty") is None
    seconds, micros = client.time()
    assert seconds > 1_700_000_000 and 0 <= micros < 1_000_000
    pipeline = client.pipeline(transaction=False)
    for _ in range(100):
        pipeline.incr("orders")
    numbers = pipeline.execute()
    assert numbers == list(range(first + 11, first + 111)), numbers
    seen.update(numbers)
    for call in (lambda: client.incr("absent"), lambda: client.set("orders", 1), lambda: client.decr("orders")):
        try:
            call()
        except redis.ResponseError as error:
            assert "NO_SUCH_REGION" in str(error) or "unknown command" in str(error), error
        else:
            raise AssertionError("not refused")
    client.close()

# One client with a pool of connections, from several threads.
client = redis.Redis(host=host, port=int(port))
taken = [[] for _ in range(8)]


def work(mine):
    for _ in range(200):
        mine.append(client.incr("orders"))


threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
numbers = [number for mine in taken for number in mine]
assert len(numbers) == len(set(numbers)) == 1600 and not seen.intersection(numbers)
print("all checks passed")
