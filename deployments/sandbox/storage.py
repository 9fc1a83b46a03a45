"""The stored files, and how a part of one is handed out."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi.responses import Response, StreamingResponse

from prefect_media_jobs.deployments.sandbox.misbehaviour import MisbehaviourKind
from prefect_media_jobs.deployments.sandbox.signing import NO_SUCH_KEY, StorageRefusal

CHUNK_BYTES = 256 * 1024
ERROR_PAGE = b"<!DOCTYPE html><html><body><h1>Please sign in</h1></body></html>"
CONTENT_TYPES = {
    ".mp4": "video/mp4",
    ".mkv": "video/x-matroska",
    ".webm": "video/webm",
    ".mov": "video/quicktime",
    ".m4a": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
}
BAD_RANGE = StorageRefusal(416, "InvalidRange", "The requested range is not satisfiable")
TWO_PERMISSIONS = StorageRefusal(
    400,
    "InvalidArgument",
    "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string "
    "parameter or the Authorization header should be specified",
)


@dataclass(frozen=True, slots=True)
class ObjectFolder:
    """Files under their object keys in one folder. A second job with the same key overwrites the first."""

    folder: Path

    def path_of(self, key: str) -> Path | None:
        """Return where an object is kept, None for a key that leads out of the folder."""
        path = self.folder / key
        inside = "\0" not in key and path.resolve().is_relative_to(self.folder.resolve())
        return path if inside else None

    def put(self, file: Path, key: str) -> int:
        """Move a finished file in, at once or not at all, and return its size in bytes."""
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        size_bytes = file.stat().st_size
        file.replace(path)
        return size_bytes

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        if path := self.path_of(key):
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as the storage shows it, which need not be as it is.

    Args:
        path: The real file.
        spoilt: How what is shown differs from it.
    """

    path: Path
    spoilt: MisbehaviourKind | None = None

    @property
    def size_bytes(self) -> int:
        """Length shown."""
        if self.spoilt is MisbehaviourKind.ZERO_BYTES:
            return 0
        if self.spoilt is MisbehaviourKind.ERROR_PAGE:
            return len(ERROR_PAGE)
        real = self.path.stat().st_size
        return real // 2 if self.spoilt is MisbehaviourKind.SHORT_FILE else real

    @property
    def content_type(self) -> str:
        """Content type by file ending."""
        return CONTENT_TYPES.get(self.path.suffix.lower(), "application/octet-stream")

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from ``start`` up to, not including, ``stop``."""
        if self.spoilt is MisbehaviourKind.ERROR_PAGE:
            yield ERROR_PAGE[start:stop]
            return
        with self.path.open("rb") as file:
            file.seek(start)
            while start < stop and (chunk := file.read(min(CHUNK_BYTES, stop - start))):
                start += len(chunk)
                yield bytes(len(chunk)) if self.spoilt is MisbehaviourKind.WRONG_BYTES else chunk


def refuse(refusal: StorageRefusal, headers: Mapping[str, str] | None = None) -> Response:
    """Answer without the file, in the XML of S3."""
    return Response(refusal.xml, refusal.status, headers, media_type="application/xml")


def hand_out(path: Path | None, asked_range: str | None, spoilt: MisbehaviourKind | None) -> Response:
    """Answer with a file or the asked part of it."""
    if path is None or not path.is_file():
        return refuse(NO_SUCH_KEY)
    file = StoredFile(path, spoilt)
    size = file.size_bytes
    ignored = spoilt in {MisbehaviourKind.RANGE_IGNORED, MisbehaviourKind.ERROR_PAGE}
    wanted = None if ignored else parse_range(asked_range, size)
    if wanted is not None and wanted[0] >= wanted[1]:
        return refuse(BAD_RANGE, {"content-range": f"bytes */{size}"})
    start, stop = wanted or (0, size)
    headers = {"content-length": str(stop - start), "content-type": file.content_type}
    headers |= {"accept-ranges": "bytes", "etag": f'"{path.stat().st_mtime_ns:x}-{size:x}"'}
    if wanted:
        headers["content-range"] = f"bytes {start}-{stop - 1}/{size}"
    return StreamingResponse(file.read(start, stop), 206 if wanted else 200, headers)


def parse_range(asked: str | None, size: int) -> tuple[int, int] | None:
    """Return the half-open part that a ``Range`` header asks for; None for the whole file.

    An empty part means that the file has no such bytes. Several parts at once, or text that is no range, are
    answered with the whole file.
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", (asked or "").strip())
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size
