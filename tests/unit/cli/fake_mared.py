"""A server that answers as mared does, from a script: for tests of the mare command only."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

TOKEN = "secret-of-the-test"
Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "FakeMared"

    def log_message(self, *_: Any) -> None:
        pass

    def reply(self, status: int, body: Any, kind: str = "application/json") -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def problem(self, status: int, code: str, detail: str, remedy: str = "") -> None:
        body = {"type": "about:blank", "title": "T", "status": status, "code": code, "detail": detail}
        if remedy:
            body["remedy"] = remedy
        self.reply(status, body, "application/problem+json")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def hang_up(self) -> None:
        """As when mared dies: at once, in the middle of whatever was being said."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def begin_stream(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.body = json.loads(self.rfile.read(length)) if length else None
        self.server.requests.append((self.command, self.path, self.body, dict(self.headers)))
        if self.headers.get("Authorization") != "Bearer " + TOKEN:
            self.problem(401, "unauthenticated", "the token is missing or wrong")
            return
        route = self.server.routes.get((self.command, self.path.split("?")[0]))
        if route is None:
            self.problem(404, "not_found", f"nothing is at {self.path}")
        else:
            route(self)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _handle


class FakeMared(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.routes: dict[tuple[str, str], Answer] = {}
        self.requests: list[tuple[str, str, Any, dict[str, str]]] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def on(self, method: str, path: str, answer: Any, status: int = 200) -> None:
        """`answer`: JSON to send each time, or a function of the handler."""
        if callable(answer):
            self.routes[(method, "/api/v1" + path)] = answer
        else:
            self.routes[(method, "/api/v1" + path)] = lambda h: h.reply(status, answer)

    def close(self) -> None:
        self.shutdown()
        self.server_close()
