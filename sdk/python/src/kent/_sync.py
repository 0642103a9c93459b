"""The blocking client."""

from __future__ import annotations

import os
import threading
import time
import weakref
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Generic, TypeVar

import grpc

from ._base import MOVES_MAX, Base, region_source
from ._errors import Closed, Refused, Unavailable, Unusable
from ._stock import NUMBER, TEXT_OF_SLOT, UUID_OF_SLOT, Kind, Stock, admitted, clock, kind_of
from .v1 import allocator_pb2 as pb
from .v1 import allocator_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any
    from uuid import UUID

T = TypeVar("T")

#: How long a fork waits for gRPC's threads, in seconds.
FORK_PAUSE = 0.02

_clients: weakref.WeakSet[Client] = weakref.WeakSet()
#: In a forked child, the channels of the parent. They are kept here so that they stay open.
_inherited: list[object] = []


class Client(Base):
    """A client for any number of threads. Use one client per process: all its sources share its connections."""

    def _begin(self) -> None:
        super()._begin()
        self._lock = threading.Lock()
        #: Set by `close`, to wake the threads that wait for their next attempt.
        self._ended = threading.Event()
        self._channels: dict[int, grpc.Channel] = {}
        self._sources: weakref.WeakValueDictionary[str, Source[Any]] = weakref.WeakValueDictionary()
        _clients.add(self)

    def _after_fork(self) -> None:
        """Resets the client in a forked child. Threads that exist only in the parent may hold its locks."""
        # Closing a channel could wait for such a thread, so the channels stay open.
        _inherited.append(self._channels)
        sources = self._sources
        self._begin()
        self._sources = sources
        for source in list(sources.values()):
            source._begin()

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
        with self._lock:
            found = self._sources.get(name)
            if found is None:
                found = self._sources[name] = Source(self, name, kind)
            return found

    def channel(self) -> grpc.Channel:
        """The channel to the endpoint in use, for the stubs of ``kent.v1``. Pass ``metadata=client.metadata()``."""
        return self._channel(self._endpoints.current())

    def _channel(self, index: int) -> grpc.Channel:
        with self._lock:
            channel = self._channels.get(index)
            if channel is None:
                channel = self._channels[index] = self._open(index, grpc.insecure_channel, grpc.secure_channel)
            return channel

    def _allocate(self, source: str, kind: Kind[T], count: int, deadline: float, request_id: str = "") -> list[T]:
        """Fetches a block. Tries one endpoint after another."""
        attempts = self._attempts(deadline)
        request = pb.AllocateRequest(source=source, count=count, encoding=kind.encoding, request_id=request_id)
        while True:
            index, timeout = self._endpoints.current(), attempts.timeout()
            stub = allocator_pb2_grpc.AllocatorStub(self._channel(index))  # type: ignore[no-untyped-call]
            try:
                reply = stub.Allocate(request, timeout=timeout, metadata=self.metadata())
            except grpc.RpcError as error:
                wait = attempts.after(index, error)
            except ValueError:
                # gRPC raises this error for a call on a channel that another thread has closed.
                if self._closed:
                    raise Closed("the client is closed") from None
                raise
            else:
                # A retry with a request ID returns the block of the first grant, whose token can be lower than one
                # already seen.
                if admitted(self._fences, kind, source, reply) or request_id:
                    return kind.identifiers(reply, count)
                wait = attempts.after_rejected(index)
            if self._ended.wait(wait):
                raise Closed("the client is closed")

    def close(self) -> None:
        """Closes the connections. Prefetched identifiers are dropped, which leaves a gap."""
        with self._lock:
            self._closed = True
            self._ended.set()
            channels, self._channels = self._channels, {}
        for source in list(self._sources.values()):
            source._drop()
        for channel in channels.values():
            channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Source(Generic[T]):
    """A source with a stock of prefetched identifiers, for any number of threads."""

    def __init__(self, client: Client, name: str, kind: Kind[T]) -> None:
        self._client = client
        self._name = name
        #: The name that the caller gave. Requests with a request ID use this name even after a move to an heir, because
        #: the heir would grant them again.
        self._first = name
        self._stock = Stock(kind, client._settings.sizes)
        self._begin()

    def __repr__(self) -> str:
        return f"<kent.Source {self._name}>"

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._fetching: Future[None] | None = None
        self._stock.reset()

    def _drop(self) -> None:
        with self._lock:
            self._stock.reset()

    def next(self, timeout: float | None = None) -> T:
        """Returns the next identifier. Waits at most ``timeout`` seconds (default: the client's ``request_timeout``).

        Raises:
            Refused: the daemon refuses the request, for example for a sealed region.
            Limited: the caller's limit is used up for longer than the timeout.
            Unavailable: no daemon granted a block in time.
        """
        block = self._stock.block
        if block.until >= clock():
            try:
                found = block.ids.pop()
            except IndexError:
                pass
            else:
                if len(block.ids) <= block.mark:
                    self._refill()
                return found
        return self._wait(time.monotonic() + (self._client._settings.timeouts.request if timeout is None else timeout))

    def try_next(self) -> T | None:
        """Returns the next prefetched identifier. If there is none, starts a fetch and returns ``None``."""
        found = self._pop()
        if found is None:
            self._refill()
        return found

    def _pop(self) -> T | None:
        """Returns the next prefetched identifier. Starts a fetch only if few identifiers are left."""
        while True:
            block = self._stock.block
            if block.until >= clock():
                try:
                    found = block.ids.pop()
                except IndexError:
                    pass
                else:
                    if len(block.ids) <= block.mark:
                        self._refill()
                    return found
            with self._lock:
                if not self._stock.advance():
                    return None

    def take(self, count: int, timeout: float | None = None) -> list[T]:
        """Returns ``count`` identifiers, prefetched ones first. If the call fails, those already taken leave a gap."""
        deadline = time.monotonic() + (self._client._settings.timeouts.request if timeout is None else timeout)
        taken: list[T] = []
        while len(taken) < count:
            found = self.try_next() if self.in_hand else None
            if found is not None:
                taken.append(found)
                continue
            size = min(count - len(taken), self._stock.size_max)
            taken += self._fetch(size, deadline)
        return taken

    def fetch(self, count: int, *, request_id: str, timeout: float | None = None) -> list[T]:
        """Returns one grant from a strict region. The same ``request_id`` always returns the same identifiers.

        Use a version 7 UUID as the request ID.
        """
        deadline = time.monotonic() + (self._client._settings.timeouts.request if timeout is None else timeout)
        return self._client._allocate(self._first, self._stock.kind, count, deadline, request_id)

    @property
    def in_hand(self) -> int:
        """The number of prefetched identifiers."""
        with self._lock:
            return self._stock.in_hand()

    def __iter__(self) -> Iterator[T]:
        while True:
            yield self.next()

    def _wait(self, deadline: float) -> T:
        while True:
            found = self._pop()
            if found is not None:
                return found
            # Wait for one fetch, and raise its error here, because another fetch would repeat a refused call.
            fetching = self._refill(deadline)
            if fetching is None:
                continue
            try:
                fetching.result(max(0.0, deadline - time.monotonic()))
            except FutureTimeout:
                if not fetching.done():
                    raise Unavailable({}) from None
                raise

    def _refill(self, deadline: float = 0.0) -> Future[None] | None:
        """Starts a fetch if none is in progress. Returns the fetch, or ``None`` if a block is already prefetched."""
        with self._lock:
            self._stock.block.mark = -1  # A block starts at most one fetch.
            if self._fetching is not None:
                return self._fetching
            if self._client._closed:
                raise Closed("the client is closed")
            if self._stock.has_next():
                return None
            fetching = self._fetching = Future()
            size = self._stock.next_size()
        deadline = max(deadline, time.monotonic() + self._client._settings.timeouts.request)
        threading.Thread(target=self._run, args=(fetching, size, deadline), name="kent-fetch", daemon=True).start()
        return fetching

    def _run(self, fetching: Future[None], size: int, deadline: float) -> None:
        asked = clock()
        try:
            ids = self._fetch(size, deadline)
        except BaseException as error:
            with self._lock:
                self._fetching = None
            fetching.set_exception(error)
        else:
            with self._lock:
                if not self._client._closed:
                    self._stock.add(ids, asked)
                self._fetching = None
            fetching.set_result(None)

    def _fetch(self, count: int, deadline: float) -> list[T]:
        for _ in range(MOVES_MAX):
            name = self._name
            try:
                return self._client._allocate(name, self._stock.kind, count, deadline)
            except Refused as error:
                if error.heir is None or not self._client._settings.follow_heirs:
                    raise
                self._name = error.heir
        raise Unusable(f"{self._name} is closed, as are its heirs")


def _before_fork() -> None:
    # gRPC works in the child only if none of its threads is at work during the fork. Let them finish.
    if _clients:
        time.sleep(FORK_PAUSE)


def _after_fork() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
