/** The stdio wire (sepia): a server as a child process, checked before it is used, and started again when it dies. Node only. */

import { type Backoff, Retry, abortable } from "./backoff.js";
import { Channel, Missed, endOn } from "./channel.js";
import { TriplaneError, disconnected } from "./errors.js";
import type { components } from "./generated/sepia.js";
import type { Abortable } from "./http.js";
import { type Decision, decide, optionFor } from "./permission.js";
import { LineProcess, type ProcessOptions } from "./process.js";
import { type Params, Peer, type Result } from "./rpc.js";
import { Run } from "./run.js";

type Schemas = components["schemas"];
type Table = Schemas["Methods"];

/** Version of this wire that is spoken here. */
export const PROTOCOL = 1;

/** An event of a session, as this wire tells it. */
export type StdioEvent = Schemas["SessionEvent"];

/** One thing on the node's feed. */
export type NodeEvent = Schemas["NodeEvent"];

/** A permission request of this wire. */
export type StdioPermission = Extract<StdioEvent, { type: "permissionRequest" }>;

export interface StdioOptions extends ProcessOptions, Abortable {
  /** Arguments of the program. Default `["serve", "--transport", "stdio"]`. */
  args?: string[];
  /** How a process that died is started again, with the next call; `false`: never. */
  restart?: Backoff | false;
}

export interface StdioPromptOptions extends Abortable {
  /** Answers the run's permission requests. Without it they wait for whoever answers. */
  onPermission?: (request: StdioPermission) => Decision | Promise<Decision>;
}

/** Calls that only read: sent again, once, when the process dies under them. */
const REPEATABLE: ReadonlySet<string> = new Set([
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
]);

/** How long the events of a run may come after its reply. */
const TAIL_MS = 2_000;

/** Starts the program, reads its manifest, and checks `protocol`. When `signal` aborts before that, the process is ended. */
export async function spawnStdio(options: StdioOptions = {}): Promise<StdioClient> {
  const client = new StdioClient(options);
  try {
    await client.call("manifest", {}, options);
    return client;
  } catch (error) {
    await client.kill(error);
    throw error;
  }
}

/** A server process. */
export class StdioClient {
  readonly #options: StdioOptions;
  readonly #retry: Retry;
  readonly #closing = new AbortController();
  #peer: Promise<Peer<Table>> | undefined;
  #process: LineProcess | undefined;
  #manifest: Schemas["Manifest"] | undefined;
  readonly #sessions = new Map<string, Feed<StdioEvent>>();
  readonly #node: { feed: Feed<NodeEvent> | undefined } = { feed: undefined };

  constructor(options: StdioOptions) {
    this.#options = options;
    this.#retry = new Retry(options.restart || {});
  }

  /** What the process said of itself: version, node, settings, methods. */
  get manifest(): Schemas["Manifest"] {
    if (!this.#manifest) throw disconnected("the process has not said its manifest yet");
    return this.#manifest;
  }

  /** Id of the process that runs now. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Calls any method of the wire. Starts the process again if it has died. */
  async call<K extends keyof Table & string>(method: K, params: Params<Table, K>, { signal }: Abortable = {}): Promise<Result<Table, K>> {
    for (let again = REPEATABLE.has(method) && this.#options.restart !== false; ; again = false) {
      this.#closing.signal.throwIfAborted();
      this.#peer ??= this.#start();
      const peer = await abortable(this.#peer, signal);
      try {
        return await peer.call(method, params, signal);
      } catch (error) {
        if (!again || !TriplaneError.is(error, "disconnected")) throw error;
      }
    }
  }

  /** Agents, and what each can do. */
  async agents(options?: Abortable): Promise<Schemas["AgentView"][]> {
    return (await this.call("agents.list", {}, options)).agents;
  }

  /** Stored and pending sessions, newest first. */
  async list(options: { withLocks?: boolean } & Abortable = {}): Promise<Schemas["SessionRow"][]> {
    return (await this.call("sessions.list", { withLocks: options.withLocks ?? false }, options)).sessions;
  }

  /** A new session, live. `cwd` is absolute. */
  async create(settings: Params<Table, "sessions.create">, options?: Abortable): Promise<StdioSession> {
    return new StdioSession(this, await this.call("sessions.create", settings, options));
  }

  /** Makes a stored session live. `locked`: another process has it; `takeover` takes it away. */
  async attach(id: string, settings: Omit<Params<Table, "sessions.attach">, "id"> = {}, options?: Abortable): Promise<StdioSession> {
    return new StdioSession(this, await this.call("sessions.attach", { id, ...settings }, options));
  }

  /** A session's events from now on, while it is live. Ends when it is detached; throws when the process dies. */
  events(id: string, { signal }: Abortable = {}): Channel<StdioEvent> {
    let feed = this.#sessions.get(id);
    if (!feed) {
      feed = new Feed(() => this.call("sessions.subscribe", { id }), () => this.#sessions.delete(id));
      this.#sessions.set(id, feed);
    }
    return feed.join(signal);
  }

  /** The whole node's feed from now on: who comes and goes, and the events of every live session. */
  nodeEvents({ signal }: Abortable = {}): Channel<NodeEvent> {
    this.#node.feed ??= new Feed(() => this.call("events.subscribe", {}), () => (this.#node.feed = undefined));
    return this.#node.feed.join(signal);
  }

  /** Ends the process in order: runs may finish for five seconds. */
  async close(): Promise<void> {
    const process = this.#process;
    this.#closing.abort(disconnected("the client was closed"));
    await process?.stop("stdin");
  }

  /** Ends the process at once; resolves when it has ended. */
  async kill(reason: unknown = disconnected("the client was closed")): Promise<void> {
    this.#closing.abort(reason);
    this.#process?.kill();
    await this.#process?.ended;
  }

  async #start(): Promise<Peer<Table>> {
    const { args = ["serve", "--transport", "stdio"], restart } = this.#options;
    // Made before the process, so that no line comes before there is somebody to take it.
    const peer: Peer<Table> = new Peer((text) => this.#process?.write(text), (method, params) => this.#notified(method, params));
    try {
      const process = await LineProcess.start(this.#options, args, (line) => this.#line(peer, line));
      this.#process = process;
      // Closed while it started: nobody else would end it.
      if (this.#closing.signal.aborted) process.kill();
      process.ended.then((how) => this.#died(peer, disconnected(`the server process ended: ${how}`)));
      this.#manifest = await this.#greet(peer);
      this.#retry.reset();
      return peer;
    } catch (error) {
      // One process for all that wait now; the next call may try again, after a while.
      const wait = restart === false ? Promise.reject(error) : this.#retry.wait(error, this.#closing.signal);
      await wait.finally(() => (this.#peer = undefined));
      throw error;
    }
  }

  async #greet(peer: Peer<Table>): Promise<Schemas["Manifest"]> {
    const manifest = await peer.call("manifest", {});
    if (manifest.protocol === PROTOCOL) return manifest;
    this.#process?.kill();
    throw new TriplaneError("protocol", `the server speaks version ${manifest.protocol} of the wire, this client ${PROTOCOL}`);
  }

  #line(peer: Peer<Table>, line: string): void {
    try {
      peer.receive(line);
    } catch (error) {
      peer.close(error);
      this.#process?.kill();
    }
  }

  #died(peer: Peer<Table>, error: TriplaneError): void {
    peer.close(error);
    this.#peer = this.#options.restart === false ? Promise.reject(error) : undefined;
    this.#peer?.catch(() => {});
    const end = this.#closing.signal.aborted ? undefined : error;
    for (const feed of [...this.#sessions.values(), this.#node.feed]) feed?.end(end);
  }

  #notified(method: string, params: unknown): void {
    if (method === "session.event") {
      const { sessionId, events, lagged } = params as Schemas["SessionEvents"];
      const feed = this.#sessions.get(sessionId);
      if (lagged) feed?.push(new Missed(lagged));
      for (const event of events) {
        feed?.push(event);
        if (event.type === "sessionClosed") feed?.end();
      }
    } else if (method === "node.event") this.#node.feed?.push(params as NodeEvent);
  }
}

/** One subscription of the wire, shared by its readers here: a second one would double what comes. */
class Feed<T> {
  readonly #readers = new Set<Channel<T>>();
  readonly #subscribed: Promise<unknown>;
  readonly #onEnd: () => void;

  constructor(subscribe: () => Promise<unknown>, onEnd: () => void) {
    this.#onEnd = onEnd;
    this.#subscribed = subscribe();
    this.#subscribed.catch((error) => this.end(error));
  }

  join(signal?: AbortSignal): Channel<T> {
    const reader = new Channel<T>();
    this.#readers.add(reader);
    reader.onEnd(() => this.#readers.delete(reader));
    reader.ready = abortable(this.#subscribed.then(() => {}), signal);
    reader.ready.catch(() => {});
    endOn(signal, reader);
    return reader;
  }

  push(event: T | Missed): void {
    for (const reader of this.#readers) reader.push(event);
  }

  end(error?: unknown): void {
    this.#onEnd();
    for (const reader of [...this.#readers]) reader.end(error);
  }
}

/** One session of a server process, live unless it is `readOnly`. */
export class StdioSession {
  readonly id: string;
  readonly agentId: string;
  /** Whether it is open for reading only: its agent cannot run it here. */
  readonly readOnly: boolean;
  readonly #client: StdioClient;

  constructor(client: StdioClient, attached: Schemas["Attached"]) {
    this.#client = client;
    this.id = attached.id;
    this.agentId = attached.agentId;
    this.readOnly = attached.readOnly;
  }

  /** See `StdioClient.events`. */
  events(options?: Abortable): Channel<StdioEvent> {
    return this.#client.events(this.id, options);
  }

  /** Starts a run: its events, and its outcome. When the signal aborts, the run is cancelled. */
  run(prompt: string | Schemas["PromptPart"][], options: StdioPromptOptions = {}): Run<StdioEvent, Schemas["PromptOutcome"]> {
    const events = new Channel<StdioEvent>();
    const result = this.#drive(prompt, options, events);
    return new Run(events, result);
  }

  /** Starts a run and waits for its outcome. When the signal aborts, the run is cancelled. */
  prompt(prompt: string | Schemas["PromptPart"][], options: StdioPromptOptions = {}): Promise<Schemas["PromptOutcome"]> {
    return options.onPermission ? this.#drive(prompt, options, new Channel(0)) : this.#prompt(prompt, options.signal);
  }

  /** Interrupts the run in flight; false when there was none. */
  async cancel(options?: Abortable): Promise<boolean> {
    return (await this.#client.call("sessions.cancel", { id: this.id }, options)).cancelled;
  }

  /** Answers a permission request. `not_found`: it was answered already. */
  async answer(request: StdioPermission, decision: Decision, options?: Abortable): Promise<void> {
    const option = optionFor(request.options, decision);
    await this.#client.call("sessions.permission", { id: this.id, request: request.requestId, option }, options);
  }

  /** Lets the call go on. */
  allow(request: StdioPermission, options: { always?: boolean } & Abortable = {}): Promise<void> {
    return this.answer(request, { allow: true, always: options.always }, options);
  }

  /** Refuses the call. */
  deny(request: StdioPermission, options: { always?: boolean } & Abortable = {}): Promise<void> {
    return this.answer(request, { allow: false, always: options.always }, options);
  }

  /** A page of the history, newest page first; `before` of the page goes into the next call. */
  history(options: { limit?: number; before?: string } & Abortable = {}): Promise<Schemas["HistoryPage"]> {
    const { signal, ...page } = options;
    return this.#client.call("sessions.history", { id: this.id, ...page }, { signal });
  }

  /** The whole session. */
  get(options?: Abortable): Promise<Schemas["Session"]> {
    return this.#client.call("sessions.get", { id: this.id }, options);
  }

  /** Releases it; a run in flight is cancelled first. */
  async detach(options?: Abortable): Promise<void> {
    await this.#client.call("sessions.detach", { id: this.id }, options);
  }

  async #prompt(prompt: string | Schemas["PromptPart"][], signal?: AbortSignal): Promise<Schemas["PromptOutcome"]> {
    const parts = typeof prompt === "string" ? [{ type: "text" as const, text: prompt }] : prompt;
    try {
      return await this.#client.call("sessions.prompt", { id: this.id, parts }, { signal });
    } catch (error) {
      if (signal?.aborted) await this.cancel().catch(() => {});
      throw error;
    }
  }

  async #drive(
    prompt: string | Schemas["PromptPart"][],
    { signal: given, onPermission }: StdioPromptOptions,
    events: Channel<StdioEvent>,
  ): Promise<Schemas["PromptOutcome"]> {
    const own = new AbortController();
    const signal = given ? AbortSignal.any([given, own.signal]) : own.signal;
    const feed = this.events({ signal });
    try {
      await feed.ready;
      const told = this.#tell(feed, events, async (request) => {
        if (onPermission) await decide(request, onPermission, (decision) => this.answer(request, decision));
      }).catch((error) => own.abort(error));
      const outcome = await this.#prompt(prompt, signal);
      // The events go their own way, and may be a little behind the reply.
      const timer = setTimeout(() => feed.end(), TAIL_MS);
      await told;
      clearTimeout(timer);
      events.end();
      return outcome;
    } catch (error) {
      events.end(error);
      throw error;
    } finally {
      feed.end();
    }
  }

  /** Hands a run's events on, up to its last. */
  async #tell(feed: Channel<StdioEvent>, events: Channel<StdioEvent>, ask: (request: StdioPermission) => Promise<void>): Promise<void> {
    for await (const event of feed) {
      events.push(event);
      if (event.type === "permissionRequest") ask(event).catch((error) => feed.end(error));
      if (event.type === "runFinished") break;
    }
  }
}
