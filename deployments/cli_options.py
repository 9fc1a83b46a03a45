"""Options that belong together; imports nothing that takes long."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

EXISTING_FILE = validators.Path(exists=True, file_okay=True, dir_okay=False)
_EXISTING_FOLDER = validators.Path(exists=True, file_okay=False, dir_okay=True)


@Parameter(name="*")
@dataclass(frozen=True)
class LedgerChoice:
    """Which ledger a command works on; the URL in the environment counts unless one is named."""

    ledger: str | None = None
    """Name of the ledger block in Prefect. Left out: MEDIA_JOBS_LEDGER_URL if it is set, or media-ledger."""
    url: str | None = None
    """URL of the ledger itself; Prefect is not asked. A URL with a password belongs in the environment."""


@Parameter(name="*")
@dataclass(frozen=True)
class SandboxChoice:
    """What a sandbox is started with."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65_535))] = 0
    """Port to listen on; 0 for any free one."""
    folder: Annotated[Path | None, Parameter(validator=validators.Path(file_okay=False))] = None
    """Where it keeps its files. Left out, a new folder under the system's temporary one."""
    allow_folder: Annotated[
        tuple[Path, ...], Parameter(consume_multiple=True, validator=_EXISTING_FOLDER)
    ] = ()
    """Folders whose files may be sources."""
    allow_host: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    """Hosts, or host:port, from which sources may be fetched."""
    allow_remote: bool = False
    """Allow an address that other machines can reach."""
    link_lifetime_s: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    """Seconds a signed link is good for; left out, a day."""
    api_key: str | None = None
    """The key it accepts; left out, a fresh one."""
