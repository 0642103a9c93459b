"""The adapter for the conformance kit. It uses the blocking client or, with the argument `asyncio`, the asyncio one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import kent
from kent import aio

CAN = ["try_next", "take", "fetch", "threads", "xid", "tls", "token_file", "heirs"]
#: The settings that have the same names in the client, and the settings that the protocol gives in milliseconds.
SETTINGS = ["block_size", "block_size_max", "low_water", "follow_heirs", "ca", "cert", "key", "token", "token_file"]
TIMES = ["attempt_timeout", "request_timeout", "max_age"]
KINDS = {
    kent.Refused: "refused",
    kent.Limited: "limited",
    kent.Unavailable: "unavailable",
    kent.Fenced: "fenced",
    kent.Unusable: "unusable",
    kent.Closed: "closed",
    kent.ConfigError: "config",
}

_writing = threading.Lock()


def say(line):
    with _writing:
        print(json.dumps(line), flush=True)


def explain(error):
    problem = {"kind": KINDS.get(type(error), type(error).__name__), "message": str(error)}
    if isinstance(error, kent.RpcFailure):
        problem |= {"code": error.code.name, "reason": error.reason, "fields": error.fields}
        problem["metadata"] = dict(error.metadata)
        if error.retry_after is not None:
            problem["retry_after_ms"] = error.retry_after * 1000
    return problem


def opened(client, command):
    """Creates a client of this class, with the settings of the command `open`."""
    settings = {name: command[name] for name in SETTINGS if name in command}
    settings |= {name: command[f"{name}_ms"] / 1000 for name in TIMES if f"{name}_ms" in command}
    return client(*command["endpoints"], **settings)


def limit(command):
    return {"timeout": command["timeout_ms"] / 1000} if "timeout_ms" in command else {}


def answer(command, ids, error):
    line = {"id": command["id"], "ids": list(map(str, ids))}
    say(line if error is None else line | {"error": explain(error)})


class Blocking:
    """Runs each command in its own thread."""

    def __init__(self):
        self.client = None
        self.sources = {}
        self.lock = threading.Lock()

    def source(self, command):
        with self.lock:
            if command["source"] not in self.sources:
                self.sources[command["source"]] = self.client.source(command["source"])
            return self.sources[command["source"]]

    def do(self, command):
        ids = []
        try:
            self.run(command, ids)
        except Exception as error:
            answer(command, ids, error)
        else:
            answer(command, ids, None)

    def run(self, command, ids):
        count, do = command.get("count", 1), command["do"]
        if do == "open":
            self.client = opened(kent.Client, command)
        elif do == "close":
            self.client.close()
        elif do == "next":
            self.next(command, ids)
        elif do == "try_next":
            found = self.source(command).try_next()
            ids += [] if found is None else [found]
        elif do == "take":
            ids += self.source(command).take(count, **limit(command))
        elif do == "fetch":
            ids += self.source(command).fetch(count, request_id=command["request_id"], **limit(command))
        elif do == "fork":
            ids += self.forked(command)

    def next(self, command, ids):
        source = self.source(command)

        def thread(_):
            for _ in range(command.get("count", 1)):
                ids.append(source.next(**limit(command)))

        threads = command.get("threads", 1)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(thread, range(threads)))

    def forked(self, command):
        source = self.source(command)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                told = json.dumps([str(source.next()) for _ in range(command.get("count", 1))])
                os.write(writer, told.encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        return json.loads(told)

    def serve(self):
        say({"hello": {"language": "python", "can": [*CAN, "fork"]}})
        running = []
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] in ("open", "fork"):
                self.do(command)
                continue
            running.append(threading.Thread(target=self.do, args=[command], daemon=True))
            running[-1].start()
        # Let commands that are about to end print their answers.
        until = time.monotonic() + 1
        for thread in running:
            thread.join(max(0.0, until - time.monotonic()))


class Asyncio:
    """Runs each command except `open` in its own task."""

    def __init__(self):
        self.client = None
        self.sources = {}

    async def do(self, command):
        ids = []
        try:
            await self.run(command, ids)
        except Exception as error:
            answer(command, ids, error)
        else:
            answer(command, ids, None)

    async def run(self, command, ids):
        count, do = command.get("count", 1), command["do"]
        if do == "open":
            self.client = opened(aio.Client, command)
            return
        if do == "close":
            await self.client.close()
            return
        if command["source"] not in self.sources:
            self.sources[command["source"]] = self.client.source(command["source"])
        source = self.sources[command["source"]]
        if do == "next":

            async def task():
                for _ in range(count):
                    ids.append(await source.next(**limit(command)))

            await asyncio.gather(*(task() for _ in range(command.get("threads", 1))))
        elif do == "try_next":
            found = source.try_next()
            ids += [] if found is None else [found]
        elif do == "take":
            ids += await source.take(count, **limit(command))
        elif do == "fetch":
            ids += await source.fetch(count, request_id=command["request_id"], **limit(command))

    async def serve(self):
        say({"hello": {"language": "python-asyncio", "can": CAN}})
        loop, running = asyncio.get_running_loop(), set()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command = json.loads(line)
            if command["do"] == "open":
                await self.do(command)
                continue
            task = loop.create_task(self.do(command))
            running.add(task)
            task.add_done_callback(running.discard)
        if running:
            await asyncio.wait(running, timeout=1)


if __name__ == "__main__":
    if sys.argv[1:] == ["asyncio"]:
        asyncio.run(Asyncio().serve())
    else:
        Blocking().serve()
