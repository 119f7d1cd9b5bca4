/** The HTTP wire (larik): requests as typed calls, and a session's events as a stream that mends itself. */

import { type Backoff, Retry } from "./backoff.js";
import { Channel } from "./channel.js";
import { TriplaneError, disconnected } from "./errors.js";
import { type components, type operations, routes } from "./generated/larik.js";
import { type Decision, answer, decide } from "./permission.js";
import { Run } from "./run.js";
import { type Message as StreamMessage, StreamParser } from "./sse.js";

type Schemas = components["schemas"];

/** An event of a session, with its `seq`. */
export type SessionEvent = Schemas["SessionEvent"];

/** Events that are lost for good: all with `from <= seq <= to`. `messages()` has what was said meanwhile. */
export type Gap = { type: "replay_gap" } & Schemas["ReplayGap"];

/** What a stream tells. */
export type StreamItem = SessionEvent | Gap;

/** A call that can be given up. */
export interface Abortable {
  /** Gives the call up: it rejects with the signal's reason. */
  signal?: AbortSignal;
}

export interface HttpOptions extends Abortable {
  /** The server's token. */
  token: string;
  /** How event streams are opened again. */
  reconnect?: Backoff | false;
  /** Instead of the platform's own. */
  fetch?: typeof fetch;
}

export interface EventsOptions extends Abortable {
  /** `seq` of the last event that is known already; without it, only what happens after this call is told. */
  after?: number;
}

export interface PromptOptions extends Abortable {
  /** Answers the run's permission requests. Without it they wait for whoever answers. */
  onPermission?: (request: Schemas["PermissionRequest"]) => Decision | Promise<Decision>;
}

type Operation = keyof typeof routes & keyof operations;
type Json<R> = R extends { content: { "application/json": infer T } } ? T : never;
type At<R, S extends number> = S extends keyof R ? Json<R[S]> : never;
type Body<O extends Operation> = operations[O] extends { requestBody?: { content: { "application/json": infer T } } } ? T : undefined;
/** What an operation answers when it works. */
type Answer<O extends Operation> =
  | At<operations[O]["responses"], 200 | 201 | 202>
  | (204 extends keyof operations[O]["responses"] ? undefined : never);

interface Request<O extends Operation> extends Abortable {
  path?: Record<string, string>;
  query?: Record<string, string | number | undefined>;
  body?: Body<O>;
}

/** Server silence after which a stream counts as dead; it sends a comment every 15 s. */
const SILENCE_MS = 45_000;

/** Connects: asks the server who it is, so that a wrong address or token fails here. */
export async function connectHttp(url: string, options: HttpOptions): Promise<HttpClient> {
  const client = new HttpClient(url, options);
  await client.info(options);
  return client;
}

/** A server. Holds no connection of its own. */
export class HttpClient {
  readonly url: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;
  readonly #reconnect: Backoff | false;

  constructor(url: string, options: HttpOptions) {
    this.url = url.replace(/\/+$/, "");
    this.#token = options.token;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.#reconnect = options.reconnect ?? {};
  }

  /** Version, agents and the rest of what the server tells of itself. */
  info(options?: Abortable): Promise<Schemas["ServerDetails"]> {
    return this.call("info", { ...options });
  }

  /** One page of sessions, newest first; `next` is the `cursor` of the following page. */
  list(options: { limit?: number; cursor?: string } & Abortable = {}): Promise<Schemas["SessionPage"]> {
    const { signal, ...query } = options;
    return this.call("listSessions", { query, signal });
  }

  /** A new session. */
  async create(settings: Omit<Schemas["CreateBody"], "resume" | "continue"> = {}, options?: Abortable): Promise<HttpSession> {
    return this.session((await this.call("createSession", { body: settings, ...options })).id);
  }

  /** Loads a stored session; without an id, the newest. */
  async resume(id?: string, options?: Abortable): Promise<HttpSession> {
    const body = id === undefined ? { continue: true } : { resume: id };
    return this.session((await this.call("createSession", { body, ...options })).id);
  }

  /** A session by its id; nothing is asked. */
  session(id: string): HttpSession {
    return new HttpSession(this, id);
  }

  /** Pending permission requests of all sessions. */
  async permissions(options?: Abortable): Promise<Schemas["SessionPermission"][]> {
    return (await this.call("listAllPermissions", { ...options })).permissions;
  }

  /** Calls any operation of the document by its id. */
  async call<O extends Operation>(operation: O, request: Request<O> = {}): Promise<Answer<O>> {
    const [method, template] = routes[operation];
    const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(request.path?.[name] ?? ""));
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(request.query ?? {})) if (value !== undefined) query.set(key, String(value));
    const response = await this.#send(method, query.size ? `${path}?${query}` : path, request);
    if (response.status === 204) return undefined as Answer<O>;
    return (await this.#read(() => response.json(), request.signal)) as Answer<O>;
  }

  /** A session's stream from `after` on, opened again whenever it is cut. */
  async *stream(id: string, after: number | Promise<number>, signal: AbortSignal): AsyncGenerator<StreamItem, void> {
    let cursor = await after;
    const retry = new Retry(this.#reconnect || { attempts: 0 });
    const floor = this.#reconnect && this.#reconnect.minMs !== undefined ? 0 : undefined;
    for (;;) {
      const parser = new StreamParser();
      let error: unknown;
      try {
        for await (const message of this.#messages(id, cursor, parser, signal)) {
          retry.reset();
          if (message.event === "replay_gap") {
            const gap: Gap = { type: "replay_gap", ...JSON.parse(message.data) };
            // A gap that begins at or before the cursor says that the cursor was ahead of the session.
            cursor = gap.from <= cursor ? gap.from - 1 : gap.to;
            yield gap;
          } else {
            if (message.id !== undefined) cursor = Number(message.id);
            yield JSON.parse(message.data) as SessionEvent;
          }
        }
        error = disconnected("the server ended the stream");
      } catch (thrown) {
        if (signal.aborted) throw signal.reason;
        if (!mends(thrown)) throw thrown;
        error = thrown;
      }
      await retry.wait(error, signal, floor ?? parser.retryMs);
    }
  }

  async *#messages(id: string, after: number, parser: StreamParser, signal: AbortSignal): AsyncGenerator<StreamMessage, void> {
    // A signal of its own, so that leaving the loop closes the connection.
    const own = new AbortController();
    const stop = () => own.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    let timer: ReturnType<typeof setTimeout> | undefined;
    const watch = () => {
      clearTimeout(timer);
      timer = setTimeout(() => own.abort(disconnected(`the stream was silent for ${SILENCE_MS} ms`)), SILENCE_MS);
    };
    try {
      watch();
      const path = `/v1/sessions/${encodeURIComponent(id)}/events`;
      const headers = { accept: "text/event-stream", "last-event-id": String(after) };
      const response = await this.#send("GET", path, { signal: own.signal, headers });
      const reader = response.body?.getReader();
      if (!reader) throw new TriplaneError("protocol", "a stream without a body");
      for (;;) {
        watch();
        const { done, value } = await this.#read(() => reader.read(), own.signal);
        if (done) return;
        yield* parser.push(value);
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      own.abort();
    }
  }

  async #send(method: string, path: string, request: { body?: unknown; headers?: Record<string, string> } & Abortable): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}`, ...request.headers };
    if (request.body !== undefined) headers["content-type"] = "application/json";
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    const init = { method, headers, body, signal: request.signal ?? null };
    const response = await this.#read(() => this.#fetch(this.url + path, init), request.signal);
    if (response.ok) return response;
    const text = await response.text().catch(() => "");
    throw failure(response.status, text);
  }

  /** What fails below HTTP is `disconnected`, but for the caller's own abort. */
  async #read<T>(step: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await step();
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      throw disconnected(`no answer from ${this.url}`, cause);
    }
  }
}

/** One session of a server. Cheap; any number may stand for the same one. */
export class HttpSession {
  readonly id: string;
  readonly #client: HttpClient;

  constructor(client: HttpClient, id: string) {
    this.#client = client;
    this.id = id;
  }

  /** The session in full: settings, usage, pending permissions, tasks. */
  view(options?: Abortable): Promise<Schemas["SessionView"]> {
    return this.#call("getSession", options);
  }

  /** Changes model, effort, mode or title; what is absent stays. */
  patch(body: Schemas["PatchBody"], options?: Abortable): Promise<Schemas["SessionView"]> {
    return this.#call("patchSession", { body, ...options });
  }

  /** The whole transcript, oldest first. */
  async messages(options?: Abortable): Promise<Schemas["Message"][]> {
    return (await this.#call("listMessages", options)).messages;
  }

  /**
   * The session's events, until one stops reading: over runs, unloading and lost connections. Each comes once and in order;
   * what cannot be had any more is told as an item of type `replay_gap`.
   */
  events(options: EventsOptions = {}): EventStream {
    const start = options.after ?? this.view(options).then((view) => view.seq);
    return new EventStream((signal) => this.#client.stream(this.id, start, signal), start, options.signal);
  }

  /** Starts a run and returns at once; `seq` is that of its first event. */
  async start(text: string, options?: Abortable): Promise<Schemas["Accepted"]> {
    return (await this.#call("prompt", { body: { text }, ...options })) as Schemas["Accepted"];
  }

  /** Starts a run: its events, and its outcome. When the signal aborts, the run is cancelled. */
  run(text: string, options: PromptOptions = {}): Run<StreamItem, Schemas["Finished"]> {
    const events = new Channel<StreamItem>();
    const result = this.#drive(text, options, events);
    result.then(() => events.end(), (error) => events.end(error));
    return new Run(events, result);
  }

  /** Starts a run and waits for its outcome, for hours if need be. When the signal aborts, the run is cancelled. */
  prompt(text: string, options: PromptOptions = {}): Promise<Schemas["Finished"]> {
    return this.#drive(text, options);
  }

  /** Interrupts the run in flight; false when there was none. */
  async cancel(options?: Abortable): Promise<boolean> {
    return (await this.#call("cancelRun", options)).cancelled;
  }

  /** Pending permission requests. */
  async permissions(options?: Abortable): Promise<Schemas["PermissionRequest"][]> {
    return (await this.#call("listPermissions", options)).permissions;
  }

  /** Answers a permission request. With `always`, tells whether the rule was saved. `not_found`: it was answered already. */
  answer(request: string, decision: Decision, options?: Abortable): Promise<Schemas["PermissionAnswered"] | undefined> {
    const path = { id: this.id, request_id: request };
    return this.#client.call("answerPermission", { path, body: answer(decision), ...options });
  }

  /** Lets the call go on. */
  allow(request: string, options: { always?: boolean } & Abortable = {}) {
    return this.answer(request, { allow: true, always: options.always }, options);
  }

  /** Refuses the call; the model is told `reason`. */
  deny(request: string, options: { always?: boolean; reason?: string } & Abortable = {}) {
    return this.answer(request, { allow: false, always: options.always, reason: options.reason }, options);
  }

  /** A new session with this one's history, or with what is before the message of index `at`, a prompt, whose text is returned. */
  async fork(at?: number, options?: Abortable): Promise<{ session: HttpSession; prompt: string | undefined }> {
    const forked = await this.#call("forkSession", { body: { at }, ...options });
    return { session: this.#client.session(forked.id), prompt: forked.prompt ?? undefined };
  }

  /** Summarises the history. */
  compact(options?: Abortable): Promise<Schemas["Compacted"]> {
    return this.#call("compactSession", options);
  }

  /** Takes back the last prompt, its answer and the file changes that it made. */
  undo(options?: Abortable): Promise<Schemas["Undone"]> {
    return this.#call("undoPrompt", options);
  }

  /** Empties the history. */
  async clear(options?: Abortable): Promise<void> {
    await this.#call("clearSession", options);
  }

  /** Background tasks. */
  async tasks(options?: Abortable): Promise<Schemas["Task"][]> {
    return (await this.#call("listTasks", options)).tasks;
  }

  /** Stops a background task. */
  async stopTask(task: string, options?: Abortable): Promise<void> {
    await this.#client.call("stopTask", { path: { id: this.id, task_id: task }, ...options });
  }

  /** Stops and unloads the session; its transcript stays. */
  async unload(options?: Abortable): Promise<void> {
    await this.#call("deleteSession", options);
  }

  #call<O extends Operation>(operation: O, request?: Request<O>): Promise<Answer<O>> {
    return this.#client.call(operation, { path: { id: this.id }, ...request });
  }

  async #drive(text: string, options: PromptOptions, events?: Channel<StreamItem>): Promise<Schemas["Finished"]> {
    options.signal?.throwIfAborted();
    // Not under the signal: a start that is given up midway would leave open whether there is a run to cancel.
    const { seq, run_id } = await this.start(text);
    const failed = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, failed.signal]) : failed.signal;
    try {
      return await this.#outcome(run_id, this.events({ after: seq - 1, signal }), (item) => {
        events?.push(item);
        const how = options.onPermission;
        if (item.type !== "permission_request" || !how) return;
        const give = (decision: Decision) => this.answer(item.request_id, decision);
        decide(item, how, give).catch((error) => failed.abort(error));
      });
    } catch (error) {
      if (signal.aborted) await this.cancel().catch(() => {});
      throw error;
    }
  }

  /** Reads on to the end of the run. */
  async #outcome(run: string, events: EventStream, tell: (item: StreamItem) => void): Promise<Schemas["Finished"]> {
    let finished: Schemas["Finished"] | undefined;
    let error: Schemas["RunFailure"] | undefined;
    let last = Infinity;
    for await (const item of events) {
      tell(item);
      if (item.type === "error") error = { code: item.code, message: item.message };
      if (item.type === "final" && item.run_id === run) {
        const { reply, usage, turns_used, stopped_reason, run_id } = item;
        finished = { text: reply, usage, turns_used, stopped_reason, run_id, ...(error && { error }) };
      }
      if (item.type === "replay_gap") {
        // The end may be among what is lost: then nothing would ever come.
        const { busy, seq } = await this.view();
        if (!busy) last = seq;
      }
      const at = item.type === "replay_gap" ? item.to : item.seq;
      if (at >= last || (item.type === "status" && !item.busy)) break;
    }
    if (finished) return finished;
    throw new TriplaneError("replay_gap", "the run ended, but its outcome is among the events that are lost; read messages()");
  }
}

/** A session's events as an iterator. */
export class EventStream implements AsyncIterableIterator<StreamItem> {
  /** Settles once the stream's place is known: whatever happens after that is told. */
  readonly ready: Promise<void>;
  readonly #own = new AbortController();
  readonly #items: AsyncGenerator<StreamItem, void>;
  #left = false;

  constructor(open: (signal: AbortSignal) => AsyncGenerator<StreamItem, void>, start: number | Promise<number>, signal?: AbortSignal) {
    this.ready = Promise.resolve(start).then(() => {});
    this.ready.catch(() => {});
    this.#items = open(signal ? AbortSignal.any([signal, this.#own.signal]) : this.#own.signal);
  }

  async next(): Promise<IteratorResult<StreamItem, void>> {
    try {
      return await this.#items.next();
    } catch (error) {
      if (this.#left) return { value: undefined, done: true };
      throw error;
    }
  }

  /** Closes the stream, also under a `next` that still waits. */
  async return(): Promise<IteratorResult<StreamItem, void>> {
    this.#left = true;
    this.#own.abort();
    await this.#items.return().catch(() => {});
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function failure(status: number, text: string): TriplaneError {
  try {
    const { error } = JSON.parse(text) as Schemas["ErrorBody"];
    return new TriplaneError(error.code, error.message, { cause: error.cause ?? undefined, status });
  } catch (cause) {
    return new TriplaneError("protocol", `status ${status}, and not in this protocol's shape`, { cause, status });
  }
}

/** Whether a stream that failed like this may be opened again. */
function mends(error: unknown): boolean {
  if (!TriplaneError.is(error)) return false;
  return error.code === "disconnected" || error.status === 408 || error.status === 429 || (error.status ?? 0) >= 500;
}
