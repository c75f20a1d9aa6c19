"""The report in a browser on this machine, with look-ups. Nobody else can ask: see ``ReportServer``."""

import json
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mindformers_megatron.errors import ConfigError, DataError

ADDRESS = "127.0.0.1"
# A browser opens six connections to a host.
_MOST_REQUESTS = 16
_MOST_CHARACTERS = 2048
_TIMEOUT_SECONDS = 10.0

Lookup = Callable[[Mapping[str, str]], dict[str, Any]]


class ReportServer(ThreadingHTTPServer):
    """Serves one page and its look-ups on 127.0.0.1.

    It cannot be reached from another machine, nor by a page of another site: requests under another host name, as they
    come after DNS rebinding, are refused, and so are those that a browser says another site has made. No path leads to
    a file. Only GET is known; a request has 2,048 characters at most, and 10 seconds; of more than 16 at a time the
    later ones wait.

    Args:
        port: 0 takes a free one.
        page: the page.
        policy: its Content-Security-Policy.
        lookups: what is under ``/api/``, by name; given what the query says, each returns JSON values.

    Raises:
        ConfigError: The port is taken.
    """

    daemon_threads = True
    # Connections that wait for a place; with the five that Python allows, a browser waits for seconds.
    request_queue_size = 64

    def __init__(self, port: int, page: bytes, policy: str, lookups: Mapping[str, Lookup]) -> None:
        self.page, self.policy, self.lookups = page, policy, lookups
        self._places = threading.BoundedSemaphore(_MOST_REQUESTS)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"--port {port}: {error}; give another one, or 0 for one that is free") from None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def hosts(self) -> set[str]:
        """The names that a request may come under."""
        return {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handles a connection in a thread, as soon as there is a place for it."""
        # Whoever holds one is cut off in time, so there will be.
        self._places.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles a connection, and gives its place to the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    connection: socket
    timeout = _TIMEOUT_SECONDS
    server_version = "mfm"
    sys_version = ""

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.hosts():
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "asked for under another name than this machine's own")
        elif self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            self._refuse(HTTPStatus.FORBIDDEN, "asked for by a page of another site")
        elif len(self.path) > _MOST_CHARACTERS:
            self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG, f"longer than {_MOST_CHARACTERS} characters")
        else:
            self._answer()

    def log_message(self, format: str, *values: Any) -> None:
        """Says nothing: the terminal is for what went wrong."""

    def _answer(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
            return
        lookup = self.server.lookups.get(address.path.removeprefix("/api/"))
        if lookup is None or not address.path.startswith("/api/"):
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
            return
        try:
            found = lookup(dict(parse_qsl(address.query, max_num_fields=16)))
        except (ConfigError, DataError) as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except (OSError, ValueError) as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, f"cannot be looked up ({error})")
        else:
            self._send_json(HTTPStatus.OK, found)

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._send_json(status, {"error": reason})

    def _send_json(self, status: HTTPStatus, values: dict[str, Any]) -> None:
        body = json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")
        self._send(status, "application/json; charset=utf-8", body)

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{self.server.policy}; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
