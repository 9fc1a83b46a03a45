"""The wire contract: from an answer of the API to an outcome. Pure; nothing is asked here.

Source: remote API reference, "Jobs"; where its versions disagree, only what holds in all of them is used.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from prefect_media_jobs.blocks.domain import outcomes as o
from prefect_media_jobs.blocks.domain.matching import marker_in_key
from prefect_media_jobs.blocks.domain.redaction import clean
from prefect_media_jobs.blocks.media.answers import Answer
from prefect_media_jobs.blocks.media.hiding import Hider

REFUSALS = frozenset({400, 401, 402, 403, 422, 429})
"""Statuses that say a definite no to a new job. Not among them are those that also a request which did create
a job can get: 404 and 405 from a router, 408 and 504 from a gateway, 409 for a duplicate.

Source: remote API reference, "Status codes"; RFC 9110, section 15.5, for 402.
"""
_BATCH_LISTS = ("episode_jobs", "video_jobs")
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_STATUS_CHARACTERS = 80
_EARLIEST_MS = 1e11
"""Epoch figures below this are seconds: in milliseconds they would lie in 1973 and before."""

_EPOCH_DIGITS = 9
"""So many digits in a row are a figure, although ISO 8601 would allow to read a date into them."""


def usable_id(value: object) -> str | None:
    """Return an id as opaque text, exactly as received; None when it cannot be one.

    A whole number counts, because APIs write the same id as a number on one call and as text on the next.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip() or _UNUSABLE.search(value):
        return None
    return value


def read_submission(answer: Answer, job_id_field: str, hide: Hider) -> o.SubmitOutcome:
    """Classify the answer to the one POST by what is certain."""
    if answer.is_success:
        return _read_creation(answer, job_id_field, hide)
    if answer.fault is None and answer.status in REFUSALS and not answer.from_between:
        return o.Refused(answer.status, answer.explanation(hide))
    return o.Unknown(f"HTTP {answer.status} ({_described(answer, hide)}).")


def _read_creation(answer: Answer, job_id_field: str, hide: Hider) -> o.SubmitOutcome:
    """Look for the id. One that was read whole counts, even if the connection broke right behind it."""
    try:
        told = answer.json()
    except ValueError:
        told = None
    if isinstance(told, dict):
        batch_id, job_ids = usable_id(told.get("batch_id")), _batch_jobs(told)
        job_id = usable_id(_at(told, job_id_field))
        if batch_id is not None and job_ids is not None and (job_ids or job_id is None):
            return o.AcceptedBatch(batch_id, job_ids)
        if job_id is not None:
            return o.Accepted(job_id)
    return o.Unknown(f"HTTP {answer.status} without a usable job id ({_described(answer, hide)}).")


def _described(answer: Answer, hide: Hider) -> str:
    excerpt = answer.excerpt(hide)
    return excerpt if answer.fault is None else f"body {answer.fault}; {excerpt}"


def _batch_jobs(told: Mapping[str, object]) -> tuple[str, ...] | None:
    """Return the ids of a batch's jobs; None when the answer has no list of them."""
    lists = [value for name in _BATCH_LISTS if isinstance(value := told.get(name), list)]
    if not lists:
        return None
    ids = (usable_id(value) for found in lists for value in found)
    return tuple(dict.fromkeys(job_id for job_id in ids if job_id is not None))


def _at(told: object, path: str) -> object:
    """Return the value at a dotted path such as ``operations.0.name``; None when there is none."""
    for step in path.split("."):
        if isinstance(told, dict):
            told = told.get(step)
        elif isinstance(told, list) and step.isdecimal() and int(step) < len(told):
            told = told[int(step)]
        else:
            return None
    return told


def read_job(job_id: str, told: object, hide: Hider) -> o.LookupOutcome:
    """Classify the parsed body of a job's status."""
    if not isinstance(told, dict):
        return o.CouldNotAsk("The API's answer is not a job.")
    answered_id = usable_id(told.get("id"))
    if answered_id is not None and answered_id != job_id:
        return o.CouldNotAsk("The API answered about another job than the one asked for.")
    word = told.get("status")
    if not isinstance(word, str) or not word.strip():
        return o.CouldNotAsk("The API's answer has no status.")
    return _read_status(word, told, hide)


def _read_status(word: str, told: Mapping[str, object], hide: Hider) -> o.LookupOutcome:
    status, marker = hide(word, _STATUS_CHARACTERS), _text(told.get("filename"))
    match word.strip().casefold():
        case "pending" | "processing":
            step = told.get("step")
            shown = hide(step, _STATUS_CHARACTERS) if isinstance(step, str) and step.strip() else None
            return o.Running(status, shown, marker)
        case "completed":
            link, key = _link(told.get("s3_url")), _key(told.get("s3_key"))
            return o.Succeeded(status, link, _size_bytes(told.get("file_size")), key, marker)
        case "failed" | "warning" | "skipped":
            return o.Unsuccessful(status, _why_ended(told, hide), marker)
        case _:
            return o.Unrecognised(status, marker)


def _why_ended(told: Mapping[str, object], hide: Hider) -> str:
    texts = [told.get(name) for name in ("error", "error_type", "step")]
    main, *rest = [text for text in texts if isinstance(text, str) and text] or ["no reason given"]
    more = f" ({', '.join(rest)})" if rest else ""
    return hide(f"{main}{more}")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value and not _UNUSABLE.search(value) else None


def _size_bytes(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _link(value: object) -> o.Link | None:
    if isinstance(value, str) and value.lower().startswith(("http://", "https://")):
        return o.Link(value)
    return None


def _key(value: object) -> str | None:
    """Return an object key; a link in its place is a secret and is dropped."""
    key = _text(value)
    return None if key is None or "://" in key else key


def read_page(answer: Answer) -> list[object]:
    """Return the entries of one page of the job list.

    Raises:
        ValueError: the answer is not a job list.
    """
    told = answer.json()
    entries = told.get("jobs") if isinstance(told, dict) else told
    if not isinstance(entries, list):
        raise ValueError("the answer is not a job list")  # noqa: TRY004 (the text is wrong, not a type of ours)
    return entries


def read_entry(entry: object) -> o.ListedJob | None:
    """Return one entry of the job list; None when it has no usable id."""
    job_id = usable_id(entry.get("id")) if isinstance(entry, dict) else None
    if job_id is None or not isinstance(entry, dict):
        return None
    key = _key(entry.get("s3_key"))
    return o.ListedJob(
        job_id=job_id,
        url=_text(entry.get("url")) or "",
        status=clean(_text(entry.get("status")) or "", _STATUS_CHARACTERS),
        marker=marker_in_key(key) or _text(entry.get("filename")),
        object_key=key,
        created_at=read_instant(entry.get("created_at")),
    )


def read_instant(value: object) -> datetime | None:
    """Return an instant as aware UTC: epoch milliseconds or seconds, or ISO 8601 with or without a zone."""
    if isinstance(value, str) and value.isdecimal() and len(value) >= _EPOCH_DIGITS:
        value = int(value[:20])
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value.strip())
            return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = value if abs(value) < _EARLIEST_MS else value / 1000
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
