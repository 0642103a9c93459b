"""The settings of a client, which are checked when the client is created."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Union

import grpc

from ._errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

Pem = Union[str, "os.PathLike[str]", bytes, None]
"""The path of a PEM file, or the content of the file as bytes."""

_TOKEN = re.compile(r"kent_[A-Za-z0-9_-]{1,995}")
_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")
_LOOK_EVERY = 1.0


@dataclass(frozen=True)
class Sizes:
    """How many identifiers a source keeps in memory, and for how long."""

    block_size: int = 1000
    block_size_max: int = 100_000
    low_water: float = 0.5
    max_age: float = 10.0

    def __post_init__(self) -> None:
        _check("block_size", "1 to block_size_max", 1 <= self.block_size <= self.block_size_max)
        _check("block_size_max", "at most 200000", self.block_size_max <= 200_000)
        _check("low_water", "0 to 1", 0 <= self.low_water <= 1)
        _check("max_age", "more than 0", self.max_age > 0)


@dataclass(frozen=True)
class Timeouts:
    """Timeouts in seconds: of one attempt, and of a request including all its attempts."""

    attempt: float = 2.0
    request: float = 10.0

    def __post_init__(self) -> None:
        _check("attempt_timeout", "more than 0", self.attempt > 0)
        _check("request_timeout", "more than 0", self.request > 0)


def _check(name: str, allowed: str, holds: bool) -> None:
    if not holds:
        raise ConfigError(f"{name} must be {allowed}")


@dataclass(frozen=True)
class Endpoint:
    """The address of a daemon."""

    #: The target that gRPC dials: ``HOST:PORT`` or ``unix:PATH``.
    target: str
    tls: bool = False

    @classmethod
    def parse(cls, text: str, tls: bool = False) -> Endpoint:
        """Parses an endpoint. ``tls`` says whether an endpoint without a scheme uses TLS."""
        if text.startswith("unix:/"):
            return cls(text)
        scheme, _, rest = text.rpartition("://")
        match = _HOST_PORT.fullmatch(rest.rstrip("/"))
        if match is None or scheme not in ("", "http", "https") or not 1 <= int(match[2]) <= 65535:
            raise ConfigError(
                f"endpoint {text!r}: it must be HOST:PORT, https://HOST:PORT or unix:/PATH, such as 127.0.0.1:7600"
            )
        return cls(match[0], tls=tls if scheme == "" else scheme == "https")

    @property
    def is_private(self) -> bool:
        """Whether the endpoint is on this machine or uses TLS. Otherwise, a token could be read on the network."""
        if self.tls or self.target.startswith("unix:"):
            return True
        host = self.target.rpartition(":")[0].strip("[]")
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


class Token:
    """The token that is sent with each call. A token file is read again when it changes."""

    def __init__(self, text: str | None, file: str | os.PathLike[str] | None) -> None:
        _check("token", "left out if there is a token_file", text is None or file is None)
        self._file = None if file is None else Path(file)
        self._looked = time.monotonic()
        self._stamp: tuple[int, ...] | None = None
        self._header: str | None = None
        if text is not None:
            self._header = _bearer(text)
        elif self._file is not None:
            try:
                self._read(self._file)
            except OSError as error:
                raise ConfigError(f"token_file {self._file}: {error.strerror}") from error

    def __bool__(self) -> bool:
        return self._header is not None

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata for the next call."""
        if time.monotonic() - self._looked >= _LOOK_EVERY:
            self.refresh()
        return () if self._header is None else (("authorization", self._header),)

    def refresh(self) -> str | None:
        """Reads the file again if it has changed. Returns the header."""
        self._looked = time.monotonic()
        # While the file is being replaced, the previous token stays in use.
        with contextlib.suppress(OSError, ConfigError):
            if self._file is not None and _stamp(self._file) != self._stamp:
                self._read(self._file)
        return self._header

    def _read(self, file: Path) -> None:
        stamp = _stamp(file)  # Taken before the text, so that a change in between is noticed later.
        self._header = _bearer(file.read_text())
        self._stamp = stamp


def _stamp(file: Path) -> tuple[int, ...]:
    stat = file.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime_ns


def _bearer(text: str) -> str:
    text = text.strip()
    if not _TOKEN.fullmatch(text):
        raise ConfigError(
            "a token is kent_ID_SECRET, as `kent token create` prints it; a token file contains nothing else"
        )
    return f"Bearer {text}"


def pem(name: str, value: Pem) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    try:
        return Path(value).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: {value}: {error.strerror}") from error


@dataclass
class Settings:
    """The checked settings of a client."""

    endpoints: list[Endpoint]
    sizes: Sizes
    timeouts: Timeouts
    token: Token
    credentials: grpc.ChannelCredentials | None
    follow_heirs: bool


def settings(
    endpoints: Sequence[str],
    *,
    token: str | None,
    token_file: str | os.PathLike[str] | None,
    allow_plain_token: bool,
    ca: Pem,
    cert: Pem,
    key: Pem,
    sizes: Sizes,
    timeouts: Timeouts,
    follow_heirs: bool,
) -> Settings:
    """Checks the arguments of a client."""
    given = any(each is not None for each in (ca, cert, key))
    parsed = [Endpoint.parse(text, tls=given) for text in endpoints or ["127.0.0.1:7600"]]
    tls = {endpoint.tls for endpoint in parsed if not endpoint.target.startswith("unix:")}
    _check("the endpoints", "all with https:// or all without", len(tls) < 2)
    _check("cert and key", "given together", (cert is None) == (key is None))
    _check("ca, cert and key", "left out with http:// and unix: endpoints", True in tls or not given)
    sent = Token(token, token_file)
    if sent and not allow_plain_token:
        for endpoint in parsed:
            if not endpoint.is_private:
                raise ConfigError(
                    f"endpoint {endpoint.target} is on another machine and without TLS, so its network could read the "
                    "token: use https://, or pass allow_plain_token=True"
                )
    credentials = None
    if True in tls:
        credentials = grpc.ssl_channel_credentials(pem("ca", ca), pem("key", key), pem("cert", cert))
    return Settings(parsed, sizes, timeouts, sent, credentials, follow_heirs)
