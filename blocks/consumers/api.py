"""The interface of a consumer, and how one is found by the name a flow was given."""

from abc import ABC, abstractmethod

from prefect.blocks.core import Block

from prefect_media_jobs.blocks.domain.outcomes import ConsumeOutcome, Delivery


class Consumer(Block, ABC):
    """Receives results, each under a stable delivery key."""

    @property
    @abstractmethod
    def window_s(self) -> float:
        """How long one call may take, in seconds; after that another worker may offer the result again."""

    @abstractmethod
    def check(self) -> None:
        """Make sure the consumer can be called, before anything is handed over.

        Raises:
            ConsumerError: it cannot; the sentence says what to do.
        """

    @abstractmethod
    def consume(self, delivery: Delivery) -> ConsumeOutcome:
        """Give one result to the consumer.

        Safe to repeat: yes, under the same delivery key; the consumer must act once per key.
        """
