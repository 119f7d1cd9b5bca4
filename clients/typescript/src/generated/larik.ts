// Generated from protocol/schema/larik.openapi.json by `npm run generate`; do not edit.

export interface paths {
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Figures of the process, in the Prometheus text format
         * @description Figures of the process, in the Prometheus text format.
         */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Tells that the server is alive
         * @description Tells that the server is alive. Needs no token.
         */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/info": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Tells the server's version, directory, providers, sandbox, agents, node and transports
         * @description Tells the server's version, directory, providers, sandbox, agents, node and transports.
         */
        get: operations["info"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The OpenAPI document of this wire
         * @description The OpenAPI document of this wire.
         */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/permissions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The pending permission requests of all sessions
         * @description The pending permission requests of all sessions.
         */
        get: operations["listAllPermissions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the sessions of this directory, newest write first
         * @description Lists the sessions of this directory, newest write first.
         */
        get: operations["listSessions"];
        put?: never;
        /**
         * Makes a session (201); or, with `resume` or `continue`, loads a stored one under its own id (200)
         * @description Makes a session (201); or, with `resume` or `continue`, loads a stored one under its own id (200).
         */
        post: operations["createSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One session, loaded or stored: settings, usage, pending permission requests and background tasks
         * @description One session, loaded or stored: settings, usage, pending permission requests and background tasks.
         */
        get: operations["getSession"];
        put?: never;
        post?: never;
        /**
         * Stops and unloads a session; its transcript stays
         * @description Stops and unloads a session; its transcript stays. A session that is not loaded is left as it is.
         */
        delete: operations["deleteSession"];
        options?: never;
        head?: never;
        /**
         * Changes the model, the effort, the mode or the title: all that is given, or nothing
         * @description Changes the model, the effort, the mode or the title: all that is given, or nothing. Loads a stored session.
         */
        patch: operations["patchSession"];
        trace?: never;
    };
    "/v1/sessions/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Interrupts the run in flight, if there is one; its permission requests expire
         * @description Interrupts the run in flight, if there is one; its permission requests expire.
         */
        post: operations["cancelRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/clear": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Empties the history; the transcript keeps what was before
         * @description Empties the history; the transcript keeps what was before. Loads a stored session.
         */
        post: operations["clearSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/compact": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Summarises the history; the summary stands for what was before
         * @description Summarises the history; the summary stands for what was before. Loads a stored session.
         */
        post: operations["compactSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Streams the session's events: those after `Last-Event-ID` or `after`, if one is given, then live ones
         * @description Streams the session's events: those after `Last-Event-ID` or `after`, if one is given, then live ones.
         */
        get: operations["streamEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Branches into a new loaded session: the messages before index `at`, which must be a prompt, or all of them
         * @description Branches into a new loaded session: the messages before index `at`, which must be a prompt, or all of them.
         */
        post: operations["forkSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The whole transcript, loaded or not, oldest message first; `at` of a fork is an index into it
         * @description The whole transcript, loaded or not, oldest message first; `at` of a fork is an index into it.
         */
        get: operations["listMessages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/permissions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The pending permission requests of a session
         * @description The pending permission requests of a session.
         */
        get: operations["listPermissions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/permissions/{request_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Answers a permission request (204); with `always`, tells whether the rule was saved (200)
         * @description Answers a permission request (204); with `always`, tells whether the rule was saved (200). The first answer wins.
         */
        post: operations["answerPermission"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/prompt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Starts a run (202); or, with `wait`, answers with the run's outcome when it ends (200)
         * @description Starts a run (202); or, with `wait`, answers with the run's outcome when it ends (200). Loads a stored session.
         */
        post: operations["prompt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The background tasks of a session, running and ended
         * @description The background tasks of a session, running and ended.
         */
        get: operations["listTasks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/tasks/{task_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Stops a background task
         * @description Stops a background task.
         */
        delete: operations["stopTask"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Takes back the last prompt, its answer and the file changes that it made
         * @description Takes back the last prompt, its answer and the file changes that it made. Loads a stored session.
         */
        post: operations["undoPrompt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A run that began. */
        Accepted: {
            /** @description The run. */
            run_id: components["schemas"]["RunId"];
            /**
             * Format: uint64
             * @description `seq` of its first event.
             */
            seq: number;
        };
        /** @description What an agent can do. */
        AgentAbilities: {
            /** @description Its config can be read and written. */
            config: boolean;
            /** @description Its sessions can be deleted. */
            delete: boolean;
            /** @description Models that it names, if it has a closed list. */
            models?: string[];
            /** @description Modes that it takes. */
            modes?: components["schemas"]["Mode"][];
            /** @description Runs prompts. */
            prompt: boolean;
            /** @description Its sessions can be read. */
            read: boolean;
            /** @description Sessions can be written into its store. */
            write: boolean;
        };
        /** @description An agent. */
        AgentInfo: {
            /** @description What it can do. */
            capabilities: components["schemas"]["AgentAbilities"];
            /** @description Short name, as in `agent` of a new session. */
            id: string;
            /** @description Whether it can be started here. */
            installed: boolean;
            /** @description Name for people. */
            name: string;
            /** @description Its version, where it tells. */
            version?: string | null;
        };
        /** @description Pending permission requests of all sessions. */
        AllPermissions: {
            /** @description Each with its session. */
            permissions: components["schemas"]["SessionPermission"][];
        };
        /** @description Why a boundary stands in the history. */
        Boundary: "clear" | "compact";
        /** @description A tool call, as the model named it. */
        CallId: string;
        /** @description What a cancel did. */
        Cancelled: {
            /** @description Whether a run was interrupted; false when nothing ran. */
            cancelled: boolean;
        };
        /** @description A history that is empty now. */
        Cleared: Record<string, never>;
        /** @description Why a session left memory. */
        CloseReason: "explicit" | "idle" | "deleted" | "rewind" | "shutdown";
        /** @description What a compaction did. */
        Compacted: {
            /**
             * Format: uint64
             * @description Estimated tokens after.
             */
            after_tokens: number;
            /**
             * Format: uint64
             * @description Estimated tokens before.
             */
            before_tokens: number;
        };
        /** @description What a new session is given, or which stored one is loaded. */
        CreateBody: {
            /** @description The agent that runs it; the server's default when absent. */
            agent?: string | null;
            /** @description Loads the newest stored session instead. */
            continue?: boolean | null;
            /** @description Reasoning effort. */
            effort?: components["schemas"]["Effort"] | null;
            /** @description What needs a permission. */
            mode?: components["schemas"]["Mode"] | null;
            /** @description `provider/name`; the server's default when absent. */
            model?: string | null;
            /** @description Loads this stored session instead. */
            resume?: components["schemas"]["SessionId"] | null;
            /** @description Title for people. */
            title?: string | null;
        };
        /** @description A document that was made once and is sent as it is. */
        Document: {
            [key: string]: unknown;
        };
        /** @description How much the model may think. */
        Effort: "minimal" | "low" | "medium" | "high";
        /** @description The body of every failed request. Clause: C03. */
        ErrorBody: {
            /** @description What failed. */
            error: components["schemas"]["Failure"];
        };
        /** @description Why a call failed. One variant for each remedy that a client can take. */
        ErrorCode: "not_found" | "ambiguous" | "locked" | "busy" | "invalid_params" | "invalid" | "unknown_agent" | "unsupported" | "no_agent" | "cancelled" | "overloaded" | "too_large" | "unavailable" | "unauthorized" | "forbidden" | "closing" | "internal" | "method_not_allowed" | "timeout" | "unsupported_media" | "upgrade_required";
        /** @description A failed call, as it goes on the wire. */
        Failure: {
            /** @description The store's, agent's or driver's own message. */
            cause?: string | null;
            /** @description What the client can do about it. */
            code: components["schemas"]["ErrorCode"];
            /** @description One line for people. */
            message: string;
        };
        /** @description A run that ended, however it ended. */
        Finished: {
            /** @description What failed, when `stopped_reason` is `error`. */
            error?: components["schemas"]["RunFailure"] | null;
            /** @description The run. */
            run_id: components["schemas"]["RunId"];
            /** @description Why it stopped. */
            stopped_reason: components["schemas"]["Stop"];
            /** @description Text of the last assistant message. */
            text: string;
            /**
             * Format: uint32
             * @description Round trips to the model.
             */
            turns_used: number;
            /** @description Tokens of the run. */
            usage: components["schemas"]["Usage"];
        };
        /** @description Where a fork begins. */
        ForkBody: {
            /**
             * Format: uint64
             * @description Index into the messages, of a prompt; what is before it is kept. Everything is kept when absent.
             * @default null
             */
            at?: number | null;
        };
        /** @description A new session, branched off. */
        Forked: {
            /** @description The agent that runs it. */
            agent: string;
            /** @description Whether a run is in flight. */
            busy: boolean;
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            created: number;
            /** @description Absolute directory that its tools work in. */
            cwd: string;
            /** @description Reasoning effort, where it was chosen. */
            effort: components["schemas"]["Effort"] | null;
            /** @description Changes when the session's `seq` begins anew. */
            epoch: string;
            /** @description The session. */
            id: components["schemas"]["SessionId"];
            /** @description Whether it is in memory. */
            loaded: boolean;
            /** @description What needs a permission. */
            mode: components["schemas"]["Mode"];
            /** @description `provider/name`. */
            model: string | null;
            /** @description Pending permission requests. */
            permissions: components["schemas"]["PermissionRequest"][];
            /** @description Text of the prompt that `at` named. */
            prompt?: string | null;
            /**
             * Format: uint64
             * @description `seq` of the last event; 0 before the first.
             */
            seq: number;
            /** @description Background tasks, running and ended. */
            tasks: components["schemas"]["Task"][];
            /** @description Title for people. */
            title: string | null;
            /**
             * Format: int64
             * @description Milliseconds since the epoch, of the last write.
             */
            updated: number;
            /** @description Tokens over all runs. */
            usage: components["schemas"]["Usage"];
        };
        /** @description The server is alive. */
        HealthStatus: {
            /** @description Always `ok`. */
            status: string;
            /** @description Version of the server. */
            version: string;
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
        /** @description A transcript. */
        Messages: {
            /** @description Oldest first. A clear or a compaction stands where it happened, as a `system` message with a `boundary` part. */
            messages: components["schemas"]["Message"][];
        };
        /** @description What needs a permission. */
        Mode: "plan" | "default" | "accept-edits" | "bypass";
        /** @description A machine. */
        Node: {
            /** @description Minted once. */
            id: string;
            /** @description For people. */
            name: string;
        };
        /** @description No members; whatever is sent is ignored. */
        Nothing: Record<string, never>;
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
        /** @description What is changed; what is absent stays. */
        PatchBody: {
            /** @description Reasoning effort. */
            effort?: components["schemas"]["Effort"] | null;
            /** @description What needs a permission. */
            mode?: components["schemas"]["Mode"] | null;
            /** @description `provider/name`. */
            model?: string | null;
            /** @description Title for people. */
            title?: string | null;
        };
        /** @description What an `always` answer did. */
        PermissionAnswered: {
            /** @description Whether the call goes on. */
            allowed: boolean;
            /** @description Why it was not. */
            error?: string | null;
            /** @description Whether the rule was saved. */
            persisted: boolean;
        };
        /** @description An answer to a permission request. */
        PermissionBody: {
            /** @description Whether the call may go on. */
            allow: boolean;
            /** @description Whether calls like it are answered so from now on. */
            always?: boolean | null;
            /** @description Goes to the model when the call is refused. */
            reason?: string | null;
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
        /** @description A tool call that waits for a person. */
        PermissionRequest: {
            /** @description The call that waits. */
            call_id: components["schemas"]["CallId"];
            /** @description The tool's arguments. */
            input: unknown;
            /** @description What can be answered. */
            options: components["schemas"]["PermissionOption"][];
            /** @description Names the request. */
            request_id: components["schemas"]["RequestId"];
            /** @description One line for people. */
            title: string;
            /** @description The tool. */
            tool: string;
        };
        /** @description Pending permission requests of a session. */
        Permissions: {
            /** @description Oldest first. */
            permissions: components["schemas"]["PermissionRequest"][];
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
        /** @description A prompt. */
        PromptBody: {
            /** @description What is said. */
            text: string;
            /** @description Whether to answer when the run ends rather than when it begins. */
            wait?: boolean | null;
        };
        /** @description A model provider. */
        Provider: {
            /** @description Models that it names, as `provider/name`; empty when any may be asked for. */
            models: string[];
            /** @description The part of a model's name before the slash. */
            name: string;
        };
        /** @description Events that a reader will never get: all with `from <= seq <= to`. */
        ReplayGap: {
            /** @description Changes when the session's `seq` begins anew. */
            epoch: string;
            /**
             * Format: uint64
             * @description First lost.
             */
            from: number;
            /**
             * Format: uint64
             * @description Last lost.
             */
            to: number;
        };
        /** @description A permission request. */
        RequestId: string;
        /** @description Who wrote a message. */
        Role: "user" | "assistant" | "tool" | "system";
        /** @description What failed in a run. */
        RunFailure: {
            /** @description Which kind of failure. */
            code: components["schemas"]["ErrorCode"];
            /** @description One line that helps. */
            message: string;
        };
        /** @description One prompt to its stop. */
        RunId: string;
        /** @description How commands of the built-in agent are kept in. */
        Sandbox: {
            /** @description Whether it is really in force on this system. */
            enforced: boolean;
            /** @description `none`, or the mechanism's name. */
            kind: string;
        };
        /** @description The server, its directory and what it can run. */
        ServerDetails: {
            /** @description Agents that are registered, in order of preference. */
            agents: components["schemas"]["AgentInfo"][];
            /** @description Absolute directory that new sessions work in. */
            cwd: string;
            /** @description This machine, as other nodes know it. */
            node: components["schemas"]["Node"];
            /** @description Model providers that are set up. */
            providers: components["schemas"]["Provider"][];
            /** @description How commands are kept in. */
            sandbox: components["schemas"]["Sandbox"];
            /** @description Transports that this process serves: `ws`, `http`, `stdio`. */
            transports: string[];
            /** @description Version of the server. */
            version: string;
        };
        /** @description A fact of a session, numbered. */
        SessionEvent: {
            /**
             * Format: uint64
             * @description Counts by one within the session, from 1.
             */
            seq: number;
            /** @description The session. */
            session: components["schemas"]["SessionId"];
        } & ({
            /** @description The message's id. */
            id: components["schemas"]["MessageId"];
            /** @description Who said it. */
            origin: components["schemas"]["Origin"];
            /** @description What was said. */
            text: string;
            /** @constant */
            type: "user_message";
        } | {
            /** @description Whether a run is in flight. */
            busy: boolean;
            /** @description How the run ended, when one did. */
            outcome?: components["schemas"]["Stop"] | null;
            /** @constant */
            type: "status";
        } | {
            /** @description `provider/name`. */
            model: string;
            /**
             * Format: uint32
             * @description From 1 within a run.
             */
            turn: number;
            /** @constant */
            type: "turn_start";
        } | {
            /** @description `provider/name`. */
            model: string;
            /** @constant */
            type: "llm_start";
        } | {
            /** @description The piece. */
            text: string;
            /** @constant */
            type: "llm_delta";
        } | {
            /** @description The piece. */
            text: string;
            /** @constant */
            type: "llm_thinking_delta";
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
            delay_ms: number;
            /** @description What failed. */
            message: string;
            /** @constant */
            type: "llm_retry";
        } | {
            /** @description The message, as it stands in the history. */
            message: components["schemas"]["Message"];
            /** @description Why the turn stopped. */
            stop: components["schemas"]["Stop"];
            /** @constant */
            type: "llm_end";
            /** @description Tokens of this turn. */
            usage: components["schemas"]["Usage"];
        } | {
            /** @description Names the call. */
            call_id: components["schemas"]["CallId"];
            /** @description Its arguments. */
            input: unknown;
            /** @description The tool. */
            name: string;
            /** @description One line for people. */
            title?: string | null;
            /** @constant */
            type: "tool_call_start";
        } | {
            /** @description Names the call. */
            call_id: components["schemas"]["CallId"];
            /** @description The piece. */
            text: string;
            /** @constant */
            type: "tool_call_output";
        } | {
            /** @description Names the call. */
            call_id: components["schemas"]["CallId"];
            /** @description Unified diff of the change it made. */
            diff?: string | null;
            /**
             * Format: uint64
             * @description How long it took.
             */
            duration_ms: number;
            /** @description Whether it failed. */
            error: boolean;
            /** @description What the model is told. */
            output: components["schemas"]["Part"][];
            /** @constant */
            type: "tool_call_end";
        } | (components["schemas"]["PermissionRequest"] & {
            /** @constant */
            type: "permission_request";
        }) | {
            /** @description Who answered. */
            by?: string | null;
            /** @description How it ended. */
            outcome: components["schemas"]["Outcome"];
            /** @description Why, if somebody said. */
            reason?: string | null;
            /** @description The request. */
            request_id: components["schemas"]["RequestId"];
            /** @constant */
            type: "permission_resolved";
        } | {
            /** @description All steps, in order. */
            entries: components["schemas"]["PlanEntry"][];
            /** @constant */
            type: "plan";
        } | {
            /** @description The task. */
            task_id: components["schemas"]["TaskId"];
            /** @description One line for people. */
            title: string;
            /** @constant */
            type: "task_start";
        } | {
            /** @description How it ended. */
            state: components["schemas"]["TaskState"];
            /** @description The task. */
            task_id: components["schemas"]["TaskId"];
            /** @description Its output. */
            text: string;
            /** @constant */
            type: "task_end";
        } | {
            /**
             * Format: uint64
             * @description Estimated tokens after.
             */
            after_tokens: number;
            /**
             * Format: uint64
             * @description Estimated tokens before.
             */
            before_tokens: number;
            /** @description What stands for the history now. */
            summary: string;
            /** @constant */
            type: "compaction";
        } | (components["schemas"]["SettingsPatch"] & {
            /** @constant */
            type: "settings_changed";
        }) | (components["schemas"]["Usage"] & {
            /** @constant */
            type: "usage";
        }) | {
            /** @description The text of the last assistant message. */
            reply: string;
            /** @description The run. */
            run_id: components["schemas"]["RunId"];
            /** @description Why it stopped. */
            stopped_reason: components["schemas"]["Stop"];
            /**
             * Format: uint32
             * @description Round trips to the model.
             */
            turns_used: number;
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
            type: "session_closed";
        } | {
            /** @description As it came. */
            data: unknown;
            /** @description The agent's name for it. */
            name: string;
            /** @constant */
            type: "extension";
        });
        /** @description A session's id: letters, digits, `-`, `_` and `.`, not beginning with a dot, at most [`SESSION_ID_BYTES`]. */
        SessionId: string;
        /** @description A row of the list of sessions. */
        SessionItem: {
            /** @description The agent that runs it. */
            agent: string;
            /** @description Whether a run is in flight. */
            busy: boolean;
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            created: number;
            /** @description Absolute directory that its tools work in. */
            cwd: string;
            /** @description The session. */
            id: components["schemas"]["SessionId"];
            /** @description Whether it is in memory. */
            loaded: boolean;
            /** @description `provider/name`. */
            model: string | null;
            /** @description Title for people. */
            title: string | null;
            /**
             * Format: int64
             * @description Milliseconds since the epoch, of the last write.
             */
            updated: number;
        };
        /** @description A page of the list of sessions. */
        SessionPage: {
            /** @description `cursor` of the next page; absent on the last. */
            next?: string | null;
            /** @description Newest write first. */
            sessions: components["schemas"]["SessionItem"][];
        };
        /** @description A permission request and its session. */
        SessionPermission: {
            /** @description The call that waits. */
            call_id: components["schemas"]["CallId"];
            /** @description The tool's arguments. */
            input: unknown;
            /** @description What can be answered. */
            options: components["schemas"]["PermissionOption"][];
            /** @description Names the request. */
            request_id: components["schemas"]["RequestId"];
            /** @description The session that waits. */
            session: components["schemas"]["SessionId"];
            /** @description One line for people. */
            title: string;
            /** @description The tool. */
            tool: string;
        };
        /** @description One session in full. */
        SessionView: {
            /** @description The agent that runs it. */
            agent: string;
            /** @description Whether a run is in flight. */
            busy: boolean;
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            created: number;
            /** @description Absolute directory that its tools work in. */
            cwd: string;
            /** @description Reasoning effort, where it was chosen. */
            effort: components["schemas"]["Effort"] | null;
            /** @description Changes when the session's `seq` begins anew. */
            epoch: string;
            /** @description The session. */
            id: components["schemas"]["SessionId"];
            /** @description Whether it is in memory. */
            loaded: boolean;
            /** @description What needs a permission. */
            mode: components["schemas"]["Mode"];
            /** @description `provider/name`. */
            model: string | null;
            /** @description Pending permission requests. */
            permissions: components["schemas"]["PermissionRequest"][];
            /**
             * Format: uint64
             * @description `seq` of the last event; 0 before the first.
             */
            seq: number;
            /** @description Background tasks, running and ended. */
            tasks: components["schemas"]["Task"][];
            /** @description Title for people. */
            title: string | null;
            /**
             * Format: int64
             * @description Milliseconds since the epoch, of the last write.
             */
            updated: number;
            /** @description Tokens over all runs. */
            usage: components["schemas"]["Usage"];
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
        /** @description A file that was left alone. */
        Skipped: {
            /** @description The file. */
            path: string;
            /** @description Why. */
            reason: string;
        };
        /** @description Why a turn or a run stopped. */
        Stop: "completed" | "aborted" | "max_turns" | "max_tokens" | "refused" | "error";
        /** @description `data` of one event of the stream. */
        StreamData: components["schemas"]["SessionEvent"] | components["schemas"]["ReplayGap"];
        /** @description A background task. */
        Task: {
            /**
             * Format: int64
             * @description Milliseconds since the epoch; absent while it runs.
             */
            ended?: number | null;
            /** @description The task. */
            id: components["schemas"]["TaskId"];
            /**
             * Format: int64
             * @description Milliseconds since the epoch.
             */
            started: number;
            /** @description How it stands. */
            state: components["schemas"]["TaskState"];
            /** @description One line for people. */
            title: string;
        };
        /** @description A background task. */
        TaskId: string;
        /** @description Background tasks of a session. */
        Tasks: {
            /** @description Oldest first. */
            tasks: components["schemas"]["Task"][];
        };
        /** @description How a background task stands. */
        TaskState: "running" | "done" | "failed" | "stopped";
        /** @description What an undo did. */
        Undone: {
            /** @description Text of the prompt that was taken back. */
            prompt: string;
            /** @description Files that are again what they were. */
            restored: string[];
            /** @description Files that were left alone. */
            skipped: components["schemas"]["Skipped"][];
        };
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
    responses: {
        /** @description It failed. */
        Error: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["ErrorBody"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthStatus"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    info: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ServerDetails"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Document"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    listAllPermissions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AllPermissions"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    listSessions: {
        parameters: {
            query?: {
                /** @description `next` of the page before. */
                cursor?: string;
                /** @description Rows at most; all of them when absent. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionPage"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    createSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CreateBody"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Done. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found, unknown_agent */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description locked */
            409: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing, no_agent */
            503: components["responses"]["Error"];
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    deleteSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    patchSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchBody"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description locked */
            409: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description unsupported */
            501: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    cancelRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cancelled"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    clearSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cleared"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description locked, busy */
            409: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    compactSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Compacted"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description locked, busy, cancelled */
            409: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing, no_agent, unavailable */
            503: components["responses"]["Error"];
        };
    };
    streamEvents: {
        parameters: {
            query?: {
                /** @description `seq` of the last event that the reader has; `Last-Event-ID` wins over it. Only new events come when both are absent. */
                after?: number;
            };
            header?: {
                /** @description `id` of the last event that the reader has. */
                "last-event-id"?: number;
            };
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-Sent Events, until the client or the server ends. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    forkSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ForkBody"];
            };
        };
        responses: {
            /** @description Done. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Forked"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description locked, busy */
            409: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    listMessages: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Messages"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    listPermissions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Permissions"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    answerPermission: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
                /** @description The request. */
                request_id: components["schemas"]["RequestId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PermissionBody"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PermissionAnswered"];
                };
            };
            /** @description Done; no body. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    prompt: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PromptBody"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Finished"];
                };
            };
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accepted"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description locked, busy, cancelled */
            409: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing, no_agent, unavailable */
            503: components["responses"]["Error"];
        };
    };
    listTasks: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tasks"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    stopTask: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
                /** @description The task. */
                task_id: components["schemas"]["TaskId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
    undoPrompt: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The session. */
                id: components["schemas"]["SessionId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Undone"];
                };
            };
            /** @description invalid_params */
            400: components["responses"]["Error"];
            /** @description unauthorized */
            401: components["responses"]["Error"];
            /** @description forbidden */
            403: components["responses"]["Error"];
            /** @description not_found */
            404: components["responses"]["Error"];
            /** @description timeout */
            408: components["responses"]["Error"];
            /** @description locked, busy */
            409: components["responses"]["Error"];
            /** @description too_large */
            413: components["responses"]["Error"];
            /** @description unsupported_media */
            415: components["responses"]["Error"];
            /** @description invalid */
            422: components["responses"]["Error"];
            /** @description internal */
            500: components["responses"]["Error"];
            /** @description overloaded, closing */
            503: components["responses"]["Error"];
        };
    };
}

/** Method and path of each operation. */
export const routes = {
  answerPermission: ["POST", "/v1/sessions/{id}/permissions/{request_id}"],
  cancelRun: ["POST", "/v1/sessions/{id}/cancel"],
  clearSession: ["POST", "/v1/sessions/{id}/clear"],
  compactSession: ["POST", "/v1/sessions/{id}/compact"],
  createSession: ["POST", "/v1/sessions"],
  deleteSession: ["DELETE", "/v1/sessions/{id}"],
  forkSession: ["POST", "/v1/sessions/{id}/fork"],
  getSession: ["GET", "/v1/sessions/{id}"],
  health: ["GET", "/v1/health"],
  info: ["GET", "/v1/info"],
  listAllPermissions: ["GET", "/v1/permissions"],
  listMessages: ["GET", "/v1/sessions/{id}/messages"],
  listPermissions: ["GET", "/v1/sessions/{id}/permissions"],
  listSessions: ["GET", "/v1/sessions"],
  listTasks: ["GET", "/v1/sessions/{id}/tasks"],
  metrics: ["GET", "/metrics"],
  openapi: ["GET", "/v1/openapi.json"],
  patchSession: ["PATCH", "/v1/sessions/{id}"],
  prompt: ["POST", "/v1/sessions/{id}/prompt"],
  stopTask: ["DELETE", "/v1/sessions/{id}/tasks/{task_id}"],
  streamEvents: ["GET", "/v1/sessions/{id}/events"],
  undoPrompt: ["POST", "/v1/sessions/{id}/undo"],
} as const;
