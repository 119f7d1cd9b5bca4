// Generated from protocol/schema/sepia.openrpc.json by `npm run generate`; do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description An agent's config. */
        AgentConfig: {
            /** @description The agent. */
            agent: string;
            /** @description The config root that was read. */
            dir: string;
            /** @description Everything in it. */
            items: components["schemas"]["ConfigItem"][];
        };
        /** @description The registered agents. */
        Agents: {
            /** @description In order of preference. */
            agents: components["schemas"]["AgentView"][];
        };
        /** @description An agent. */
        AgentView: {
            /** @description What it can do. */
            capabilities: components["schemas"]["CapabilitiesView"];
            /** @description Its short name. */
            id: string;
            /** @description Whether it can be started here. */
            installed: boolean;
            /** @description Its name for people. */
            name: string;
            /** @description Its version, where it tells. */
            version?: string | null;
        };
        /** @description A session that is live, or open for reading. */
        Attached: {
            /** @description Its agent. */
            agentId: string;
            /** @description The session. */
            id: components["schemas"]["SessionId"];
            /** @description The model that it has; null when its agent does not tell. */
            model: string | null;
            /** @description Whether its agent cannot run it here; then it is not live. */
            readOnly: boolean;
        };
        /** @description Why a boundary stands in the history. */
        Boundary: "clear" | "compact";
        /** @description A tool call, as the model named it. */
        CallId: string;
        /** @description What a cancel did. */
        Cancelled: {
            /** @description False when nothing ran. */
            cancelled: boolean;
        };
        /** @description What an agent can do. */
        CapabilitiesView: {
            /** @description Its config can be read and written. */
            config: boolean;
            /** @description Its sessions can be deleted. */
            delete: boolean;
            /** @description The models that it names. */
            models?: string[];
            /** @description The permission modes that it takes. */
            modes?: components["schemas"]["Mode"][];
            /** @description Runs prompts. */
            prompt: boolean;
            /** @description Its sessions can be read. */
            read: boolean;
            /** @description Sessions can be written into its store. */
            write: boolean;
        };
        /** @description Why a session left memory. */
        CloseReason: "explicit" | "idle" | "deleted" | "rewind" | "shutdown";
        /** @description What an import did with one item. */
        ConfigAction: {
            /** @description What was done. */
            action: components["schemas"]["ConfigVerb"];
            /** @description What the item is. */
            kind: components["schemas"]["ConfigKind"];
            /** @description Its name. */
            name: string;
            /** @description Absolute path of the file that has it now. */
            path: string;
            /** @description Why it was skipped, or what of it was left out. */
            reason?: string | null;
        };
        /** @description What one agent's config holds. */
        ConfigEntry: {
            /** @description The agent. */
            agent: string;
            /** @description Items of each kind. */
            counts: {
                [key: string]: number;
            };
        } | {
            /** @description The agent. */
            agent: string;
            /** @description Why, in one line. */
            error: string;
        };
        /** @description What an import did. */
        ConfigImported: {
            /** @description One an item. */
            actions: components["schemas"]["ConfigAction"][];
        };
        /** @description One item of a config. */
        ConfigItem: {
            /** @description Its text. */
            body: string;
            /** @description What it is. */
            kind: components["schemas"]["ConfigKind"];
            /** @description What its agent says of it, as it came. */
            meta: {
                [key: string]: unknown;
            };
            /** @description Its name. */
            name: string;
            /** @description Absolute path of the file that has it. */
            path: string;
            /** @description Whom it is for. */
            scope: components["schemas"]["ConfigScope"];
        };
        /** @description What a config item is. */
        ConfigKind: "instructions" | "rule" | "command" | "skill" | "subagent" | "mcp_server" | "hook" | "setting";
        /** @description Whom a config item is for. */
        ConfigScope: "project" | "user";
        /** @description What was done with a config item. */
        ConfigVerb: "created" | "updated" | "unchanged" | "skipped";
        /** @description The copy. */
        Converted: {
            /** @description The agent whose store has it. */
            agentId: string;
            /** @description What the store's format cannot hold, one line each; absent when all of it went in. */
            lost?: string[];
            /** @description The copy's id. */
            sessionId: components["schemas"]["SessionId"];
        };
        /** @description It is gone. */
        Deleted: {
            /** @description Always true. */
            deleted: boolean;
        };
        /** @description It is no longer live. */
        Detached: {
            /** @description Always true. */
            detached: boolean;
        };
        /** @description It is done; there is nothing to tell. */
        Done: Record<string, never>;
        /** @description How much the model may think. */
        Effort: "minimal" | "low" | "medium" | "high";
        /** @description Why a call failed. One variant for each remedy that a client can take. */
        ErrorCode: "not_found" | "ambiguous" | "locked" | "busy" | "invalid_params" | "invalid" | "unknown_agent" | "unsupported" | "no_agent" | "cancelled" | "overloaded" | "too_large" | "unavailable" | "unauthorized" | "forbidden" | "closing" | "internal" | "method_not_allowed" | "timeout" | "unsupported_media" | "upgrade_required";
        /** @description A session on its way to another store. */
        Exported: {
            /** @description The whole session. */
            session: components["schemas"]["Session"];
        };
        /** @description A page of a history. */
        HistoryPage: {
            /** @description Goes into the next call; null when nothing is older. */
            before: components["schemas"]["MessageId"] | null;
            /** @description Oldest first. */
            messages: components["schemas"]["Message"][];
        };
        /** @description Where it was written. */
        Imported: {
            /** @description The agent whose store has it. */
            agentId: string;
            /** @description The session. */
            id: components["schemas"]["SessionId"];
            /** @description What the store's format cannot hold, one line each; absent when all of it went in. */
            lost?: string[];
        };
        /** @description The pieces that are known, by `type`. */
        KnownPart: ({
            /** @description The text. */
            text: string;
            /** @constant */
            type: "text";
        } & {
            [key: string]: unknown;
        }) | ({
            /** @description The provider's signature, needed to hand it back. */
            signature?: string | null;
            /** @description The text. */
            text: string;
            /** @constant */
            type: "thinking";
        } & {
            [key: string]: unknown;
        }) | ({
            /** @description Names the call; its result has the same id. */
            id: components["schemas"]["CallId"];
            /** @description The tool's arguments. */
            input: unknown;
            /** @description The tool. */
            name: string;
            /** @constant */
            type: "call";
        } & {
            [key: string]: unknown;
        }) | ({
            /**
             * @description Whether it failed.
             * @default false
             */
            error: boolean;
            /** @description The call's id. */
            id: components["schemas"]["CallId"];
            /** @description What the tool said. */
            output: components["schemas"]["Part"][];
            /** @constant */
            type: "result";
        } & {
            [key: string]: unknown;
        }) | ({
            /** @description Base64. */
            data?: string | null;
            /** @description Media type. */
            mime: string;
            /** @constant */
            type: "image";
            /** @description Address. */
            uri?: string | null;
        } & {
            [key: string]: unknown;
        }) | ({
            /** @description Media type. */
            mime?: string | null;
            /** @description Path on this node. */
            path?: string | null;
            /** @description Its text, when it was taken along. */
            text?: string | null;
            /** @constant */
            type: "file";
            /** @description Address. */
            uri?: string | null;
        } & {
            [key: string]: unknown;
        }) | ({
            /** @description The summary that stands for what came before. */
            summary?: string | null;
            /** @constant */
            type: "boundary";
            /** @description What happened here. */
            why: components["schemas"]["Boundary"];
        } & {
            [key: string]: unknown;
        });
        /** @description Lifecycle settings, resolved from flags, environment and defaults. */
        Lifecycle: {
            /**
             * Format: uint64
             * @description Messages of one history page at most.
             */
            historyLimit: number;
            /**
             * Format: uint64
             * @description How long a session that this wire opened may idle; null: for ever.
             */
            idleTtlMs: number | null;
            /**
             * Format: uint64
             * @description How long the state of a lock that was probed is kept.
             */
            probeIdleMs: number;
            /**
             * Format: uint64
             * @description How often that is looked at.
             */
            sweepMs: number;
        };
        /** @description Who holds a lock. */
        LockHolder: {
            /**
             * Format: uint64
             * @description Counts the times that it changed hands by a takeover.
             */
            generation: number;
            /** @description Its node's id. */
            node: string;
            /**
             * Format: uint32
             * @description Its process.
             */
            pid: number;
            /**
             * Format: int64
             * @description Since when, in milliseconds since the epoch.
             */
            since: number;
        };
        /** @description How a session's lock stands. */
        LockState: {
            /** @description Who holds it, or held it last. */
            holder?: components["schemas"]["LockHolder"] | null;
            /** @description Whether somebody holds it. */
            state: components["schemas"]["LockWord"];
        };
        /** @description Whether somebody holds a lock. */
        LockWord: "free" | "held" | "stale";
        /** @description What is served here. */
        Manifest: {
            /** @description Lifecycle settings, resolved. */
            config: components["schemas"]["Lifecycle"];
            /** @description The ready lines of the other transports of this process. */
            listeners?: unknown[];
            /** @description Exactly the methods that are served. */
            methods: string[];
            /** @description Name of the program. */
            name: string;
            /** @description This machine. */
            node: components["schemas"]["Node"];
            /**
             * Format: uint32
             * @description Version of this wire; check it before calling.
             */
            protocol: number;
            /** @description Its version. */
            version: string;
        };
        /** @description One message of a session. */
        Message: {
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            at: number;
            /** @description Unique within the session. */
            id: components["schemas"]["MessageId"];
            /** @description The model that wrote it. */
            model?: string | null;
            /** @description What was said. */
            parts: components["schemas"]["Part"][];
            /** @description Who said it. */
            role: components["schemas"]["Role"];
            /** @description Why the turn stopped. */
            stop?: components["schemas"]["Stop"] | null;
            /** @description Tokens of the turn that wrote it. */
            usage?: components["schemas"]["Usage"] | null;
        } & {
            [key: string]: unknown;
        };
        /** @description A message of a session. */
        MessageId: string;
        /** @description What the overlay may be told. Null clears a title or a model. */
        MetaPatch: {
            /** @description Archives it. */
            archived?: boolean | null;
            /** @description The model that the next attach asks for. */
            model?: string | null;
            /** @description Pins it. */
            pinned?: boolean | null;
            /** @description All projects that it belongs to. */
            projectIds?: string[] | null;
            /** @description Stands for the stored title. */
            title?: string | null;
        };
        Methods: {
            /** @description Lists the registered agents and what each can do. */
            "agents.list": {
                params: Record<string, never>;
                result: components["schemas"]["Agents"];
            };
            /** @description An agent's config. */
            "config.get": {
                params: {
                    /** @description The agent. */
                    agent: string;
                    /**
                     * @description The config root that the agent expects; its own default otherwise.
                     * @default null
                     */
                    dir?: string | null;
                };
                result: components["schemas"]["AgentConfig"];
            };
            /** @description Installs config items for an agent, with one action an item. Deletes nothing, and touches nothing outside the config root. */
            "config.import": {
                params: {
                    /** @description The agent. */
                    agent: string;
                    /** @description An export, or what `config.get` gave. Malformed, it is `invalid`. */
                    config: unknown;
                    /**
                     * @description The config root that the agent expects; its own default otherwise.
                     * @default null
                     */
                    dir?: string | null;
                    /**
                     * @description Tells what would be done, and does nothing.
                     * @default false
                     */
                    dryRun?: boolean;
                };
                result: components["schemas"]["ConfigImported"];
            };
            /** @description Counts the config items of every agent that has config; one that fails does not hide the others. */
            "config.list": {
                params: {
                    /**
                     * @description One agent; all that have config otherwise.
                     * @default null
                     */
                    agent?: string | null;
                    /**
                     * @description The config root that the agent expects; its own default otherwise.
                     * @default null
                     */
                    dir?: string | null;
                };
                result: components["schemas"]["ConfigEntry"][];
            };
            /** @description Streams the node's feed from now on: changes of the live map, and the events of every live session. */
            "events.subscribe": {
                params: Record<string, never>;
                result: components["schemas"]["NodeSubscribed"];
            };
            /** @description Tells the server's name, version, node, lifecycle settings and the methods that it serves. */
            manifest: {
                params: Record<string, never>;
                result: components["schemas"]["Manifest"];
            };
            /** @description Makes a project. */
            "projects.create": {
                params: {
                    /** @description For people; not empty. */
                    name: string;
                };
                result: components["schemas"]["Project"];
            };
            /** @description Deletes a project; its id leaves every session. */
            "projects.delete": {
                params: {
                    /** @description The project. */
                    id: string;
                };
                result: components["schemas"]["Deleted"];
            };
            /** @description Lists the projects of this node. */
            "projects.list": {
                params: Record<string, never>;
                result: components["schemas"]["Projects"];
            };
            /** @description Renames a project. */
            "projects.rename": {
                params: {
                    /** @description The project. */
                    id: string;
                    /** @description For people; not empty. */
                    name: string;
                };
                result: components["schemas"]["Project"];
            };
            /** @description Makes a stored session live, under its lock. An agent that cannot run it gives a read-only attach. */
            "sessions.attach": {
                params: {
                    /**
                     * @description The agent that owns it.
                     * @default null
                     */
                    agent?: string | null;
                    /**
                     * @description Models to be tried in order when the first cannot be used.
                     * @default []
                     */
                    fallbacks?: string[];
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                    /**
                     * @description The model that it goes on with.
                     * @default null
                     */
                    model?: string | null;
                    /**
                     * @description Whether to take it from the process that holds it.
                     * @default false
                     */
                    takeover?: boolean;
                };
                result: components["schemas"]["Attached"];
            };
            /** @description Cancels the run in flight, if there is one; its permission requests expire. */
            "sessions.cancel": {
                params: {
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["Cancelled"];
            };
            /** @description Copies a stored session into another agent's store on this node. */
            "sessions.convert": {
                params: {
                    /** @description The agent whose store gets the copy. */
                    agent: string;
                    /**
                     * @description The agent that owns it.
                     * @default null
                     */
                    from?: string | null;
                    /** @description A stored session. */
                    id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["Converted"];
            };
            /** @description Makes a session and makes it live. */
            "sessions.create": {
                params: {
                    /**
                     * @description The agent that runs it; the default one otherwise.
                     * @default null
                     */
                    agent?: string | null;
                    /** @description Absolute directory that its tools work in. */
                    cwd: string;
                    /**
                     * @description Models to be tried in order when the first cannot be used.
                     * @default []
                     */
                    fallbacks?: string[];
                    /**
                     * @description `provider/name`.
                     * @default null
                     */
                    model?: string | null;
                    /**
                     * @description Title for people.
                     * @default null
                     */
                    title?: string | null;
                };
                result: components["schemas"]["Attached"];
            };
            /** @description Deletes a session from the store that owns it; a live one is detached. */
            "sessions.delete": {
                params: {
                    /**
                     * @description The agent that owns it; a session of another agent is not found.
                     * @default null
                     */
                    agent?: string | null;
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["Deleted"];
            };
            /** @description Releases a live session; a run in flight is cancelled first. */
            "sessions.detach": {
                params: {
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["Detached"];
            };
            /** @description A whole session, wrapped for a transfer. */
            "sessions.export": {
                params: {
                    /**
                     * @description The agent that owns it; a session of another agent is not found.
                     * @default null
                     */
                    agent?: string | null;
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["Exported"];
            };
            /** @description A whole session, live or stored. */
            "sessions.get": {
                params: {
                    /**
                     * @description The agent that owns it; a session of another agent is not found.
                     * @default null
                     */
                    agent?: string | null;
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["Session"];
            };
            /** @description A page of the history, newest page first. */
            "sessions.history": {
                params: {
                    /**
                     * @description The agent that owns it.
                     * @default null
                     */
                    agent?: string | null;
                    /**
                     * @description `before` of the page that was read last.
                     * @default null
                     */
                    before?: components["schemas"]["MessageId"] | null;
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                    /**
                     * Format: uint64
                     * @description Messages at most; capped at the manifest's `historyLimit`, which is also the default.
                     * @default null
                     */
                    limit?: number | null;
                };
                result: components["schemas"]["HistoryPage"];
            };
            /** @description Writes a session into an agent's store, under a fresh id unless one is given. */
            "sessions.import": {
                params: {
                    /** @description The agent whose store it goes to. */
                    agent: string;
                    /**
                     * @description Stands for the session's directory.
                     * @default null
                     */
                    cwd?: string | null;
                    /**
                     * @description The id that it gets; a fresh one otherwise.
                     * @default null
                     */
                    id?: components["schemas"]["SessionId"] | null;
                    /**
                     * @description Stands for its model.
                     * @default null
                     */
                    model?: string | null;
                    /** @description The whole session, as an export gave it. Malformed, it is `invalid`. */
                    session: unknown;
                    /**
                     * @description Stands for its title.
                     * @default null
                     */
                    title?: string | null;
                };
                result: components["schemas"]["Imported"];
            };
            /** @description Lists the sessions of every agent's store, newest write first, with the overlay merged in, and the pending ones. */
            "sessions.list": {
                params: {
                    /**
                     * @description Whether each row tells the live state of its lock.
                     * @default false
                     */
                    withLocks?: boolean;
                };
                result: components["schemas"]["Sessions"];
            };
            /** @description Changes what the overlay says of a session: title, pinned, archived, projects, model. */
            "sessions.patch_meta": {
                params: {
                    /**
                     * @description The agent that owns it.
                     * @default null
                     */
                    agent?: string | null;
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                    /** @description What is absent stays. */
                    patch: components["schemas"]["MetaPatch"];
                };
                result: components["schemas"]["SessionRow"];
            };
            /** @description Answers a permission request with one of its options. The first answer wins. */
            "sessions.permission": {
                params: {
                    /** @description A live session. */
                    id: components["schemas"]["SessionId"];
                    /** @description One of its options, by id. */
                    option: string;
                    /** @description The request. */
                    request: components["schemas"]["RequestId"];
                };
                result: components["schemas"]["Resolved"];
            };
            /** @description Runs a prompt on a live session and answers when the run has ended, with its outcome. */
            "sessions.prompt": {
                params: {
                    /**
                     * @description The agent that owns the session.
                     * @default null
                     */
                    agent?: string | null;
                    /** @description A live session. */
                    id: components["schemas"]["SessionId"];
                    /** @description What is said; at least one part. */
                    parts: components["schemas"]["PromptPart"][];
                };
                result: components["schemas"]["PromptOutcome"];
            };
            /** @description Puts files back to what they were at a message. */
            "sessions.restore": {
                params: {
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                    /** @description What to restore. */
                    request: components["schemas"]["RestoreRequest"];
                };
                result: components["schemas"]["Restored"];
            };
            /** @description Takes back the messages after a message; a live session is detached. */
            "sessions.rewind": {
                params: {
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                    /** @description What to take back. */
                    request: components["schemas"]["RewindRequest"];
                };
                result: components["schemas"]["Rewound"];
            };
            /** @description Streams a live session's events from now on, until it is detached. A second call is a second stream. */
            "sessions.subscribe": {
                params: {
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["SessionSubscribed"];
            };
            /** @description A session without its messages. */
            "sessions.summary": {
                params: {
                    /**
                     * @description The agent that owns it; a session of another agent is not found.
                     * @default null
                     */
                    agent?: string | null;
                    /** @description The session. */
                    id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["Summary"];
            };
            /** @description Closes the plane and ends the process with code 0. */
            shutdown: {
                params: Record<string, never>;
                result: components["schemas"]["Done"];
            };
        };
        /** @description What needs a permission. */
        Mode: "plan" | "default" | "accept-edits" | "bypass";
        /** @description A machine's identity; it stays. */
        Node: {
            /** @description Unique. */
            id: string;
            /** @description For people. */
            name: string;
        };
        /** @description Params of `node.event`: one thing on the feed, by `type`. */
        NodeEvent: {
            /** @description Its agent. */
            agentId: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @constant */
            type: "attached";
        } | {
            /** @description Its agent. */
            agentId: string;
            /** @description Its directory. */
            cwd: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @constant */
            type: "created";
        } | {
            /** @description Its agent. */
            agentId: string;
            /** @description Why. */
            reason: components["schemas"]["CloseReason"];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @constant */
            type: "detached";
        } | {
            /** @description Its agent. */
            agentId: string;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @constant */
            type: "deleted";
        } | {
            /** @description In order. */
            events: components["schemas"]["SessionEvent"][];
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @constant */
            type: "sessionEvents";
        } | {
            /**
             * Format: uint64
             * @description How many.
             */
            count: number;
            /** @description Whose events were lost; null: the feed's own. */
            sessionId: components["schemas"]["SessionId"] | null;
            /** @constant */
            type: "lagged";
        };
        /** @description The node's feed comes from here on. */
        NodeSubscribed: {
            /** @description Who is live at this moment. One that is attached meanwhile may be in the stream too. */
            live: components["schemas"]["SessionId"][];
            /** @description Always true. */
            subscribed: boolean;
        };
        Notifications: {
            /** @description One thing on the node's feed. */
            "node.event": components["schemas"]["NodeEvent"];
            /** @description Events of a session, as many as one wake-up found; or how many this reader lost. */
            "session.event": components["schemas"]["SessionEvents"];
        };
        /** @description What an option means. */
        OptionKind: "allow_once" | "allow_always" | "reject_once" | "reject_always";
        /** @description Who said a user message. */
        Origin: "client" | "task";
        /** @description How a permission request ended. */
        Outcome: "allowed" | "denied" | "expired";
        /** @description A piece of a message. What is not known is kept in [`Part::Other`]. */
        Part: components["schemas"]["KnownPart"] | {
            [key: string]: unknown;
        };
        /** @description One possible answer. */
        PermissionOption: {
            /** @description Names the option; the native agent's ids are the kinds. */
            id: string;
            /** @description What it means. */
            kind: components["schemas"]["OptionKind"];
            /** @description For people. */
            name: string;
        };
        /** @description One step of a plan. */
        PlanEntry: {
            /** @description How far it is. */
            state: components["schemas"]["PlanState"];
            /** @description The step. */
            text: string;
        };
        /** @description How far a step is. */
        PlanState: "pending" | "active" | "done";
        /** @description Sessions that belong together. */
        Project: {
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            createdAt: number;
            /** @description Unique on this node. */
            id: string;
            /** @description For people. */
            name: string;
        };
        /** @description The projects of this node. */
        Projects: {
            /** @description By age, oldest first. */
            projects: components["schemas"]["Project"][];
        };
        /** @description How a run ended. */
        PromptOutcome: {
            /** @description What failed, when `stopReason` is `error`. */
            error?: components["schemas"]["RunFailure"] | null;
            /** @description The text of the last assistant message. */
            reply: string;
            /** @description The run. */
            runId: components["schemas"]["RunId"];
            /** @description Why it stopped. */
            stopReason: components["schemas"]["Stop"];
            /**
             * Format: uint32
             * @description Round trips to the model.
             */
            turns: number;
            /** @description Tokens of the run. */
            usage: components["schemas"]["Usage"];
        };
        /** @description A piece of a prompt: the pieces of the session IR that a client can say. */
        PromptPart: ({
            /** @description The text. */
            text: string;
            /** @constant */
            type: "text";
        } & {
            [key: string]: unknown;
        }) | ({
            /**
             * @description Base64.
             * @default null
             */
            data?: string | null;
            /** @description Media type. */
            mime: string;
            /** @constant */
            type: "image";
            /**
             * @description Address.
             * @default null
             */
            uri?: string | null;
        } & {
            [key: string]: unknown;
        }) | ({
            /**
             * @description Media type.
             * @default null
             */
            mime?: string | null;
            /**
             * @description Path on this node.
             * @default null
             */
            path?: string | null;
            /**
             * @description Its text.
             * @default null
             */
            text?: string | null;
            /** @constant */
            type: "file";
            /**
             * @description Address.
             * @default null
             */
            uri?: string | null;
        } & {
            [key: string]: unknown;
        });
        /** @description A permission request. */
        RequestId: string;
        /** @description The request is answered. */
        Resolved: {
            /** @description Always true. */
            resolved: boolean;
        };
        /** @description What became of the files. */
        Restored: {
            /** @description Absolute paths of the files that were put back. */
            restored: string[];
            /** @description Those that were not. */
            skipped: components["schemas"]["Skipped"][];
        };
        /** @description What to restore. */
        RestoreRequest: {
            /**
             * @description Tells what would be done, and does nothing.
             * @default false
             */
            dryRun?: boolean;
            /**
             * @description Only these files.
             * @default null
             */
            paths?: string[] | null;
            /** @description The last message that stays; null: as before the first. */
            to?: components["schemas"]["MessageId"] | null;
        };
        /** @description What to take back. */
        RewindRequest: {
            /**
             * @description Tells what would be done, and does nothing.
             * @default false
             */
            dryRun?: boolean;
            /**
             * @description Whether files are put back too.
             * @default false
             */
            files?: boolean;
            /** @description The last message that stays; null: none stays. */
            to?: components["schemas"]["MessageId"] | null;
        };
        /** @description What was taken back. */
        Rewound: {
            /** @description The text of the first prompt that was taken back. */
            prompt?: string | null;
            /**
             * Format: uint64
             * @description How many messages.
             */
            removed: number;
            /** @description Absolute paths of the files that were put back. */
            restored: string[];
            /** @description Those that were not. */
            skipped: components["schemas"]["Skipped"][];
        };
        /** @description Who wrote a message. */
        Role: "user" | "assistant" | "tool" | "system";
        /** @description What failed in a run. */
        RunFailure: {
            /** @description Which kind of failure. */
            code: components["schemas"]["ErrorCode"];
            /** @description One line for people. */
            message: string;
        };
        /** @description One prompt to its stop. */
        RunId: string;
        /** @description A whole session. */
        Session: {
            /** @description The agent that owns it. */
            agent: string;
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            created: number;
            /** @description Absolute directory that its tools work in. */
            cwd: string;
            /** @description Reasoning effort. */
            effort?: components["schemas"]["Effort"] | null;
            /** @description The session's id. */
            id: components["schemas"]["SessionId"];
            /** @description Oldest first. */
            messages: components["schemas"]["Message"][];
            /** @description Permission mode. */
            mode?: components["schemas"]["Mode"] | null;
            /** @description `provider/name`. */
            model?: string | null;
            /** @description The session that this one was forked from. */
            parent?: components["schemas"]["SessionId"] | null;
            /** @description Title for people. */
            title?: string | null;
            /**
             * Format: int64
             * @description Milliseconds since the epoch, of the last write.
             */
            updated: number;
            /** @description Tokens summed over all runs. */
            usage?: components["schemas"]["Usage"] | null;
            /**
             * Format: uint32
             * @description Version of this shape; 1.
             */
            version: number;
        } & {
            [key: string]: unknown;
        };
        /** @description One fact of a session. */
        SessionEvent: {
            /**
             * Format: uint64
             * @description Counts by one within the session, from 1.
             */
            seq: number;
        } & ({
            /** @constant */
            type: "runStarted";
        } | {
            /** @description How the run ended; absent after a compaction. */
            outcome?: components["schemas"]["Stop"] | null;
            /** @constant */
            type: "runFinished";
        } | {
            /** @description The message's id. */
            id: components["schemas"]["MessageId"];
            /** @description Who said it. */
            origin: components["schemas"]["Origin"];
            /** @description What was said. */
            text: string;
            /** @constant */
            type: "userMessage";
        } | {
            /** @description `provider/name`. */
            model: string;
            /**
             * Format: uint32
             * @description From 1 within a run.
             */
            turn: number;
            /** @constant */
            type: "turnStarted";
        } | {
            /** @description `provider/name`. */
            model: string;
            /** @constant */
            type: "llmStarted";
        } | {
            /** @description The piece. */
            text: string;
            /** @constant */
            type: "textDelta";
        } | {
            /** @description The piece. */
            text: string;
            /** @constant */
            type: "thinkingDelta";
        } | {
            /**
             * Format: uint32
             * @description From 1.
             */
            attempt: number;
            /**
             * Format: uint64
             * @description How long it is waited before.
             */
            delayMs: number;
            /** @description What failed. */
            message: string;
            /** @constant */
            type: "llmRetry";
        } | {
            /** @description The message, as it stands in the history. */
            message: components["schemas"]["Message"];
            /** @description Why the turn stopped. */
            stop: components["schemas"]["Stop"];
            /** @constant */
            type: "messageFinished";
            /** @description Tokens of this turn. */
            usage: components["schemas"]["Usage"];
        } | {
            /** @description Names the call. */
            callId: components["schemas"]["CallId"];
            /** @description Its arguments. */
            input: unknown;
            /** @description The tool. */
            name: string;
            /** @description One line for people. */
            title?: string | null;
            /** @constant */
            type: "toolCallStarted";
        } | {
            /** @description Names the call. */
            callId: components["schemas"]["CallId"];
            /** @description The piece. */
            text: string;
            /** @constant */
            type: "toolCallOutput";
        } | {
            /** @description Names the call. */
            callId: components["schemas"]["CallId"];
            /** @description Unified diff of the change it made. */
            diff?: string | null;
            /**
             * Format: uint64
             * @description How long it took.
             */
            durationMs: number;
            /** @description Whether it failed. */
            error: boolean;
            /** @description What the model is told. */
            output: components["schemas"]["Part"][];
            /** @constant */
            type: "toolCallFinished";
        } | {
            /** @description The call that waits. */
            callId: components["schemas"]["CallId"];
            /** @description The tool's arguments. */
            input: unknown;
            /** @description What can be answered. */
            options: components["schemas"]["PermissionOption"][];
            /** @description Names the request. */
            requestId: components["schemas"]["RequestId"];
            /** @description One line for people. */
            title: string;
            /** @description The tool. */
            tool: string;
            /** @constant */
            type: "permissionRequest";
        } | {
            /** @description Who answered. */
            by?: string | null;
            /** @description How it ended. */
            outcome: components["schemas"]["Outcome"];
            /** @description Why, if somebody said. */
            reason?: string | null;
            /** @description The request. */
            requestId: components["schemas"]["RequestId"];
            /** @constant */
            type: "permissionResolved";
        } | {
            /** @description All steps, in order. */
            entries: components["schemas"]["PlanEntry"][];
            /** @constant */
            type: "plan";
        } | {
            /** @description The task. */
            taskId: components["schemas"]["TaskId"];
            /** @description One line for people. */
            title: string;
            /** @constant */
            type: "taskStarted";
        } | {
            /** @description How it ended. */
            state: components["schemas"]["TaskState"];
            /** @description The task. */
            taskId: components["schemas"]["TaskId"];
            /** @description Its output. */
            text: string;
            /** @constant */
            type: "taskFinished";
        } | {
            /**
             * Format: uint64
             * @description Estimated tokens after.
             */
            afterTokens: number;
            /**
             * Format: uint64
             * @description Estimated tokens before.
             */
            beforeTokens: number;
            /** @description What stands for the history now. */
            summary: string;
            /** @constant */
            type: "compacted";
        } | (components["schemas"]["SettingsPatch"] & {
            /** @constant */
            type: "settingsChanged";
        }) | (components["schemas"]["Usage"] & {
            /** @constant */
            type: "usage";
        }) | {
            /** @description The text of the last assistant message. */
            reply: string;
            /** @description The run. */
            runId: components["schemas"]["RunId"];
            /** @description Why it stopped. */
            stoppedReason: components["schemas"]["Stop"];
            /**
             * Format: uint32
             * @description Round trips to the model.
             */
            turnsUsed: number;
            /** @constant */
            type: "final";
            /** @description Tokens of the run. */
            usage: components["schemas"]["Usage"];
        } | {
            /** @description Which kind of failure. */
            code: components["schemas"]["ErrorCode"];
            /** @description One line that helps. */
            message: string;
            /** @description Whether the same prompt may work later. */
            retryable: boolean;
            /** @constant */
            type: "error";
        } | {
            /** @description Why. */
            reason: components["schemas"]["CloseReason"];
            /** @constant */
            type: "sessionClosed";
        } | {
            /** @description As it came. */
            data: unknown;
            /** @description The agent's name for it. */
            name: string;
            /** @constant */
            type: "extension";
        });
        /** @description Params of `session.event`. */
        SessionEvents: {
            /** @description In order; empty when some were lost. */
            events: components["schemas"]["SessionEvent"][];
            /**
             * Format: uint64
             * @description How many events this reader lost, right here.
             */
            lagged?: number | null;
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
        };
        /** @description A session's id: letters, digits, `-`, `_` and `.`, not beginning with a dot, at most [`SESSION_ID_BYTES`]. */
        SessionId: string;
        /** @description What the store and the overlay say of a session. */
        SessionRow: {
            /** @description The agent that owns it. */
            agentId: string;
            /** @description Whether somebody archived it. */
            archived: boolean;
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            createdAt: number;
            /** @description Absolute directory that its tools work in. */
            cwd: string;
            /** @description The session. */
            id: components["schemas"]["SessionId"];
            /** @description Whether it is live in this process. */
            live: boolean;
            /** @description The live state of its lock, when that was asked for. */
            lock?: components["schemas"]["LockState"] | null;
            /** @description `provider/name`. */
            model?: string | null;
            /** @description Whether it was created and never flushed. */
            pending: boolean;
            /** @description Whether somebody pinned it. */
            pinned: boolean;
            /** @description The projects that it belongs to. */
            projectIds: string[];
            /** @description The times that it was live, oldest first. */
            spans: components["schemas"]["Span"][];
            /** @description Title for people; the overlay's wins. */
            title?: string | null;
            /**
             * Format: int64
             * @description Milliseconds since the epoch, of the last write.
             */
            updatedAt: number;
        };
        /** @description Sessions. */
        Sessions: {
            /** @description Newest write first. */
            sessions: components["schemas"]["SessionRow"][];
        };
        /** @description The session's events come from here on. */
        SessionSubscribed: {
            /** @description The session. */
            sessionId: components["schemas"]["SessionId"];
            /** @description Always true. */
            subscribed: boolean;
        };
        /** @description Settings that changed; what is absent stayed. */
        SettingsPatch: {
            /** @description Reasoning effort. */
            effort?: components["schemas"]["Effort"] | null;
            /** @description Permission mode. */
            mode?: components["schemas"]["Mode"] | null;
            /** @description `provider/name`. */
            model?: string | null;
            /** @description Title for people. */
            title?: string | null;
        };
        /** @description A file that was left as it is. */
        Skipped: {
            /** @description Absolute path. */
            path: string;
            /** @description Why, in one line. */
            reason: string;
        };
        /** @description One time that a session was live. */
        Span: {
            /** @description The agent that ran it. */
            agentId: string;
            /**
             * Format: int64
             * @description Milliseconds since the epoch; null while it lasts, or until the end of a killed process is found.
             */
            endedAt: number | null;
            /** @description The model that it began with. */
            model?: string | null;
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            startedAt: number;
        };
        /** @description Why a turn or a run stopped. */
        Stop: "completed" | "aborted" | "max_turns" | "max_tokens" | "refused" | "error";
        /** @description A session without its messages. */
        Summary: {
            /** @description The agent that owns it. */
            agentId: string;
            /** @description Whether somebody archived it. */
            archived: boolean;
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            createdAt: number;
            /** @description Absolute directory that its tools work in. */
            cwd: string;
            /** @description The session. */
            id: components["schemas"]["SessionId"];
            /** @description Whether it is live in this process. */
            live: boolean;
            /** @description The live state of its lock, when that was asked for. */
            lock?: components["schemas"]["LockState"] | null;
            /**
             * Format: uint64
             * @description Messages in its transcript.
             */
            messageCount: number;
            /** @description `provider/name`. */
            model?: string | null;
            /** @description Whether it was created and never flushed. */
            pending: boolean;
            /** @description Whether somebody pinned it. */
            pinned: boolean;
            /** @description The projects that it belongs to. */
            projectIds: string[];
            /** @description The times that it was live, oldest first. */
            spans: components["schemas"]["Span"][];
            /** @description Title for people; the overlay's wins. */
            title?: string | null;
            /**
             * Format: int64
             * @description Milliseconds since the epoch, of the last write.
             */
            updatedAt: number;
        };
        /** @description A background task. */
        TaskId: string;
        /** @description How a background task stands. */
        TaskState: "running" | "done" | "failed" | "stopped";
        /** @description Tokens, summed. */
        Usage: {
            /**
             * Format: uint64
             * @description Of `input`, those served from the provider's cache.
             * @default 0
             */
            cached: number;
            /**
             * Format: double
             * @description US dollars, where the provider tells.
             */
            cost?: number | null;
            /**
             * Format: uint64
             * @description Tokens read by the model.
             */
            input: number;
            /**
             * Format: uint64
             * @description Tokens written by it.
             */
            output: number;
            /**
             * Format: uint64
             * @description Of `output`, those spent on reasoning.
             * @default 0
             */
            reasoning: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
