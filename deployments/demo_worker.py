"""The demo's worker: a process of its own, so that it can really be killed, and the demo's consumer."""

import json
import os
import sys
from pathlib import Path

import httpx

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest, TornadoApi
from prefect_media_jobs.blocks.domain.outcomes import Delivery
from prefect_media_jobs.flows import process_media, submit_media

FOLDER = "MEDIA_JOBS_DEMO_FOLDER"
PLAN, DELIVERED, DELIVERIES = "plan.json", "delivered", "deliveries.jsonl"
CONSUMER = "prefect_media_jobs.deployments.demo_worker:receive"


def receive(delivery: Delivery) -> None:
    """Store a result under its item's name, and note the delivery where the demo can count it."""
    folder = Path(os.environ[FOLDER])
    target = folder / DELIVERED / f"{delivery.item_key}.{delivery.detail['container']}"
    partial = target.with_suffix(f".{delivery.delivery_key}.part")
    with httpx.stream("GET", delivery.link.reveal(), trust_env=False) as answer, partial.open("wb") as file:
        answer.raise_for_status()
        for chunk in answer.iter_bytes():
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)
    note = {"delivery_key": delivery.delivery_key, "item": delivery.item_key, "file": str(target)}
    with (folder / DELIVERIES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    """Do one worker's work: ``submit`` saves the blocks and submits, ``process`` does all the rest."""
    plan = json.loads((Path(os.environ[FOLDER]) / PLAN).read_text(encoding="utf-8"))
    requests = [MediaRequest.model_validate(request) for request in plan["requests"]]
    if sys.argv[1] == "submit":
        AttemptLedger(url=plan["ledger"]).save("media-ledger", overwrite=True)
        TornadoApi(
            base_url=plan["api"],
            api_key=plan["api_key"],
            submit_timeout_s=5,
            send_margin_s=5,
            max_in_flight=1,
        ).save("media-api", overwrite=True)
        submit_media(requests, batch_key="demo")
    else:
        process_media(requests, consumer=CONSUMER, batch_key="demo", follow_for_s=90)


if __name__ == "__main__":
    main()
