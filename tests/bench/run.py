"""Measure the product against bare scripts, in turns, and print ratios.

    uv run python tests/bench/run.py [--rounds 5] [--items 1000]

Throughput: submitting and sweeping at 16 in flight against a stub that answers at once; the pages are those
of the flows, run without a Prefect server. Memory: a sweep over 20,000 open attempts against one over 1,000,
each in a process of its own.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import bare

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest, TornadoApi
from prefect_media_jobs.blocks.domain.attempt import Action
from prefect_media_jobs.flows.recovery import look_up_page
from prefect_media_jobs.flows.submission import PAGE, pages, submit_page

HERE = Path(__file__).parent
LEASE = timedelta(minutes=10)


@contextmanager
def stub() -> Iterator[str]:
    """Run the stub in a process of its own and yield its address."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "stub.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.wait(10)


def requests(count: int) -> list[MediaRequest]:
    """Return that many requests."""
    return [MediaRequest(item_key=f"item-{number}", source="/x") for number in range(count)]


def product(url: str, folder: Path, count: int) -> tuple[float, float]:
    """Submit and sweep ``count`` items with the product and return items per second of each."""
    ledger = AttemptLedger(url=f"sqlite:///{folder / 'ledger.db'}")
    api = TornadoApi(base_url=url, api_key="sk_bench", max_in_flight=bare.WIDTH)
    ledger.check()
    begun_at = time.perf_counter()
    recorded = [attempt.attempt_id for attempt in ledger.record_attempts(requests(count))]
    for page in pages(recorded):
        submit_page.fn(ledger, api, page)
    submitted_at = time.perf_counter()
    time.sleep(2.1)  # jobs are asked about two seconds after they were submitted
    swept_from = time.perf_counter()
    swept = 0
    while page := ledger.claim_due([Action.LOOKUP], PAGE, LEASE):
        swept += len(look_up_page.fn(ledger, api, page))
        if swept >= count:
            break
    swept_at = time.perf_counter()
    assert swept == count
    ledger.close()
    api.close()
    return count / (submitted_at - begun_at), count / (swept_at - swept_from)


def throughput(rounds: int, count: int) -> None:
    """Print the throughput of both, round by round in turns, and the medians of the ratios."""
    submit_ratios, sweep_ratios = [], []
    with stub() as url:
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                bare_submit = bare.submissions(url, Path(folder), count)
                ours_submit, ours_sweep = product(url, Path(folder), count)
                bare_sweep = bare.lookups(url, count)
            submit_ratios.append(ours_submit / bare_submit)
            sweep_ratios.append(ours_sweep / bare_sweep)
            print(
                f"round {number + 1}: submit {ours_submit:.0f}/s, bare {bare_submit:.0f}/s, "
                f"ratio {submit_ratios[-1]:.2f} | sweep {ours_sweep:.0f}/s, bare {bare_sweep:.0f}/s, "
                f"ratio {sweep_ratios[-1]:.2f}",
                flush=True,
            )
    print(
        f"median ratio: submit {statistics.median(submit_ratios):.2f}, "
        f"sweep {statistics.median(sweep_ratios):.2f}"
    )


def memory() -> None:
    """Print the peak memory of a sweep over few and over many open attempts."""
    peaks = {}
    for count in (1_000, 20_000):
        done = subprocess.run(
            [sys.executable, str(HERE / "sweep_memory.py"), str(count)],
            check=True,
            capture_output=True,
            text=True,
        )
        peaks[count] = float(done.stdout)
        print(f"peak memory of a sweep over {count:,} open attempts: {peaks[count]:.0f} MB", flush=True)
    print(f"ratio: {peaks[20_000] / peaks[1_000]:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=1000)
    chosen = parser.parse_args()
    throughput(chosen.rounds, chosen.items)
    memory()
