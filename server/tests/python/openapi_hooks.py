"""Puts names that exist into most requests that Schemathesis makes, so that many calls succeed and their answers are checked."""

import zlib

import schemathesis

SPACE = "spaces/default"
REGION = f"{SPACE}/regions/orders"
NAMES = {
    "source": ["uuidv7", "xid", "serial:GBP", "region:orders"],
    "parent": [SPACE],
    "name": [REGION, SPACE, "serial:GBP"],
    "regionId": ["a", "b", "c"],
    "newRegionId": ["d", "e"],
    "spaceId": ["parts"],
    "policyMask": ["cap"],
    "filter": [""],
    "pageToken": [""],
    "series": ["serial:GBP"],
    "roleId": ["clerk"],
}
NUMBERS = {"count": "5", "suffixBits": 8, "zoneBits": 4, "byBits": 1, "bits": 64, "revision": "1"}


def number_of(value) -> int:
    return zlib.crc32(repr(value).encode())


@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict) or number_of(sorted(body)) % 4 == 0:
        return body
    for field, names in NAMES.items():
        if isinstance(body.get(field), str):
            body[field] = names[number_of(body[field]) % len(names)]
    for field, number in NUMBERS.items():
        if isinstance(body.get(field), type(number)):
            body[field] = number
    return body
