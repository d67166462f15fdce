"""One chat request to an OpenAI-compatible endpoint, streamed or not, as bytes go over the wire.

What belongs here: the request's body, reading the reply's events, and which faults may be tried again. What does not: deadlines, waits,
limits (`language_models`). The key stands in one header of the client and is struck from every text that comes back.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from rag_eval_assets.resources.responses import Reply

if TYPE_CHECKING:
    import httpx

MESSAGE_CHARACTERS = 300
STRUCK = "[key]"
THOUGHTS = ("thinking", "reasoning")
"""Types of the parts of a message that are no part of its answer."""
END_SECONDS = 0.1
"""How long an endpoint may take to end a stream whose last event it sent."""


class CallError(Exception):
    """A call without a reply. `again` says whether another attempt may help, `sent` whether the endpoint may have worked for it."""

    def __init__(self, reason: str, text: str, *, again: bool, sent: bool, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.again = again
        self.sent = sent
        self.retry_after = retry_after


class Endpoint:
    """A client of one base URL, such as https://host/v1; an asynchronous context manager."""

    def __init__(self, base_url: str, secret: str | None) -> None:
        import httpx

        self._secret = secret
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._context = httpx.create_ssl_context()  # takes long, so no call's deadline pays for it
        self._idle: list[httpx.AsyncClient] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._idle:
            self._close(client)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _client(self) -> httpx.AsyncClient:
        """A client that no other call uses, of one connection: httpx's pool looks through all that it holds at every call."""
        import httpx

        if self._idle:
            return self._idle.pop()
        # The caller's deadline bounds the whole call. No redirect is followed: the key would go with it.
        headers = {"Authorization": f"Bearer {self._secret}"} if self._secret else {}
        return httpx.AsyncClient(headers=headers, timeout=None, limits=httpx.Limits(max_connections=1), verify=self._context)

    def _close(self, client: httpx.AsyncClient) -> None:
        task = asyncio.ensure_future(client.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, str]],
        sampling: Mapping[str, Any],
        schema: Mapping[str, Any] | None,
        stream: bool,
    ) -> Reply:
        """The reply, without cost and attempts. Raises CallError."""
        import httpx

        body: dict[str, Any] = {"model": model, "messages": list(messages), **sampling}
        if schema is not None:
            named = {"name": str(schema.get("title", "reply")), "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        started, client, to_the_end = time.perf_counter(), self._client(), False
        try:
            async with client.stream("POST", self._url, json=body) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream") and response.status_code == 200:
                    lines = response.aiter_lines()
                    reply = await self._streamed(lines, started)
                    to_the_end = await _ends(lines)
                    return reply
                raw, to_the_end = await response.aread(), True
                if response.status_code != 200:
                    raise self._refusal(response.status_code, response.headers.get("retry-after"), raw)
                return self._whole(raw, started)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise CallError("endpoint_failed", self._told(error), again=True, sent=False) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise CallError("endpoint_failed", self._told(error), again=True, sent=True) from None
        finally:
            # A call that was cancelled while its connection was being put back leaves a client that waits for it for ever.
            if to_the_end:
                self._idle.append(client)
            else:
                self._close(client)

    async def _streamed(self, lines: AsyncIterator[str], started: float) -> Reply:
        text: list[str] = []
        first: float | None = None
        last: dict[str, Any] = {}
        ended = False
        async for line in lines:
            if not line.startswith("data:"):
                continue  # comments and blank lines between events
            data = line.removeprefix("data:").strip()
            if data == "[DONE]":
                ended = True
                break
            event = _object(data)
            if event is None or "error" in event:
                raise self._broken(data)
            last |= {name: event[name] for name in ("model", "usage") if event.get(name)}
            for choice in event.get("choices") or ():
                piece = _said(choice.get("delta") or {}) if isinstance(choice, dict) else None
                if piece is None:
                    raise self._broken(data)
                if piece:
                    first = time.perf_counter() - started if first is None else first
                    text.append(piece)
                last |= {"finish_reason": choice["finish_reason"]} if choice.get("finish_reason") else {}
        if not ended and "finish_reason" not in last:
            raise self._broken("the stream ended before the reply did")
        return self._reply("".join(text), last, started, first)

    def _whole(self, raw: bytes, started: float) -> Reply:
        body = _object(raw)
        choices = body.get("choices") if body else None
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        text = _said(choice.get("message"))
        if not body or text is None:
            raise self._broken(raw.decode("utf-8", "replace"))
        found = {"model": body.get("model"), "usage": body.get("usage"), "finish_reason": choice.get("finish_reason")}
        return self._reply(text, found, started, None)

    def _reply(self, text: str, found: Mapping[str, Any], started: float, first: float | None) -> Reply:
        usage = found["usage"] if isinstance(found.get("usage"), dict) else {}
        return Reply(
            text=self._struck(text),
            finish_reason=self._struck(str(found["finish_reason"])) if found.get("finish_reason") else None,
            model=self._struck(str(found["model"])) if found.get("model") else None,
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            seconds=time.perf_counter() - started,
            first_token_seconds=first,
            cost=None,
            attempts=1,
            received_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    def _refusal(self, status: int, retry_after: str | None, raw: bytes) -> CallError:
        """The error of a status other than 200. What the endpoint refused it did not charge for."""
        again = status == 429 or status >= 500
        text = f"status {status}: {self._short(raw.decode('utf-8', 'replace'))}"
        return CallError(
            "rate_limited" if status == 429 else "endpoint_failed", text, again=again, sent=False, retry_after=_seconds(retry_after)
        )

    def _broken(self, text: str) -> CallError:
        return CallError("endpoint_failed", f"no whole reply: {self._short(text)}", again=True, sent=True)

    def _told(self, error: BaseException) -> str:
        return self._short(f"{type(error).__name__}: {error}")

    def _short(self, text: str) -> str:
        return self._struck(text)[:MESSAGE_CHARACTERS]

    def _struck(self, text: str) -> str:
        """Text that can be kept: without the key, and half a surrogate pair, which has no UTF-8, replaced."""
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return whole.replace(self._secret, STRUCK) if self._secret else whole


async def _ends(lines: AsyncIterator[str]) -> bool:
    """Whether a stream ends soon after its last event: a connection that is read to its end serves the next call."""

    async def read() -> None:
        async for _ in lines:
            pass

    rest = asyncio.ensure_future(read())
    try:
        await asyncio.wait({rest}, timeout=END_SECONDS)
        return rest.done() and rest.exception() is None
    finally:
        if rest.cancel():
            await asyncio.wait({rest})


def _object(data: str | bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _said(message: Any) -> str | None:
    """What a message, or a piece of one, says or refuses, its parts of text joined and thoughts left out; None where it is no message."""
    said = (message.get("content") or message.get("refusal") or "") if isinstance(message, dict) else None
    if not isinstance(said, list):
        return said if isinstance(said, str) else None
    parts = [part if isinstance(part, dict) else {} for part in said]
    texts = [part.get("text") for part in parts if part.get("type") not in THOUGHTS]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else None


def _count(value: Any) -> int | None:
    """A count of tokens that a table can hold; None of anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def _seconds(retry_after: str | None) -> float | None:
    """Seconds of a Retry-After header: a number, or a date (RFC 9110, 10.2.3)."""
    if not retry_after:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        wanted = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (wanted - datetime.now(UTC)).total_seconds())
