"""What the outside world can answer, as values to match on.

Each stage makes one outside call, gets one of these, and decides on it (``domain.decisions``). None holds a
key; the one that holds a signed link wraps it, so that no repr, log line or pickle shows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn

from prefect_media_jobs.blocks.domain.redaction import shown_source


class Link:
    """A signed link: a secret that is shown without its query and is never pickled."""

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url = url

    def reveal(self) -> str:
        """Return the link byte for byte as the API gave it; do not store, log or return it."""
        return self._url

    def __repr__(self) -> str:
        return f"Link({shown_source(self._url)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A signed link is a secret and is not pickled; ask the media API for a fresh one.")


@dataclass(frozen=True)
class Accepted:
    """The API created a job and told its id."""

    job_id: str


@dataclass(frozen=True)
class AcceptedBatch:
    """The API expanded the source into several jobs and told the ids of all."""

    batch_id: str
    job_ids: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """The API said a definite no; nothing was created."""

    status: int
    reason: str


@dataclass(frozen=True)
class NotSent:
    """Proof that no byte of the request left this machine for the API."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """The request may have arrived, and no job id is known."""

    reason: str


SubmitOutcome = Accepted | AcceptedBatch | Refused | NotSent | Unknown


@dataclass(frozen=True)
class Running:
    """The job is queued or being worked on.

    Args:
        status: The API's word.
        step: Its finer step, if told.
        marker: File name the API echoes, if it does; None is not a contradiction.
    """

    status: str
    step: str | None = None
    marker: str | None = None


@dataclass(frozen=True)
class Succeeded:
    """The API says done.

    Args:
        link: Fresh signed link to the main file; None while the API has none.
        size_bytes: The job's own figure, the only size to check against.
        object_key: Stable key in the storage, where the API tells it.
    """

    status: str
    link: Link | None = None
    size_bytes: int | None = None
    object_key: str | None = None
    marker: str | None = None


@dataclass(frozen=True)
class Unsuccessful:
    """The job ended at the API without a result."""

    status: str
    reason: str
    marker: str | None = None


@dataclass(frozen=True)
class NotFound:
    """The API says it does not know the job."""

    reason: str


@dataclass(frozen=True)
class CouldNotAsk:
    """The question failed, so nothing is known that was not known before.

    Args:
        retry_after_s: How long the API asks to wait, in seconds, bounded; None if it did not say.
        credentials: True when the API did not accept our key: a matter of configuration, not of the job.
    """

    reason: str
    retry_after_s: float | None = None
    credentials: bool = False


@dataclass(frozen=True)
class Unrecognised:
    """The API used a status word this version does not know; the job stays open."""

    status: str
    marker: str | None = None


LookupOutcome = Running | Succeeded | Unsuccessful | NotFound | CouldNotAsk | Unrecognised


@dataclass(frozen=True)
class ListedJob:
    """One entry of the API's job list.

    Args:
        url: Source as the API lists it; not to be shown.
        marker: File name without folder and ending, where the entry tells its object key.
        created_at: When the API created it, aware UTC; None when not told.
    """

    job_id: str
    url: str = field(repr=False)
    status: str
    marker: str | None
    object_key: str | None
    created_at: datetime | None


@dataclass(frozen=True)
class JobList:
    """What a search of the job list found.

    Args:
        jobs: Newest first, each id once.
        complete: True when the list was read back to the time asked for, so that absence means something.
    """

    jobs: tuple[ListedJob, ...]
    complete: bool


FindOutcome = JobList | CouldNotAsk


@dataclass(frozen=True)
class Intact:
    """The file is really there and looks like what was bought.

    Args:
        link: Fresh signed link it was read from.
        size_bytes: Size of the whole file as the storage tells it.
        container: What the first bytes say it is ("mp4", "webm", "mp3").
    """

    link: Link
    size_bytes: int
    container: str
    object_key: str | None = None


@dataclass(frozen=True)
class LinkExpired:
    """Even a fresh link was answered with "expired"."""

    reason: str


@dataclass(frozen=True)
class FileMissing:
    """The API says done, and there is no file."""

    reason: str


@dataclass(frozen=True)
class Forbidden:
    """The storage refuses a fresh link: missing or forbidden, a person's matter."""

    reason: str


@dataclass(frozen=True)
class Damaged:
    """There is a file, and it is not what was bought: empty, truncated, an error page, another size."""

    reason: str


InspectOutcome = Intact | LinkExpired | FileMissing | Forbidden | Damaged | CouldNotAsk


@dataclass(frozen=True)
class Delivery:
    """What a consumer receives.

    Args:
        delivery_key: Stable key; the same result always comes under the same one, also when repeated.
        link: Fresh signed link to the file.
        detail: Item facts that may be shown (size in bytes, container, object key).
    """

    delivery_key: str
    item_key: str
    attempt_id: str
    job_id: str
    link: Link
    detail: Mapping[str, object]


@dataclass(frozen=True)
class Taken:
    """The application accepted the result.

    Args:
        finished: True when the downstream consumer has finished with it as well.
    """

    finished: bool


@dataclass(frozen=True)
class NotTaken:
    """The consumer said a definite no; it will not be asked again without a person."""

    reason: str


@dataclass(frozen=True)
class TakenUnknown:
    """The consumer may or may not have it; it is asked again under the same key."""

    reason: str


ConsumeOutcome = Taken | NotTaken | TakenUnknown
