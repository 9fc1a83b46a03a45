"""Values that the tests of several folders start from."""

from datetime import UTC, datetime
from typing import Any

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.request import MediaRequest

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
SOURCE = "https://media.example.org/raw/42.mov?token=canary-in-source"


def an_attempt(**changes: Any) -> Attempt:
    """Return an attempt that was submitted as job ``j-1`` just now, changed as told."""
    values: dict[str, Any] = {
        "attempt_id": "episode-42-attempt-1",
        "item_key": "episode-42",
        "request_key": "0" * 64,
        "source": SOURCE,
        "settings": {},
        "edition": None,
        "batch_key": None,
        "api": "media-api",
        "state": State.SUBMITTED,
        "version": 3,
        "job_id": "j-1",
        "batch_id": None,
        "batch_job_ids": (),
        "grounds": None,
        "replaces": None,
        "superseded_by": None,
        "closed_from": None,
        "twin": False,
        "remote_status": None,
        "reason": None,
        "lookups": 0,
        "failures": 0,
        "not_found_count": 0,
        "not_found_since": None,
        "size_bytes": None,
        "object_key": None,
        "asked_at": NOW,
        "sent_at": NOW,
        "send_deadline": NOW,
        "changed_at": NOW,
        "due_at": NOW,
        "leased_by": None,
        "leased_until": None,
    }
    return Attempt(**values | changes)


def a_request(item_key: str = "episode-42", **fields: Any) -> MediaRequest:
    """Return a request for an item, with a source that carries a secret."""
    return MediaRequest(**{"item_key": item_key, "source": SOURCE} | fields)
