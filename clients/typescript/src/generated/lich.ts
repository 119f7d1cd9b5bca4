// Generated from protocol/schema/lich.openrpc.json by `npm run generate`; do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description One fact of a session, by `type`. */
        AgentEvent: {
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
        };
        /** @description Why a boundary stands in the history. */
        Boundary: "clear" | "compact";
        /** @description A tool call, as the model named it. */
        CallId: string;
        /** @description Why a session left memory. */
        CloseReason: "explicit" | "idle" | "deleted" | "rewind" | "shutdown";
        /** @description How much the model may think. */
        Effort: "minimal" | "low" | "medium" | "high";
        /** @description Why a call failed. One variant for each remedy that a client can take. */
        ErrorCode: "not_found" | "ambiguous" | "locked" | "busy" | "invalid_params" | "invalid" | "unknown_agent" | "unsupported" | "no_agent" | "cancelled" | "overloaded" | "too_large" | "unavailable" | "unauthorized" | "forbidden" | "closing" | "internal" | "method_not_allowed" | "timeout" | "unsupported_media" | "upgrade_required";
        /** @description An event of a run. */
        EventParams: {
            /** @description The event, as it is in process. */
            event: components["schemas"]["AgentEvent"];
            /** @description The session that runs. */
            session_id: components["schemas"]["SessionId"];
        };
        /** @description The server is up. */
        HealthResult: {
            /** @description Always `ok`. */
            status: components["schemas"]["HealthStatus"];
            /** @description Version of the program. */
            version: string;
        };
        /** @description How the server is. */
        HealthStatus: "ok";
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
        /** @description One transcript. */
        ListedSession: {
            /** @description The session. */
            id: components["schemas"]["SessionId"];
            /**
             * Format: int64
             * @description When it was last written to, in milliseconds since the epoch.
             */
            mtime_ms: number;
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
        Methods: {
            /** @description Says that the server is up, and which version it is. */
            health: {
                params: Record<string, never>;
                result: components["schemas"]["HealthResult"];
            };
            /** @description Cancels the session's run in flight, and the submits of this socket that still wait for it. */
            "prompt.abort": {
                params: {
                    /** @description The session. */
                    session_id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["PromptAbortResult"];
            };
            /** @description Runs a prompt and answers when the run has ended, however it ended. The run's events come before the reply. */
            "prompt.submit": {
                params: {
                    /** @description A live session. */
                    session_id: components["schemas"]["SessionId"];
                    /** @description The prompt; not empty. */
                    text: string;
                };
                result: components["schemas"]["PromptSubmitResult"];
            };
            /** @description Empties the history in memory. The transcript's bytes stay, and so does the handle. */
            "session.clear": {
                params: {
                    /** @description A live session. */
                    session_id: components["schemas"]["SessionId"];
                };
                result: components["schemas"]["SessionClearResult"];
            };
            /** @description Makes a session with an empty history. Its empty transcript is on disk before the reply. */
            "session.create": {
                params: {
                    /** @description Free text, kept in the transcript's header. */
                    label?: string | null;
                    /** @description Which client creates it. */
                    source: string;
                };
                result: components["schemas"]["SessionCreateResult"];
            };
            /** @description Lists the transcripts, newest write first. */
            "session.list": {
                params: Record<string, never>;
                result: components["schemas"]["SessionListResult"];
            };
            /** @description Forks a transcript into a new session: its history without the trailing user messages. */
            "session.resume": {
                params: {
                    /** @description A whole id, a unique prefix of one, or `latest`. */
                    id: string;
                    /** @description Which client resumes it. */
                    source?: string | null;
                };
                result: components["schemas"]["SessionResumeResult"];
            };
        };
        /** @description What needs a permission. */
        Mode: "plan" | "default" | "accept-edits" | "bypass";
        Notifications: {
            /** @description An event of a run, on the socket that submitted it, while the submit is in flight. */
            event: components["schemas"]["EventParams"];
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
        /** @description One step of a plan. */
        PlanEntry: {
            /** @description How far it is. */
            state: components["schemas"]["PlanState"];
            /** @description The step. */
            text: string;
        };
        /** @description How far a step is. */
        PlanState: "pending" | "active" | "done";
        /** @description What was cancelled. */
        PromptAbortResult: {
            /** @description False when there was nothing to cancel. */
            aborted: boolean;
            /** @description The same session. */
            session_id: components["schemas"]["SessionId"];
        };
        /** @description How the run ended. */
        PromptSubmitResult: {
            /** @description The text of the last assistant message. */
            reply: string;
            /** @description The run. */
            run_id: components["schemas"]["RunId"];
            /** @description Absolute path of the transcript. */
            session_path: string;
            /** @description Why it stopped. */
            stopped_reason: components["schemas"]["Stop"];
            /**
             * Format: uint32
             * @description Round trips to the model.
             */
            turns_used: number;
            /** @description Tokens of the run. */
            usage: components["schemas"]["Usage"];
        };
        /** @description A permission request. */
        RequestId: string;
        /** @description Who wrote a message. */
        Role: "user" | "assistant" | "tool" | "system";
        /** @description One prompt to its stop. */
        RunId: string;
        /** @description The session was cleared. */
        SessionClearResult: {
            /** @description The same session. */
            session_id: components["schemas"]["SessionId"];
        };
        /** @description The new session. */
        SessionCreateResult: {
            /** @description Its id. */
            session_id: components["schemas"]["SessionId"];
        };
        /** @description A session's id: letters, digits, `-`, `_` and `.`, not beginning with a dot, at most [`SESSION_ID_BYTES`]. */
        SessionId: string;
        /** @description The transcripts. */
        SessionListResult: {
            /** @description Newest write first. */
            sessions: components["schemas"]["ListedSession"][];
        };
        /** @description The fork. */
        SessionResumeResult: {
            /**
             * Format: uint64
             * @description Messages in its history.
             */
            message_count: number;
            /** @description The transcript that it was forked from. */
            resumed_id: components["schemas"]["SessionId"];
            /** @description The new session. */
            session_id: components["schemas"]["SessionId"];
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
        /** @description Why a turn or a run stopped. */
        Stop: "completed" | "aborted" | "max_turns" | "max_tokens" | "refused" | "error";
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
