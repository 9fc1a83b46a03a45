"""A media API on this machine that buys whatever is asked for, and counts."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class _Server(ThreadingHTTPServer):
    request_queue_size = 512
    """Connections that wait; the system resets what is more."""


class CountingApi:
    """Answers each POST with a job of its own, at once or when it is told to."""

    def __init__(self) -> None:
        self.posts: Counter[str] = Counter()
        self.answering = threading.Event()
        self.answering.set()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.answering.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def fields(self, **more: Any) -> dict[str, Any]:
        """Return the fields of a block that speaks to this API."""
        return {"base_url": self.url, "api_key": "sk_test", **more}

    def bought(self, key: str) -> str:
        """Count one purchase and return its job's id."""
        with self._lock:
            self.posts[key] += 1
            return f"job-{key}-{self.posts[key]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                job_id = api.bought(self.headers["x-idempotency-key"])
                api.answering.wait(60)
                self._answer({"job_id": job_id})

            def do_GET(self) -> None:
                self._answer({"jobs": [], "total": 0})

            def _answer(self, told: dict[str, Any]) -> None:
                body = json.dumps(told).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                """Say nothing."""

        return Handler
