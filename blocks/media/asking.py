"""Questions to the API: one GET each, whose failure says nothing about any job."""

from dataclasses import dataclass
from time import monotonic
from urllib.parse import quote, urlsplit

import httpx

from prefect_media_jobs.blocks.domain.outcomes import CouldNotAsk, LookupOutcome, NotFound
from prefect_media_jobs.blocks.media.answers import HTTP_ERRORS, Answer, answered, read_answer
from prefect_media_jobs.blocks.media.clients import Clients, exact_request
from prefect_media_jobs.blocks.media.hiding import Hider
from prefect_media_jobs.blocks.media.wire import read_job

_REFUSED_KEY = frozenset({401, 403})
_NOT_FOUND = 404


@dataclass(frozen=True)
class Asker:
    """How to ask.

    Args:
        timeout_s: From the start to the last byte, connecting not included.
    """

    clients: Clients
    base_url: str
    api_key: str
    connect_timeout_s: float
    timeout_s: float
    cap_bytes: int

    @property
    def host(self) -> str:
        """The API's host, as it is named in messages."""
        return urlsplit(self.base_url).netloc

    def ask(self, path: str) -> Answer | CouldNotAsk:
        """Send one GET; ``CouldNotAsk`` unless it was answered whole with 2xx or 404.

        Args:
            path: Below the base URL, encoded already; sent as it is.
        """
        hide = Hider([self.api_key])
        deadline = monotonic() + self.connect_timeout_s + self.timeout_s
        timeout = httpx.Timeout(self.timeout_s, connect=self.connect_timeout_s)
        headers = {"Accept": "application/json", "x-api-key": self.api_key}
        try:
            client = self.clients.here().ask
            request = exact_request(f"{self.base_url}{path}", headers, timeout)
            with answered(client, request) as response:
                answer = read_answer(response, self.cap_bytes, deadline)
        except HTTP_ERRORS as error:
            return CouldNotAsk(hide(f"{self.host} did not answer ({type(error).__name__}: {error})."))
        return self._judge(answer, hide)

    def _judge(self, answer: Answer, hide: Hider) -> Answer | CouldNotAsk:
        wait_s = answer.retry_after_s()
        if answer.fault is not None:
            return CouldNotAsk(
                f"{self.host} answered HTTP {answer.status}, and the body is {answer.fault}.", wait_s
            )
        if answer.from_between:
            page = answer.excerpt(hide)
            return CouldNotAsk(
                f"Something before {self.host} answered HTTP {answer.status} ({page}).", wait_s
            )
        if answer.is_success or answer.status == _NOT_FOUND:
            return answer
        told = answer.explanation(hide)
        if answer.status in _REFUSED_KEY:
            return CouldNotAsk(
                f"{self.host} does not accept the API key of the block (HTTP {answer.status}: {told}); "
                "this is about the key, not about the job.",
                wait_s,
                credentials=True,
            )
        return CouldNotAsk(f"{self.host} answered HTTP {answer.status}: {told}", wait_s)

    def look_up(self, job_id: str) -> LookupOutcome:
        """Ask what became of a job."""
        # Servers and proxies resolve these, encoded or not, so that something else would be asked for.
        if job_id.strip(".") == "":
            return CouldNotAsk(
                f"A job id of {job_id!r} cannot be asked about: it is not a name in an address."
            )
        try:
            path = f"/jobs/{quote(job_id, safe='')}"
        except UnicodeEncodeError:
            return CouldNotAsk("The job id contains characters that cannot be sent.")
        answer = self.ask(path)
        if isinstance(answer, CouldNotAsk):
            return answer
        hide = Hider([self.api_key])
        if answer.status == _NOT_FOUND:
            return NotFound(f"{self.host} does not know the job (HTTP 404: {answer.explanation(hide)}).")
        try:
            told = answer.json()
        except ValueError:
            return CouldNotAsk(
                f"{self.host} answered without JSON ({answer.excerpt(hide)}).", answer.retry_after_s()
            )
        source = told.get("url") if isinstance(told, dict) else None
        return read_job(job_id, told, Hider([self.api_key], [source if isinstance(source, str) else None]))
