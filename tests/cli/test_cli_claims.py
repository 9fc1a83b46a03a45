"""Who holds what."""

from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest
from tests.cli.conftest import Shown


def test_status_shows_who_holds_what_until_when(run: Callable[..., Shown], tmp_path: Path) -> None:
    """``status --claims`` names each leased attempt, its holder and the lease's end, and nothing else."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    book = AttemptLedger(url=SecretStr(url))
    book.record_attempts([MediaRequest(item_key=key, source="/x") for key in ("a", "b")])
    (held,) = book.claim_due(["submit"], limit=1)
    expected = {"attempt_id": held.attempt_id, "leased_by": held.leased_by}
    (shown,) = run("status", "--claims", "--url", url, "--json").data["claims"]
    assert expected == {name: shown[name] for name in expected}
    told = run("status", "--claims", "--url", url)
    assert (0, True, True) == (told.code, held.attempt_id in told.out, str(held.leased_by) in told.out)
    book.close()


def test_a_ledger_nobody_works_on_says_so(run: Callable[..., Shown], filled: str) -> None:
    """Where nothing is leased, ``status --claims`` says that nobody holds anything."""
    told = run("status", "--claims", "--url", filled)
    assert (0, True) == (told.code, "Nobody holds anything." in told.out)
