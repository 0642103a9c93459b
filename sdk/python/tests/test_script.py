"""Tests the blocking client against a scripted daemon, for replies that a real daemon gives only rarely."""

import threading
import time
from concurrent import futures

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

import kent
from kent.v1 import allocator_pb2 as pb
from kent.v1 import allocator_pb2_grpc


def granted(first, token=1, count=None):
    """Grants the requested number of identifiers, or ``count``, starting at ``first``."""

    def answer(request, context):
        values = range(first, first + (count or request.count))
        packed = pb.PackedIdentifiers(width=8, data=b"".join(v.to_bytes(8, "big") for v in values))
        packed.fence_subject, packed.fence_token = 1, token
        return pb.AllocateResponse(packed=packed)

    return answer


def refused(code, reason, retry_after=None, **metadata):
    def answer(request, context):
        details = [error_details_pb2.ErrorInfo(reason=reason, domain="kent", metadata=metadata)]
        if retry_after is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromMilliseconds(int(retry_after * 1000))
            details.append(retry)
        status = status_pb2.Status(code=code, message="scripted")
        for detail in details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
        context.abort(next(each for each in grpc.StatusCode if each.value[0] == code), "scripted")

    return answer


class Script(allocator_pb2_grpc.AllocatorServicer):
    def __init__(self, *answers):
        self.answers, self.sources, self.times, self.lock = list(answers), [], [], threading.Lock()
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        allocator_pb2_grpc.add_AllocatorServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def Allocate(self, request, context):
        with self.lock:
            self.sources.append(request.source)
            self.times.append(time.monotonic())
            answer = self.answers.pop(0)
        return answer(request, context)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None)


def client(*scripts, **arguments):
    return kent.Client(*(script.address for script in scripts), low_water=0, **arguments)


def test_ok_the_delay_of_a_limit_is_waited_for_on_the_same_daemon():
    full = refused(code_pb2.RESOURCE_EXHAUSTED, "PACE", 0.3)
    with Script(full, granted(7)) as script, Script() as other, client(script, other) as one:
        assert one.region("r").next() == 7
        assert script.times[1] - script.times[0] >= 0.3 and other.sources == []


def test_err_a_longer_limit_than_the_timeout_is_told_at_once():
    with Script(refused(code_pb2.RESOURCE_EXHAUSTED, "LIMIT", 60)) as script, client(script) as one:
        with pytest.raises(kent.Limited) as caught:
            one.region("r").next()
        assert caught.value.retry_after == 60


def test_err_a_full_region_is_not_asked_again():
    with Script(refused(code_pb2.RESOURCE_EXHAUSTED, "FULL")) as script, client(script) as one:
        with pytest.raises(kent.Refused, match="scripted"):
            one.region("r").next()
        assert len(script.sources) == 1


def test_ok_an_unavailable_daemon_hands_over_to_the_next():
    away = refused(code_pb2.UNAVAILABLE, "STORE")
    with Script(away) as script, Script(granted(1)) as other, client(script, other) as one:
        assert one.region("r").next() == 1


def test_ok_the_heir_of_a_closed_region_is_followed_if_told_to():
    closed = refused(code_pb2.FAILED_PRECONDITION, "CLOSED", heir="region:r-zero")
    with Script(closed, granted(5)) as script, client(script, follow_heirs=True) as one:
        assert one.region("r").next() == 5 and script.sources == ["region:r", "region:r-zero"]
    with Script(closed) as script, client(script) as one:
        with pytest.raises(kent.Refused) as caught:
            one.region("r").next()
        assert caught.value.heir == "region:r-zero"


def test_ok_an_older_block_is_rejected():
    with Script(granted(1, token=5), granted(50, token=4), granted(90, token=5)) as script, client(script) as one:
        source = one.region("r")
        assert source.take(2) == [1, 2] and source.take(2) == [90, 91]


def test_err_a_reply_with_too_many_identifiers_or_none_is_not_used():
    for answer in (granted(1, count=1001), lambda *_: pb.AllocateResponse()):
        with Script(answer) as script, client(script) as one, pytest.raises(kent.Unusable):
            one.region("r").next()


def test_err_a_call_that_is_refused_before_its_caller_waits_is_made_once():
    with Script(refused(code_pb2.NOT_FOUND, "NO_SUCH_REGION"), granted(1)) as script, client(script) as one:
        source = one.region("r")
        refill = source._refill

        def slow(*arguments):
            fetching = refill(*arguments)
            time.sleep(0.3)
            return fetching

        source._refill = slow
        with pytest.raises(kent.Refused):
            source.next()
        assert len(script.sources) == 1
