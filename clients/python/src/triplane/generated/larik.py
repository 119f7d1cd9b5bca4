# Generated from protocol/schema/larik.openapi.json by scripts/generate.py; do not edit.

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Union

Boundary: TypeAlias = Literal['clear', 'compact']
"""Why a boundary stands in the history."""


CallId: TypeAlias = str
"""A tool call, as the model named it."""


class Cancelled(TypedDict):
    """What a cancel did."""

    cancelled: bool
    """Whether a run was interrupted; false when nothing ran."""


class Cleared(TypedDict):
    """A history that is empty now."""


CloseReason: TypeAlias = Literal['explicit', 'idle', 'deleted', 'rewind', 'shutdown']
"""Why a session left memory."""


class Compacted(TypedDict):
    """What a compaction did."""

    after_tokens: int
    """Estimated tokens after."""
    before_tokens: int
    """Estimated tokens before."""


class Document(TypedDict):
    """A document that was made once and is sent as it is."""


Effort: TypeAlias = Literal['minimal', 'low', 'medium', 'high']
"""How much the model may think."""


ErrorCode: TypeAlias = Literal[
    'not_found',
    'ambiguous',
    'locked',
    'busy',
    'invalid_params',
    'invalid',
    'unknown_agent',
    'unsupported',
    'no_agent',
    'cancelled',
    'overloaded',
    'too_large',
    'unavailable',
    'unauthorized',
    'forbidden',
    'closing',
    'internal',
    'method_not_allowed',
    'timeout',
    'unsupported_media',
    'upgrade_required',
]
"""Why a call failed. One variant for each remedy that a client can take."""


class Failure(TypedDict):
    """A failed call, as it goes on the wire."""

    cause: NotRequired[str | None]
    """The store's, agent's or driver's own message."""
    code: ErrorCode
    """What the client can do about it."""
    message: str
    """One line for people."""


class ForkBody(TypedDict):
    """Where a fork begins."""

    at: NotRequired[int | None]
    """Index into the messages, of a prompt; what is before it is kept. Everything is kept when absent."""


class HealthStatus(TypedDict):
    """The server is alive."""

    status: str
    """Always `ok`."""
    version: str
    """Version of the server."""


MessageId: TypeAlias = str
"""A message of a session."""


Mode: TypeAlias = Literal['plan', 'default', 'accept-edits', 'bypass']
"""What needs a permission."""


class Node(TypedDict):
    """A machine."""

    id: str
    """Minted once."""
    name: str
    """For people."""


class Nothing(TypedDict):
    """No members; whatever is sent is ignored."""


OptionKind: TypeAlias = Literal[
    'allow_once', 'allow_always', 'reject_once', 'reject_always'
]
"""What an option means."""


Origin: TypeAlias = Literal['client', 'task']
"""Who said a user message."""


Outcome: TypeAlias = Literal['allowed', 'denied', 'expired']
"""How a permission request ended."""


class PatchBody(TypedDict):
    """What is changed; what is absent stays."""

    effort: NotRequired[Effort | None]
    """Reasoning effort."""
    mode: NotRequired[Mode | None]
    """What needs a permission."""
    model: NotRequired[str | None]
    """`provider/name`."""
    title: NotRequired[str | None]
    """Title for people."""


class PermissionAnswered(TypedDict):
    """What an `always` answer did."""

    allowed: bool
    """Whether the call goes on."""
    error: NotRequired[str | None]
    """Why it was not."""
    persisted: bool
    """Whether the rule was saved."""


class PermissionBody(TypedDict):
    """An answer to a permission request."""

    allow: bool
    """Whether the call may go on."""
    always: NotRequired[bool | None]
    """Whether calls like it are answered so from now on."""
    reason: NotRequired[str | None]
    """Goes to the model when the call is refused."""


class PermissionOption(TypedDict):
    """One possible answer."""

    id: str
    """Names the option; the native agent's ids are the kinds."""
    kind: OptionKind
    """What it means."""
    name: str
    """For people."""


PlanState: TypeAlias = Literal['pending', 'active', 'done']
"""How far a step is."""


class PromptBody(TypedDict):
    """A prompt."""

    text: str
    """What is said."""
    wait: NotRequired[bool | None]
    """Whether to answer when the run ends rather than when it begins."""


class Provider(TypedDict):
    """A model provider."""

    models: list[str]
    """Models that it names, as `provider/name`; empty when any may be asked for."""
    name: str
    """The part of a model's name before the slash."""


ReplayGap = TypedDict(
    'ReplayGap',
    {
        'epoch': str,
        'from': int,
        'to': int,
    },
)


RequestId: TypeAlias = str
"""A permission request."""


Role: TypeAlias = Literal['user', 'assistant', 'tool', 'system']
"""Who wrote a message."""


class RunFailure(TypedDict):
    """What failed in a run."""

    code: ErrorCode
    """Which kind of failure."""
    message: str
    """One line that helps."""


RunId: TypeAlias = str
"""One prompt to its stop."""


class Sandbox(TypedDict):
    """How commands of the built-in agent are kept in."""

    enforced: bool
    """Whether it is really in force on this system."""
    kind: str
    """`none`, or the mechanism's name."""


SessionId: TypeAlias = str
"""A session's id: letters, digits, `-`, `_` and `.`, not beginning with a dot, at most [`SESSION_ID_BYTES`]."""


class SessionItem(TypedDict):
    """A row of the list of sessions."""

    agent: str
    """The agent that runs it."""
    busy: bool
    """Whether a run is in flight."""
    created: int
    """Milliseconds since the epoch."""
    cwd: str
    """Absolute directory that its tools work in."""
    id: SessionId
    """The session."""
    loaded: bool
    """Whether it is in memory."""
    model: str | None
    """`provider/name`."""
    title: str | None
    """Title for people."""
    updated: int
    """Milliseconds since the epoch, of the last write."""


class SessionPage(TypedDict):
    """A page of the list of sessions."""

    next: NotRequired[str | None]
    """`cursor` of the next page; absent on the last."""
    sessions: list[SessionItem]
    """Newest write first."""


class SessionPermission(TypedDict):
    """A permission request and its session."""

    call_id: CallId
    """The call that waits."""
    input: Any
    """The tool's arguments."""
    options: list[PermissionOption]
    """What can be answered."""
    request_id: RequestId
    """Names the request."""
    session: SessionId
    """The session that waits."""
    title: str
    """One line for people."""
    tool: str
    """The tool."""


class SettingsPatch(TypedDict):
    """Settings that changed; what is absent stayed."""

    effort: NotRequired[Effort | None]
    """Reasoning effort."""
    mode: NotRequired[Mode | None]
    """Permission mode."""
    model: NotRequired[str | None]
    """`provider/name`."""
    title: NotRequired[str | None]
    """Title for people."""


class Skipped(TypedDict):
    """A file that was left alone."""

    path: str
    """The file."""
    reason: str
    """Why."""


Stop: TypeAlias = Literal[
    'completed', 'aborted', 'max_turns', 'max_tokens', 'refused', 'error'
]
"""Why a turn or a run stopped."""


TaskId: TypeAlias = str
"""A background task."""


TaskState: TypeAlias = Literal['running', 'done', 'failed', 'stopped']
"""How a background task stands."""


class Undone(TypedDict):
    """What an undo did."""

    prompt: str
    """Text of the prompt that was taken back."""
    restored: list[str]
    """Files that are again what they were."""
    skipped: list[Skipped]
    """Files that were left alone."""


class Usage(TypedDict):
    """Tokens, summed."""

    cached: int
    """Of `input`, those served from the provider's cache."""
    cost: NotRequired[float | None]
    """US dollars, where the provider tells."""
    input: int
    """Tokens read by the model."""
    output: int
    """Tokens written by it."""
    reasoning: int
    """Of `output`, those spent on reasoning."""


class TextPart(TypedDict):
    """Plain text."""

    text: str
    """The text."""
    type: Literal['text']


class ThinkingPart(TypedDict):
    """Reasoning that the model showed."""

    signature: NotRequired[str | None]
    """The provider's signature, needed to hand it back."""
    text: str
    """The text."""
    type: Literal['thinking']


class CallPart(TypedDict):
    """A tool call of the assistant."""

    id: CallId
    """Names the call; its result has the same id."""
    input: Any
    """The tool's arguments."""
    name: str
    """The tool."""
    type: Literal['call']


class ImagePart(TypedDict):
    """A picture, inline or by address."""

    data: NotRequired[str | None]
    """Base64."""
    mime: str
    """Media type."""
    type: Literal['image']
    uri: NotRequired[str | None]
    """Address."""


class FilePart(TypedDict):
    """A file, by path or address."""

    mime: NotRequired[str | None]
    """Media type."""
    path: NotRequired[str | None]
    """Path on this node."""
    text: NotRequired[str | None]
    """Its text, when it was taken along."""
    type: Literal['file']
    uri: NotRequired[str | None]
    """Address."""


class BoundaryPart(TypedDict):
    """Where the history was cleared or compacted; alone in a system message."""

    summary: NotRequired[str | None]
    """The summary that stands for what came before."""
    type: Literal['boundary']
    why: Boundary
    """What happened here."""


class UserMessageEvent(TypedDict):
    """A prompt was taken."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    id: MessageId
    """The message's id."""
    origin: Origin
    """Who said it."""
    text: str
    """What was said."""
    type: Literal['user_message']


class StatusEvent(TypedDict):
    """A run began or ended; first and last of a run."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    busy: bool
    """Whether a run is in flight."""
    outcome: NotRequired[Stop | None]
    """How the run ended, when one did."""
    type: Literal['status']


class TurnStartEvent(TypedDict):
    """A round trip to the model begins."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    model: str
    """`provider/name`."""
    turn: int
    """From 1 within a run."""
    type: Literal['turn_start']


class LlmStartEvent(TypedDict):
    """The model was asked."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    model: str
    """`provider/name`."""
    type: Literal['llm_start']


class LlmDeltaEvent(TypedDict):
    """A piece of the reply."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    text: str
    """The piece."""
    type: Literal['llm_delta']


class LlmThinkingDeltaEvent(TypedDict):
    """A piece of the reasoning."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    text: str
    """The piece."""
    type: Literal['llm_thinking_delta']


class LlmRetryEvent(TypedDict):
    """The model is asked again after a failure."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    attempt: int
    """From 1."""
    delay_ms: int
    """How long it is waited before."""
    message: str
    """What failed."""
    type: Literal['llm_retry']


class ToolCallStartEvent(TypedDict):
    """A tool begins."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    call_id: CallId
    """Names the call."""
    input: Any
    """Its arguments."""
    name: str
    """The tool."""
    title: NotRequired[str | None]
    """One line for people."""
    type: Literal['tool_call_start']


class ToolCallOutputEvent(TypedDict):
    """A tool says something while it runs."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    call_id: CallId
    """Names the call."""
    text: str
    """The piece."""
    type: Literal['tool_call_output']


class PermissionRequestEvent(TypedDict):
    """A tool call waits for a person."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    call_id: CallId
    """The call that waits."""
    input: Any
    """The tool's arguments."""
    options: list[PermissionOption]
    """What can be answered."""
    request_id: RequestId
    """Names the request."""
    title: str
    """One line for people."""
    tool: str
    """The tool."""
    type: Literal['permission_request']


class PermissionResolvedEvent(TypedDict):
    """A request was answered, or expired with its run."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    by: NotRequired[str | None]
    """Who answered."""
    outcome: Outcome
    """How it ended."""
    reason: NotRequired[str | None]
    """Why, if somebody said."""
    request_id: RequestId
    """The request."""
    type: Literal['permission_resolved']


class TaskStartEvent(TypedDict):
    """A background task began."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    task_id: TaskId
    """The task."""
    title: str
    """One line for people."""
    type: Literal['task_start']


class TaskEndEvent(TypedDict):
    """A background task ended."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    state: TaskState
    """How it ended."""
    task_id: TaskId
    """The task."""
    text: str
    """Its output."""
    type: Literal['task_end']


class CompactionEvent(TypedDict):
    """The history was summarised."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    after_tokens: int
    """Estimated tokens after."""
    before_tokens: int
    """Estimated tokens before."""
    summary: str
    """What stands for the history now."""
    type: Literal['compaction']


class SettingsChangedEvent(TypedDict):
    """A setting of the session was changed."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    effort: NotRequired[Effort | None]
    """Reasoning effort."""
    mode: NotRequired[Mode | None]
    """Permission mode."""
    model: NotRequired[str | None]
    """`provider/name`."""
    title: NotRequired[str | None]
    """Title for people."""
    type: Literal['settings_changed']


class UsageEvent(TypedDict):
    """Tokens so far in this run."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    cached: int
    """Of `input`, those served from the provider's cache."""
    cost: NotRequired[float | None]
    """US dollars, where the provider tells."""
    input: int
    """Tokens read by the model."""
    output: int
    """Tokens written by it."""
    reasoning: int
    """Of `output`, those spent on reasoning."""
    type: Literal['usage']


class FinalEvent(TypedDict):
    """The run's result; the last event of a run but for `status`."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    reply: str
    """The text of the last assistant message."""
    run_id: RunId
    """The run."""
    stopped_reason: Stop
    """Why it stopped."""
    turns_used: int
    """Round trips to the model."""
    type: Literal['final']
    usage: Usage
    """Tokens of the run."""


class ErrorEvent(TypedDict):
    """Something failed."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    code: ErrorCode
    """Which kind of failure."""
    message: str
    """One line that helps."""
    retryable: bool
    """Whether the same prompt may work later."""
    type: Literal['error']


class SessionClosedEvent(TypedDict):
    """The session left memory."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    reason: CloseReason
    """Why."""
    type: Literal['session_closed']


class ExtensionEvent(TypedDict):
    """What an agent sent that has no type here."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    data: Any
    """As it came."""
    name: str
    """The agent's name for it."""
    type: Literal['extension']


class Accepted(TypedDict):
    """A run that began."""

    run_id: RunId
    """The run."""
    seq: int
    """`seq` of its first event."""


class AgentAbilities(TypedDict):
    """What an agent can do."""

    config: bool
    """Its config can be read and written."""
    delete: bool
    """Its sessions can be deleted."""
    models: NotRequired[list[str]]
    """Models that it names, if it has a closed list."""
    modes: NotRequired[list[Mode]]
    """Modes that it takes."""
    prompt: bool
    """Runs prompts."""
    read: bool
    """Its sessions can be read."""
    write: bool
    """Sessions can be written into its store."""


class AgentInfo(TypedDict):
    """An agent."""

    capabilities: AgentAbilities
    """What it can do."""
    id: str
    """Short name, as in `agent` of a new session."""
    installed: bool
    """Whether it can be started here."""
    name: str
    """Name for people."""
    version: NotRequired[str | None]
    """Its version, where it tells."""


class AllPermissions(TypedDict):
    """Pending permission requests of all sessions."""

    permissions: list[SessionPermission]
    """Each with its session."""


CreateBody = TypedDict(
    'CreateBody',
    {
        'agent': NotRequired[str | None],
        'continue': NotRequired[bool | None],
        'effort': NotRequired[Effort | None],
        'mode': NotRequired[Mode | None],
        'model': NotRequired[str | None],
        'resume': NotRequired[SessionId | None],
        'title': NotRequired[str | None],
    },
)


class ErrorBody(TypedDict):
    """The body of every failed request. Clause: C03."""

    error: Failure
    """What failed."""


class Finished(TypedDict):
    """A run that ended, however it ended."""

    error: NotRequired[RunFailure | None]
    """What failed, when `stopped_reason` is `error`."""
    run_id: RunId
    """The run."""
    stopped_reason: Stop
    """Why it stopped."""
    text: str
    """Text of the last assistant message."""
    turns_used: int
    """Round trips to the model."""
    usage: Usage
    """Tokens of the run."""


class PermissionRequest(TypedDict):
    """A tool call that waits for a person."""

    call_id: CallId
    """The call that waits."""
    input: Any
    """The tool's arguments."""
    options: list[PermissionOption]
    """What can be answered."""
    request_id: RequestId
    """Names the request."""
    title: str
    """One line for people."""
    tool: str
    """The tool."""


class Permissions(TypedDict):
    """Pending permission requests of a session."""

    permissions: list[PermissionRequest]
    """Oldest first."""


class PlanEntry(TypedDict):
    """One step of a plan."""

    state: PlanState
    """How far it is."""
    text: str
    """The step."""


class ServerDetails(TypedDict):
    """The server, its directory and what it can run."""

    agents: list[AgentInfo]
    """Agents that are registered, in order of preference."""
    cwd: str
    """Absolute directory that new sessions work in."""
    node: Node
    """This machine, as other nodes know it."""
    providers: list[Provider]
    """Model providers that are set up."""
    sandbox: Sandbox
    """How commands are kept in."""
    transports: list[str]
    """Transports that this process serves: `ws`, `http`, `stdio`."""
    version: str
    """Version of the server."""


class Task(TypedDict):
    """A background task."""

    ended: NotRequired[int | None]
    """Milliseconds since the epoch; absent while it runs."""
    id: TaskId
    """The task."""
    started: int
    """Milliseconds since the epoch."""
    state: TaskState
    """How it stands."""
    title: str
    """One line for people."""


class Tasks(TypedDict):
    """Background tasks of a session."""

    tasks: list[Task]
    """Oldest first."""


class PlanEvent(TypedDict):
    """The agent's list of steps."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    entries: list[PlanEntry]
    """All steps, in order."""
    type: Literal['plan']


class Forked(TypedDict):
    """A new session, branched off."""

    agent: str
    """The agent that runs it."""
    busy: bool
    """Whether a run is in flight."""
    created: int
    """Milliseconds since the epoch."""
    cwd: str
    """Absolute directory that its tools work in."""
    effort: Effort | None
    """Reasoning effort, where it was chosen."""
    epoch: str
    """Changes when the session's `seq` begins anew."""
    id: SessionId
    """The session."""
    loaded: bool
    """Whether it is in memory."""
    mode: Mode
    """What needs a permission."""
    model: str | None
    """`provider/name`."""
    permissions: list[PermissionRequest]
    """Pending permission requests."""
    prompt: NotRequired[str | None]
    """Text of the prompt that `at` named."""
    seq: int
    """`seq` of the last event; 0 before the first."""
    tasks: list[Task]
    """Background tasks, running and ended."""
    title: str | None
    """Title for people."""
    updated: int
    """Milliseconds since the epoch, of the last write."""
    usage: Usage
    """Tokens over all runs."""


class SessionView(TypedDict):
    """One session in full."""

    agent: str
    """The agent that runs it."""
    busy: bool
    """Whether a run is in flight."""
    created: int
    """Milliseconds since the epoch."""
    cwd: str
    """Absolute directory that its tools work in."""
    effort: Effort | None
    """Reasoning effort, where it was chosen."""
    epoch: str
    """Changes when the session's `seq` begins anew."""
    id: SessionId
    """The session."""
    loaded: bool
    """Whether it is in memory."""
    mode: Mode
    """What needs a permission."""
    model: str | None
    """`provider/name`."""
    permissions: list[PermissionRequest]
    """Pending permission requests."""
    seq: int
    """`seq` of the last event; 0 before the first."""
    tasks: list[Task]
    """Background tasks, running and ended."""
    title: str | None
    """Title for people."""
    updated: int
    """Milliseconds since the epoch, of the last write."""
    usage: Usage
    """Tokens over all runs."""


KnownPart: TypeAlias = Union[
    TextPart, ThinkingPart, CallPart, "ResultPart", ImagePart, FilePart, BoundaryPart
]
"""The pieces that are known, by `type`."""


class Message(TypedDict):
    """One message of a session."""

    at: int
    """Milliseconds since the epoch."""
    id: MessageId
    """Unique within the session."""
    model: NotRequired[str | None]
    """The model that wrote it."""
    parts: list[Part]
    """What was said."""
    role: Role
    """Who said it."""
    stop: NotRequired[Stop | None]
    """Why the turn stopped."""
    usage: NotRequired[Usage | None]
    """Tokens of the turn that wrote it."""


class Messages(TypedDict):
    """A transcript."""

    messages: list[Message]
    """Oldest first. A clear or a compaction stands where it happened, as a `system` message with a `boundary` part."""


Part: TypeAlias = KnownPart | dict[str, Any]
"""A piece of a message. What is not known is kept in [`Part::Other`]."""


SessionEvent: TypeAlias = Union[
    UserMessageEvent,
    StatusEvent,
    TurnStartEvent,
    LlmStartEvent,
    LlmDeltaEvent,
    LlmThinkingDeltaEvent,
    LlmRetryEvent,
    "LlmEndEvent",
    ToolCallStartEvent,
    ToolCallOutputEvent,
    "ToolCallEndEvent",
    PermissionRequestEvent,
    PermissionResolvedEvent,
    PlanEvent,
    TaskStartEvent,
    TaskEndEvent,
    CompactionEvent,
    SettingsChangedEvent,
    UsageEvent,
    FinalEvent,
    ErrorEvent,
    SessionClosedEvent,
    ExtensionEvent,
]
"""A fact of a session, numbered."""


StreamData: TypeAlias = SessionEvent | ReplayGap
"""`data` of one event of the stream."""


class ResultPart(TypedDict):
    """The result of a tool call, in a message of role `tool`."""

    error: bool
    """Whether it failed."""
    id: CallId
    """The call's id."""
    output: list[Part]
    """What the tool said."""
    type: Literal['result']


class LlmEndEvent(TypedDict):
    """The model's message is whole."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    message: Message
    """The message, as it stands in the history."""
    stop: Stop
    """Why the turn stopped."""
    type: Literal['llm_end']
    usage: Usage
    """Tokens of this turn."""


class ToolCallEndEvent(TypedDict):
    """A tool is done."""

    seq: int
    """Counts by one within the session, from 1."""
    session: SessionId
    """The session."""
    call_id: CallId
    """Names the call."""
    diff: NotRequired[str | None]
    """Unified diff of the change it made."""
    duration_ms: int
    """How long it took."""
    error: bool
    """Whether it failed."""
    output: list[Part]
    """What the model is told."""
    type: Literal['tool_call_end']


ROUTES: dict[str, tuple[str, str]] = {
    "answerPermission": ("POST", "/v1/sessions/{id}/permissions/{request_id}"),
    "cancelRun": ("POST", "/v1/sessions/{id}/cancel"),
    "clearSession": ("POST", "/v1/sessions/{id}/clear"),
    "compactSession": ("POST", "/v1/sessions/{id}/compact"),
    "createSession": ("POST", "/v1/sessions"),
    "deleteSession": ("DELETE", "/v1/sessions/{id}"),
    "forkSession": ("POST", "/v1/sessions/{id}/fork"),
    "getSession": ("GET", "/v1/sessions/{id}"),
    "health": ("GET", "/v1/health"),
    "info": ("GET", "/v1/info"),
    "listAllPermissions": ("GET", "/v1/permissions"),
    "listMessages": ("GET", "/v1/sessions/{id}/messages"),
    "listPermissions": ("GET", "/v1/sessions/{id}/permissions"),
    "listSessions": ("GET", "/v1/sessions"),
    "listTasks": ("GET", "/v1/sessions/{id}/tasks"),
    "metrics": ("GET", "/metrics"),
    "openapi": ("GET", "/v1/openapi.json"),
    "patchSession": ("PATCH", "/v1/sessions/{id}"),
    "prompt": ("POST", "/v1/sessions/{id}/prompt"),
    "stopTask": ("DELETE", "/v1/sessions/{id}/tasks/{task_id}"),
    "streamEvents": ("GET", "/v1/sessions/{id}/events"),
    "undoPrompt": ("POST", "/v1/sessions/{id}/undo"),
}
"""Method and path of each operation."""
