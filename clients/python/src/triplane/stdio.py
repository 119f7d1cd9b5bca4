"""The stdio wire (sepia): a server as a child process, checked before it is used, and started again when it dies."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Literal, TypedDict, cast

from . import _process
from ._peer import Peer
from .backoff import Backoff, Retry
from .errors import TriplaneError
from .generated import sepia
from .permission import Decide, Decision, decide, option_for

PROTOCOL = 1
"""Version of this wire that is spoken here."""

CAPACITY = 8192
"""Events that wait for one reader; then the oldest are dropped and marked."""

REPEATABLE = frozenset(
    {
        "manifest",
        "agents.list",
        "sessions.list",
        "sessions.get",
        "sessions.summary",
        "sessions.export",
        "sessions.history",
        "projects.list",
        "config.list",
        "config.get",
    }
)
"""Calls that only read: sent again, once, when the process dies under them."""

TAIL_S = 2.0
"""How long the events of a run may come after its reply."""


class Missed(TypedDict):
    """Stands where `count` events would be that this reader was too slow for."""

    type: Literal["missed"]
    count: int


StdioItem = sepia.SessionEvent | Missed
"""What a session's iterator tells."""

NodeItem = sepia.NodeEvent | Missed
"""What the node's iterator tells."""


async def spawn_stdio(
    command: str = "triplane",
    args: Sequence[str] = ("serve", "--transport", "stdio"),
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stderr: int | None = None,
    restart: Backoff | None = Backoff(),
) -> StdioClient:
    """Starts the program, reads its manifest, and checks `protocol`; the first start is not tried twice. `stderr`: as for a
    subprocess, the caller's own when absent. `restart`: how a process that died is started again, with the next call; `None`: never."""
    client = StdioClient(lambda: _process.start(command, args, cwd=cwd, env=env, stderr=stderr), restart)
    try:
        await client._living()
        return client
    except BaseException:
        await client.kill()
        raise


class StdioClient:
    """A server process. When it dies, reads are sent again, once, to the next one; other calls in flight, and iterators, raise
    `disconnected`. Sessions must be attached again."""

    manifest: sepia.Manifest

    def __init__(self, start: Callable[[], Awaitable[asyncio.subprocess.Process]], restart: Backoff | None) -> None:
        self._start = start
        self._restart = restart
        self._retry = Retry(restart or Backoff(attempts=0))
        self._failed: TriplaneError | None = None
        self._closed = False
        self._peer: Peer | None = None
        self._starting: asyncio.Task[Peer] | None = None
        self._feeds: dict[str | None, _Feed] = {}

    async def __aenter__(self) -> StdioClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def pid(self) -> int:
        """Id of the process that runs now, or ran last."""
        if self._peer is None:
            raise TriplaneError("disconnected", "the process has not started yet")
        return self._peer.pid

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Calls any method of the wire. Starts the process again if it has died. Cancelled, it is no longer waited for; what it
        began goes on."""
        again = method in REPEATABLE and self._restart is not None
        while True:
            peer = await self._living()
            try:
                return await peer.call(method, params)
            except TriplaneError as error:
                if not again or error.code != "disconnected":
                    raise
                again = False

    async def agents(self) -> list[sepia.AgentView]:
        """Agents, and what each can do."""
        return cast(sepia.Agents, await self.call("agents.list"))["agents"]

    async def sessions(self, *, with_locks: bool = False) -> list[sepia.SessionRow]:
        """Stored and pending sessions, newest first."""
        return cast(sepia.Sessions, await self.call("sessions.list", {"withLocks": with_locks}))["sessions"]

    async def create(
        self, cwd: str | os.PathLike[str], *, agent: str | None = None, title: str | None = None, model: str | None = None
    ) -> StdioSession:
        """A new session, live. `cwd` is absolute."""
        params = {"cwd": os.fspath(cwd), "agent": agent, "title": title, "model": model}
        given = {key: value for key, value in params.items() if value is not None}
        return StdioSession(self, await self.call("sessions.create", given))

    async def attach(self, id: str, *, takeover: bool = False, model: str | None = None) -> StdioSession:
        """Makes a stored session live. `locked`: another process has it; `takeover` takes it away."""
        params: dict[str, Any] = {"id": id, "takeover": takeover}
        if model is not None:
            params["model"] = model
        return StdioSession(self, await self.call("sessions.attach", params))

    async def events(self, id: str) -> AsyncGenerator[StdioItem, None]:
        """A session's events from now on, while it is live. Ends when it is detached."""
        return await self._join(id, "sessions.subscribe", {"id": id})

    async def node_events(self) -> AsyncGenerator[NodeItem, None]:
        """The whole node's feed from now on: who comes and goes, and the events of every live session."""
        return await self._join(None, "events.subscribe", {})

    async def close(self) -> None:
        """Ends the process in order: runs may finish for five seconds."""
        await self._end(Peer.close)

    async def kill(self) -> None:
        """Ends the process at once."""
        await self._end(Peer.kill)

    async def _end(self, how: Callable[[Peer], Awaitable[None]]) -> None:
        self._closed = True
        starting = self._starting
        if starting is not None:
            starting.cancel()
            with suppress(TriplaneError, asyncio.CancelledError):
                await starting
        if self._peer is not None:
            await how(self._peer)

    async def _living(self) -> Peer:
        """The process that runs; one start for all that wait for it."""
        if self._closed:
            raise TriplaneError("disconnected", "the client was closed")
        if self._starting is None:
            self._starting = asyncio.create_task(self._begin())
            # What becomes of a start that nobody waits for any more is told to the next call.
            self._starting.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._starting)

    async def _begin(self) -> Peer:
        try:
            if self._failed is not None:
                await self._retry.wait(self._failed)
            peer = self._peer = Peer(await self._start(), self._notified, self._died)
            try:
                await self._greet(peer)
            except BaseException:
                await peer.kill()
                raise
        except TriplaneError as error:
            self._failed, self._starting = error, None
            raise
        self._failed = None
        self._retry.reset()
        return peer

    async def _greet(self, peer: Peer) -> None:
        self.manifest = cast(sepia.Manifest, await peer.call("manifest", None))
        if self.manifest["protocol"] != PROTOCOL:
            spoken = self.manifest["protocol"]
            raise TriplaneError("protocol", f"the server speaks version {spoken} of the wire, this client {PROTOCOL}")

    def _died(self, peer: Peer, error: TriplaneError) -> None:
        if peer is self._peer:
            self._starting = None
        if self._restart is None:
            self._failed = error
        for key in [*self._feeds]:
            self._feeds.pop(key).end(error)

    async def _join(self, key: str | None, method: str, params: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """A reader of a subscription that is shared: a second one on the wire would double what comes."""
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = _Feed(asyncio.ensure_future(self.call(method, params)))
        reader = _Reader()
        feed.readers.append(reader)
        try:
            await asyncio.shield(feed.subscribed)
        except BaseException:
            feed.readers.remove(reader)
            if feed.subscribed.done() and self._feeds.get(key) is feed:
                del self._feeds[key]
            raise
        return _items(feed, reader)

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        if method == "node.event" and None in self._feeds:
            self._feeds[None].push(params)
        if method != "session.event" or params["sessionId"] not in self._feeds:
            return
        feed = self._feeds[params["sessionId"]]
        if params.get("lagged"):
            feed.push(Missed(type="missed", count=params["lagged"]))
        for event in params["events"]:
            feed.push(event)
            if event["type"] == "sessionClosed":
                self._feeds.pop(params["sessionId"]).end(None)


class _Reader:
    """Items for one iterator, bounded."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.ended = False
        self.error: TriplaneError | None = None
        self.more = asyncio.Event()

    def push(self, item: Any) -> None:
        self.items.append(item)
        if len(self.items) > CAPACITY:
            half = len(self.items) // 2
            count = sum(one["count"] if one["type"] == "missed" else 1 for one in self.items[:half])
            self.items[:half] = [Missed(type="missed", count=count)]
        self.more.set()

    def end(self, error: TriplaneError | None) -> None:
        self.ended, self.error = True, error
        self.more.set()


class _Feed:
    """One subscription of the wire."""

    def __init__(self, subscribed: asyncio.Future[Any]) -> None:
        self.subscribed = subscribed
        self.readers: list[_Reader] = []

    def push(self, item: Any) -> None:
        for reader in self.readers:
            reader.push(item)

    def end(self, error: TriplaneError | None) -> None:
        for reader in self.readers:
            reader.end(error)


async def _items(feed: _Feed, reader: _Reader) -> AsyncGenerator[Any, None]:
    try:
        while True:
            taken, reader.items = reader.items, []
            for item in taken:
                yield item
            if reader.items:
                continue
            if reader.ended:
                if reader.error is not None:
                    raise reader.error
                return
            reader.more.clear()
            await reader.more.wait()
    finally:
        if reader in feed.readers:
            feed.readers.remove(reader)


class StdioSession:
    """One session of a server process, live unless it is `read_only`."""

    def __init__(self, client: StdioClient, attached: sepia.Attached) -> None:
        self._client = client
        self.id = attached["id"]
        self.agent_id = attached["agentId"]
        self.read_only = attached["readOnly"]

    async def events(self) -> AsyncGenerator[StdioItem, None]:
        """See `StdioClient.events`."""
        return await self._client.events(self.id)

    async def prompt(
        self,
        prompt: str | Sequence[sepia.PromptPart],
        *,
        on_permission: Decide[sepia.PermissionRequestEvent] | None = None,
    ) -> sepia.PromptOutcome:
        """Starts a run and waits for its outcome. When this is cancelled, so is the run. `on_permission` answers its requests, else
        they wait for whoever answers."""
        if on_permission is None:
            return await self._prompt(prompt)
        async with aclosing(self._run(prompt, on_permission)) as items:
            async for item in items:
                if item["type"] == "_outcome":
                    return cast(sepia.PromptOutcome, item["outcome"])
        raise TriplaneError("disconnected", "the session ended before the run")

    async def run(
        self,
        prompt: str | Sequence[sepia.PromptPart],
        *,
        on_permission: Decide[sepia.PermissionRequestEvent] | None = None,
    ) -> AsyncIterator[StdioItem]:
        """Starts a run: its events, up to its last; `final` has the outcome. Cancelled while it waits for an event, it cancels the
        run; leaving the loop does not."""
        async with aclosing(self._run(prompt, on_permission)) as items:
            async for item in items:
                if item["type"] != "_outcome":
                    yield item

    async def cancel(self) -> bool:
        """Interrupts the run in flight; false when there was none."""
        return bool((await self._client.call("sessions.cancel", {"id": self.id}))["cancelled"])

    async def answer(self, request: sepia.PermissionRequestEvent, decision: Decision) -> None:
        """Answers a permission request. `not_found`: it was answered already."""
        params = {"id": self.id, "request": request["requestId"], "option": option_for(request["options"], decision)}
        await self._client.call("sessions.permission", params)

    async def history(self, *, limit: int | None = None, before: str | None = None) -> sepia.HistoryPage:
        """A page of the history, newest page first; `before` of the page goes into the next call."""
        params = {"id": self.id, "limit": limit, "before": before}
        given = {key: value for key, value in params.items() if value is not None}
        return cast(sepia.HistoryPage, await self._client.call("sessions.history", given))

    async def get(self) -> sepia.Session:
        """The whole session."""
        return cast(sepia.Session, await self._client.call("sessions.get", {"id": self.id}))

    async def detach(self) -> None:
        """Releases it; a run in flight is cancelled first."""
        await self._client.call("sessions.detach", {"id": self.id})

    async def _prompt(self, prompt: str | Sequence[sepia.PromptPart]) -> sepia.PromptOutcome:
        parts = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else [*prompt]
        try:
            return cast(sepia.PromptOutcome, await self._client.call("sessions.prompt", {"id": self.id, "parts": parts}))
        except asyncio.CancelledError:
            with suppress(TriplaneError):
                await self.cancel()
            raise

    async def _run(
        self, prompt: str | Sequence[sepia.PromptPart], on_permission: Decide[sepia.PermissionRequestEvent] | None
    ) -> AsyncGenerator[Any, None]:
        events = await self.events()
        prompting = asyncio.ensure_future(self._prompt(prompt))
        abandoned = False
        try:
            async with aclosing(events):
                last = False
                while not last:
                    item = await self._next(events, prompting)
                    if item is None:
                        break
                    yield item
                    if item["type"] == "permissionRequest" and on_permission is not None:
                        await self._decide(item, on_permission)
                    last = item["type"] == "runFinished"
            yield {"type": "_outcome", "outcome": await prompting}
        except GeneratorExit:
            abandoned = True  # the run goes on, and its reply is read and dropped
            prompting.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        finally:
            if not abandoned and not prompting.done():
                prompting.cancel()
                await asyncio.wait([prompting])

    async def _decide(
        self, request: sepia.PermissionRequestEvent, on_permission: Decide[sepia.PermissionRequestEvent]
    ) -> None:
        await decide(request, on_permission, lambda decision: self.answer(request, decision))

    async def _next(self, events: AsyncGenerator[StdioItem, None], prompting: asyncio.Future[Any]) -> StdioItem | None:
        """The next event; `None` at the end. Events go their own way, and may be a little behind the reply."""
        coming = asyncio.ensure_future(anext(events, None))
        try:
            await asyncio.wait([coming, prompting], return_when=asyncio.FIRST_COMPLETED)
            if prompting.done() and (error := prompting.exception()) is not None:
                raise error
            if not coming.done():
                await asyncio.wait([coming], timeout=TAIL_S)
            return coming.result() if coming.done() else None
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait([coming])
