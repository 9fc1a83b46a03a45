"""What the flows need of a media API, whichever it is."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime

from prefect.blocks.core import Block

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.outcomes import (
    FindOutcome,
    InspectOutcome,
    LookupOutcome,
    SubmitOutcome,
)


class MediaApi(Block, ABC):
    """A remote API that makes media files for money.

    Every question is answered with a value to match on; no answer of the API and no failure of the network
    is raised, except by ``check``. One block may be used by many threads at once.
    """

    @property
    @abstractmethod
    def width(self) -> int:
        """How many requests may be in flight at once."""

    @property
    @abstractmethod
    def send_window_s(self) -> float:
        """Longest time one ``submit`` can take, plus a margin: how far ahead the send deadline is set."""

    @abstractmethod
    def check(self) -> None:
        """Make sure that the API can be reached and accepts the key, before anything is bought.

        Raises:
            ApiKeyRefusedError: the API does not accept the key.
            ApiUnreachableError: nothing that looks like the API answers.
        Safe to repeat: yes.
        """

    @abstractmethod
    def submit(self, attempt: Attempt, may_send: Callable[[], bool]) -> SubmitOutcome:
        """Send the attempt's one request and classify by what is certain.

        Args:
            may_send: Asked right before the first byte leaves; False means that nothing may leave any more.
        Safe to repeat: no; it may be billed.
        """

    @abstractmethod
    def look_up(self, job_id: str) -> LookupOutcome:
        """Ask what became of a job.

        Safe to repeat: yes.
        """

    @abstractmethod
    def find(self, since: datetime) -> FindOutcome:
        """Read the job list, newest first, back to ``since`` and a margin for clocks.

        Args:
            since: Aware; the time the oldest request in question was sent.
        Safe to repeat: yes.
        """

    @abstractmethod
    def open_result(self, job_id: str, size_bytes: int | None) -> InspectOutcome:
        """Look at the first bytes of a finished job's file, through a fresh link.

        Args:
            size_bytes: Size the API told earlier, if it did; a figure told now counts more.
        Safe to repeat: yes.
        """

    @abstractmethod
    def close(self) -> None:
        """Close idle connections; the block can be used again afterwards."""
