"""What a worker of the crash tests does: one order, with the flows' own code, until it ends or is killed."""

import fcntl
import os
import signal
import traceback
from collections.abc import Callable
from concurrent.futures import wait
from datetime import timedelta
from pathlib import Path
from typing import Any

# Imported here once for all workers, which need it for a new ledger.
import alembic.command
import alembic.config  # noqa: F401
import pytest
from prefect.utilities.engine import capture_sigterm

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest, TornadoApi
from prefect_media_jobs.blocks.domain.attempt import Action
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.ledger import Scope, database
from prefect_media_jobs.flows import handoff, processing, recovery, steps, submission
from tests.support import receiving
from tests.support.certificates import read_none
from tests.support.killing import Point, Reaper
from tests.support.passing_time import make_due
from tests.support.without_prefect import use_blocks

CONSUMER = f"{receiving.__name__}:{receiving.receive.__name__}"
NAMES = ("media-ledger", "media-api")
ROUNDS = 200
MOVING = {State.RECORDED, State.SENDING, State.SUBMITTED, State.COMPLETED}

Order = dict[str, Any]


def run(order: Order) -> dict[str, Any]:
    """Carry out one order and tell what it took."""
    point = order.get("point")
    reaper = Reaper(Point(*point) if point else None)
    reaper.watch()
    read_none(pytest.MonkeyPatch())
    os.environ[receiving.LOG] = order["received"]
    ledger, api = AttemptLedger(url=f"sqlite:///{order['ledger']}"), TornadoApi(**order["api"])
    use_blocks(ledger, api)
    if (patience_s := order.get("patience_s")) is not None:
        steps.WRITE_PATIENCE_S = database.BUSY_S = patience_s
    if gate := order.get("gate"):
        _announce(order["marks"], "waiting")
        with Path(gate).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
    told: dict[str, Any] = {"ended": "returned"}
    try:
        state = JOBS[order["do"]](order, ledger, api)
        told["state"] = getattr(state, "name", None)
        told["message"] = getattr(state, "message", None)
    except BaseException as error:  # noqa: BLE001 - the test is told, whatever it was
        told = {"ended": type(error).__name__, "trace": traceback.format_exc()}
    return told | {"counts": reaper.counts}


def _submit(order: Order, _ledger: AttemptLedger, _api: TornadoApi) -> Any:
    return submission.submit_media.fn(_requests(order), *NAMES, order.get("batch_key"))


def _submit_as_prefect_stops_it(order: Order, ledger: AttemptLedger, api: TornadoApi) -> Any:
    """Submit with Prefect's own handler of SIGTERM, and mark when what had not begun is given up."""

    def marking(futures: Any) -> Any:
        _announce(order["marks"], "given-up")
        return wait(futures)

    steps.wait = marking
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with capture_sigterm():
        return _submit(order, ledger, api)


def _process(order: Order, _ledger: AttemptLedger, _api: TornadoApi) -> Any:
    return processing.process_media.fn(_requests(order), *NAMES, CONSUMER, None, order.get("follow_for_s", 0))


def _stage(action: Action) -> Callable[[Order, AttemptLedger, TornadoApi], None]:
    """Return the one stage of a sweep that does this."""

    def stage(_order: Order, ledger: AttemptLedger, api: TornadoApi) -> None:
        sweep = recovery.Sweep(ledger, api, Scope(api=NAMES[1]), timedelta(days=1), 1000)
        match action:
            case Action.SUBMIT:
                sweep._submit()
            case Action.RECONCILE:
                sweep._stage(action, recovery.reconcile_page)
            case Action.LOOKUP:
                sweep._stage(action, sweep._look_up)
            case _:
                sweep._stage(action, recovery.inspect_page)

    return stage


def _hand_off(_order: Order, _ledger: AttemptLedger, _api: TornadoApi) -> Any:
    return handoff.hand_off_media.fn(NAMES[0], CONSUMER, NAMES[1])


def _take_kept_answers(_order: Order, ledger: AttemptLedger, _api: TornadoApi) -> None:
    ledger.take_kept_answers()


def _recover(order: Order, ledger: AttemptLedger, _api: TornadoApi) -> None:
    """Sweep and hand over, again and again, until nothing changes any more."""
    before = None
    for _ in range(ROUNDS):
        recovery.recover_media.fn(*NAMES)
        handoff.hand_off_media.fn(NAMES[0], CONSUMER, NAMES[1])
        attempts = [(each.attempt_id, each.state) for each in ledger.list_attempts()]
        after = attempts, [(each.delivery_key, each.state) for each in ledger.handoffs()]
        if after == before and not any(state in MOVING for _, state in attempts):
            return
        before = after
        make_due(order["ledger"])
    raise AssertionError(f"not quiet after {ROUNDS} sweeps: {before}")


def _requests(order: Order) -> list[MediaRequest]:
    return [MediaRequest(**each) for each in order["requests"]]


def _announce(folder: str, what: str) -> None:
    Path(folder, f"{what}-{os.getpid()}").touch()


JOBS: dict[str, Callable[[Order, AttemptLedger, TornadoApi], Any]] = {
    "submit": _submit,
    "submit until stopped": _submit_as_prefect_stops_it,
    "process": _process,
    "send what is recorded": _stage(Action.SUBMIT),
    "reconcile": _stage(Action.RECONCILE),
    "take kept answers": _take_kept_answers,
    "look up": _stage(Action.LOOKUP),
    "inspect": _stage(Action.INSPECT),
    "hand off": _hand_off,
    "recover": _recover,
}
