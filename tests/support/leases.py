"""What the shared log of many workers tells: who held which attempt when, and what was written."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """One line of the log.

    Args:
        word: "held", "writing", "wrote" or "refused".
        version: Version of the attempt that was claimed, was to be written, or was written.
        held_until: The lease does not end before this, by the same clock as ``at``.
    """

    word: str
    attempt_id: str
    version: int
    pid: int
    at: float
    held_until: float


def read_log(path: Path) -> list[Line]:
    """Return the lines of a log, in their order."""
    lines = []
    for text in path.read_text().splitlines():
        word, attempt_id, version, pid, at, held_until = text.split()
        lines.append(Line(word, attempt_id, int(version), int(pid), float(at), float(held_until)))
    return lines


def looked_up(lines: list[Line]) -> Counter[str]:
    """Return how often each attempt was looked up."""
    return Counter(line.attempt_id for line in lines if line.word == "held")


def double_work(lines: list[Line]) -> list[tuple[Line, Line]]:
    """Return the look-ups of an attempt that somebody else held, each with that holder's line.

    A holder lets go when its lease ends, or when it begins to write what it learnt. A worker that was stopped
    past its lease before it asked cannot know that; what it learns is refused when it writes.
    """
    found = []
    holders: dict[str, list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: line.at):
        held = holders[line.attempt_id]
        if line.word == "writing":
            held[:] = [each for each in held if (each.pid, each.version) != (line.pid, line.version)]
        elif line.word == "held" and line.at < line.held_until:
            found += [(each, line) for each in held if line.at < each.held_until]
            held.append(line)
    return found


def made_twice(lines: list[Line]) -> list[tuple[str, int]]:
    """Return the versions of attempts that two claims or writes say to have made: a stale write was kept."""
    made = Counter((line.attempt_id, line.version) for line in lines if line.word in {"held", "wrote"})
    return [version for version, times in made.items() if times > 1]
