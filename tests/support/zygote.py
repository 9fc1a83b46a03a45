"""A process that has imported everything and forks one worker per order, because importing takes seconds.

Run as ``python -m tests.support.zygote SOCKET``. Each connection carries one order and gets two lines back:
the worker's process id, and how it ended. The zygote itself owns no thread, no connection and no database, so
nothing of that kind crosses a fork.
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
READY = b"ready\n"


@dataclass(frozen=True)
class Ended:
    """How a worker ended.

    Args:
        code: Exit status; a negative number is the signal that killed it.
        told: What it said at its end; empty if it was killed.
    """

    code: int
    told: dict[str, Any]


@dataclass
class Worker:
    """A worker process that was started."""

    pid: int
    _line: Any = field(repr=False)
    _connection: socket.socket = field(repr=False)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, within_s: float = 60) -> Ended:
        """Wait until the worker has ended."""
        self._connection.settimeout(within_s)
        with self._connection, self._line:
            ended = json.loads(self._line.readline())
        return Ended(ended["code"], json.loads(ended["told"] or "{}"))


class Zygote:
    """The zygote, seen from the test process."""

    def __init__(self, folder: Path) -> None:
        self._address = str(folder / "zygote")
        # Its standard input tells it when the test process has gone.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.zygote", self._address],
            cwd=ROOT,
            # What a worker keeps outside of its ledger is kept here.
            env=os.environ | {"PREFECT_HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == READY
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate(timeout=20)

    def start(self, order: dict[str, Any]) -> Worker:
        """Start a worker."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(self._address)
        connection.sendall(json.dumps(order).encode() + b"\n")
        line = connection.makefile("r")
        return Worker(int(line.readline()), line, connection)


def serve(address: str) -> None:
    """Fork a keeper for each connection until standard input ends."""
    from tests.support import crash_worker  # noqa: PLC0415 - imported in the zygote alone

    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        os.write(1, READY)
        while True:
            readable, _, _ = select.select([listener, 0], [], [])
            if 0 in readable:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _keep(connection, crash_worker.run)
            connection.close()


def _keep(connection: socket.socket, run: Any) -> None:
    """Fork the worker, wait for its end, and tell it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection, connection.makefile("r") as lines:
        order = json.loads(lines.readline())
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.write(writing, json.dumps(run(order)).encode())
            os._exit(0)
        os.close(writing)
        connection.sendall(f"{pid}\n".encode())
        with os.fdopen(reading) as pipe:
            told = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(json.dumps({"code": code, "told": told}).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
