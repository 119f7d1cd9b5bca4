# Generated from protocol/schema/sepia.openrpc.json by scripts/generate.py; do not edit.

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Union

Boundary: TypeAlias = Literal['clear', 'compact']
"""Why a boundary stands in the history."""


CallId: TypeAlias = str
"""A tool call, as the model named it."""


class Cancelled(TypedDict):
    """What a cancel did."""

    cancelled: bool
    """False when nothing ran."""


CloseReason: TypeAlias = Literal['explicit', 'idle', 'deleted', 'rewind', 'shutdown']
"""Why a session left memory."""


class ConfigEntry1(TypedDict):
    """It could be read."""

    agent: str
    """The agent."""
    counts: dict[str, int]
    """Items of each kind."""


class ConfigEntry2(TypedDict):
    """It could not."""

    agent: str
    """The agent."""
    error: str
    """Why, in one line."""


ConfigEntry: TypeAlias = ConfigEntry1 | ConfigEntry2
"""What one agent's config holds."""


ConfigKind: TypeAlias = Literal[
    'instructions',
    'rule',
    'command',
    'skill',
    'subagent',
    'mcp_server',
    'hook',
    'setting',
]
"""What a config item is."""


ConfigScope: TypeAlias = Literal['project', 'user']
"""Whom a config item is for."""


ConfigVerb: TypeAlias = Literal['created', 'updated', 'unchanged', 'skipped']
"""What was done with a config item."""


class Deleted(TypedDict):
    """It is gone."""

    deleted: bool
    """Always true."""


class Detached(TypedDict):
    """It is no longer live."""

    detached: bool
    """Always true."""


class Done(TypedDict):
    """It is done; there is nothing to tell."""


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


class Lifecycle(TypedDict):
    """Lifecycle settings, resolved from flags, environment and defaults."""

    historyLimit: int
    """Messages of one history page at most."""
    idleTtlMs: int | None
    """How long a session that this wire opened may idle; null: for ever."""
    probeIdleMs: int
    """How long the state of a lock that was probed is kept."""
    sweepMs: int
    """How often that is looked at."""


class LockHolder(TypedDict):
    """Who holds a lock."""

    generation: int
    """Counts the times that it changed hands by a takeover."""
    node: str
    """Its node's id."""
    pid: int
    """Its process."""
    since: int
    """Since when, in milliseconds since the epoch."""


LockWord: TypeAlias = Literal['free', 'held', 'stale']
"""Whether somebody holds a lock."""


MessageId: TypeAlias = str
"""A message of a session."""


class MetaPatch(TypedDict):
    """What the overlay may be told. Null clears a title or a model."""

    archived: NotRequired[bool | None]
    """Archives it."""
    model: NotRequired[str | None]
    """The model that the next attach asks for."""
    pinned: NotRequired[bool | None]
    """Pins it."""
    projectIds: NotRequired[list[str] | None]
    """All projects that it belongs to."""
    title: NotRequired[str | None]
    """Stands for the stored title."""


Mode: TypeAlias = Literal['plan', 'default', 'accept-edits', 'bypass']
"""What needs a permission."""


class Node(TypedDict):
    """A machine's identity; it stays."""

    id: str
    """Unique."""
    name: str
    """For people."""


OptionKind: TypeAlias = Literal[
    'allow_once', 'allow_always', 'reject_once', 'reject_always'
]
"""What an option means."""


Origin: TypeAlias = Literal['client', 'task']
"""Who said a user message."""


Outcome: TypeAlias = Literal['allowed', 'denied', 'expired']
"""How a permission request ended."""


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


class Project(TypedDict):
    """Sessions that belong together."""

    createdAt: int
    """Milliseconds since the epoch."""
    id: str
    """Unique on this node."""
    name: str
    """For people."""


class Projects(TypedDict):
    """The projects of this node."""

    projects: list[Project]
    """By age, oldest first."""


RequestId: TypeAlias = str
"""A permission request."""


class Resolved(TypedDict):
    """The request is answered."""

    resolved: bool
    """Always true."""


class RestoreRequest(TypedDict):
    """What to restore."""

    dryRun: NotRequired[bool]
    """Tells what would be done, and does nothing."""
    paths: NotRequired[list[str] | None]
    """Only these files."""
    to: NotRequired[MessageId | None]
    """The last message that stays; null: as before the first."""


class RewindRequest(TypedDict):
    """What to take back."""

    dryRun: NotRequired[bool]
    """Tells what would be done, and does nothing."""
    files: NotRequired[bool]
    """Whether files are put back too."""
    to: NotRequired[MessageId | None]
    """The last message that stays; null: none stays."""


Role: TypeAlias = Literal['user', 'assistant', 'tool', 'system']
"""Who wrote a message."""


class RunFailure(TypedDict):
    """What failed in a run."""

    code: ErrorCode
    """Which kind of failure."""
    message: str
    """One line for people."""


RunId: TypeAlias = str
"""One prompt to its stop."""


SessionId: TypeAlias = str
"""A session's id: letters, digits, `-`, `_` and `.`, not beginning with a dot, at most [`SESSION_ID_BYTES`]."""


class SessionSubscribed(TypedDict):
    """The session's events come from here on."""

    sessionId: SessionId
    """The session."""
    subscribed: bool
    """Always true."""


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
    """A file that was left as it is."""

    path: str
    """Absolute path."""
    reason: str
    """Why, in one line."""


class Span(TypedDict):
    """One time that a session was live."""

    agentId: str
    """The agent that ran it."""
    endedAt: int | None
    """Milliseconds since the epoch; null while it lasts, or until the end of a killed process is found."""
    model: NotRequired[str | None]
    """The model that it began with."""
    startedAt: int
    """Milliseconds since the epoch."""


Stop: TypeAlias = Literal[
    'completed', 'aborted', 'max_turns', 'max_tokens', 'refused', 'error'
]
"""Why a turn or a run stopped."""


TaskId: TypeAlias = str
"""A background task."""


TaskState: TypeAlias = Literal['running', 'done', 'failed', 'stopped']
"""How a background task stands."""


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


class AttachedNodeEvent(TypedDict):
    """A stored session went live."""

    agentId: str
    """Its agent."""
    sessionId: SessionId
    """The session."""
    type: Literal['attached']


class CreatedNodeEvent(TypedDict):
    """A fresh session went live."""

    agentId: str
    """Its agent."""
    cwd: str
    """Its directory."""
    sessionId: SessionId
    """The session."""
    type: Literal['created']


class DetachedNodeEvent(TypedDict):
    """A session is no longer live; its last word on the feed."""

    agentId: str
    """Its agent."""
    reason: CloseReason
    """Why."""
    sessionId: SessionId
    """The session."""
    type: Literal['detached']


class DeletedNodeEvent(TypedDict):
    """A session was deleted from its store; before its `detached`."""

    agentId: str
    """Its agent."""
    sessionId: SessionId
    """The session."""
    type: Literal['deleted']


class LaggedNodeEvent(TypedDict):
    """This reader fell behind."""

    count: int
    """How many."""
    sessionId: SessionId | None
    """Whose events were lost; null: the feed's own."""
    type: Literal['lagged']


class TextPromptPart(TypedDict):
    """Plain text."""

    text: str
    """The text."""
    type: Literal['text']


class ImagePromptPart(TypedDict):
    """A picture, inline or by address."""

    data: NotRequired[str | None]
    """Base64."""
    mime: str
    """Media type."""
    type: Literal['image']
    uri: NotRequired[str | None]
    """Address."""


class FilePromptPart(TypedDict):
    """A file, by path or address."""

    mime: NotRequired[str | None]
    """Media type."""
    path: NotRequired[str | None]
    """Path on this node."""
    text: NotRequired[str | None]
    """Its text."""
    type: Literal['file']
    uri: NotRequired[str | None]
    """Address."""


class RunStartedEvent(TypedDict):
    """The session is busy; first of a run."""

    seq: int
    """Counts by one within the session, from 1."""
    type: Literal['runStarted']


class RunFinishedEvent(TypedDict):
    """The session is idle; last of a run."""

    seq: int
    """Counts by one within the session, from 1."""
    outcome: NotRequired[Stop | None]
    """How the run ended; absent after a compaction."""
    type: Literal['runFinished']


class UserMessageEvent(TypedDict):
    """A prompt was taken."""

    seq: int
    """Counts by one within the session, from 1."""
    id: MessageId
    """The message's id."""
    origin: Origin
    """Who said it."""
    text: str
    """What was said."""
    type: Literal['userMessage']


class TurnStartedEvent(TypedDict):
    """A round trip to the model begins."""

    seq: int
    """Counts by one within the session, from 1."""
    model: str
    """`provider/name`."""
    turn: int
    """From 1 within a run."""
    type: Literal['turnStarted']


class LlmStartedEvent(TypedDict):
    """The model was asked."""

    seq: int
    """Counts by one within the session, from 1."""
    model: str
    """`provider/name`."""
    type: Literal['llmStarted']


class TextDeltaEvent(TypedDict):
    """A piece of the reply."""

    seq: int
    """Counts by one within the session, from 1."""
    text: str
    """The piece."""
    type: Literal['textDelta']


class ThinkingDeltaEvent(TypedDict):
    """A piece of the reasoning."""

    seq: int
    """Counts by one within the session, from 1."""
    text: str
    """The piece."""
    type: Literal['thinkingDelta']


class LlmRetryEvent(TypedDict):
    """The model is asked again after a failure."""

    seq: int
    """Counts by one within the session, from 1."""
    attempt: int
    """From 1."""
    delayMs: int
    """How long it is waited before."""
    message: str
    """What failed."""
    type: Literal['llmRetry']


class ToolCallStartedEvent(TypedDict):
    """A tool begins."""

    seq: int
    """Counts by one within the session, from 1."""
    callId: CallId
    """Names the call."""
    input: Any
    """Its arguments."""
    name: str
    """The tool."""
    title: NotRequired[str | None]
    """One line for people."""
    type: Literal['toolCallStarted']


class ToolCallOutputEvent(TypedDict):
    """A tool says something while it runs."""

    seq: int
    """Counts by one within the session, from 1."""
    callId: CallId
    """Names the call."""
    text: str
    """The piece."""
    type: Literal['toolCallOutput']


class PermissionRequestEvent(TypedDict):
    """A tool call waits for a person."""

    seq: int
    """Counts by one within the session, from 1."""
    callId: CallId
    """The call that waits."""
    input: Any
    """The tool's arguments."""
    options: list[PermissionOption]
    """What can be answered."""
    requestId: RequestId
    """Names the request."""
    title: str
    """One line for people."""
    tool: str
    """The tool."""
    type: Literal['permissionRequest']


class PermissionResolvedEvent(TypedDict):
    """A request was answered, or expired with its run."""

    seq: int
    """Counts by one within the session, from 1."""
    by: NotRequired[str | None]
    """Who answered."""
    outcome: Outcome
    """How it ended."""
    reason: NotRequired[str | None]
    """Why, if somebody said."""
    requestId: RequestId
    """The request."""
    type: Literal['permissionResolved']


class TaskStartedEvent(TypedDict):
    """A background task began."""

    seq: int
    """Counts by one within the session, from 1."""
    taskId: TaskId
    """The task."""
    title: str
    """One line for people."""
    type: Literal['taskStarted']


class TaskFinishedEvent(TypedDict):
    """A background task ended."""

    seq: int
    """Counts by one within the session, from 1."""
    state: TaskState
    """How it ended."""
    taskId: TaskId
    """The task."""
    text: str
    """Its output."""
    type: Literal['taskFinished']


class CompactedEvent(TypedDict):
    """The history was summarised."""

    seq: int
    """Counts by one within the session, from 1."""
    afterTokens: int
    """Estimated tokens after."""
    beforeTokens: int
    """Estimated tokens before."""
    summary: str
    """What stands for the history now."""
    type: Literal['compacted']


class SettingsChangedEvent(TypedDict):
    """A setting of the session was changed."""

    seq: int
    """Counts by one within the session, from 1."""
    effort: NotRequired[Effort | None]
    """Reasoning effort."""
    mode: NotRequired[Mode | None]
    """Permission mode."""
    model: NotRequired[str | None]
    """`provider/name`."""
    title: NotRequired[str | None]
    """Title for people."""
    type: Literal['settingsChanged']


class UsageEvent(TypedDict):
    """Tokens so far in this run."""

    seq: int
    """Counts by one within the session, from 1."""
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
    """The run's result."""

    seq: int
    """Counts by one within the session, from 1."""
    reply: str
    """The text of the last assistant message."""
    runId: RunId
    """The run."""
    stoppedReason: Stop
    """Why it stopped."""
    turnsUsed: int
    """Round trips to the model."""
    type: Literal['final']
    usage: Usage
    """Tokens of the run."""


class ErrorEvent(TypedDict):
    """Something failed."""

    seq: int
    """Counts by one within the session, from 1."""
    code: ErrorCode
    """Which kind of failure."""
    message: str
    """One line that helps."""
    retryable: bool
    """Whether the same prompt may work later."""
    type: Literal['error']


class SessionClosedEvent(TypedDict):
    """The session left memory; its last event for this reader."""

    seq: int
    """Counts by one within the session, from 1."""
    reason: CloseReason
    """Why."""
    type: Literal['sessionClosed']


class ExtensionEvent(TypedDict):
    """What an agent sent that has no type here."""

    seq: int
    """Counts by one within the session, from 1."""
    data: Any
    """As it came."""
    name: str
    """The agent's name for it."""
    type: Literal['extension']


class Attached(TypedDict):
    """A session that is live, or open for reading."""

    agentId: str
    """Its agent."""
    id: SessionId
    """The session."""
    model: str | None
    """The model that it has; null when its agent does not tell."""
    readOnly: bool
    """Whether its agent cannot run it here; then it is not live."""


class CapabilitiesView(TypedDict):
    """What an agent can do."""

    config: bool
    """Its config can be read and written."""
    delete: bool
    """Its sessions can be deleted."""
    models: NotRequired[list[str]]
    """The models that it names."""
    modes: NotRequired[list[Mode]]
    """The permission modes that it takes."""
    prompt: bool
    """Runs prompts."""
    read: bool
    """Its sessions can be read."""
    write: bool
    """Sessions can be written into its store."""


class ConfigAction(TypedDict):
    """What an import did with one item."""

    action: ConfigVerb
    """What was done."""
    kind: ConfigKind
    """What the item is."""
    name: str
    """Its name."""
    path: str
    """Absolute path of the file that has it now."""
    reason: NotRequired[str | None]
    """Why it was skipped, or what of it was left out."""


class ConfigImported(TypedDict):
    """What an import did."""

    actions: list[ConfigAction]
    """One an item."""


class ConfigItem(TypedDict):
    """One item of a config."""

    body: str
    """Its text."""
    kind: ConfigKind
    """What it is."""
    meta: dict[str, Any]
    """What its agent says of it, as it came."""
    name: str
    """Its name."""
    path: str
    """Absolute path of the file that has it."""
    scope: ConfigScope
    """Whom it is for."""


class Converted(TypedDict):
    """The copy."""

    agentId: str
    """The agent whose store has it."""
    lost: NotRequired[list[str]]
    """What the store's format cannot hold, one line each; absent when all of it went in."""
    sessionId: SessionId
    """The copy's id."""


class Imported(TypedDict):
    """Where it was written."""

    agentId: str
    """The agent whose store has it."""
    id: SessionId
    """The session."""
    lost: NotRequired[list[str]]
    """What the store's format cannot hold, one line each; absent when all of it went in."""


class LockState(TypedDict):
    """How a session's lock stands."""

    holder: NotRequired[LockHolder | None]
    """Who holds it, or held it last."""
    state: LockWord
    """Whether somebody holds it."""


class Manifest(TypedDict):
    """What is served here."""

    config: Lifecycle
    """Lifecycle settings, resolved."""
    listeners: NotRequired[list[Any]]
    """The ready lines of the other transports of this process."""
    methods: list[str]
    """Exactly the methods that are served."""
    name: str
    """Name of the program."""
    node: Node
    """This machine."""
    protocol: int
    """Version of this wire; check it before calling."""
    version: str
    """Its version."""


class NodeSubscribed(TypedDict):
    """The node's feed comes from here on."""

    live: list[SessionId]
    """Who is live at this moment. One that is attached meanwhile may be in the stream too."""
    subscribed: bool
    """Always true."""


class PlanEntry(TypedDict):
    """One step of a plan."""

    state: PlanState
    """How far it is."""
    text: str
    """The step."""


class PromptOutcome(TypedDict):
    """How a run ended."""

    error: NotRequired[RunFailure | None]
    """What failed, when `stopReason` is `error`."""
    reply: str
    """The text of the last assistant message."""
    runId: RunId
    """The run."""
    stopReason: Stop
    """Why it stopped."""
    turns: int
    """Round trips to the model."""
    usage: Usage
    """Tokens of the run."""


PromptPart: TypeAlias = TextPromptPart | ImagePromptPart | FilePromptPart
"""A piece of a prompt: the pieces of the session IR that a client can say."""


class Restored(TypedDict):
    """What became of the files."""

    restored: list[str]
    """Absolute paths of the files that were put back."""
    skipped: list[Skipped]
    """Those that were not."""


class Rewound(TypedDict):
    """What was taken back."""

    prompt: NotRequired[str | None]
    """The text of the first prompt that was taken back."""
    removed: int
    """How many messages."""
    restored: list[str]
    """Absolute paths of the files that were put back."""
    skipped: list[Skipped]
    """Those that were not."""


class SessionRow(TypedDict):
    """What the store and the overlay say of a session."""

    agentId: str
    """The agent that owns it."""
    archived: bool
    """Whether somebody archived it."""
    createdAt: int
    """Milliseconds since the epoch."""
    cwd: str
    """Absolute directory that its tools work in."""
    id: SessionId
    """The session."""
    live: bool
    """Whether it is live in this process."""
    lock: NotRequired[LockState | None]
    """The live state of its lock, when that was asked for."""
    model: NotRequired[str | None]
    """`provider/name`."""
    pending: bool
    """Whether it was created and never flushed."""
    pinned: bool
    """Whether somebody pinned it."""
    projectIds: list[str]
    """The projects that it belongs to."""
    spans: list[Span]
    """The times that it was live, oldest first."""
    title: NotRequired[str | None]
    """Title for people; the overlay's wins."""
    updatedAt: int
    """Milliseconds since the epoch, of the last write."""


class Sessions(TypedDict):
    """Sessions."""

    sessions: list[SessionRow]
    """Newest write first."""


class Summary(TypedDict):
    """A session without its messages."""

    agentId: str
    """The agent that owns it."""
    archived: bool
    """Whether somebody archived it."""
    createdAt: int
    """Milliseconds since the epoch."""
    cwd: str
    """Absolute directory that its tools work in."""
    id: SessionId
    """The session."""
    live: bool
    """Whether it is live in this process."""
    lock: NotRequired[LockState | None]
    """The live state of its lock, when that was asked for."""
    messageCount: int
    """Messages in its transcript."""
    model: NotRequired[str | None]
    """`provider/name`."""
    pending: bool
    """Whether it was created and never flushed."""
    pinned: bool
    """Whether somebody pinned it."""
    projectIds: list[str]
    """The projects that it belongs to."""
    spans: list[Span]
    """The times that it was live, oldest first."""
    title: NotRequired[str | None]
    """Title for people; the overlay's wins."""
    updatedAt: int
    """Milliseconds since the epoch, of the last write."""


class PlanEvent(TypedDict):
    """The agent's list of steps."""

    seq: int
    """Counts by one within the session, from 1."""
    entries: list[PlanEntry]
    """All steps, in order."""
    type: Literal['plan']


class AgentConfig(TypedDict):
    """An agent's config."""

    agent: str
    """The agent."""
    dir: str
    """The config root that was read."""
    items: list[ConfigItem]
    """Everything in it."""


class AgentView(TypedDict):
    """An agent."""

    capabilities: CapabilitiesView
    """What it can do."""
    id: str
    """Its short name."""
    installed: bool
    """Whether it can be started here."""
    name: str
    """Its name for people."""
    version: NotRequired[str | None]
    """Its version, where it tells."""


class Agents(TypedDict):
    """The registered agents."""

    agents: list[AgentView]
    """In order of preference."""


class Exported(TypedDict):
    """A session on its way to another store."""

    session: Session
    """The whole session."""


class HistoryPage(TypedDict):
    """A page of a history."""

    before: MessageId | None
    """Goes into the next call; null when nothing is older."""
    messages: list[Message]
    """Oldest first."""


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


NodeEvent: TypeAlias = Union[
    AttachedNodeEvent,
    CreatedNodeEvent,
    DetachedNodeEvent,
    DeletedNodeEvent,
    "SessionEventsNodeEvent",
    LaggedNodeEvent,
]
"""Params of `node.event`: one thing on the feed, by `type`."""


Part: TypeAlias = KnownPart | dict[str, Any]
"""A piece of a message. What is not known is kept in [`Part::Other`]."""


class Session(TypedDict):
    """A whole session."""

    agent: str
    """The agent that owns it."""
    created: int
    """Milliseconds since the epoch."""
    cwd: str
    """Absolute directory that its tools work in."""
    effort: NotRequired[Effort | None]
    """Reasoning effort."""
    id: SessionId
    """The session's id."""
    messages: list[Message]
    """Oldest first."""
    mode: NotRequired[Mode | None]
    """Permission mode."""
    model: NotRequired[str | None]
    """`provider/name`."""
    parent: NotRequired[SessionId | None]
    """The session that this one was forked from."""
    title: NotRequired[str | None]
    """Title for people."""
    updated: int
    """Milliseconds since the epoch, of the last write."""
    usage: NotRequired[Usage | None]
    """Tokens summed over all runs."""
    version: int
    """Version of this shape; 1."""


SessionEvent: TypeAlias = Union[
    RunStartedEvent,
    RunFinishedEvent,
    UserMessageEvent,
    TurnStartedEvent,
    LlmStartedEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    LlmRetryEvent,
    "MessageFinishedEvent",
    ToolCallStartedEvent,
    ToolCallOutputEvent,
    "ToolCallFinishedEvent",
    PermissionRequestEvent,
    PermissionResolvedEvent,
    PlanEvent,
    TaskStartedEvent,
    TaskFinishedEvent,
    CompactedEvent,
    SettingsChangedEvent,
    UsageEvent,
    FinalEvent,
    ErrorEvent,
    SessionClosedEvent,
    ExtensionEvent,
]
"""One fact of a session."""


class SessionEvents(TypedDict):
    """Params of `session.event`."""

    events: list[SessionEvent]
    """In order; empty when some were lost."""
    lagged: NotRequired[int | None]
    """How many events this reader lost, right here."""
    sessionId: SessionId
    """The session."""


class ResultPart(TypedDict):
    """The result of a tool call, in a message of role `tool`."""

    error: bool
    """Whether it failed."""
    id: CallId
    """The call's id."""
    output: list[Part]
    """What the tool said."""
    type: Literal['result']


class SessionEventsNodeEvent(TypedDict):
    """A live session's events."""

    events: list[SessionEvent]
    """In order."""
    sessionId: SessionId
    """The session."""
    type: Literal['sessionEvents']


class MessageFinishedEvent(TypedDict):
    """The model's message is whole."""

    seq: int
    """Counts by one within the session, from 1."""
    message: Message
    """The message, as it stands in the history."""
    stop: Stop
    """Why the turn stopped."""
    type: Literal['messageFinished']
    usage: Usage
    """Tokens of this turn."""


class ToolCallFinishedEvent(TypedDict):
    """A tool is done."""

    seq: int
    """Counts by one within the session, from 1."""
    callId: CallId
    """Names the call."""
    diff: NotRequired[str | None]
    """Unified diff of the change it made."""
    durationMs: int
    """How long it took."""
    error: bool
    """Whether it failed."""
    output: list[Part]
    """What the model is told."""
    type: Literal['toolCallFinished']
