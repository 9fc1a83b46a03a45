"""Flows: submitting, recovering, handing over, and all of it in one."""

from prefect_media_jobs.flows.handoff import hand_off_media
from prefect_media_jobs.flows.processing import process_media
from prefect_media_jobs.flows.recovery import recover_media
from prefect_media_jobs.flows.submission import submit_media

__all__ = ["hand_off_media", "process_media", "recover_media", "submit_media"]
