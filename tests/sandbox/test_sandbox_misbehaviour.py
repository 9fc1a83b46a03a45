import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from prefect_media_jobs.deployments.sandbox.errors import SandboxError
from prefect_media_jobs.deployments.sandbox.misbehaviour import MisbehaviourKind

Start = Callable[..., Any]
SOON_S = 0.2


def fetch(link: str, **headers: str) -> httpx.Response:
    """Follow a signed link."""
    return httpx.get(link, headers=headers, trust_env=False)


def test_a_dropped_answer_hides_a_job_that_exists(api: Any) -> None:
    """After drop_answer the client sees no answer, while the job was created and is worked on."""
    api.sandbox.misbehave("drop_answer")
    with pytest.raises(httpx.RemoteProtocolError):
        api.post(filename="mark")
    bill = api.sandbox.bill()
    (job_id,) = bill.by_marker()["mark"]
    assert (bill.posts_received, bill.jobs_created) == (1, 1)
    assert api.finish(job_id)["status"] == "Completed"
    assert api.post().status_code == 201


def test_a_reset_hides_a_job_that_exists(api: Any) -> None:
    """After reset the connection breaks in the middle of the answer; the job was created."""
    api.sandbox.misbehave("reset", target="create")
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        api.post()
    assert api.sandbox.bill().jobs_created == 1


def test_a_reset_strikes_lookups_too(api: Any) -> None:
    """Without a target, reset strikes the next lookup."""
    job_id = api.create()
    api.sandbox.misbehave("reset")
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        api.look_up(job_id)
    assert api.look_up(job_id)["id"] == job_id


def test_a_late_answer_comes_after_the_client_gave_up(api: Any) -> None:
    """With late_answer the job exists although the client's time-out ended first."""
    api.sandbox.misbehave("late_answer", seconds=60)
    with pytest.raises(httpx.ReadTimeout):
        api.http.post("/jobs", json={"url": str(api.source)}, timeout=SOON_S)
    assert api.sandbox.bill().jobs_created == 1


def test_a_held_answer_comes_when_released(api: Any) -> None:
    """With hold_answer the job exists at once, and its id is told on release."""
    api.sandbox.misbehave("hold_answer")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(api.post)
        (line,) = api.until(lambda: api.sandbox.bill().lines, bool)
        assert not waiting.done()
        api.sandbox.release()
        assert waiting.result().json()["job_id"] == line.job_id


def test_a_job_can_be_accepted_after_the_client_has_gone(api: Any) -> None:
    """With accept_late the job does not exist while the client waits, and is created after it gave up."""
    api.sandbox.misbehave("accept_late")
    with pytest.raises(httpx.ReadTimeout):
        api.http.post("/jobs", json={"url": str(api.source)}, timeout=SOON_S)
    assert (api.sandbox.bill().posts_received, api.sandbox.bill().jobs_created) == (1, 0)
    api.sandbox.release()
    api.until(lambda: api.sandbox.bill().jobs_created, lambda jobs: jobs == 1)


@pytest.mark.parametrize("status", [500, 503, 408, 409])
def test_an_error_after_accepting(shared: Any, status: int) -> None:
    """With error_after_accept the answer is an error although the job was created."""
    before = shared.sandbox.bill().jobs_created
    shared.sandbox.misbehave("error_after_accept", status=status)
    assert shared.post().status_code == status
    assert shared.sandbox.bill().jobs_created == before + 1


def test_a_refusal_creates_nothing(api: Any) -> None:
    """With refuse the given status, body and Retry-After come back, and no job was created."""
    api.sandbox.misbehave("refuse", status=429, body={"error": "slow down"}, retry_after=7)
    answer = api.post()
    assert (answer.status_code, answer.json()) == (429, {"error": "slow down"})
    assert answer.headers["retry-after"] == "7"
    assert api.sandbox.bill().jobs_created == 0


@pytest.mark.parametrize(
    ("options", "content_type", "text"),
    [
        ({"html": True}, "text/html", "<!DOCTYPE"),
        ({"body": "plain"}, "text/plain", "plain"),
        ({"body": None}, "application/json", "null"),
        ({"body": []}, "application/json", "[]"),
    ],
)
def test_a_refusal_in_another_form(
    shared: Any, options: dict[str, Any], content_type: str, text: str
) -> None:
    """A refusal can be an HTML page, plain text, or any JSON."""
    shared.sandbox.misbehave("refuse", status=403, **options)
    answer = shared.post()
    assert answer.headers["content-type"].startswith(content_type)
    assert answer.text.startswith(text)


def test_not_found_for_a_while(api: Any) -> None:
    """With not_found the next lookups answer 404, and then the job is there."""
    job_id = api.create()
    api.sandbox.misbehave("not_found", times=2)
    assert [api.http.get(f"/jobs/{job_id}").status_code for _ in range(3)] == [404, 404, 200]


def test_an_order_can_mean_one_job_or_one_source(api: Any) -> None:
    """An order with a job id or a source leaves all other requests alone."""
    one, other = api.create(), api.create()
    api.sandbox.misbehave("not_found", job_id=one)
    api.sandbox.misbehave("refuse", source="/elsewhere")
    assert api.http.get(f"/jobs/{other}").status_code == 200
    assert api.http.get(f"/jobs/{one}").status_code == 404
    assert api.post().status_code == 201
    assert api.post(url="/elsewhere").json() == {"error": "Refused by the sandbox"}


def test_html_instead_of_json(api: Any) -> None:
    """With html a page of a gateway comes back; with ``accept`` the job was created behind it."""
    api.sandbox.misbehave("html", target="create", status=504, accept=True)
    api.sandbox.misbehave("html")
    page = api.post()
    assert (page.status_code, page.headers["content-type"]) == (504, "text/html; charset=utf-8")
    (line,) = api.sandbox.bill().lines
    assert api.http.get(f"/jobs/{line.job_id}").status_code == 502
    assert api.sandbox.bill().jobs_created == 1


def test_an_unknown_status_word(api: Any) -> None:
    """With unknown_status a lookup tells the given word."""
    job_id = api.create()
    api.sandbox.misbehave("unknown_status", word="Archiving")
    assert api.look_up(job_id)["status"] == "Archiving"
    assert api.finish(job_id)["status"] == "Completed"


def test_completed_without_a_link(api: Any) -> None:
    """With no_link as many looks at a completed job come without a link; looks before do not count."""
    api.sandbox.misbehave("stall")
    api.sandbox.misbehave("no_link", times=2)
    job_id = api.create()
    assert api.look_up(job_id)["s3_url"] is None
    api.sandbox.release()
    links = [api.finish(job_id)["s3_url"] for _ in range(3)]
    assert [link is None for link in links] == [True, True, False]


def test_a_job_can_be_missing_from_the_list(api: Any) -> None:
    """With unlisted the list leaves a job out, and the next list has it."""
    ids = [api.create(), api.create()]
    api.sandbox.misbehave("unlisted", job_id=ids[0])
    lists = [[row["id"] for row in api.http.get("/jobs").json()["jobs"]] for _ in range(2)]
    assert lists == [ids[1:], ids[::-1]]


def test_an_answer_of_another_shape(api: Any) -> None:
    """With no_id the answer is a success without an id, of the shape given, and the job was created."""
    api.sandbox.misbehave("no_id", body={"media": [{"name": "m-1"}]})
    api.sandbox.misbehave("no_id", status=204, body="")
    assert api.post().json() == {"media": [{"name": "m-1"}]}
    assert (api.post().status_code, api.sandbox.bill().jobs_created) == (204, 2)


def test_a_cut_and_an_empty_body(api: Any) -> None:
    """With truncated_body and empty_body the status is right, and the body is no JSON."""
    api.sandbox.misbehave("truncated_body", target="create")
    api.sandbox.misbehave("empty_body", target="create")
    cut, empty = api.post(), api.post()
    assert (cut.status_code, empty.status_code, empty.content) == (201, 201, b"")
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(cut.text)
    assert api.sandbox.bill().jobs_created == 2


def test_a_huge_body(api: Any) -> None:
    """With huge_body the right JSON comes padded to the given size, without a length."""
    job_id = api.create()
    api.sandbox.misbehave("huge_body", size_bytes=1_000_000)
    answer = api.http.get(f"/jobs/{job_id}")
    assert (len(answer.content), answer.json()["id"]) == (1_000_000, job_id)
    assert "content-length" not in answer.headers


def test_a_stalled_job_does_not_hold_up_the_others(start: Start) -> None:
    """With stall a job stays in Processing until released, and other jobs go on meanwhile."""
    api = start(workers=1)
    api.sandbox.misbehave("stall", source=api.source.as_uri())
    stalled = api.create(url=api.source.as_uri())
    assert api.finished()["status"] == "Completed"
    assert api.look_up(stalled)["status"] == "Processing"
    api.sandbox.release()
    assert api.finish(stalled)["status"] == "Completed"


@pytest.mark.parametrize("word", ["Failed", "Warning", "Skipped"])
def test_a_job_can_end_as_wished(shared: Any, word: str) -> None:
    """With end_as a job ends with the given status, error and kind of error."""
    shared.sandbox.misbehave("end_as", word=word, error="private video", error_type="warning")
    job = shared.finished()
    assert (job["status"], job["error"], job["error_type"]) == (word, "private video", "warning")


@pytest.mark.parametrize(
    ("kind", "head", "size"),
    [
        ("wrong_bytes", bytes(4), 100_000),
        ("short_file", bytes([0, 1, 2, 3]), 50_000),
        ("error_page", b"<!DO", 64),
    ],
)
def test_spoilt_files(shared: Any, kind: str, head: bytes, size: int) -> None:
    """A spoilt file has status 200, a film's content type and a length that agrees with its bytes."""
    link = shared.finished()["s3_url"]
    shared.sandbox.misbehave(kind)
    answer = fetch(link)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "video/mp4")
    assert (answer.content[:4], len(answer.content)) == (head, size)
    assert fetch(link).content == shared.source.read_bytes()


def test_spoilt_files_answer_ranges_alike(shared: Any) -> None:
    """The size in Content-Range is that of what is shown, and an empty object has no ranges."""
    link = shared.finished()["s3_url"]
    shared.sandbox.misbehave("short_file")
    shared.sandbox.misbehave("zero_bytes", times=2)
    assert fetch(link, range="bytes=0-1").headers["content-range"] == "bytes 0-1/50000"
    assert fetch(link, range="bytes=0-1").status_code == 416
    assert (fetch(link).status_code, fetch(link).status_code) == (200, 200)


def test_a_range_can_be_ignored(shared: Any) -> None:
    """With range_ignored the whole file comes with status 200."""
    link = shared.finished()["s3_url"]
    shared.sandbox.misbehave("range_ignored")
    answer = fetch(link, range="bytes=0-1")
    assert (answer.status_code, len(answer.content)) == (200, 100_000)


def test_a_file_that_ends_too_early(shared: Any) -> None:
    """With cut_short the whole length is promised, half is sent, and the connection closes."""
    link = shared.finished()["s3_url"]
    shared.sandbox.misbehave("cut_short", target="storage")
    got: list[bytes] = []
    with httpx.stream("GET", link, trust_env=False) as answer:
        with pytest.raises(httpx.RemoteProtocolError):
            got.extend(answer.iter_raw())
        assert (len(b"".join(got)), answer.headers["content-length"]) == (50_000, "100000")


def test_any_storage_error(shared: Any) -> None:
    """With storage_error the given status and code come as XML."""
    link = shared.finished()["s3_url"]
    shared.sandbox.misbehave("storage_error", status=400, code="ExpiredToken")
    answer = fetch(link)
    assert (answer.status_code, "<Code>ExpiredToken</Code>" in answer.text) == (400, True)


def test_orders_are_listed_and_cleared(api: Any) -> None:
    """Orders are listed with what is left of them, used up ones no more, and clearing drops all."""
    api.sandbox.misbehave("not_found", times=2)
    api.sandbox.misbehave("refuse", times=None)
    api.sandbox.misbehave("refuse", target="usage")
    assert api.http.get("/usage").status_code == 400
    api.http.get("/jobs/x")
    assert [(active.order.kind, active.left) for active in api.sandbox.misbehaviours()] == [
        (MisbehaviourKind.NOT_FOUND, 1),
        (MisbehaviourKind.REFUSE, None),
    ]
    api.sandbox.clear()
    assert api.sandbox.misbehaviours() == []
    assert api.post().status_code == 201


@pytest.mark.parametrize(
    "order", [{"kind": "nonsense"}, {"kind": "refuse", "times": 0}, {"kind": "refuse", "x": 1}]
)
def test_nonsense_orders_are_refused(shared: Any, order: dict[str, Any]) -> None:
    """An order that means nothing is refused in words, and nothing is ordered."""
    with pytest.raises(SandboxError, match="refused POST /misbehave"):
        shared.sandbox.misbehave(**order)
    assert shared.sandbox.misbehaviours() == []


def test_the_target_may_be_called_path(shared: Any) -> None:
    """Who orders by hand may say ``path`` for ``target``."""
    shared.http.post("/_sandbox/misbehave", json={"kind": "refuse", "path": "list", "status": 500})
    assert shared.http.get("/jobs").status_code == 500


def test_a_forgotten_job_stays_on_the_bill(api: Any) -> None:
    """A forgotten job is gone from lookup and list, and was bought nevertheless."""
    job_id = api.create()
    api.sandbox.forget(job_id)
    assert api.http.get(f"/jobs/{job_id}").status_code == 404
    assert api.http.get("/jobs").json()["jobs"] == []
    assert api.sandbox.bill().by_source() == {str(api.source): [job_id]}


def test_the_key_can_be_changed(api: Any) -> None:
    """After the key is changed the old one is refused and the new one is good."""
    new = api.sandbox.rotate_key()
    assert api.http.get("/usage").status_code == 401
    assert api.http.get("/usage", headers={"x-api-key": new}).status_code == 200
    assert api.sandbox.api_key == new
    assert api.sandbox.rotate_key("sk_mine") == "sk_mine"


def test_the_bill_groups_by_source_marker_and_kind(api: Any) -> None:
    """The bill tells which jobs each source and file name bought, and counts requests of every kind."""
    plain, marked = api.create(), api.create(filename="m")
    api.http.get("/jobs")
    api.http.get("/nowhere")
    api.post(format="avi")
    bill = api.sandbox.bill()
    assert bill.by_source() == {str(api.source): [plain, marked]}
    assert bill.by_marker() == {None: [plain], "m": [marked]}
    assert (bill.posts_received, bill.jobs_created) == (3, 2)
    assert bill.requests == {"create": 3, "list": 1, "other": 1}


def test_parallel_orders_are_used_up_once_each(api: Any) -> None:
    """Ten requests at once meet exactly the three refusals that were ordered."""
    api.sandbox.misbehave("refuse", times=3)
    together = threading.Barrier(10)

    def post() -> int:
        together.wait()
        return int(api.post().status_code)

    with ThreadPoolExecutor(10) as pool:
        statuses = [future.result() for future in [pool.submit(post) for _ in range(10)]]
    assert sorted(statuses) == [201] * 7 + [400] * 3
