"""Blocks: the ledger, the media API and the consumers, and the values they speak in."""

from prefect_media_jobs.blocks.consumers import CallableConsumer, Consumer
from prefect_media_jobs.blocks.ledger import AttemptLedger
from prefect_media_jobs.blocks.media import MediaApi, TornadoApi
from prefect_media_jobs.blocks.request import MediaRequest, OutputSettings

__all__ = [
    "AttemptLedger",
    "CallableConsumer",
    "Consumer",
    "MediaApi",
    "MediaRequest",
    "OutputSettings",
    "TornadoApi",
]
