"""The HTTP wire (larik): requests as typed calls, and a session's events as a stream that mends itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any, Literal, TypedDict, cast
from urllib.parse import quote, urlencode

from . import _http1
from ._sse import Message, StreamParser
from .backoff import Backoff, Retry
from .errors import TriplaneError
from .generated import larik
from .generated.larik import ROUTES
from .permission import Decide, Decision, answer, decide

SILENCE_S = 45.0
"""Server silence after which a stream counts as dead; it sends a comment every 15 s."""


class Gap(TypedDict):
    """Events that are lost for good: all with `from <= seq <= to`. `messages()` has what was said meanwhile."""

    type: Literal["replay_gap"]
    first: int
    last: int
    epoch: str


StreamItem = larik.SessionEvent | Gap
"""What a stream tells."""


async def connect_http(url: str, token: str, *, reconnect: Backoff | None = Backoff()) -> HttpClient:
    """Connects: asks the server who it is, so that a wrong address or token fails here. `reconnect`: how event streams are opened
    again; `None`: never."""
    client = HttpClient(url, token, reconnect=reconnect)
    await client.info()
    return client


class HttpClient:
    """A server. Holds no connection of its own."""

    def __init__(self, url: str, token: str, *, reconnect: Backoff | None = Backoff()) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._reconnect = reconnect if reconnect is not None else Backoff(attempts=0)

    async def info(self) -> larik.ServerDetails:
        """Version, agents and the rest of what the server tells of itself."""
        return cast(larik.ServerDetails, await self.call("info"))

    async def sessions(self, *, limit: int | None = None, cursor: str | None = None) -> larik.SessionPage:
        """One page of sessions, newest first; `next` is the `cursor` of the following page."""
        return cast(larik.SessionPage, await self.call("listSessions", query={"limit": limit, "cursor": cursor}))

    async def create(
        self,
        *,
        agent: str | None = None,
        model: str | None = None,
        effort: larik.Effort | None = None,
        mode: larik.Mode | None = None,
        title: str | None = None,
    ) -> HttpSession:
        """A new session."""
        body = {"agent": agent, "model": model, "effort": effort, "mode": mode, "title": title}
        view = await self.call("createSession", body={key: value for key, value in body.items() if value is not None})
        return self.session(view["id"])

    async def resume(self, id: str | None = None) -> HttpSession:
        """Loads a stored session; without an id, the newest."""
        body: dict[str, Any] = {"continue": True} if id is None else {"resume": id}
        return self.session((await self.call("createSession", body=body))["id"])

    def session(self, id: str) -> HttpSession:
        """A session by its id; nothing is asked."""
        return HttpSession(self, id)

    async def permissions(self) -> list[larik.SessionPermission]:
        """Pending permission requests of all sessions."""
        return cast(larik.AllPermissions, await self.call("listAllPermissions"))["permissions"]

    async def call(
        self, operation: str, path: dict[str, str] | None = None, query: dict[str, Any] | None = None, body: object = None
    ) -> Any:
        """Calls any operation of the document by its id. `None` where the answer has no body."""
        method, template = ROUTES[operation]
        target = template.format(**{name: quote(value, safe="") for name, value in (path or {}).items()})
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target += f"?{urlencode(given)}" if given else ""
        content = None if body is None else json.dumps(body).encode()
        async with await self._send(method, target, {"content-type": "application/json"} if content else {}, content) as response:
            if response.status == 204:
                return None
            return json.loads(await whole(response))

    async def stream(self, id: str, after: int) -> AsyncGenerator[StreamItem, None]:
        """A session's stream from `after` on, opened again whenever it is cut."""
        cursor, retry = after, Retry(self._reconnect)
        while True:
            try:
                async with aclosing(self._messages(id, cursor)) as messages:
                    async for message in messages:
                        retry.reset()
                        data = json.loads(message.data)
                        if message.event == "replay_gap":
                            first, last = data["from"], data["to"]
                            # A gap that begins at or before the cursor says that the cursor was ahead of the session.
                            cursor = first - 1 if first <= cursor else last
                            yield Gap(type="replay_gap", first=first, last=last, epoch=data["epoch"])
                        else:
                            cursor = int(message.id) if message.id is not None else cursor
                            yield data
                error = TriplaneError("disconnected", "the server ended the stream")
            except TriplaneError as caught:
                if caught.code != "disconnected" and caught.status not in (408, 429) and (caught.status or 0) < 500:
                    raise
                error = caught
            await retry.wait(error)

    async def _messages(self, id: str, after: int) -> AsyncGenerator[Message, None]:
        headers = {"accept": "text/event-stream", "last-event-id": str(after)}
        parser = StreamParser()
        async with await self._send("GET", f"/v1/sessions/{quote(id, safe='')}/events", headers, None) as response:
            async with aclosing(response.chunks()) as chunks:
                while (chunk := await below(asyncio.wait_for(anext(chunks, None), SILENCE_S))) is not None:
                    for message in parser.push(chunk):
                        yield message

    async def _send(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> _http1.Response:
        headers = {"authorization": f"Bearer {self._token}", **headers}
        response = await _http1.send(self.url, method, path, headers, body)
        if response.status < 300:
            return response
        async with response:
            raise failure(response.status, await whole(response))


async def below(step: Any) -> Any:
    """What fails below HTTP is `disconnected`."""
    try:
        return await step
    except (OSError, EOFError, ValueError, TimeoutError) as error:
        raise TriplaneError("disconnected", "the answer was cut", cause=repr(error)) from error


async def whole(response: _http1.Response) -> bytes:
    return cast(bytes, await below(response.body()))


def failure(status: int, body: bytes) -> TriplaneError:
    try:
        error = json.loads(body)["error"]
        return TriplaneError(error["code"], error["message"], cause=error.get("cause"), status=status)
    except (ValueError, KeyError, TypeError):
        return TriplaneError("protocol", f"status {status}, and not in this protocol's shape", status=status)


class HttpSession:
    """One session of a server. Cheap; any number may stand for the same one."""

    def __init__(self, client: HttpClient, id: str) -> None:
        self._client = client
        self.id = id

    async def view(self) -> larik.SessionView:
        """The session in full: settings, usage, pending permissions, tasks."""
        return cast(larik.SessionView, await self._call("getSession"))

    async def patch(self, body: larik.PatchBody) -> larik.SessionView:
        """Changes model, effort, mode or title; what is absent stays."""
        return cast(larik.SessionView, await self._call("patchSession", body))

    async def messages(self) -> list[larik.Message]:
        """The whole transcript, oldest first."""
        return cast(larik.Messages, await self._call("listMessages"))["messages"]

    async def events(self, after: int | None = None) -> AsyncGenerator[StreamItem, None]:
        """The session's events, over runs, unloading and lost connections: those after `after`, or what happens once this has
        returned. Each comes once and in order; what cannot be had any more is an item of type `replay_gap`."""
        return self._client.stream(self.id, (await self.view())["seq"] if after is None else after)

    async def start(self, text: str) -> larik.Accepted:
        """Starts a run and returns at once; `seq` is that of its first event."""
        return cast(larik.Accepted, await self._call("prompt", {"text": text}))

    async def run(
        self, text: str, *, on_permission: Decide[larik.PermissionRequestEvent] | None = None
    ) -> AsyncIterator[StreamItem]:
        """Starts a run: its events, up to its last; `final` has the outcome. Cancelled while it waits for an event, it cancels the
        run; leaving the loop does not. `on_permission` answers its requests, else they wait for whoever answers."""
        # Not to be cut in half: a start that is given up midway would leave open whether there is a run to cancel.
        starting = asyncio.ensure_future(self.start(text))
        try:
            accepted = await asyncio.shield(starting)
            async with aclosing(self._client.stream(self.id, accepted["seq"] - 1)) as items:
                last: int | None = None
                async for item in items:
                    yield item
                    if item["type"] == "permission_request" and on_permission is not None:
                        await decide(item, on_permission, self._giver(item["request_id"]))
                    if item["type"] == "replay_gap":
                        # The end may be among what is lost: then nothing would ever come.
                        view = await self.view()
                        last = None if view["busy"] else view["seq"]
                    at = item["last"] if item["type"] == "replay_gap" else item["seq"]
                    if (last is not None and at >= last) or (item["type"] == "status" and not item["busy"]):
                        return
        except GeneratorExit:
            raise
        except BaseException as error:
            if not starting.done():
                await asyncio.wait([starting])
            if not isinstance(error, TriplaneError) and starting.exception() is None:
                with suppress(TriplaneError):
                    await self.cancel()
            raise

    async def prompt(
        self, text: str, *, on_permission: Decide[larik.PermissionRequestEvent] | None = None
    ) -> larik.Finished:
        """Starts a run and waits for its outcome, for hours if need be. When this is cancelled, so is the run."""
        finished: larik.Finished | None = None
        failed: larik.RunFailure | None = None
        async for item in self.run(text, on_permission=on_permission):
            if item["type"] == "error":
                failed = {"code": item["code"], "message": item["message"]}
            if item["type"] == "final":
                finished = {
                    "text": item["reply"],
                    "usage": item["usage"],
                    "turns_used": item["turns_used"],
                    "stopped_reason": item["stopped_reason"],
                    "run_id": item["run_id"],
                }
                if failed is not None:
                    finished["error"] = failed
        if finished is None:
            raise TriplaneError("replay_gap", "the run's outcome is among the events that are lost; read messages()")
        return finished

    async def cancel(self) -> bool:
        """Interrupts the run in flight; false when there was none."""
        return bool((await self._call("cancelRun"))["cancelled"])

    async def permissions(self) -> list[larik.PermissionRequest]:
        """Pending permission requests."""
        return cast(larik.Permissions, await self._call("listPermissions"))["permissions"]

    async def answer(self, request_id: str, decision: Decision) -> larik.PermissionAnswered | None:
        """Answers a permission request. With `always`, tells whether the rule was saved. `not_found`: it was answered already."""
        given = answer(decision)
        body = {"allow": given.allow, "always": given.always, "reason": given.reason}
        path = {"id": self.id, "request_id": request_id}
        return cast("larik.PermissionAnswered | None", await self._client.call("answerPermission", path, body=body))

    async def fork(self, at: int | None = None) -> tuple[HttpSession, str | None]:
        """A new session with this one's history, or with what is before the message of index `at`, a prompt, whose text is
        returned."""
        forked = await self._call("forkSession", {"at": at})
        return self._client.session(forked["id"]), forked.get("prompt")

    async def compact(self) -> larik.Compacted:
        """Summarises the history."""
        return cast(larik.Compacted, await self._call("compactSession"))

    async def undo(self) -> larik.Undone:
        """Takes back the last prompt, its answer and the file changes that it made."""
        return cast(larik.Undone, await self._call("undoPrompt"))

    async def clear(self) -> None:
        """Empties the history."""
        await self._call("clearSession")

    async def tasks(self) -> list[larik.Task]:
        """Background tasks."""
        return cast(larik.Tasks, await self._call("listTasks"))["tasks"]

    async def stop_task(self, task_id: str) -> None:
        """Stops a background task."""
        await self._client.call("stopTask", {"id": self.id, "task_id": task_id})

    async def unload(self) -> None:
        """Stops and unloads the session; its transcript stays."""
        await self._call("deleteSession")

    async def _call(self, operation: str, body: object = None) -> Any:
        return await self._client.call(operation, {"id": self.id}, body=body)

    def _giver(self, request_id: str) -> Callable[[Decision], Any]:
        return lambda decision: self.answer(request_id, decision)
