"""Requests identifiers with Python's stock gRPC, and checks them with the uuid module and a separate base58 encoder.

Usage: client.py HOST:PORT
"""
import sys
import tempfile
import time
import uuid
from pathlib import Path

import grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parents[3] / "proto" / "proto"


def stubs():
    """Generates the stubs from the .proto files, as any user would."""
    out = tempfile.mkdtemp()
    files = ["kent/v1/types.proto", "kent/v1/allocator.proto", "google/rpc/status.proto"]
    well_known = str(Path(protoc.__file__).parent / "_proto")
    assert protoc.main(["", f"-I{PROTO}", f"-I{well_known}", f"--python_out={out}", f"--grpc_python_out={out}", *files]) == 0
    sys.path.insert(0, out)
    from kent.v1 import allocator_pb2, allocator_pb2_grpc

    return allocator_pb2, allocator_pb2_grpc


def base58(value):
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    text = ""
    for _ in range(11):
        value, digit = divmod(value, 58)
        text = alphabet[digit] + text
    return text


def main():
    pb, services = stubs()
    client = services.AllocatorStub(grpc.insecure_channel(sys.argv[1]))

    def timely(seconds):
        return began - 1 <= seconds <= time.time() + 1

    def draw(source, count):
        reply = client.Allocate(pb.AllocateRequest(source=source, count=count, encoding=pb.ENCODING_PACKED), timeout=5)
        width, data = reply.packed.width, reply.packed.data
        ids = [data[at : at + width] for at in range(0, len(data), width)]
        assert len(ids) == len(set(ids)) == count
        return ids

    began = time.time()
    v7 = [uuid.UUID(bytes=raw) for raw in draw("uuidv7", 1000)]
    assert all(u.version == 7 and u.variant == uuid.RFC_4122 for u in v7) and v7 == sorted(v7)
    assert timely((v7[0].int >> 80) / 1000)
    v6 = [uuid.UUID(bytes=raw) for raw in draw("uuidv6", 1000)]
    assert all(u.version == 6 and u.variant == uuid.RFC_4122 for u in v6) and v6 == sorted(v6)
    ticks = (v6[0].int >> 80) << 12 | (v6[0].int >> 64) & 0xFFF
    assert timely((ticks - 0x01B21DD213814000) / 1e7)
    xids = [int.from_bytes(raw, "big") for raw in draw("xid", 1000)]
    stamps = [(x >> 22) + 1321009871111 for x in xids]
    assert stamps == sorted(stamps) and timely(stamps[0] / 1000)
    assert all(len(base58(x)) == 11 for x in xids)
    try:
        client.Allocate(pb.AllocateRequest(source="uuidv9", count=1), timeout=5)
        raise AssertionError("an unknown source was not refused")
    except grpc.RpcError as refused:
        assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT and "uuidv7" in refused.details()
    services = ProtoReflectionDescriptorDatabase(grpc.insecure_channel(sys.argv[1])).get_services()
    assert {"kent.v1.Allocator", "kent.v1.Regions", "grpc.health.v1.Health"} <= set(services), services
    print("all checks passed")


main()
