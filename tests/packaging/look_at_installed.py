"""Import everything the installed package has and print, as JSON, what there is and what that did.

Run by the interpreter of the environment that is looked at; imports nothing of the tests.
"""

import importlib
import importlib.metadata
import json
import pkgutil
import sys

WATCHED = {"socket.bind", "socket.connect", "sqlite3.connect", "subprocess.Popen"}
RUN_BY_ALEMBIC = "prefect_media_jobs.blocks.ledger.migrations.env"
happened: list[str] = []


def note(event: str, arguments: tuple[object, ...]) -> None:
    """Note what reaches out of the process."""
    if event in WATCHED:
        happened.append(f"{event} {arguments!r}"[:300])


def names(package: str) -> list[str]:
    """Return the names of all modules below a package."""
    found = importlib.import_module(package)
    return [each.name for each in pkgutil.walk_packages(found.__path__, f"{package}.")]


sys.addaudithook(note)
listed = [name for name in names("prefect_media_jobs") if name != RUN_BY_ALEMBIC]
modules = {name: importlib.import_module(name).__file__ for name in listed}
distribution = importlib.metadata.distribution("prefect-media-jobs")
seen = {
    "modules": modules,
    "happened": happened,
    "top_level": sorted({file.parts[0] for file in distribution.files or []}),
    "files": [file.as_posix() for file in distribution.files or []],
    "metadata": {name: distribution.metadata.get_all(name) for name in distribution.metadata},
    "collections": [
        (entry.value, sorted(entry.load().__all__))
        for entry in importlib.metadata.entry_points(group="prefect.collections")
        if entry.name == "prefect_media_jobs"
    ],
}
print(json.dumps(seen))
