"""Consumers for tests: what they receive goes to a file, durably, so that it outlives their process."""

import os
from pathlib import Path
from typing import Any

LOG = "TESTS_RECEIVED"
"""Environment variable with the file's path."""


def receive(delivery: Any) -> None:
    """Write one line a call: delivery key and item."""
    with Path(os.environ[LOG]).open("a") as file:
        file.write(f"{delivery.delivery_key} {delivery.item_key}\n")
        file.flush()
        os.fsync(file.fileno())


def stumble(delivery: Any) -> None:
    """Receive, and raise at the first time that something was received."""
    first = not received(Path(os.environ[LOG]))
    receive(delivery)
    if first:
        raise RuntimeError("stumbled over token=canary-in-consumer")


def refuse(delivery: Any) -> None:
    """Receive, and say no for good."""
    from prefect_media_jobs.blocks.errors import DeliveryRefusedError  # noqa: PLC0415 - takes seconds

    receive(delivery)
    raise DeliveryRefusedError("The rights have expired.")


def received(path: Path) -> list[tuple[str, str]]:
    """Return the (delivery key, item) of every call so far."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(key, item) for key, item in (line.split(" ", 1) for line in lines)]
