"""Where a ledger is: reading its URL, showing its place, making and checking a SQLite file."""

import os
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from prefect_media_jobs.blocks.errors import InvalidInputError, LedgerUnavailableError

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_USABLE = frozenset({*_DRIVERS.values(), "sqlite+pysqlite"})


def parse_url(text: str) -> sa.URL:
    """Read a ledger URL; the path of a SQLite file becomes absolute.

    Raises:
        InvalidInputError: it is not the URL of a SQLite file or a PostgreSQL database.
    """
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidInputError(
            "The ledger URL cannot be read; give sqlite:////path/to/file.db or "
            "postgresql+psycopg://user:password@host/database."
        ) from None
    backend = url.get_backend_name()
    if backend not in _DRIVERS:
        raise InvalidInputError(
            f"The ledger cannot be kept in {backend!r}; use sqlite or postgresql+psycopg."
        )
    if "+" not in url.drivername:
        url = url.set(drivername=_DRIVERS[backend])
    if url.drivername not in _USABLE:
        raise InvalidInputError(f"The ledger cannot use {url.drivername!r}; give {_DRIVERS[backend]}.")
    if backend != "sqlite":
        return url
    if not url.database or url.database == ":memory:" or url.query.get("mode") == "memory":
        raise InvalidInputError("The ledger must outlive the process; give the path of a SQLite file.")
    return url.set(database=str(Path(url.database).expanduser().absolute()))


def file_url(path: Path) -> str:
    """Return the URL of a SQLite file.

    Raises:
        InvalidInputError: the path has characters that a URL cannot hold with this version of SQLAlchemy.
    """
    text = sa.URL.create("sqlite", database=str(path)).render_as_string()
    if sa.make_url(text).database != str(path):
        raise InvalidInputError(
            f"The path {path} has characters that a database URL cannot hold; keep the ledger elsewhere."
        )
    return text


def shown_url(url: sa.URL) -> str:
    """Return the ledger's place as it may be shown: without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)


def create_private_file(path: Path) -> None:
    """Create the file readable by its owner alone; SQLite gives its side files the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise LedgerUnavailableError(
            f"The ledger at {path} cannot be opened for writing ({error.strerror}); "
            "give a file in a folder that can be written."
        ) from None


_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "glusterfs", "gfs2"}
)
_NETWORK_FUSE = frozenset({"sshfs", "s3fs", "rclone", "gcsfuse", "glusterfs", "ceph", "blobfuse2", "juicefs"})


def refuse_network_file_system(path: Path, mounts: Path = _MOUNTS) -> None:
    """Refuse to keep a SQLite ledger on a file system that other hosts write to as well.

    SQLite's write-ahead log needs memory that all writers share, which two hosts do not have: locks stay
    stuck, or pages are corrupted. Where the system does not tell its mounts, nothing is refused.

    Raises:
        LedgerUnavailableError: it is on one.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    kind = _file_system(path.resolve(), lines)
    if kind in _NETWORK or (kind or "").removeprefix("fuse.") in _NETWORK_FUSE:
        raise LedgerUnavailableError(
            f"The ledger at {path} is on a network file system ({kind}), where SQLite cannot be trusted; use "
            "a local disk, or PostgreSQL for several hosts."
        )


def _file_system(path: Path, mounts: list[str]) -> str | None:
    """Return the kind of file system a path is on, by the longest mount point that leads to it.

    Source: Linux, proc_pid_mountinfo(5): the mount point is the fifth field, the kind follows a lone dash.
    """
    best, kind = -1, None
    for mount in mounts:
        fields, _, rest = mount.partition(" - ")
        words = fields.split()
        if len(words) < 5 or not rest:  # noqa: PLR2004 - the fifth field
            continue
        point = Path(words[4].encode().decode("unicode_escape"))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), rest.split()[0]
    return kind
