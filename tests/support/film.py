"""A film that is quick to process."""

FILM = b"\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41" + bytes(20_000)
"""Begins like an MP4 file, which is all that is looked at."""
