"""Who receives results."""

from prefect_media_jobs.blocks.consumers.api import Consumer
from prefect_media_jobs.blocks.consumers.callable import CallableConsumer

__all__ = ["CallableConsumer", "Consumer"]
