"""A user's program with the stubs of both clients. `check` gives it to the type checker and does not run it."""

import kent
from kent import aio
from kent.v1.regions_pb2 import ListRegionsRequest


def blocking(client: kent.Client) -> None:
    print(client.regions, client.codec, client.admin, client.access)
    print(client.regions.ListRegions(ListRegionsRequest(), metadata=client.metadata()))


async def asynchronous(client: aio.Client) -> None:
    print(client.regions, client.codec, client.admin, client.access)
    print(await client.regions.ListRegions(ListRegionsRequest(), metadata=client.metadata()))
