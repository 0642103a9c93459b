"""The arguments, endpoints and fences that the blocking client and the asyncio client share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._calls import Attempts, Endpoints
from ._errors import Closed
from ._settings import Pem, Sizes, Timeouts, settings
from ._stock import Fences
from .v1 import access_pb2_grpc, admin_pb2_grpc, codec_pb2_grpc, layouts_pb2_grpc, regions_pb2_grpc

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


#: The maximum number of moves to an heir within one fetch. An heir can be closed before it is used, but this is rare.
MOVES_MAX = 16


class Base:
    """The arguments of a client.

    Args:
        endpoints: ``HOST:PORT``, ``https://HOST:PORT`` or ``unix:/PATH``. The first is preferred, and the others are
            used while it fails. Default: ``127.0.0.1:7600``. With ``ca`` or ``cert``, ``HOST:PORT`` uses TLS.
        token, token_file: the caller's token, or a file with the token, which is read again when the file changes.
        allow_plain_token: send the token to other machines without TLS.
        ca, cert, key: the trusted CAs, and the client's own certificate and key: PEM files, or their content as bytes.
        attempt_timeout, request_timeout: seconds for one attempt, and for a request including all its attempts.
        block_size, block_size_max: the number of identifiers in the first block of a source, and the maximum. The size
            adapts so that a block lasts about a second.
        low_water: the source fetches its next block when this fraction of the current block is left.
        max_age: seconds after which identifiers that contain a timestamp are dropped.
        follow_heirs: continue with the heir of a closed region.

    Raises:
        ConfigError: an argument is invalid.
    """

    def __init__(
        self,
        *endpoints: str,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        allow_plain_token: bool = False,
        ca: Pem = None,
        cert: Pem = None,
        key: Pem = None,
        attempt_timeout: float = 2.0,
        request_timeout: float = 10.0,
        block_size: int = 1000,
        block_size_max: int = 100_000,
        low_water: float = 0.5,
        max_age: float = 10.0,
        follow_heirs: bool = False,
    ) -> None:
        self._settings = settings(
            endpoints,
            token=token,
            token_file=token_file,
            allow_plain_token=allow_plain_token,
            ca=ca,
            cert=cert,
            key=key,
            sizes=Sizes(block_size, block_size_max, low_water, max_age),
            timeouts=Timeouts(attempt_timeout, request_timeout),
            follow_heirs=follow_heirs,
        )
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._endpoints = Endpoints(self._settings.endpoints)
        self._fences = Fences()

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata with the token, for calls through generated stubs."""
        return self._settings.token.metadata()

    def channel(self) -> Any:
        """The channel to the endpoint in use."""
        raise NotImplementedError

    @property
    def regions(self) -> regions_pb2_grpc.RegionsStub:
        """The stub that manages regions."""
        return regions_pb2_grpc.RegionsStub(self.channel())  # type: ignore[no-untyped-call]

    @property
    def codec(self) -> codec_pb2_grpc.CodecStub:
        """The stub that inspects and classifies identifiers."""
        return codec_pb2_grpc.CodecStub(self.channel())  # type: ignore[no-untyped-call]

    @property
    def admin(self) -> admin_pb2_grpc.AdminStub:
        """The stub for operator tasks, such as status and backup."""
        return admin_pb2_grpc.AdminStub(self.channel())  # type: ignore[no-untyped-call]

    @property
    def layouts(self) -> layouts_pb2_grpc.LayoutsStub:
        """The stub that manages custom layouts."""
        return layouts_pb2_grpc.LayoutsStub(self.channel())  # type: ignore[no-untyped-call]

    @property
    def access(self) -> access_pb2_grpc.AccessStub:
        """The stub for tokens, roles and budgets."""
        return access_pb2_grpc.AccessStub(self.channel())  # type: ignore[no-untyped-call]

    def _attempts(self, deadline: float) -> Attempts:
        return Attempts(self._endpoints, self._settings.timeouts.attempt, deadline, self._settings.token)

    def _open(self, index: int, insecure: Callable[..., Any], secure: Callable[..., Any]) -> Any:
        """Creates a channel to an endpoint, with these functions of ``grpc`` or ``grpc.aio``."""
        if self._closed:
            raise Closed("the client is closed")
        endpoint, credentials = self._endpoints[index], self._settings.credentials
        if endpoint.tls and credentials is not None:
            return secure(endpoint.target, credentials, CHANNEL_OPTIONS)
        return insecure(endpoint.target, CHANNEL_OPTIONS)


#: By default, gRPC's pause before a reconnect grows to two minutes. The client has its own backoff instead. The minimum
#: backoff does not lengthen the pause: gRPC gives up an attempt to connect after this time, which over a slow network
#: must be enough for TCP, TLS and HTTP/2.
CHANNEL_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", 64 << 20),
]


def region_source(name: str, space: str) -> str:
    """The source of a region."""
    return f"region:{name}" if space == "default" else f"region:{name}@{space}"
