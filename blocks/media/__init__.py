"""Media API blocks: who is asked to make the files."""

from prefect_media_jobs.blocks.media.api import MediaApi
from prefect_media_jobs.blocks.media.tornado import TornadoApi

__all__ = ["MediaApi", "TornadoApi"]
