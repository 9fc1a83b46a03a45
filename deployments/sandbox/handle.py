"""Control a running sandbox, in this process or another one, over its own switches."""

from types import TracebackType
from typing import Self, TypedDict, Unpack

import httpx
from pydantic import JsonValue

from prefect_media_jobs.deployments.sandbox.bill import Bill, RequestKind
from prefect_media_jobs.deployments.sandbox.errors import SandboxError
from prefect_media_jobs.deployments.sandbox.misbehaviour import ActiveMisbehaviour, MisbehaviourKind

TIMEOUT_S = 10


class MisbehaviourOptions(TypedDict, total=False):
    """What an order can say beside its kind; told at ``Misbehaviour`` and at the kinds."""

    times: int | None
    target: RequestKind | str
    job_id: str
    source: str
    seconds: float
    status: int
    word: str
    body: JsonValue
    error: str
    error_type: str
    retry_after: str | int
    html: bool
    accept: bool
    code: str
    size_bytes: int


class SandboxHandle:
    """A running sandbox.

    Args:
        url: Base URL of the API.
        api_key: The key it accepts; follows ``rotate_key``.
    """

    def __init__(self, url: str, api_key: str) -> None:
        self.url = url
        self.api_key = api_key
        self._client = httpx.Client(base_url=f"{url}/_sandbox", timeout=TIMEOUT_S, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the switches; the sandbox goes on."""
        self._client.close()

    def bill(self) -> Bill:
        """Return what a bill would count so far."""
        return Bill.model_validate_json(self._call("GET", "/bill").content)

    def misbehave(self, kind: MisbehaviourKind | str, **options: Unpack[MisbehaviourOptions]) -> None:
        """Order one kind of misbehaviour for the next fitting request, or for the next ``times``."""
        self._call("POST", "/misbehave", {"kind": kind, **options})

    def misbehaviours(self) -> list[ActiveMisbehaviour]:
        """Return the orders that still have something left."""
        orders: list[object] = self._call("GET", "/misbehave").json()
        return [ActiveMisbehaviour.model_validate(order) for order in orders]

    def clear(self) -> None:
        """Drop all orders; what is held back stays so until the release."""
        self._call("DELETE", "/misbehave")

    def release(self) -> None:
        """Let go of held answers and stalled jobs."""
        self._call("POST", "/release")

    def forget(self, job_id: str) -> None:
        """Lose a job, so that lookups of it answer 404; it stays on the bill."""
        self._call("POST", f"/jobs/{job_id}/forget")

    def delete_file(self, job_id: str) -> None:
        """Lose a finished job's file, while the job still believes to have it."""
        self._call("POST", f"/jobs/{job_id}/delete-file")

    def rotate_key(self, key: str | None = None) -> str:
        """Change the API key, to a random one if none is given, and return it."""
        answer = self._call("POST", "/rotate-key", {} if key is None else {"key": key})
        self.api_key = str(answer.json()["api_key"])
        return self.api_key

    def expire_links(self) -> None:
        """Let every link signed so far count as expired; new ones are good."""
        self._call("POST", "/expire-links")

    def _call(self, method: str, path: str, data: object = None) -> httpx.Response:
        try:
            answer = self._client.request(method, path, json=data)
        except httpx.HTTPError as error:
            raise SandboxError(
                f"The sandbox at {self.url} does not answer ({type(error).__name__})."
            ) from error
        if not answer.is_success:
            raise SandboxError(f"The sandbox refused {method} {path}: {answer.text[:500]}")
        return answer
