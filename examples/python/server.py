"""An HTTP service that numbers orders and events with Kent.

pip install ../../sdk/python
kent region create orders --suffix 40
PORT=8080 KENT_ENDPOINT=127.0.0.1:7600 python server.py
curl -X POST http://127.0.0.1:8080/orders
"""

from __future__ import annotations

import json
import os
import signal
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kent


class Service(ThreadingHTTPServer):
    """Uses a thread per connection. All threads share one client, and one handle for each source."""

    daemon_threads = False  # `server_close` waits for the requests in progress.

    def __init__(self, port: int, client: kent.Client) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.orders = client.region("orders")
        self.events = client.uuid_v7()

    def place_order(self) -> dict[str, str]:
        # Take the number first: if Kent refuses it, no event ID is wasted. The number is sent as a string, because
        # JavaScript would round a large number.
        order = self.orders.next()
        return {"order": str(order), "event": str(self.events.next())}

    def record_event(self) -> dict[str, str]:
        return {"event": str(self.events.next())}


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Service
    timeout = 5  # seconds within which a caller must send its request

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self.send(HTTPStatus.OK, "text/plain", "ok")
        else:
            self.reply(HTTPStatus.NOT_FOUND, {"error": "no such page"})

    def do_POST(self) -> None:
        self.skip_body()
        route = {"/orders": self.server.place_order, "/events": self.server.record_event}.get(self.path)
        if route is None:
            self.reply(HTTPStatus.NOT_FOUND, {"error": "no such page"})
            return
        try:
            answer = route()
        except kent.KentError as error:  # Kent refuses the request, or is unreachable.
            wait = error.retry_after if isinstance(error, kent.Limited) else None
            headers = {} if wait is None else {"Retry-After": str(int(wait) + 1)}
            self.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}, headers)
        else:
            self.reply(HTTPStatus.OK, answer)

    def skip_body(self) -> None:
        """Reads and discards the body. If the connection were closed with an unread body, the answer could be lost."""
        length = self.headers.get("Content-Length", "0")
        self.rfile.read(min(int(length), 1 << 20) if length.isdecimal() else 0)

    def reply(self, status: HTTPStatus, body: dict[str, str], headers: dict[str, str] | None = None) -> None:
        self.send(status, "application/json", json.dumps(body), headers)

    def send(self, status: HTTPStatus, kind: str, text: str, headers: dict[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Logs no requests."""


def main() -> None:
    endpoint = os.environ.get("KENT_ENDPOINT", "127.0.0.1:7600")
    with (
        kent.Client(endpoint, request_timeout=3) as client,
        Service(int(os.environ.get("PORT", "8080")), client) as service,
    ):
        # `shutdown` must run in another thread: it waits for `serve_forever`, which runs in the thread that receives
        # signals.
        def stop(*_: object) -> None:
            threading.Thread(target=service.shutdown).start()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        print("listening on", service.server_address, flush=True)
        service.serve_forever()


if __name__ == "__main__":
    main()
