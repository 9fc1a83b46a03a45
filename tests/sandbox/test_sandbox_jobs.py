import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from prefect_media_jobs.deployments.sandbox.server import BatchShape

Start = Callable[..., Any]


def test_a_job_goes_from_accepted_to_a_file_behind_a_link(api: Any) -> None:
    """Creating a job answers 201 with a uuid, and the finished job has a link to exactly its bytes."""
    job_id = api.create()
    assert str(uuid.UUID(job_id)) == job_id
    job = api.finish(job_id)
    assert (job["status"], job["step"], job["file_size"]) == ("Completed", "Finished", 100_000)
    assert job["created_at"] <= job["finished_at"]
    assert httpx.get(job["s3_url"], trust_env=False).content == api.source.read_bytes()


def test_the_object_key_is_folder_and_file_name(api: Any) -> None:
    """The list tells the object key, made of folder, file name and ending, and never a link."""
    api.finished(folder="season 1/raw", filename="ep.1-attempt-2", format="mkv")
    row = api.http.get("/jobs").json()["jobs"][0]
    assert row["s3_key"] == "videos/season 1/raw/ep.1-attempt-2.mkv"
    assert "s3_url" not in row
    assert "filename" not in row


def test_without_a_file_name_the_title_of_the_source_is_used(api: Any) -> None:
    """A job without a file name is stored under a title derived from its source."""
    job = api.finished(audio_only=True)
    assert (job["title"], job["filename"]) == ("my film", None)
    assert api.http.get("/jobs").json()["jobs"][0]["s3_key"] == "videos/my film.m4a"


def test_a_file_url_is_a_source_too(shared: Any) -> None:
    """A ``file://`` URL inside an allowed folder is read like a path."""
    assert shared.finished(url=shared.source.as_uri())["status"] == "Completed"


def test_the_request_is_echoed_only_once_persisted(start: Start) -> None:
    """Before the persist delay is over, a lookup does not tell the file name, the folder or the format."""
    late = start(persist_delay_s=3600)
    assert not {"filename", "folder", "format", "title"} & set(late.finished(filename="x", folder="f"))


def test_the_request_is_echoed_when_persisted(shared: Any) -> None:
    """Once the job is persisted, a lookup echoes the settings as they were sent."""
    job = shared.look_up(shared.create(filename="x", folder="f", format="webm", clip_start="1"))
    assert (job["filename"], job["folder"], job["format"], job["clip_start"]) == ("x", "f", "webm", "1")


def test_a_missing_source_fails_the_job(shared: Any) -> None:
    """A source that does not exist is accepted, and its job fails with a reason of a technical kind."""
    job = shared.finished(url=str(shared.source.with_name("gone.mp4")))
    assert (job["status"], job["error_type"], job["s3_url"]) == ("Failed", "error", None)
    assert "does not exist" in job["error"]


@pytest.mark.parametrize("url", ["/etc/passwd", "file:///etc/passwd", "{folder}/../x.mp4", "{folder}/link"])
def test_files_outside_the_allowed_folders_are_refused(shared: Any, url: str) -> None:
    """A path that leads out of the allowed folders, by dots or a link too, is refused in one sentence."""
    link = shared.source.parent / "link"
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/passwd")
    answer = shared.post(url=url.format(folder=shared.source.parent))
    assert answer.status_code == 400
    assert "allowed folders" in answer.json()["error"]


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/a.mp4", "http://allowed.test@evil.test/", "ftp://allowed.test/a", "a.mp4", ""],
)
def test_hosts_that_were_not_allowed_are_refused(start: Start, url: str) -> None:
    """Only http(s) URLs of allowed hosts are fetched; everything else is refused before a job exists."""
    api = start(allowed_hosts=("allowed.test",))
    assert api.post(url=url).status_code == 400
    assert api.sandbox.bill().jobs_created == 0


def test_a_source_is_fetched_from_an_allowed_host(api: Any, start: Start, tmp_path: Path) -> None:
    """A source on an allowed host is downloaded, here from another sandbox's storage."""
    link = api.finished()["s3_url"]
    other = start(folder=tmp_path / "other", allowed_hosts=(httpx.URL(link).netloc.decode(),))
    assert other.finished(url=link)["file_size"] == 100_000
    assert "403" in other.finished(url=link + "0")["error"]


def test_the_list_is_newest_first_and_clamped(api: Any) -> None:
    """The list is newest first, at most 100 rows whatever was asked for, and pages by offset."""
    ids = [api.create() for _ in range(103)]
    page = api.http.get("/jobs", params={"limit": 500}).json()
    assert [row["id"] for row in page["jobs"]] == ids[::-1][:100]
    assert (page["total"], page["limit"], page["offset"]) == (103, 100, 0)
    rest = api.http.get("/jobs", params={"offset": 100}).json()
    assert [row["id"] for row in rest["jobs"]] == ids[::-1][100:]
    assert len(api.http.get("/jobs").json()["jobs"]) == 20


def test_the_status_filter_knows_lower_case_words_only(api: Any) -> None:
    """An unknown status filter is silently ignored, and the total ignores every filter."""
    good, bad = api.create(), api.create(url=str(api.source.with_name("gone")))
    api.finish(good)
    api.finish(bad)
    assert [row["id"] for row in api.http.get("/jobs?status=failed").json()["jobs"]] == [bad]
    assert api.http.get("/jobs?status=failed").json()["total"] == 2
    for ignored in ("Failed", "skipped", "cancelled"):
        assert len(api.http.get(f"/jobs?status={ignored}").json()["jobs"]) == 2


@pytest.mark.parametrize("query", ["limit=x", "offset=-1"])
def test_a_bad_page_is_refused_in_plain_text(shared: Any, query: str) -> None:
    """A limit or offset that is no number is answered with 400 and text."""
    answer = shared.http.get(f"/jobs?{query}")
    assert (answer.status_code, answer.text[:21]) == (400, "Failed to deserialize")


def test_a_playlist_becomes_a_batch(start: Start) -> None:
    """A URL with ``list=`` creates as many jobs as configured, each found on its own and in the batch."""
    api = start(batch_size=2)
    answer = api.post(url=f"{api.source.as_uri()}?list=PL1", folder="shows", filename="ep").json()
    assert (answer["total_videos"], len(answer["video_jobs"])) == (2, 2)
    children = [api.finish(job_id) for job_id in answer["video_jobs"]]
    assert [child["batch_id"] for child in children] == [answer["batch_id"]] * 2
    batch = api.http.get(f"/batch/{answer['batch_id']}").json()
    assert (batch["status"], batch["completed_episodes"], batch["folder"]) == ("completed", 2, "shows")
    assert batch["episode_jobs"] == answer["video_jobs"]
    assert api.sandbox.bill().jobs_created == 2


def test_a_batch_can_be_shaped_like_a_show(start: Start) -> None:
    """The show shape names its jobs twice: as ids, and as episodes with titles."""
    answer = start(batch_shape=BatchShape.SHOW_WITH_TITLES)
    body = answer.post(url=f"{answer.source.as_uri()}?list=PL1").json()
    assert [episode["job_id"] for episode in body["episodes"]] == body["episode_jobs"]
    assert (body["total_episodes"], body["paused"]) == (3, False)


def test_a_batch_with_a_failure_is_finished_not_completed(api: Any) -> None:
    """A batch whose children are over, but not all well, is ``finished``."""
    api.sandbox.misbehave("end_as", word="Skipped")
    answer = api.post(url=f"{api.source.as_uri()}?list=PL1").json()
    for job_id in answer["video_jobs"]:
        api.finish(job_id)
    batch = api.http.get(f"/batch/{answer['batch_id']}").json()
    assert (batch["status"], batch["skipped_episodes"], batch["completed_episodes"]) == ("finished", 1, 2)


def test_the_idempotency_key_is_ignored_by_default(api: Any) -> None:
    """Without the switch, the same key buys twice, and the bill shows it."""
    headers = {"x-idempotency-key": "k-1"}
    body = {"url": str(api.source)}
    ids = [api.http.post("/jobs", json=body, headers=headers).json()["job_id"] for _ in range(2)]
    bill = api.sandbox.bill()
    assert len(set(ids)) == 2
    assert bill.by_idempotency_key() == {"k-1": ids}
    assert bill.posts_by_idempotency_key == {"k-1": 2}


def test_the_idempotency_key_is_honoured_with_the_switch(start: Start) -> None:
    """With the switch, the same key returns the first job and says that it is cached."""
    api = start(honours_idempotency_key=True)
    answers = [
        api.http.post("/jobs", json={"url": str(api.source)}, headers={"x-idempotency-key": key})
        for key in ("k-1", "k-1", "k-2")
    ]
    first, again, other = (answer.json() for answer in answers)
    assert again == {"job_id": first["job_id"], "cached": True}
    assert other["job_id"] != first["job_id"]
    assert (api.sandbox.bill().posts_received, api.sandbox.bill().jobs_created) == (3, 2)


def test_a_queued_job_can_be_cancelled_once(api: Any) -> None:
    """Cancelling works in the queue only; the job is then Failed with the step Cancelled, for good."""
    api.sandbox.misbehave("stall", word="Pending")
    job_id = api.create()
    assert api.http.delete(f"/jobs/{job_id}").json()["job_id"] == job_id
    again = api.http.delete(f"/jobs/{job_id}")
    assert (again.status_code, again.json()["error"][:23]) == (400, "Job cannot be cancelled")
    api.sandbox.release()
    job = api.look_up(job_id)
    assert (job["status"], job["step"], job["error"]) == ("Failed", "Cancelled", "Job cancelled by user")


def test_a_retry_is_a_new_job_every_time(api: Any) -> None:
    """Retrying a failed job buys a new one each time and leaves the original as it is."""
    api.sandbox.misbehave("end_as", error="bot detection")
    job = api.finished(filename="a")
    new = [api.http.post(f"/jobs/{job['id']}/retry").json() for _ in range(2)]
    assert {body["original_job_id"] for body in new} == {job["id"]}
    assert api.finish(new[0]["job_id"])["status"] == "Completed"
    assert api.http.post(f"/jobs/{new[0]['job_id']}/retry").status_code == 400
    assert api.look_up(job["id"])["error"] == "bot detection"
    assert [line.how for line in api.sandbox.bill().lines] == ["create", "retry", "retry"]


def test_deleting_a_file_keeps_the_job_completed(api: Any) -> None:
    """After its file is deleted a job stays Completed, without link and key; a second time is refused."""
    job = api.finished(filename="a")
    assert api.http.delete(f"/jobs/{job['id']}/file").json()["deleted_key"] == "videos/a.mp4"
    assert api.http.delete(f"/jobs/{job['id']}/file").json() == {"error": "Job has no file to delete"}
    after = api.look_up(job["id"])
    assert (after["status"], after["s3_url"]) == ("Completed", None)
    assert httpx.get(job["s3_url"], trust_env=False).status_code == 404


@pytest.mark.parametrize("path", ["/jobs/not-a-uuid", "/batch/1234"])
def test_a_malformed_id_is_a_bad_request(shared: Any, path: str) -> None:
    """What is no uuid is answered with 400."""
    assert shared.http.get(path).status_code == 400


def test_an_unknown_id_is_not_found(shared: Any) -> None:
    """An unknown id is answered with 404 and the contract's sentence."""
    answer = shared.http.get(f"/jobs/{uuid.uuid4()}")
    assert (answer.status_code, answer.json()) == (404, {"error": "Job not found"})


def test_lookups_can_answer_null(start: Start) -> None:
    """With the switch for the older dialect, 404 and 401 on a lookup have the body ``null``."""
    api = start(null_bodies=True)
    assert api.http.get(f"/jobs/{uuid.uuid4()}").text == "null"
    assert api.http.get(f"/batch/{uuid.uuid4()}", headers={"x-api-key": "no"}).text == "null"
    assert api.http.get("/usage", headers={"x-api-key": "no"}).text != "null"


def test_every_call_needs_the_key(api: Any) -> None:
    """A missing and a wrong key are answered with 401 and the contract's sentences."""
    missing = httpx.get(f"{api.sandbox.url}/usage", trust_env=False)
    assert (missing.status_code, missing.json()) == (401, {"error": "Missing x-api-key header"})
    wrong = api.http.get("/jobs", headers={"x-api-key": b"sk_\xff"})
    assert (wrong.status_code, wrong.json()) == (401, {"error": "Invalid API Key"})
    assert api.http.post("/jobs", json={}, headers={"x-api-key": "no"}).status_code == 401
    assert api.sandbox.bill().jobs_created == 0


def test_usage_counts_jobs_and_bytes(api: Any) -> None:
    """Usage rises with every job, and deleting a file does not lower it."""
    job = api.finished()
    api.http.delete(f"/jobs/{job['id']}/file")
    used = api.http.get("/usage").json()
    assert (used["usage_count"], used["storage_usage_gb"]) == (1, 100_000 / 1024**3)


def test_a_full_storage_refuses_new_jobs(start: Start) -> None:
    """Once the storage limit is used up, a new job is refused with 403 and sizes as text."""
    api = start(storage_limit_bytes=100_000)
    api.finished()
    answer = api.post()
    assert (answer.status_code, answer.json()["error"]) == (403, "Storage quota exceeded")
    assert isinstance(answer.json()["limit_gb"], str)


@pytest.mark.parametrize(
    "fields",
    [
        {"format": "avi"},
        {"video_codec": "av1"},
        {"audio_codec": "flac"},
        {"audio_bitrate": "100k"},
        {"quality_preset": "best"},
        {"max_resolution": "1081"},
        {"video_quality": 52},
        {"filename": "a/b"},
        {"filename": "a..b"},
        {"filename": " "},
        {"filename": "x" * 256},
        {"folder": "/abs"},
        {"folder": "a/../b"},
        {"folder": ""},
        {"folder": "x" * 201},
        {"clip_start": "1:2:3:4"},
        {"clip_start": "nan"},
        {"clip_start": "10", "clip_end": "00:10"},
        {"storage": {"provider": "s3"}},
    ],
)
def test_values_outside_their_limits_are_refused(shared: Any, fields: dict[str, Any]) -> None:
    """A value that the contract does not allow is answered with 400 and one sentence; no job exists."""
    before = shared.sandbox.bill().jobs_created
    answer = shared.post(**fields)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert shared.sandbox.bill().jobs_created == before


@pytest.mark.parametrize(
    "fields",
    [{"url": None}, {"video_quality": "23"}, {"video_quality": 256}, {"audio_only": 1}, {"filename": 7}],
)
def test_wrong_types_are_refused_in_plain_text(shared: Any, fields: dict[str, Any]) -> None:
    """A wrong type is answered with 422 and the deserializer's text, not with JSON."""
    answer = shared.post(**fields)
    assert answer.status_code == 422
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.startswith("Failed to deserialize the JSON body ")


def test_what_is_no_json_is_refused(shared: Any) -> None:
    """A body that is no JSON is answered with 400."""
    assert shared.http.post("/jobs", content=b"{").status_code == 400


def test_unknown_fields_are_ignored(shared: Any) -> None:
    """A field that the API does not know changes nothing."""
    assert shared.post(client_reference="x").status_code == 201
