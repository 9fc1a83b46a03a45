"""Where a job may take its source from; everything else is refused in one sentence."""

import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

import httpx

from prefect_media_jobs.deployments.sandbox.errors import ProcessingFailedError, bad_request

LARGEST_SOURCE_BYTES = 4 * 1024**3
CHUNK_BYTES = 256 * 1024
TITLE_LIMIT = 120


@dataclass(frozen=True, slots=True)
class AllowedSources:
    """Folders of this machine and hosts of the network that jobs may read.

    Args:
        folders: Files inside them may be read, given as absolute path or ``file://`` URL.
        hosts: Names, or ``name:port``, of servers that may be asked over http or https.
    """

    folders: tuple[Path, ...]
    hosts: frozenset[str]

    def check(self, url: str) -> None:
        """Do nothing for a source that is allowed, whether it exists or not.

        Raises:
            RefusalError: it is outside of what was allowed.
        """
        if (path := local_path(url)) is not None:
            if not self._holds(path):
                raise bad_request(
                    "The sandbox reads only files of its allowed folders (--allow-folder); this is elsewhere"
                )
            return
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            raise bad_request("Invalid URL") from None
        if parsed.scheme not in {"http", "https"} or not parsed.host:
            raise bad_request("Invalid URL: give an absolute path, a file:// URL or an http(s) URL")
        if not self.hosts & {parsed.host, f"{parsed.host}:{parsed.port}"}:
            raise bad_request(f"The sandbox fetches only from its allowed hosts; {parsed.host} is not one")

    def fetch(self, url: str, target: Path, stop: threading.Event) -> Path:
        """Return a local file with the source's bytes: the file itself, or ``target`` once it was downloaded.

        Raises:
            ProcessingFailedError: there is nothing to be had at the source.
        """
        path = local_path(url)
        if path is None:
            _download(url, target, stop)
            return target
        if not self._holds(path):
            raise ProcessingFailedError("The source was moved out of the allowed folders")
        if not path.is_file():
            raise ProcessingFailedError("The source does not exist or is not a file")
        return path.resolve()

    def _holds(self, path: Path) -> bool:
        try:
            resolved = path.resolve()
        except (OSError, ValueError, RuntimeError):
            return False
        return any(resolved.is_relative_to(folder.resolve()) for folder in self.folders)


def local_path(url: str) -> Path | None:
    """Return the path that an absolute path or a ``file://`` URL means, None for any other source."""
    if url.startswith("/") and not url.startswith("//"):
        return Path(url)
    if not url.lower().startswith("file:"):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    path = unquote(parts.path)
    return Path(path) if parts.netloc in {"", "localhost"} and path.startswith("/") else None


def title_of(url: str) -> str:
    """Return a title for the source: the last part of its path without ending, fit for a file name."""
    path = local_path(url) or PurePosixPath(unquote(urlsplit(url).path))
    kept = "".join(c if c.isalnum() or c in " -_." else "-" for c in path.stem).strip(" .-")
    return kept.replace("..", "-")[:TITLE_LIMIT] or "untitled"


def is_playlist(url: str) -> bool:
    """Whether the URL has a ``list=`` query, which makes the API create several jobs at once."""
    if local_path(url) is not None and url.startswith("/"):
        return False
    try:
        return "list" in parse_qs(urlsplit(url).query)
    except ValueError:
        return False


def child_url(url: str, number: int) -> str:
    """Return the URL of one video of a playlist."""
    return urlsplit(url)._replace(query=f"index={number}", fragment="").geturl()


def _download(url: str, target: Path, stop: threading.Event) -> None:
    """Fetch a source over the network; a redirect is not followed, because it may lead to another host."""
    size = 0
    try:
        with (
            httpx.Client(timeout=5, follow_redirects=False, trust_env=False) as client,
            client.stream("GET", url) as answer,
            target.open("wb") as file,
        ):
            if answer.status_code != httpx.codes.OK:
                raise ProcessingFailedError(f"The source answered {answer.status_code}")
            for chunk in answer.iter_bytes(CHUNK_BYTES):
                size += file.write(chunk)
                if stop.is_set() or size > LARGEST_SOURCE_BYTES:
                    raise ProcessingFailedError("The download was stopped")
    except httpx.HTTPError as error:
        raise ProcessingFailedError(f"The source could not be downloaded ({type(error).__name__})") from error
