"""A consumer that is a Python function, named by its import path."""

import importlib
from collections.abc import Callable
from typing import ClassVar

from pydantic import Field, HttpUrl

from prefect_media_jobs.blocks.consumers.api import Consumer
from prefect_media_jobs.blocks.domain.outcomes import ConsumeOutcome, Delivery, NotTaken, Taken, TakenUnknown
from prefect_media_jobs.blocks.domain.redaction import redact
from prefect_media_jobs.blocks.errors import ConsumerError, DeliveryRefusedError


class CallableConsumer(Consumer):
    """Hands each result to a Python function.

    The function gets a ``Delivery`` (delivery key, item, fresh link). When it returns, the result counts as
    accepted and finished; when it raises, it is called again later under the same key; when it raises
    ``DeliveryRefusedError``, a person has to decide.

    Attributes:
        target: Import path of the function.
        timeout_s: How long one call may take.

    Example:
        Name the function that shall receive results:
        ```python
        from prefect_media_jobs.blocks import CallableConsumer

        consumer = CallableConsumer.load("BLOCK_NAME")
        ```
    """

    _block_type_name: ClassVar[str] = "Media Callable Consumer"
    _block_type_slug: ClassVar[str] = "media-callable-consumer"
    _description: ClassVar[str] = "A Python function that receives finished media results."
    _logo_url: ClassVar[HttpUrl | None] = HttpUrl(
        "https://raw.githubusercontent.com/PrefectHQ/prefect/main/docs/logos/logo.png"
    )
    _documentation_url: ClassVar[HttpUrl | None] = HttpUrl("https://docs.prefect.io/v3/concepts/blocks")

    target: str = Field(
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$",
        description="Import path of the function, such as team.publishing:receive.",
    )
    timeout_s: float = Field(
        default=600.0,
        gt=0,
        description="After so many seconds without a return the result may be offered again.",
    )

    @property
    def window_s(self) -> float:
        """How long one call may take, in seconds."""
        return self.timeout_s

    def check(self) -> None:
        """Make sure the function can be imported and called.

        Raises:
            ConsumerError: it cannot.
        """
        self._function()

    def consume(self, delivery: Delivery) -> ConsumeOutcome:
        """Call the function with one result.

        Safe to repeat: yes, under the same delivery key; the function must act once per key.
        """
        function = self._function()
        try:
            function(delivery)
        except DeliveryRefusedError as error:
            return NotTaken(redact(str(error)) or "The consumer refused it without a reason.")
        except Exception as error:  # noqa: BLE001 - whatever a team's function raises, the result stays theirs
            return TakenUnknown(f"{self.target} raised {type(error).__name__}: {redact(str(error))}")
        return Taken(finished=True)

    def _function(self) -> Callable[[Delivery], object]:
        module_name, _, path = self.target.partition(":")
        try:
            found: object = importlib.import_module(module_name)
            for name in path.split("."):
                found = getattr(found, name)
        except (ImportError, AttributeError) as error:
            raise ConsumerError(
                f"The consumer {self.target} cannot be imported ({redact(str(error))}); "
                "check the path and where the worker runs."
            ) from None
        if not callable(found):
            raise ConsumerError(f"The consumer {self.target} is not a function.")
        return found
