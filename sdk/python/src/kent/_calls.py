"""Decides which endpoint the next attempt uses, and how long the client waits before the attempt.

Both clients use this module. It makes no calls and does not sleep.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

import grpc

from ._errors import Fenced, KentError, Limited, Refused, RpcFailure, Unavailable, Unusable

if TYPE_CHECKING:
    from ._settings import Endpoint, Token

#: After this many seconds, the client tries its first endpoint again.
RETURN_AFTER = 30.0
_PAUSE_MIN, _PAUSE_MAX = 0.02, 1.0
#: The pause after a block from a replica that lags behind.
_LAG = 0.02
#: After this many rejected blocks in a row, the request fails.
_REJECTED_MAX = 300


class Endpoints:
    """The endpoints of a client, and the choice between them."""

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
                if index == 0:
                    self._left_first = time.monotonic()


class Attempts:
    """The attempts of one request, until its deadline."""

    def __init__(self, endpoints: Endpoints, attempt_timeout: float, deadline: float, token: Token) -> None:
        self._endpoints = endpoints
        self._token = token
        self._sent = token.metadata()
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
        """The seconds to wait after a failed attempt. Raises the final error if another attempt cannot help."""
        failure = RpcFailure(error)
        if not failure.is_transient:
            if failure.code is grpc.StatusCode.UNAUTHENTICATED and self._has_other_token():
                return 0.0
            raise Refused(error) from None
        # A daemon that reports a limit is healthy, so another daemon would not help.
        if failure.code is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            self._endpoints.leave(index)
        self._tried[self._endpoints[index].target] = failure
        wait = self._backoff() if failure.retry_after is None else failure.retry_after
        if failure.reason == "LIMIT" and time.monotonic() + wait >= self._deadline:
            raise Limited(error) from None
        return self._wait(wait)

    def _has_other_token(self) -> bool:
        """Whether the token has changed since the last attempt."""
        self._token.refresh()
        before, self._sent = self._sent, self._token.metadata()
        return before != self._sent

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
