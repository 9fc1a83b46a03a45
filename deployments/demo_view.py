"""What the demo shows: a live view while it runs, a table and the totals at its end."""

from collections import Counter
from dataclasses import dataclass
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from prefect_media_jobs.blocks.domain.attempt import Attempt

_COLOURS = {"delivered": "green", "uncertain": "yellow", "sending": "yellow", "recorded": "dim"}


@dataclass(frozen=True)
class Row:
    """One item at the end.

    Args:
        posts: POSTs the API counted for it.
        deliveries: Deliveries the consumer counted for it.
        file: What was read back from the delivered file.
    """

    item: str
    state: str
    job_id: str
    posts: int
    deliveries: int
    file: str
    size: str
    duration: str


@dataclass(frozen=True)
class Totals:
    """What the demo promises, counted."""

    items: int
    jobs_bought: int
    delivered: int
    consumed: int
    bought_twice: int
    lost: int

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return (
            self.bought_twice == 0
            and self.lost == 0
            and self.items == self.jobs_bought == self.delivered == self.consumed
        )

    def sentence(self) -> str:
        """Return the totals in one line."""
        return (
            f"items {self.items} | jobs bought {self.jobs_bought} | delivered {self.delivered} | "
            f"consumed {self.consumed} | bought twice {self.bought_twice} | lost {self.lost}"
        )


class View:
    """Steps as lines and, on a terminal, the attempts as a table that changes in place."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._shown = ""

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def step(self, text: str) -> None:
        """Tell what happens now."""
        self.console.print(f"[bold]>[/bold] {text}", highlight=False)

    def attempts(self, attempts: list[Attempt]) -> None:
        """Show how the attempts stand."""
        counts = Counter(str(attempt.state) for attempt in attempts)
        summary = ", ".join(f"{count} {state}" for state, count in counts.items())
        if summary == self._shown:
            return
        self._shown = summary
        if not self.console.is_terminal:
            self.console.print(f"  {summary}", highlight=False)
            return
        lines = [
            Text.assemble(
                f"  {attempt.item_key:<10} ",
                (f"{attempt.state:<10}", _COLOURS.get(attempt.state, "cyan")),
                f" {attempt.job_id or ''}",
            )
            for attempt in attempts
        ]
        self._live.update(Group(*lines), refresh=True)


def show_result(console: Console, rows: list[Row], totals: Totals) -> None:
    """Print the table of items and the line of totals."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("item", "state", "job", "POSTs", "deliveries", "file", "size", "duration"):
        right = name in {"POSTs", "deliveries", "size", "duration"}
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(
            row.item,
            row.state,
            row.job_id[:8],
            str(row.posts),
            str(row.deliveries),
            row.file,
            row.size,
            row.duration,
        )
    console.print()
    console.print(table)
    console.print()
    console.print(totals.sentence(), style="bold green" if totals.kept else "bold red", highlight=False)
