"""The asyncio client: the same as :mod:`kent`, with ``await``.

Use a client in one event loop only.

>>> from kent import aio
>>> async with aio.Client("127.0.0.1:7600") as client:
...     await client.uuid_v7().next()
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING, Generic, TypeVar

import grpc
import grpc.aio

from ._base import MOVES_MAX, Base, region_source
from ._errors import Closed, Refused, Unavailable, Unusable
from ._stock import NUMBER, TEXT_OF_SLOT, UUID_OF_SLOT, Kind, Stock, admitted, clock, kind_of
from .v1 import allocator_pb2 as pb
from .v1 import allocator_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any
    from uuid import UUID

__all__ = ["Client", "Source"]

T = TypeVar("T")


class Client(Base):
    """A client for one event loop."""

    def _begin(self) -> None:
        super()._begin()
        #: Set by `close`, to wake the tasks that wait for their next attempt.
        self._ended = asyncio.Event()
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._sources: dict[str, Source[Any]] = {}
        self._process = os.getpid()

    def uuid_v7(self) -> Source[UUID]:
        """Version 7 UUIDs, which are ordered by time."""
        return self._source("uuidv7", UUID_OF_SLOT)

    def uuid_v6(self) -> Source[UUID]:
        """Version 6 UUIDs, which are version 1 UUIDs with the timestamp first."""
        return self._source("uuidv6", UUID_OF_SLOT)

    def xid(self) -> Source[str]:
        """xids, which have 11 characters and are ordered by time."""
        return self._source("xid", TEXT_OF_SLOT)

    def region(self, name: str, space: str = "default") -> Source[int]:
        """The identifiers of a region, as integers."""
        return self._source(region_source(name, space), NUMBER)

    def source(self, name: str) -> Source[Any]:
        """The source with this name, which ``kent alloc`` also accepts, such as ``serial:GBP``."""
        return self._source(name, kind_of(name))

    def _source(self, name: str, kind: Kind[T]) -> Source[T]:
        found = self._sources.get(name)
        if found is None:
            found = self._sources[name] = Source(self, name, kind)
        return found

    def channel(self) -> grpc.aio.Channel:
        """The channel to the endpoint in use, for the stubs of ``kent.v1``. Pass ``metadata=client.metadata()``."""
        return self._channel(self._endpoints.current())

    def _channel(self, index: int) -> grpc.aio.Channel:
        self._check()
        channel = self._channels.get(index)
        if channel is None:
            opened = self._open(index, grpc.aio.insecure_channel, grpc.aio.secure_channel)
            channel = self._channels[index] = opened
        return channel

    def _check(self) -> None:
        if self._closed:
            raise Closed("the client is closed")
        if self._process != os.getpid():
            # An event loop cannot be used after a fork, so neither can its client.
            raise Closed("the process was forked; make a new client in the child")

    async def _allocate(self, source: str, kind: Kind[T], count: int, deadline: float, request_id: str = "") -> list[T]:
        attempts = self._attempts(deadline)
        request = pb.AllocateRequest(source=source, count=count, encoding=kind.encoding, request_id=request_id)
        while True:
            index, timeout = self._endpoints.current(), attempts.timeout()
            stub = allocator_pb2_grpc.AllocatorStub(self._channel(index))  # type: ignore[no-untyped-call]
            try:
                reply = await stub.Allocate(request, timeout=timeout, metadata=self.metadata())
            except grpc.RpcError as error:
                wait = attempts.after(index, error)
            except asyncio.CancelledError:
                # When a channel is closed, gRPC cancels its calls, as if the caller had canceled them.
                if self._closed and not _is_cancelled():
                    raise Closed("the client is closed") from None
                raise
            else:
                # A retry with a request ID returns the block of the first grant, whose token can be lower than one
                # already seen.
                if admitted(self._fences, kind, source, reply) or request_id:
                    return kind.identifiers(reply, count)
                wait = attempts.after_rejected(index)
            await self._pause(wait)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)
            raise Closed("the client is closed")

    async def close(self) -> None:
        """Closes the connections. Prefetched identifiers are dropped, which leaves a gap."""
        self._closed = True
        self._ended.set()
        for source in self._sources.values():
            source._drop()
        for channel in self._channels.values():
            await channel.close(None)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Source(Generic[T]):
    """A source with a stock of prefetched identifiers, for any number of tasks."""

    def __init__(self, client: Client, name: str, kind: Kind[T]) -> None:
        self._client = client
        self._name = name
        #: The name that the caller gave. Requests with a request ID use this name even after a move to an heir, because
        #: the heir would grant them again.
        self._first = name
        self._stock = Stock(kind, client._settings.sizes)
        self._fetching: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<kent.aio.Source {self._name}>"

    def _drop(self) -> None:
        self._stock.reset()
        if self._fetching is not None:
            self._fetching.cancel()

    async def next(self, timeout: float | None = None) -> T:
        """Returns the next identifier. Raises the same errors as :meth:`kent.Source.next`."""
        found = self.try_next()
        if found is not None:
            return found
        deadline = self._deadline(timeout)
        while True:
            fetching = self._refill(deadline)
            if fetching is not None:
                done, _ = await asyncio.wait([fetching], timeout=max(0.0, deadline - time.monotonic()))
                if not done:
                    raise Unavailable({})
                if fetching.cancelled():
                    raise Closed("the client is closed")
                fetching.result()
            found = self.try_next()
            if found is not None:
                return found

    def try_next(self) -> T | None:
        """Returns the next prefetched identifier. If there is none, starts a fetch and returns ``None``."""
        self._client._check()
        if not self._stock.advance():
            self._refill()
            return None
        block = self._stock.block
        found = block.ids.pop()
        if len(block.ids) <= block.mark:
            self._refill()
        return found

    async def take(self, count: int, timeout: float | None = None) -> list[T]:
        """Returns ``count`` identifiers, prefetched ones first. If the call fails, those already taken leave a gap."""
        deadline = self._deadline(timeout)
        taken: list[T] = []
        while len(taken) < count:
            found = self.try_next() if self._stock.in_hand() else None
            if found is not None:
                taken.append(found)
                continue
            taken += await self._fetch(min(count - len(taken), self._stock.size_max), deadline)
        return taken

    async def fetch(self, count: int, *, request_id: str, timeout: float | None = None) -> list[T]:
        """Returns one grant from a strict region. The same ``request_id`` always returns the same identifiers."""
        kind = self._stock.kind
        return await self._client._allocate(self._first, kind, count, self._deadline(timeout), request_id)

    @property
    def in_hand(self) -> int:
        """The number of prefetched identifiers."""
        return self._stock.in_hand()

    async def __aiter__(self) -> AsyncIterator[T]:
        while True:
            yield await self.next()

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._client._settings.timeouts.request if timeout is None else timeout)

    def _refill(self, deadline: float = 0.0) -> asyncio.Task[None] | None:
        """Starts a fetch if none is in progress. Returns the fetch, or ``None`` if a block is already prefetched."""
        self._stock.block.mark = -1  # A block starts at most one fetch.
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        if self._stock.has_next():
            return None
        run = self._run(self._stock.next_size(), max(deadline, self._deadline(None)))
        self._fetching = asyncio.get_running_loop().create_task(run)
        self._fetching.add_done_callback(_seen)
        return self._fetching

    async def _run(self, size: int, deadline: float) -> None:
        asked = clock()
        self._stock.add(await self._fetch(size, deadline), asked)

    async def _fetch(self, count: int, deadline: float) -> list[T]:
        for _ in range(MOVES_MAX):
            name = self._name
            try:
                return await self._client._allocate(name, self._stock.kind, count, deadline)
            except Refused as error:
                if error.heir is None or not self._client._settings.follow_heirs:
                    raise
                self._name = error.heir
        raise Unusable(f"{self._name} is closed, as are its heirs")


def _is_cancelled() -> bool:
    """Whether a cancellation of the current task was requested. Always false on Python 3.10."""
    task = asyncio.current_task()
    return bool(getattr(task, "cancelling", int)())


def _seen(task: asyncio.Task[None]) -> None:
    """Reads the error of a prefetch, so that asyncio does not log it. The next caller starts another fetch."""
    if not task.cancelled():
        task.exception()
