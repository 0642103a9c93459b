"""The stock of a source: prefetched identifiers, their age, and how many to fetch next. This module makes no calls."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID, SafeUUID

from ._errors import Unusable
from .v1 import allocator_pb2 as pb

if TYPE_CHECKING:
    from ._settings import Sizes

T = TypeVar("T")

#: The number of seconds that a block should last. After a block that lasted less, the size of the next block doubles;
#: after a block that lasted more than ten times as long, it halves.
_LASTS = 1.0
#: The maximum number of identifiers that a daemon returns as text in one call.
_TEXTS_MAX = 10_000

#: The seconds since the machine started, including the time during which it was suspended if the system reports it.
clock: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """How the identifiers of a source are encoded in replies, and how to read them."""

    encoding: pb.Encoding
    read: Callable[[pb.AllocateResponse], list[T]]
    #: Whether identifiers expire, because they contain a timestamp.
    ages: bool
    #: Whether fencing tokens belong to slots of the cluster, not to the source.
    has_slots: bool

    def identifiers(self, reply: pb.AllocateResponse, count: int) -> list[T]:
        """The identifiers of a reply to a request for ``count`` identifiers."""
        ids = self.read(reply)
        if not 1 <= len(ids) <= count:
            raise Unusable(f"requested {count} identifiers, got {len(ids)}")
        return ids


class Block(Generic[T]):
    """Prefetched identifiers in reverse order. ``list.pop``, which is atomic and needs no lock, takes the next one."""

    __slots__ = ("ids", "mark", "until")

    def __init__(self, ids: list[T], until: float, mark: int) -> None:
        self.ids = ids
        self.until = until
        self.mark = mark


class Stock(Generic[T]):
    """The blocks of one source. The caller must hold the source's lock, except to pop from ``block``."""

    def __init__(self, kind: Kind[T], sizes: Sizes) -> None:
        self.kind = kind
        self.sizes = sizes
        self.size_max = min(sizes.block_size_max, _TEXTS_MAX if kind.encoding == pb.ENCODING_TEXT else 200_000)
        self.reset()

    def reset(self) -> None:
        """Drops all prefetched identifiers: a forked child must not issue the identifiers of its parent."""
        self.block: Block[T] = Block([], 0.0, -1)
        self._next: deque[Block[T]] = deque()
        self._size = min(self.sizes.block_size, self.size_max)
        self._asked_last: float | None = None

    def advance(self) -> bool:
        """Moves to the next block if the current one is used up or too old. Returns whether an identifier is left."""
        while not self.block.ids or clock() > self.block.until:
            if not self._next:
                return False
            self.block = self._next.popleft()
        return True

    def next_size(self) -> int:
        """The size of the block to fetch now."""
        now = clock()
        lasted = None if self._asked_last is None else now - self._asked_last
        self._asked_last = now
        if lasted is not None and lasted < _LASTS:
            self._size = min(self._size * 2, self.size_max)
        elif lasted is not None and lasted > 10 * _LASTS:
            self._size = max(self._size // 2, min(self.sizes.block_size, self.size_max))
        return self._size

    def add(self, ids: list[T], asked: float) -> None:
        """Adds a block that was requested at ``asked``."""
        ids.reverse()
        until = asked + self.sizes.max_age if self.kind.ages else float("inf")
        self._next.append(Block(ids, until, int(len(ids) * self.sizes.low_water)))

    def has_next(self) -> bool:
        """Whether there is a block after the current one."""
        return bool(self._next)

    def in_hand(self) -> int:
        """The number of prefetched identifiers."""
        return len(self.block.ids) + sum(len(block.ids) for block in self._next)


class Fences:
    """The highest fencing tokens that a client has seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._highest: dict[tuple[str, int], int] = {}

    def admit(self, scope: str, subject: int, token: int) -> bool:
        """Records a token. Returns false if a higher token was already seen for the same slot or region."""
        if token == 0:
            return True
        with self._lock:
            highest = self._highest.get((scope, subject), 0)
            self._highest[scope, subject] = max(token, highest)
            return token >= highest


# These functions do what UUID's constructor does, but skip the checks, which take most of the constructor's time.
_new_uuid: Callable[[type[UUID]], UUID] = object.__new__
_set_int = vars(UUID)["int"].__set__
_set_safe = vars(UUID)["is_safe"].__set__


def _uuids(reply: pb.AllocateResponse) -> list[UUID]:
    if reply.packed.width != 16:
        raise Unusable(f"identifiers of {reply.packed.width} bytes are not UUIDs")
    values = _numbers(reply)
    ids = list(map(_new_uuid, repeat(UUID, len(values))))
    deque(map(_set_int, ids, values), maxlen=0)
    deque(map(_set_safe, ids, repeat(SafeUUID.unknown)), maxlen=0)
    return ids


def _numbers(reply: pb.AllocateResponse) -> list[int]:
    width, data = reply.packed.width, reply.packed.data
    if not width or len(data) % width:
        raise Unusable("the daemon returned no packed identifiers")
    read = int.from_bytes
    return [read(data[at : at + width], "big") for at in range(0, len(data), width)]


def _texts(reply: pb.AllocateResponse) -> list[str]:
    if reply.WhichOneof("identifiers") != "text":
        raise Unusable("the daemon returned no identifiers as text")
    return list(reply.text.ids)


UUID_OF_SLOT: Kind[UUID] = Kind(pb.ENCODING_PACKED, _uuids, ages=True, has_slots=True)
UUID_OF_SERIES: Kind[UUID] = Kind(pb.ENCODING_PACKED, _uuids, ages=False, has_slots=False)
TEXT_OF_SLOT: Kind[str] = Kind(pb.ENCODING_TEXT, _texts, ages=True, has_slots=True)
TEXT_OF_SERIES: Kind[str] = Kind(pb.ENCODING_TEXT, _texts, ages=False, has_slots=False)
NUMBER: Kind[int] = Kind(pb.ENCODING_PACKED, _numbers, ages=False, has_slots=False)


def kind_of(source: str) -> Kind[UUID] | Kind[str] | Kind[int]:
    """The kind of the source with this name."""
    if source.startswith("region:"):
        return NUMBER
    if source.startswith("serial:"):
        return UUID_OF_SERIES
    if source.startswith("uuid"):
        return UUID_OF_SLOT
    return TEXT_OF_SERIES if source == "uid11-fullrand" else TEXT_OF_SLOT


def scope(kind: Kind[T], source: str) -> str:
    """The scope of fencing tokens: a slot belongs to the whole cluster, but a region's number belongs to its space."""
    return "" if kind.has_slots else source


def admitted(fences: Fences, kind: Kind[T], source: str, reply: pb.AllocateResponse) -> bool:
    """Checks the fencing token of a reply. Returns false if a higher token was already seen."""
    part = reply.text if kind.encoding == pb.ENCODING_TEXT else reply.packed
    return fences.admit(scope(kind, source), part.fence_subject, part.fence_token)
