"""Client of Kent, the service that allocates unique identifiers.

>>> import kent
>>> client = kent.Client("127.0.0.1:7600")
>>> client.uuid_v7().next()
"""

from ._errors import Closed, ConfigError, Fenced, KentError, Limited, Refused, RpcFailure, Unavailable, Unusable
from ._sync import Client, Source

__all__ = [
    "Client",
    "Closed",
    "ConfigError",
    "Fenced",
    "KentError",
    "Limited",
    "Refused",
    "RpcFailure",
    "Source",
    "Unavailable",
    "Unusable",
]
