"""The command line ``media-jobs``: every mistake is one sentence; a command imports what it needs itself."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter, validators

from prefect_media_jobs.deployments.cli_errors import INTERRUPTED, UNEXPECTED, tell
from prefect_media_jobs.deployments.cli_options import EXISTING_FILE, LedgerChoice, SandboxChoice

# Prefect takes seconds to import, so whatever needs it is imported by the command that needs it.
# ruff: noqa: PLC0415

app = App(
    name="media-jobs",
    help="Buy media processing from Prefect, with every submission in a durable ledger.",
    version=lambda: version("prefect-media-jobs"),
    default_parameter=Parameter(negative=()),
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
app.meta.suppress_keyboard_interrupt = False


_USUAL = LedgerChoice()
_TRYING = SandboxChoice()


@app.command
def demo(
    *,
    source: Annotated[
        list[Path] | None, Parameter(consume_multiple=True, validator=EXISTING_FILE, negative_iterable=())
    ] = None,
    keep: bool = False,
) -> int:
    """Buy, lose and recover jobs on this machine, to see what the ledger is for.

    Args:
        source: Media files to process. Left out, the demo makes some.
        keep: Keep the Prefect UI and the ledger until Ctrl-C.
    """
    from prefect_media_jobs.deployments.demo import run_demo

    return run_demo(source or [], keep=keep)


@app.command
def sandbox(*, chosen: SandboxChoice = _TRYING) -> None:
    """Run a small real media API on this machine, for trying and testing; Ctrl-C stops it."""
    from prefect_media_jobs.deployments.cli_sandbox import serve

    serve(chosen)


@app.command
def status(
    *, where: LedgerChoice = _USUAL, batch: str | None = None, claims: bool = False, json: bool = False
) -> None:
    """Show how a ledger stands: attempts and handoffs by state, and what waits for a person.

    Args:
        batch: Count this batch alone.
        claims: Show instead which worker holds which attempt, and until when.
        json: Print JSON and nothing else.
    """
    from prefect_media_jobs.blocks.ledger import Scope
    from prefect_media_jobs.deployments import cli_ledger, cli_show

    with cli_ledger.reading(where.ledger, where.url) as book:
        if claims:
            cli_show.claims(book.place, book.held_now(Scope(batch_key=batch)), as_json=json)
            return
        cli_show.status(book.place, batch, book.summary(batch), as_json=json)


@app.command
def plan(
    *,
    where: LedgerChoice = _USUAL,
    limit: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    json: bool = False,
) -> None:
    """Show what each open attempt needs next; changes nothing.

    Args:
        limit: Show so many at most, what is due first coming first.
        json: Print JSON and nothing else.
    """
    from prefect_media_jobs.deployments import cli_ledger, cli_show

    with cli_ledger.reading(where.ledger, where.url) as book:
        cli_show.plan(book.place, book.recovery_plan(limit), as_json=json)


@app.command
def history(attempt: str, /, *, where: LedgerChoice = _USUAL, json: bool = False) -> None:
    """Show one attempt and everything that happened to it.

    Args:
        attempt: Id of the attempt, such as episode-42-attempt-1.
        json: Print JSON and nothing else.
    """
    from prefect_media_jobs.deployments import cli_ledger, cli_show

    with cli_ledger.reading(where.ledger, where.url) as book:
        cli_show.history(book.place, book.read(attempt), book.history(attempt), as_json=json)


@app.command
def upgrade(*, where: LedgerChoice = _USUAL) -> None:
    """Create the ledger's tables, or bring them up to date; safe to repeat."""
    from prefect_media_jobs.deployments import cli_ledger

    _say(cli_ledger.upgrade(where.ledger, where.url))


@app.command
def bootstrap(
    *,
    ledger: str = "media-ledger",
    url: str | None = None,
    api: str = "media-api",
    api_url: str | None = None,
    accept_ledger: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Save the two blocks the flows use, and create the ledger; safe to repeat.

    The API key comes from MEDIA_JOBS_API_KEY, or is asked for. A block that exists keeps what is not given.

    Args:
        ledger: Name of the ledger block.
        url: Where the ledger is kept. Left out: MEDIA_JOBS_LEDGER_URL, else what the block says.
        api: Name of the media API block.
        api_url: Where the media API is. Left out: MEDIA_JOBS_API_URL, else what the block says.
        accept_ledger: Accept that the ledger is not the one the block has used before. What it does not know
            may then be bought again.
    """
    from prefect_media_jobs.deployments import bootstrap as saving

    ask_key = saving.hidden_prompt if sys.stdin.isatty() else None
    done = saving.bootstrap(
        ledger=ledger,
        api=api,
        ledger_url=url,
        api_url=api_url,
        ask_key=ask_key,
        accept_ledger=accept_ledger,
    )
    _say(done.ledger)
    _say(done.api)


@app.meta.default
def _start(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Annotated[bool, Parameter(negative=())] = False,  # noqa: ARG001 - main looks at it
) -> object:
    """Run a command.

    Args:
        debug: Show where an unforeseen error came from, as MEDIA_JOBS_DEBUG=1 does.
    """
    return app(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        words: Command and options; left out, those the process was started with.
    """
    given = list(sys.argv[1:] if words is None else words)
    debug = "--debug" in given or os.environ.get("MEDIA_JOBS_DEBUG", "0") not in {"", "0"}
    try:
        for stream in (sys.stdout, sys.stderr):
            # A terminal that cannot show a character must not end the command.
            getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
        code = app.meta(given, result_action="return_value", exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; Python would complain about it once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNEXPECTED
    except Exception as error:  # noqa: BLE001 - the last line of defence
        return tell(error, debug=debug)
    return code if isinstance(code, int) else 0


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")


if __name__ == "__main__":
    sys.exit(main())
