"""Which endpoint the next attempt uses, and how long it waits before: shared by the blocking and the asyncio client.

Nothing here makes a call or sleeps.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

from ._errors import Fenced, KentError, Limited, Refused, RpcFailure, Unavailable, Unusable

if TYPE_CHECKING:
    import grpc

    from ._settings import Endpoint

#: After this many seconds the client tries its first endpoint again.
RETURN_AFTER = 30.0
_PAUSE_MIN, _PAUSE_MAX = 0.02, 1.0
#: The pause after a block from a replica that lags behind.
_LAG = 0.02
#: After this many rejected blocks in a row the request fails.
_REJECTED_MAX = 300


class Endpoints:
    """The endpoints of a client, and the one in use."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self._endpoints = endpoints
        self._current = 0
        self._left_first = 0.0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._endpoints)

    def __getitem__(self, index: int) -> Endpoint:
        return self._endpoints[index]

    def current(self) -> int:
        """The index of the endpoint for the next attempt."""
        with self._lock:
            if self._current and time.monotonic() - self._left_first >= RETURN_AFTER:
                self._current = 0
            return self._current

    def leave(self, index: int) -> None:
        """Switches to the next endpoint, unless another call has already done so."""
        with self._lock:
            if self._current == index:
                self._current = (index + 1) % len(self._endpoints)
                self._left_first = time.monotonic()


class Attempts:
    """The attempts of one request, until its deadline."""

    def __init__(self, endpoints: Endpoints, attempt_timeout: float, deadline: float) -> None:
        self._endpoints = endpoints
        self._attempt_timeout = attempt_timeout
        self._deadline = deadline
        self._without_pause = len(endpoints) - 1
        self._pause = _PAUSE_MIN
        self._rejected = 0
        self._tried: dict[str, KentError] = {}

    def timeout(self) -> float:
        """The timeout of the next attempt, in seconds."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unavailable(self._tried)
        return min(left, self._attempt_timeout)

    def after(self, index: int, error: grpc.RpcError) -> float:
        """The seconds to wait after a failed attempt. Raises the final error if another attempt is of no use."""
        failure = RpcFailure(error)
        if not failure.is_transient:
            raise Refused(error) from None
        self._tried[self._endpoints[index].target] = failure
        if failure.retry_after is None:
            self._endpoints.leave(index)
            return self._wait(self._backoff())
        if time.monotonic() + failure.retry_after >= self._deadline and failure.reason == "LIMIT":
            raise Limited(error) from None
        # The clock or the pace of this daemon: another one may be ahead of it.
        if failure.reason != "LIMIT":
            self._endpoints.leave(index)
        return self._wait(failure.retry_after)

    def after_rejected(self, index: int) -> float:
        """The seconds to wait after a block with a fencing token lower than one already seen."""
        self._rejected += 1
        if self._rejected >= _REJECTED_MAX:
            raise Fenced(f"{self._rejected} blocks in a row were older than one already seen; make a new client")
        rejected = Unusable("its block was older than one already seen")
        self._tried[self._endpoints[index].target] = rejected
        self._endpoints.leave(index)
        return self._wait(_LAG)

    def _backoff(self) -> float:
        if self._without_pause > 0:
            self._without_pause -= 1
            return 0.0
        pause = self._pause * random.uniform(1, 2)
        self._pause = min(self._pause * 2, _PAUSE_MAX)
        return pause

    def _wait(self, seconds: float) -> float:
        if time.monotonic() + seconds >= self._deadline:
            raise Unavailable(self._tried) from None
        return seconds
