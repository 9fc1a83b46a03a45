"""The Tornado API, a media download and transcode service."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, HttpUrl, PrivateAttr, SecretStr

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.inspection import Sound
from prefect_media_jobs.blocks.domain.outcomes import (
    CouldNotAsk,
    FileMissing,
    FindOutcome,
    InspectOutcome,
    Intact,
    LinkExpired,
    LookupOutcome,
    NotFound,
    SubmitOutcome,
    Succeeded,
    Unsuccessful,
)
from prefect_media_jobs.blocks.errors import ApiKeyRefusedError, ApiUnreachableError
from prefect_media_jobs.blocks.media.api import MediaApi
from prefect_media_jobs.blocks.media.asking import Asker
from prefect_media_jobs.blocks.media.clients import Clients
from prefect_media_jobs.blocks.media.listing import read_list
from prefect_media_jobs.blocks.media.sending import Submission
from prefect_media_jobs.blocks.media.storage import Peek
from prefect_media_jobs.blocks.media.wire import read_page

_UNSENDABLE = re.compile(r"[^\x21-\x7e]")


def _base_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must begin with http:// or https:// and name a host")
    if "@" in parts.netloc or "?" in text or "#" in text:
        raise ValueError("must not contain a user, a query or a fragment")
    if _UNSENDABLE.search(text) or parts.port == 0:
        raise ValueError("must not contain blanks or other characters that cannot be sent")
    return text.rstrip("/")


def _api_key(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value() or _UNSENDABLE.search(secret.get_secret_value()):
        raise ValueError("must not be empty, and must not contain blanks or line ends")
    return secret


_Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class TornadoApi(MediaApi):
    """Buys media jobs from the Tornado API, asks about them and looks at their files.

    Example:
        Load the block and make sure that it works:

        ```python
        from prefect_media_jobs.blocks import TornadoApi

        api = TornadoApi.load("media-api")
        api.check()
        ```
    """

    _block_type_name: ClassVar[str] = "Tornado API"
    _block_type_slug: ClassVar[str] = "tornado-api"
    _description: ClassVar[str] = (
        "Buys media jobs from the Tornado API, asks about them and looks at their files."
    )
    _documentation_url: ClassVar[HttpUrl] = HttpUrl("https://docs.tornadoapi.io/api-reference/introduction")
    _logo_url: ClassVar[HttpUrl] = HttpUrl(
        "https://raw.githubusercontent.com/PrefectHQ/prefect/420d0d6a78bb6df1fc18bcf188fdad43c1d22ea9/assets/block-logos/webhook.png"
    )

    # A refused value may be the key.
    model_config: ClassVar[ConfigDict] = ConfigDict(hide_input_in_errors=True)

    base_url: Annotated[str, AfterValidator(_base_url)] = Field(
        default="https://api.tornadoapi.io",
        title="Base URL",
        description="Where the API is, such as https://api.tornadoapi.io.",
    )
    api_key: Annotated[SecretStr, AfterValidator(_api_key)] = Field(
        title="API key", description="Key of the account that pays."
    )
    connect_timeout_s: _Seconds = Field(
        default=10.0, title="Connect time-out", description="Seconds to wait for a connection."
    )
    submit_timeout_s: _Seconds = Field(
        default=150.0,
        title="Submit time-out",
        description="Seconds to wait for the answer to a submission; shows are taken apart within it.",
    )
    send_margin_s: _Seconds = Field(
        default=30.0,
        title="Send margin",
        description="Seconds after the longest submission until a silent sender counts as gone.",
    )
    lookup_timeout_s: _Seconds = Field(
        default=30.0, title="Lookup time-out", description="Seconds to wait for the answer to a question."
    )
    max_in_flight: int = Field(
        default=16,
        ge=1,
        le=256,
        title="Requests in flight",
        description="Most requests to have open at once.",
    )
    honours_idempotency_key: bool = Field(
        default=False,
        title="Honours idempotency key",
        description="Set it only if the API promises to answer a repeated key with the first job.",
    )
    job_id_field: str = Field(
        default="job_id",
        min_length=1,
        title="Job id field",
        description="Where the answer to a submission tells the job id: a field, or a path like data.0.id.",
    )
    max_list_pages: int = Field(
        default=50,
        ge=1,
        le=1000,
        title="List pages",
        description="Most pages of the job list to read in a search.",
    )
    max_body_bytes: int = Field(
        default=4 * 1024 * 1024,
        ge=1024,
        le=256 * 1024 * 1024,
        title="Largest answer",
        description="Most bytes to read of one answer.",
    )

    _clients: Clients = PrivateAttr(default_factory=Clients)

    @property
    def width(self) -> int:
        """How many requests may be in flight at once."""
        return self.max_in_flight

    @property
    def send_window_s(self) -> float:
        """Longest time one ``submit`` can take, plus a margin."""
        return self.connect_timeout_s + self.submit_timeout_s + self.send_margin_s

    def check(self) -> None:
        """Ask for one entry of the job list, before anything is bought."""
        asker = self._asker()
        answer = asker.ask("/jobs?limit=1")
        if isinstance(answer, CouldNotAsk):
            if answer.credentials:
                raise ApiKeyRefusedError(f"{answer.reason} Put a valid key into the block's api_key field.")
            raise ApiUnreachableError(f"{answer.reason} Check the block's base_url, or try again later.")
        try:
            usable = answer.is_success and read_page(answer) is not None
        except ValueError:
            usable = False
        if not usable:
            raise ApiUnreachableError(
                f"{asker.host} answered HTTP {answer.status} without a job list, so it does not seem to be "
                "the media API; check the block's base_url."
            )

    def submit(self, attempt: Attempt, may_send: Callable[[], bool]) -> SubmitOutcome:
        """Send the attempt's one request and classify by what is certain."""
        submission = Submission(
            clients=self._clients,
            url=f"{self.base_url}/jobs",
            api_key=self.api_key.get_secret_value(),
            connect_timeout_s=self.connect_timeout_s,
            timeout_s=self.submit_timeout_s,
            job_id_field=self.job_id_field,
            cap_bytes=self.max_body_bytes,
        )
        return submission.send(attempt, may_send)

    def look_up(self, job_id: str) -> LookupOutcome:
        """Ask what became of a job."""
        return self._asker().look_up(job_id)

    def find(self, since: datetime) -> FindOutcome:
        """Read the job list, newest first, back to ``since`` and a margin for clocks."""
        return read_list(self._asker().ask, since, self.max_list_pages)

    def open_result(self, job_id: str, size_bytes: int | None) -> InspectOutcome:
        """Look at the first bytes of a finished job's file; an expired link is renewed once."""
        outcome = self._inspect(job_id, size_bytes)
        return self._inspect(job_id, size_bytes) if isinstance(outcome, LinkExpired) else outcome

    def _inspect(self, job_id: str, size_bytes: int | None) -> InspectOutcome:
        found = self.look_up(job_id)
        if isinstance(found, Succeeded):
            return self._look_at(found, size_bytes)
        if isinstance(found, CouldNotAsk):
            return found
        if isinstance(found, NotFound):
            return CouldNotAsk(found.reason)
        reason = f", {found.reason}" if isinstance(found, Unsuccessful) else ""
        return CouldNotAsk(f"The API no longer says done, but {found.status}{reason}.")

    def _look_at(self, found: Succeeded, size_bytes: int | None) -> InspectOutcome:
        if found.link is None:
            return FileMissing("The API says done and gives no link.")
        peek = Peek(self._clients, self.connect_timeout_s, self.lookup_timeout_s)
        verdict = peek.look(found.link, found.size_bytes or size_bytes)
        if isinstance(verdict, Sound):
            return Intact(found.link, verdict.size_bytes, verdict.container, found.object_key)
        return verdict

    def close(self) -> None:
        """Close idle connections; the block can be used again afterwards."""
        self._clients.close()

    def _asker(self) -> Asker:
        return Asker(
            clients=self._clients,
            base_url=self.base_url,
            api_key=self.api_key.get_secret_value(),
            connect_timeout_s=self.connect_timeout_s,
            timeout_s=self.lookup_timeout_s,
            cap_bytes=self.max_body_bytes,
        )
