"""Tests the parts that make no calls."""

import pytest

import kent
from kent._calls import Attempts, Endpoints
from kent._settings import Endpoint, Sizes, Token
from kent._stock import NUMBER, UUID_OF_SLOT, Fences, Stock, clock, kind_of, scope


def test_ok_the_highest_token_of_each_subject_counts():
    fences = Fences()
    rows = [("a", 1, 5, True), ("a", 1, 4, False), ("a", 1, 6, True), ("a", 2, 1, True), ("b", 1, 1, True)]
    for name, subject, token, admitted in [*rows, ("a", 1, 5, False), ("s", 0, 0, True)]:
        assert fences.admit(name, subject, token) is admitted, (name, subject, token)
    assert scope(UUID_OF_SLOT, "uuidv7") == scope(kind_of("xid"), "xid") == "" != scope(NUMBER, "region:a")


def test_ok_blocks_grow_while_they_last_less_than_a_second():
    stock = Stock(NUMBER, Sizes(block_size=100, block_size_max=350))
    assert [stock.next_size() for _ in range(4)] == [100, 200, 350, 350]
    stock._asked_last = clock() - 11
    assert stock.next_size() == 175


def test_ok_identifiers_that_carry_the_time_expire():
    for kind, left in ((UUID_OF_SLOT, False), (NUMBER, True)):
        stock = Stock(kind, Sizes(max_age=10))
        stock.add([1, 2, 3], clock() - 10.1)
        assert stock.advance() is left, kind
    stock.reset()
    assert not stock.advance() and stock.in_hand() == 0


def test_ok_identifiers_come_in_their_order():
    stock = Stock(NUMBER, Sizes())
    stock.add([1, 2, 3], clock())
    assert stock.advance() and [stock.block.ids.pop() for _ in range(3)] == [1, 2, 3]


def test_ok_attempts_use_the_other_endpoints_first_without_a_pause():
    endpoints = Endpoints([Endpoint.parse("a:1"), Endpoint.parse("b:1")])
    attempts = Attempts(endpoints, 1, float("inf"), Token(None, None))
    assert (attempts._backoff(), endpoints.current()) == (0, 0)
    pauses = [attempts._backoff() for _ in range(9)]
    assert 0.02 <= pauses[0] <= 0.04 and 1 <= pauses[-1] <= 2
    endpoints.leave(0)
    endpoints.leave(0)
    assert endpoints.current() == 1


def test_ok_the_first_endpoint_is_tried_again_30_s_after_it_was_left(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("kent._calls.time.monotonic", lambda: now)
    endpoints = Endpoints([Endpoint.parse(f"{name}:1") for name in "abc"])
    endpoints.leave(0)
    now += 20
    endpoints.leave(1)
    now += 9.75
    assert endpoints.current() == 2
    now += 0.25
    assert endpoints.current() == 0


@pytest.mark.parametrize("text", ["", "a", "http://", "ftp://a:1", "a:99999", ":7600", "a b:1", "unix:", "a:0"])
def test_err_endpoints(text):
    with pytest.raises(kent.ConfigError, match="HOST:PORT"):
        kent.Client(text)


def test_ok_endpoints():
    for text, target in [
        ("127.0.0.1:7600", "127.0.0.1:7600"),
        ("http://[::1]:7600/", "[::1]:7600"),
        ("https://kent.example:80", "kent.example:80"),
        ("unix:/run/kent.sock", "unix:/run/kent.sock"),
    ]:
        assert Endpoint.parse(text).target == target


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block_size": 0}, "block_size must be 1 to"),
        ({"block_size": 10, "block_size_max": 9}, "block_size must be 1 to"),
        ({"low_water": float("nan")}, "low_water must be 0 to 1"),
        ({"max_age": 0}, "max_age must be more than 0"),
        ({"attempt_timeout": 0}, "attempt_timeout must be more than 0"),
        ({"token": "SECRET"}, "a token is kent_ID_SECRET"),
        ({"token_file": "/nonexistent/token"}, "No such file"),
        ({"cert": "x"}, "cert and key must be given together"),
    ],
)
def test_err_settings(settings, message):
    with pytest.raises(kent.ConfigError, match=message):
        kent.Client("127.0.0.1:7600", **settings)


def test_ok_with_a_ca_or_a_certificate_an_endpoint_without_a_scheme_uses_tls():
    for given in ({"ca": b"x"}, {"cert": b"x", "key": b"x"}):
        for endpoints in (["a:1"], ["a:1", "https://b:1"], ["a:1", "unix:/s"], []):
            client = kent.Client(*endpoints, **given, token="kent_a_SECRET")
            assert client._settings.endpoints[0].tls and client._settings.credentials is not None
        for endpoints, message in ((["http://a:1"], "http://"), (["unix:/s"], "unix:"), (["a:1", "http://b:1"], "all")):
            with pytest.raises(kent.ConfigError, match=message):
                kent.Client(*endpoints, **given)
    assert not kent.Client("a:1")._settings.endpoints[0].tls


def test_err_a_token_leaves_the_machine_only_under_tls():
    for endpoint in ("10.0.0.7:7600", "localhost.example:7600"):
        with pytest.raises(kent.ConfigError, match="another machine"):
            kent.Client(endpoint, token="kent_a_SECRET")
        kent.Client(endpoint, token="kent_a_SECRET", allow_plain_token=True)
    for endpoint in ("localhost:1", "[::1]:1", "https://kent.example:1", "unix:/s"):
        kent.Client(endpoint, token="kent_a_SECRET")
