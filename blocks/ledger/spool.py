"""Answers in hand that the ledger could not take: kept as files beside the worker until the next sweep.

An answer to a POST cannot be asked for again. When the ledger stays away for longer than a worker waits, the
job id is written here; it is no secret. One file an attempt, complete or not there at all.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prefect_media_jobs.blocks.domain.decisions import Facts

_REFUSED = ".refused"


@dataclass(frozen=True)
class Kept:
    """One answer that waits to be written."""

    path: Path
    attempt_id: str
    facts: Facts


class Spool:
    """The answers kept for one ledger.

    Args:
        home: Folder of this installation, such as the Prefect home.
        place: Where the ledger is, as it may be shown.
    """

    def __init__(self, home: Path, place: str) -> None:
        self.folder = home / "media-jobs-spool" / hashlib.sha256(place.encode()).hexdigest()[:16]

    def keep(self, attempt_id: str, facts: Facts) -> Path:
        """Write an answer durably and return where.

        Raises:
            OSError: it cannot be written here either.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / f"{attempt_id}.json"
        partial = path.with_suffix(f".{os.getpid()}.part")
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"attempt_id": attempt_id, "facts": facts}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return path

    def kept(self) -> Iterator[Kept]:
        """Yield what waits to be written."""
        for path in sorted(self.folder.glob("*.json")):
            told = json.loads(path.read_text(encoding="utf-8"))
            facts: Facts = told["facts"]
            if "batch_job_ids" in facts:
                facts["batch_job_ids"] = tuple(facts["batch_job_ids"])
            yield Kept(path, told["attempt_id"], facts)

    @staticmethod
    def done(kept: Kept) -> None:
        """Forget an answer that is in the ledger now."""
        kept.path.unlink(missing_ok=True)

    @staticmethod
    def set_aside(kept: Kept) -> Path:
        """Keep an answer that the ledger refuses, for a person, and return where."""
        return kept.path.rename(kept.path.with_suffix(_REFUSED))
