"""A ledger with a little of everything, and the command line run in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest
from prefect_media_jobs.blocks.domain.decisions import decide_submission
from prefect_media_jobs.blocks.domain.outcomes import Refused, Unknown
from prefect_media_jobs.deployments.cli import main

LONG = "a" * 150
SOURCE = "https://user:canary@media.example.org/raw/42.mov?token=canary-in-source"


@dataclass(frozen=True)
class Shown:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What was printed, read as JSON."""
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEDIA_JOBS_LEDGER_URL", "MEDIA_JOBS_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    """Run a command in this process."""

    def runner(*words: str) -> Shown:
        capsys.readouterr()
        code = main(words)
        return Shown(code, *capsys.readouterr())

    return runner


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of a ledger: one submitted, one uncertain, one rejected in a batch; one long id only recorded."""
    url = f"sqlite:///{tmp_path_factory.mktemp('filled') / 'ledger.db'}"
    book = AttemptLedger(url=SecretStr(url))

    def begun(item_key: str) -> Any:
        return book.begin_attempt(MediaRequest(item_key=item_key, source=SOURCE), batch_key="spring")

    book.remember_job(begun("submitted").attempt_id, "job-1")
    book.apply(begun("uncertain"), decide_submission(Unknown("The connection broke in the Straße.")))
    book.apply(begun("rejected"), decide_submission(Refused(400, "no such source")))
    book.record_attempts([MediaRequest(item_key="long", source=SOURCE, attempt_id=LONG)])
    book.close()
    return url


@pytest.fixture
def empty_url(tmp_path: Path) -> str:
    """URL of a ledger that does not exist."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"
