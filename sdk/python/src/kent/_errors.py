"""The errors of the client, and what the error of a call means for the next attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import grpc
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A call that fails with one of these codes is retried, which is safe, because a lost reply only leaves a gap.
_TRANSIENT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
}


class KentError(Exception):
    """The base class of all errors of the client."""


class ConfigError(KentError, ValueError):
    """A setting of the client is invalid."""


class RpcFailure(KentError):
    """A daemon answered with an error, or a connection broke."""

    def __init__(self, error: grpc.RpcError) -> None:
        self.code: grpc.StatusCode = error.code()
        #: The daemon's message.
        self.message: str = error.details() or ""
        #: The machine-readable reason, such as ``SEALED``; empty if the daemon gave no reason.
        self.reason: str = ""
        #: The details of the reason.
        self.metadata: Mapping[str, str] = {}
        #: The invalid fields of the request.
        self.fields: list[str] = []
        #: The delay in seconds that the daemon asks for before a retry, if any.
        self.retry_after: float | None = None
        self._read_details(error)
        super().__init__(f"{self.code.name}: {self.message}")

    def _read_details(self, error: grpc.RpcError) -> None:
        trailing = dict(cast("Iterable[tuple[str, bytes]]", error.trailing_metadata() or ()))
        status = status_pb2.Status()
        try:
            status.ParseFromString(trailing.get("grpc-status-details-bin", b""))
        except Exception:  # A proxy may send details that are not a status.
            return
        for detail in status.details:
            info, retry, bad = (
                error_details_pb2.ErrorInfo(),
                error_details_pb2.RetryInfo(),
                error_details_pb2.BadRequest(),
            )
            if detail.Unpack(info):
                self.reason, self.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(retry):
                self.retry_after = retry.retry_delay.ToNanoseconds() / 1e9
            elif detail.Unpack(bad):
                self.fields = [violation.field for violation in bad.field_violations]

    @property
    def is_transient(self) -> bool:
        """Whether another attempt can succeed."""
        if self.code in _TRANSIENT:
            return True
        if self.code is grpc.StatusCode.INTERNAL and not self.reason:
            return True  # gRPC reports some broken connections this way; Kent's own errors have a reason.
        # A delay means that a limit of the clock, the pace or the caller is temporary. The error of a full region has
        # no delay.
        return self.code is grpc.StatusCode.RESOURCE_EXHAUSTED and self.retry_after is not None

    @property
    def heir(self) -> str | None:
        """The source that continues the numbers of a closed region, such as ``region:orders-eu``."""
        return self.metadata.get("heir") if self.reason == "CLOSED" else None


class Refused(RpcFailure):
    """The daemon refused the request. The same request would be refused again until the cause is removed."""


class Limited(RpcFailure):
    """The caller has used up one of its limits, and the wait is longer than the timeout."""


class Unavailable(KentError):
    """No daemon granted identifiers within the timeout. ``tried`` has the last error of each endpoint."""

    def __init__(self, tried: Mapping[str, KentError]) -> None:
        self.tried = dict(tried)
        reasons = "; ".join(f"{endpoint}: {error}" for endpoint, error in self.tried.items())
        super().__init__(f"no daemon granted identifiers in time ({reasons or 'no reply yet'})")


class Fenced(KentError):
    """Many blocks in a row were older than a block already seen. The store was probably restored: use a new client."""


class Unusable(KentError):
    """The reply of a daemon is invalid. The daemon and the client may have different versions."""


class Closed(KentError):
    """The client is closed."""
