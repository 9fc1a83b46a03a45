"""Where a ledger may be, and how an exchanged one is noticed."""

from pathlib import Path

import pytest

from prefect_media_jobs.blocks.errors import LedgerUnavailableError
from prefect_media_jobs.blocks.ledger import AttemptLedger
from prefect_media_jobs.blocks.ledger.locating import refuse_network_file_system

MOUNTS = """\
22 1 0:21 / / rw,relatime - ext4 /dev/vda rw
40 22 0:40 / /data rw - {kind} server:/export rw
41 40 0:41 / /data/local rw - ext4 /dev/vdb rw
42 22 0:42 / /with\\040blank rw - {kind} server:/other rw
"""


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "fuse.sshfs", "glusterfs"]
)
@pytest.mark.parametrize("path", ["/data/ledger.db", "/data/deep/ledger.db", "/with blank/ledger.db"])
def test_sqlite_on_a_network_file_system_is_refused(kind: str, path: str, tmp_path: Path) -> None:
    """A SQLite ledger on a file system of several hosts is refused, with the advice to use PostgreSQL."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(kind=kind))
    with pytest.raises(LedgerUnavailableError, match=rf"\({kind}\).*PostgreSQL"):
        refuse_network_file_system(Path(path), mounts)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("nfs", "/data/local/ledger.db"),
        ("nfs", "/home/ledger.db"),
        ("ext4", "/data/x.db"),
        ("fuse.fuse-overlayfs", "/data/x.db"),
    ],
)
def test_sqlite_on_a_local_disk_is_fine(kind: str, path: str, tmp_path: Path) -> None:
    """The mount that leads closest to the file decides, and local file systems are accepted."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(kind=kind))
    refuse_network_file_system(Path(path), mounts)


def test_where_mounts_are_not_told_nothing_is_refused(tmp_path: Path) -> None:
    """A system without a list of mounts does not stop anybody."""
    refuse_network_file_system(tmp_path / "ledger.db", tmp_path / "no such file")


def test_each_ledger_has_an_identity_of_its_own(ledger: AttemptLedger, tmp_path: Path) -> None:
    """An identity stays with its ledger, and no other ledger has it."""
    other = AttemptLedger(url=f"sqlite:///{tmp_path / 'other.db'}")
    assert ledger.find_identity() == ledger.find_identity() != other.find_identity()
    other.close()
