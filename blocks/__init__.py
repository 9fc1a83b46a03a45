"""Blocks: the ledger, the media API and the consumer, and the values they speak in.

Only what a person can save in Prefect is named here, because ``prefect block register`` takes every block it
finds; the interfaces are in ``media`` and ``consumers``.
"""

from prefect_media_jobs.blocks.consumers import CallableConsumer
from prefect_media_jobs.blocks.ledger import AttemptLedger
from prefect_media_jobs.blocks.media import TornadoApi
from prefect_media_jobs.blocks.request import MediaRequest, OutputSettings

__all__ = [
    "AttemptLedger",
    "CallableConsumer",
    "MediaRequest",
    "OutputSettings",
    "TornadoApi",
]
