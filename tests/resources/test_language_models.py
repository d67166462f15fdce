"""Language models: faults become typed outcomes, limits hold, keys stay out of sight, and no received reply is paid twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from rag_eval_assets.resources.language_models import ChatModel, Completion, LanguageModel, Prices, Request
from rag_eval_assets.resources.responses import ResponseStore
from rag_eval_assets.tables import REASONS
from tests.benchmarks import load
from tests.recorded import Play, RecordedEndpoint, in_turn, recorded_endpoint

CANARY = "sk-canary-8c1f0e5d2b"


class Verdicts(BaseModel):
    """Two verdicts, neither more nor fewer."""

    model_config = ConfigDict(extra="forbid")
    verdicts: list[int] = Field(min_length=2, max_length=2)


def asking(text: str, **more: Any) -> Request[Any]:
    return Request(({"role": "user", "content": text},), **more)


def model(endpoint: RecordedEndpoint, path: Path, **more: Any) -> LanguageModel:
    chosen = ChatModel("recorded", endpoint.url, first_wait_seconds=0.001, longest_wait_seconds=0.05, deadline_seconds=20.0)
    return LanguageModel(replace(chosen, **more), ResponseStore(path / "responses.sqlite"))


def one(
    tmp_path: Path, *plays: Play | str, schema: type[BaseModel] | None = None, **more: Any
) -> tuple[Completion[Any], LanguageModel, int]:
    """The completion of one request to an endpoint that plays `plays`, the model, and the calls the endpoint saw."""
    with recorded_endpoint(in_turn(*plays)) as endpoint:
        asked = model(endpoint, tmp_path, **more)
        (found,) = asked.ask_many([asking("What?", schema=schema)])
        return found, asked, len(endpoint.asked)


# ------------------------------------------------------------------------------------------------------------- replies
@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_is_kept_with_its_usage_cost_and_times_and_never_asked_for_again(stream: bool, tmp_path: Path) -> None:
    with recorded_endpoint(in_turn(Play("It is so. [1]", usage=(2_000, 500), pause=0.01))) as endpoint:
        asked = model(endpoint, tmp_path, stream=stream, prices=Prices(prompt=0.5, completion=2.0))
        (found,) = asked.ask_many([asking("What?")])
        assert found.reply is not None
        assert (found.reason, found.reused, found.reply.text, found.reply.finish_reason) == (None, False, "It is so. [1]", "stop")
        # 2,000 tokens at 0.50 and 500 at 2.00 a million.
        assert found.reply.cost == pytest.approx(0.001 + 0.001)
        assert (found.reply.prompt_tokens, found.reply.completion_tokens, found.reply.model) == (2_000, 500, "recorded")
        assert (found.reply.first_token_seconds is not None) == stream
        assert found.reply.seconds > (found.reply.first_token_seconds or 0)
        (again,) = model(endpoint, tmp_path).ask_many([asking("What?")])
        assert (again.reused, again.reply) == (True, found.reply)
        assert len(endpoint.asked) == 1
    assert asked.counts == {"reused": 0, "asked": 1, "failed": 0}


def test_whatever_shapes_a_reply_makes_another_request_and_limits_do_not(tmp_path: Path) -> None:
    with recorded_endpoint(in_turn("yes")) as endpoint:
        own = model(endpoint, tmp_path)
        key = own.key(asking("What?"))
        for more in ({"temperature": 1.0}, {"seed": 8}, {"max_tokens": 9}, {"model": "b"}, {"parameters": {"top_p": 0.5}}):
            assert model(endpoint, tmp_path, **more).key(asking("What?")) != key, more
        for request in (asking("Who?"), asking("What?", repeat=1), asking("What?", schema=Verdicts)):
            assert own.key(request) != key
        assert model(endpoint, tmp_path, concurrency=1, deadline_seconds=1.0, spend_limit=1.0, attempts=1).key(asking("What?")) == key


def test_equal_requests_are_asked_once_and_repeats_each(tmp_path: Path) -> None:
    with recorded_endpoint(lambda body, number: Play(f"reply {number}")) as endpoint:
        own = model(endpoint, tmp_path, concurrency=1)
        found = own.ask_many([asking("What?"), asking("What?"), asking("What?", repeat=1)])
        assert [f.reply and f.reply.text for f in found] == ["reply 0", "reply 0", "reply 1"]


def test_refreshing_adds_a_generation_once_and_overwrites_nothing(tmp_path: Path) -> None:
    with recorded_endpoint(lambda body, number: Play(f"reply {number}")) as endpoint:

        def said(refresh: str) -> tuple[str, int]:
            (found,) = model(endpoint, tmp_path, refresh=refresh).ask_many([asking("What?")])
            assert found.reply is not None
            return found.reply.text, found.reply.generation

        assert [said(""), said("monday"), said("monday"), said(""), said("tuesday"), said("")] == [
            ("reply 0", 0), ("reply 1", 1), ("reply 1", 1), ("reply 1", 1), ("reply 2", 2), ("reply 2", 2),
        ]  # fmt: skip
        assert len(endpoint.asked) == 3
    store = ResponseStore(tmp_path / "responses.sqlite")
    assert len(store) == 3


# -------------------------------------------------------------------------------------------------------------- faults
def test_429_and_5xx_are_tried_again_after_waiting_and_4xx_are_not(tmp_path: Path) -> None:
    found, own, calls = one(tmp_path / "a", Play(status=429), Play(status=503), Play(raw=b'{"choices": [{"mess'), "yes")
    assert found.reply is not None
    assert (found.reply.text, found.reply.attempts, calls, own.counts["retried"]) == ("yes", 4, 4, 3)
    for number, status in enumerate((400, 401, 404, 422)):
        found, _, calls = one(tmp_path / f"b{number}", Play(status=status, raw=b"no such thing"), "yes")
        assert (found.reason, found.reply, calls) == ("endpoint_failed", None, 1)
        assert f"status {status}: no such thing" in str(found.detail)


@pytest.mark.parametrize(
    ("play", "reason", "calls"),
    [
        (Play(status=429), "rate_limited", 5),
        (Play(status=500), "endpoint_failed", 5),
        (Play(raw=b'{"choices": []}'), "endpoint_failed", 5),
        (Play(raw=b'{"choices": [null]}'), "endpoint_failed", 5),
        (Play(raw=b'{"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}'), "endpoint_failed", 5),
        (Play(raw=b'{"choices": [{"message": {"content": [{"type": "image"}]}, "finish_reason": "stop"}]}'), "endpoint_failed", 5),
        (Play("half of it", cut=True), "endpoint_failed", 5),
        (Play("cut off", finish="length"), "truncated_reply", 1),
        (Play("", finish="content_filter"), "withheld_reply", 1),
        (Play("yes", model="another"), "wrong_model", 1),
    ],
)  # fmt: skip
def test_each_fault_ends_as_its_reason(play: Play, reason: str, calls: int, tmp_path: Path) -> None:
    found, own, seen = one(tmp_path, play)
    assert (found.reason, seen, own.counts["failed"]) == (reason, calls, 1)
    assert reason in REASONS
    # What was received is kept, and the verdict on it is the same when it is read back.
    again = own.store.get_many([own.key(asking("What?"))])
    assert len(again) == (found.reply is not None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"message": {"content": [{"type": "text", "text": "ye"}, {"type": "text", "text": "s"}]}}, ("yes", 3, 1)),
        ({"message": {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "yes"}]}}, ("yes", 3, 1)),
        ({"message": {"content": "a\ud800b"}}, ("a\ufffdb", 3, 1)),
        ({"message": {"content": "yes"}, "usage": "none"}, ("yes", None, None)),
        ({"message": {"content": "yes"}, "usage": {"prompt_tokens": 2**31, "completion_tokens": 2**31 - 1}}, ("yes", None, 2**31 - 1)),
        ({"message": {"content": "yes"}, "usage": {"prompt_tokens": -1, "completion_tokens": True}}, ("yes", None, None)),
    ],
)
def test_a_reply_of_another_shape_is_kept_as_far_as_a_table_can_hold_it(
    body: dict[str, Any], expected: tuple[str, int | None, int | None], tmp_path: Path
) -> None:
    usage = body.get("usage", {"prompt_tokens": 3, "completion_tokens": 1})
    choice = {"message": body["message"], "finish_reason": "stop"}
    found, own, calls = one(tmp_path, Play(raw=json.dumps({"model": "recorded", "choices": [choice], "usage": usage}).encode()))
    assert found.reply is not None
    assert (found.reason, calls) == (None, 1)
    assert (found.reply.text, found.reply.prompt_tokens, found.reply.completion_tokens) == expected
    assert own.store.get_many([own.key(asking("What?"))]) == {own.key(asking("What?")): found.reply}


def test_halves_of_a_character_in_two_events_of_a_stream_are_one_character_and_an_event_of_no_shape_fails(tmp_path: Path) -> None:
    def event(delta: Any) -> bytes:
        return b"data: " + json.dumps({"model": "recorded", "choices": [{"delta": delta, "finish_reason": None}]}).encode() + b"\n\n"

    ending = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    whole = event({"content": "\ud83d"}) + event({"content": "\ude00"}) + ending
    found, _, _ = one(tmp_path / "whole", Play(raw=whole, headers={"content-type": "text/event-stream"}), stream=True)
    assert found.reply is not None
    assert found.reply.text == "\U0001f600"
    for number, strange in enumerate((b"data: " + b'{"choices": [null]}' + b"\n\n", event("text"), event({"content": 5}))):
        found, _, calls = one(tmp_path / str(number), Play(raw=strange + ending), stream=True)
        assert (found.reason, found.reply, calls) == ("endpoint_failed", None, 5)


def test_a_call_past_its_deadline_is_given_up_even_while_it_trickles(tmp_path: Path) -> None:
    for number, play in enumerate((Play("late", wait=5.0), Play("slow and slower", pause=5.0))):
        began = time.monotonic()
        found, own, calls = one(tmp_path / str(number), play, deadline_seconds=0.2)
        assert (found.reason, calls) == ("timeout", 1)
        assert time.monotonic() - began < 4.5
        assert [c.outcome for c in own.store.possibly_paid()] == ["no_reply"]


def test_retry_after_is_honoured_and_bounded(tmp_path: Path) -> None:
    own = LanguageModel(
        ChatModel("m", "http://127.0.0.1:1/v1", first_wait_seconds=1.0, longest_wait_seconds=30.0), ResponseStore(tmp_path / "r")
    )
    waits = [own._wait(random.Random(3), attempt, None) for attempt in range(1, 9)]
    assert all(min(30.0, 2 ** (a - 1) / 2) <= w <= min(30.0, 2 ** (a - 1)) for a, w in enumerate(waits, 1))
    assert own._wait(random.Random(3), 1, 12.0) == 12.0
    assert own._wait(random.Random(3), 1, 86_400.0) == 30.0
    found, _, calls = one(tmp_path, Play(status=429, headers={"retry-after": "0.05"}), "yes", longest_wait_seconds=5.0)
    assert (found.reason, calls) == (None, 2)


def test_an_endpoint_that_is_not_there_is_a_typed_failure_and_costs_nothing(tmp_path: Path) -> None:
    with recorded_endpoint(in_turn("yes")) as endpoint:
        gone = endpoint.url
    own = LanguageModel(ChatModel("m", gone, attempts=2, first_wait_seconds=0.001), ResponseStore(tmp_path / "r"))
    (found,) = own.ask_many([asking("What?")])
    assert found.reason == "endpoint_failed"
    assert own.store.possibly_paid() == []


# ------------------------------------------------------------------------------------------------------ structured replies
@pytest.mark.parametrize(
    "text",
    [
        '{"verdicts": [1, 0',
        'Here it is: {"verdicts": [1, 0]}',
        '{"verdicts": [1, 0]} I hope this helps.',
        '```json\n{"verdicts": [1, 0]}\n```',
        '{"verdicts": [1, 0]}\n{"verdicts": [0, 0]}',
        '{"verdicts": [1]}',
        '{"verdicts": [1, 0, 1]}',
        '{"verdicts": ["1", "0"]}',
        '{"verdicts": [1, 0], "note": "x"}',
        "[]",
        "",
    ],
)  # fmt: skip
def test_a_structured_reply_is_one_json_value_of_its_schema_or_unparsable(text: str, tmp_path: Path) -> None:
    found, _, calls = one(tmp_path, text, schema=Verdicts)
    assert (found.reason, found.value, calls) == ("unparsable_reply", None, 1)
    assert found.reply is not None
    assert found.reply.text == text


def test_a_structured_reply_gives_its_value_and_the_endpoint_is_told_the_schema(tmp_path: Path) -> None:
    with recorded_endpoint(in_turn('{"verdicts": [1, 0]}')) as endpoint:
        (found,) = model(endpoint, tmp_path).ask_many([asking("What?", schema=Verdicts)])
        assert found.value == Verdicts(verdicts=[1, 0])
        told = endpoint.asked[0]["response_format"]["json_schema"]["schema"]
        assert (told["properties"]["verdicts"]["minItems"], told["required"]) == (2, ["verdicts"])


def test_another_models_name_is_accepted_where_the_settings_say_so(tmp_path: Path) -> None:
    found, _, _ = one(tmp_path, Play("yes", model="recorded-2026-11-01"), accepts=("recorded-2026-11-01",))
    assert (found.reason, found.reply and found.reply.model) == (None, "recorded-2026-11-01")


# -------------------------------------------------------------------------------------------------------------- limits
def test_no_more_calls_are_in_flight_than_the_limit_allows(tmp_path: Path) -> None:
    with recorded_endpoint(in_turn(Play("yes", wait=0.05))) as endpoint:
        model(endpoint, tmp_path, concurrency=3).ask_many([asking(str(n)) for n in range(12)])
        assert 1 < endpoint.most_at_once <= 3


def test_who_waits_to_try_again_leaves_the_place_to_others(tmp_path: Path) -> None:
    with recorded_endpoint(in_turn(Play(status=429, headers={"retry-after": "0.2"}), "yes")) as endpoint:
        found = model(endpoint, tmp_path, concurrency=1, longest_wait_seconds=5.0).ask_many([asking(text) for text in "abc"])
        assert [endpoint.text_of(body) for body in endpoint.asked] == ["a", "b", "c", "a"]
        assert [f.reply.attempts for f in found if f.reply] == [2, 1, 1]


def test_a_set_concurrency_is_reached_and_never_passed_over_connections_that_are_used_again(tmp_path: Path) -> None:
    with load.endpoint_process(latency=0.05) as (url, end):
        own = LanguageModel(
            ChatModel("m", url, concurrency=8, first_wait_seconds=0.01, deadline_seconds=1.5), ResponseStore(tmp_path / "r")
        )
        found = own.ask_many([Request(({"role": "system", "content": "S."}, {"role": "user", "content": f"\n{n}"})) for n in range(200)])
        seen = end()
    # One call in twenty faults, in turn by 429, 500, a cut reply and silence; after a silent call or a cut reply the connection is given up.
    faults, reasons = seen["faults"], Counter(f.reason for f in found)
    assert seen["most"] == 8
    assert reasons["timeout"] >= faults["silent"] > 0
    assert reasons[None] + reasons["timeout"] == 200
    assert seen["calls"] == own.counts["asked"] + own.counts["retried"] == 200 + sum(faults.values()) - faults["silent"]
    assert seen["connections"] <= 8 + faults["cut"] + reasons["timeout"]


def test_the_spend_limit_stops_cleanly_and_is_never_passed(tmp_path: Path) -> None:
    # A call: 100 prompt tokens at 10 and 20 completion tokens at 50 a million, 0.002; at most 17 and 30 tokens: 0.00167.
    with recorded_endpoint(in_turn(Play("yes", usage=(15, 20)))) as endpoint:
        own = model(endpoint, tmp_path, prices=Prices(10.0, 50.0), spend_limit=0.01, max_tokens=30)
        found = own.ask_many([asking(f"{n:05d}") for n in range(40)])
        refused = [f for f in found if f.reason == "spend_limit"]
        # Each costs 0.00115; a call that might cost 0.00171 no longer fits after the 8th: 8 x 0.00115 = 0.0092.
        assert (len(endpoint.asked), len(refused)) == (8, 32)
        assert own.spent == pytest.approx(8 * 0.00115)
        assert all("spend_limit 0.01 leaves no room" in str(f.detail) for f in refused)
        # The next run pays for none of the eight again.
        assert (
            sum(
                f.reused
                for f in model(endpoint, tmp_path, prices=Prices(10.0, 50.0), spend_limit=0.01, max_tokens=30).ask_many(
                    [asking(f"{n:05d}") for n in range(40)]
                )
            )
            == 8
        )
        assert len(endpoint.asked) == 16


def test_a_thousand_rows_with_one_fault_in_twenty_are_all_accounted_for(tmp_path: Path) -> None:
    kinds = [
        (Play(status=429), "rate_limited"),
        (Play(status=500), "endpoint_failed"),
        (Play("cut", cut=True), "endpoint_failed"),
        (Play(raw=b'{"choi'), "endpoint_failed"),
        (Play(status=400), "endpoint_failed"),
        (Play("no JSON"), "unparsable_reply"),
        (Play('{"verdicts": [1]}'), "unparsable_reply"),
        (Play('{"verdicts": [1, 0]}', finish="length"), "truncated_reply"),
        (Play('{"verdicts": [1, 0]}', model="another"), "wrong_model"),
        (Play('{"verdicts": [1, 0]}', wait=30.0), "timeout"),
    ]

    def script(body: dict[str, Any], number: int) -> Play:
        row = int(body["messages"][-1]["content"])
        return kinds[row % 10][0] if row < 50 else Play('{"verdicts": [1, 0]}')

    with recorded_endpoint(script) as endpoint:
        own = model(endpoint, tmp_path, concurrency=16, attempts=2, deadline_seconds=10.0)
        found = own.ask_many([asking(str(n), schema=Verdicts) for n in range(1_000)])
        assert [f.reason for f in found[:50]] == [reason for _, reason in kinds] * 5
        assert all(f.reason is None and f.value == Verdicts(verdicts=[1, 0]) for f in found[50:])
        assert own.counts["failed"] == 50


# ---------------------------------------------------------------------------------------------------------------- keys
def test_a_key_is_sent_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("CANARY_KEY", CANARY)
    caplog.set_level("DEBUG")
    echo = [
        Play(f"your key is {CANARY}"),
        Play(status=401, raw=f"Incorrect API key provided: {CANARY}".encode()),
        Play(raw=f'{{"error": "{CANARY}'.encode()),
        Play("x", model=f"m-{CANARY}"),
    ]
    with recorded_endpoint(lambda body, number: echo[int(body["messages"][-1]["content"])]) as endpoint:
        own = model(endpoint, tmp_path, key_variable="CANARY_KEY")
        found = own.ask_many([asking(str(n)) for n in range(len(echo))])
        assert endpoint.headers[0]["authorization"] == f"Bearer {CANARY}"
        assert CANARY not in json.dumps(endpoint.asked)
    assert CANARY not in repr(found) + repr(own) + repr(own.model) + caplog.text
    own.store.close()
    for path in tmp_path.rglob("*"):
        assert CANARY.encode() not in path.read_bytes(), path


def test_a_key_that_is_not_set_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CANARY_KEY", raising=False)
    found, own, calls = one(tmp_path, "yes", key_variable="CANARY_KEY")
    assert (found.reason, calls) == ("no_key", 0)
    assert "CANARY_KEY is not set" in str(found.detail)
    assert own.store.possibly_paid() == []


# --------------------------------------------------------------------------------------------------------------- kills
CHILD = """
import sys
from pathlib import Path
from rag_eval_assets.resources.language_models import ChatModel, LanguageModel, Request
from rag_eval_assets.resources.responses import ResponseStore
own = LanguageModel(ChatModel("recorded", sys.argv[1], concurrency=4), ResponseStore(Path(sys.argv[2])))
print("ready", flush=True)
found = own.ask_many([Request(({"role": "user", "content": str(n)},)) for n in range(60)])
assert all(f.reason is None for f in found)
"""


def killed(tmp_path: Path, kills: int) -> None:
    """Kill -9 at random moments of a run of 60 paid calls: after a random number of calls, and up to two replies' time later."""
    draw = random.Random(20261130)
    with recorded_endpoint(in_turn(Play("yes", wait=0.02))) as endpoint:
        at_work = in_flight = 0
        for number in range(kills):
            path = tmp_path / f"responses-{number}.sqlite"
            endpoint.replied.clear()
            endpoint.asked.clear()
            command = [sys.executable, "-c", CHILD, endpoint.url, str(path)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            moment, later = draw.randrange(60), draw.uniform(0, 0.04)
            while len(endpoint.asked) < moment and process.poll() is None:
                time.sleep(0.001)
            time.sleep(later)
            process.send_signal(signal.SIGKILL)
            ended = process.wait()
            while endpoint.at_once:
                time.sleep(0.01)
            store = ResponseStore(path)
            own = LanguageModel(ChatModel("recorded", endpoint.url, concurrency=4), store)
            requests = [asking(str(n)) for n in range(60)]
            keys = {own.key(r) for r in requests}
            kept = set(store.get_many(sorted(keys)))
            lost = {call.key for call in store.possibly_paid()}
            first = [own.key(asking(endpoint.text_of(body))) for body in endpoint.asked]
            # Every call the endpoint saw is a reply that is kept, or is listed as possibly paid; none is both, none was sent twice.
            assert set(first) <= kept | lost
            assert not kept & lost
            assert len(first) == len(set(first))
            assert len(lost) <= 4
            at_work += ended == -signal.SIGKILL and len(kept) < 60
            in_flight += len(lost)
            endpoint.asked.clear()
            found = own.ask_many(requests)
            # Every row is accounted for: one reply each, those of the killed run read back, the others asked for once.
            assert [f.reply.text for f in found if f.reply] == ["yes"] * 60
            assert {own.key(r) for r, f in zip(requests, found, strict=True) if f.reused} == kept
            second = [own.key(asking(endpoint.text_of(body))) for body in endpoint.asked]
            assert sorted(second) == sorted(keys - kept), "a received reply was paid again"
            assert len(store) == 60
            assert {call.key for call in store.possibly_paid()} == lost
            store.close()
    print(f"{at_work} of {kills} kills hit a run at work; {in_flight} calls were in flight, and every one is listed as possibly paid")
    assert at_work > 0


def test_after_a_kill_no_received_reply_is_paid_again_and_calls_in_flight_are_listed(tmp_path: Path) -> None:
    killed(tmp_path, 3)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_many_kills_of_a_run_that_asks(tmp_path: Path) -> None:
    killed(tmp_path, int(os.environ.get("RAG_EVAL_REPLY_KILLS", "20")))


def test_a_damaged_store_is_set_aside_and_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "responses.sqlite"
    path.write_bytes(b"no database " * 1000)
    assert len(ResponseStore(path)) == 0
    (aside,) = tmp_path.glob("responses.sqlite.damaged-*")
    assert aside.read_bytes().startswith(b"no database")
