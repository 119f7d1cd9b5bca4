/** The WebSocket wire (lich): sessions and runs over one socket that is opened again when it is lost. */

import { type Backoff, Retry, abortable } from "./backoff.js";
import { Channel } from "./channel.js";
import { TriplaneError, disconnected } from "./errors.js";
import type { components } from "./generated/lich.js";
import type { Abortable } from "./http.js";
import { type Params, Peer, type Result } from "./rpc.js";
import { Run } from "./run.js";

type Schemas = components["schemas"];
type Table = Schemas["Methods"];

/** An event of a run. */
export type AgentEvent = Schemas["AgentEvent"];

/** The part of a WebSocket that is used here. */
export interface Socket {
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  send(text: string): void;
  close(code?: number): void;
}

export interface WsOptions extends Abortable {
  /** The server's token. */
  token: string;
  /** How a lost connection is made again; `false`: never. */
  reconnect?: Backoff | false;
  /** What sessions that are made here are marked with. Default `triplane-js`. */
  source?: string;
  /** Told when the connection is lost and when it is there again. */
  onConnection?: (state: "open" | "lost") => void;
  /** Opens a socket, instead of the platform's own WebSocket or the package `ws`. */
  open?: (url: string, token: string) => Socket | Promise<Socket>;
}

/** Calls that change nothing, or nothing twice: sent again when the connection is lost before the reply. */
const REPEATABLE: ReadonlySet<string> = new Set(["health", "session.list", "prompt.abort"]);

/** Connects. Rejects if that fails at first; a connection that is lost later is made again. */
export async function connectWs(url: string, options: WsOptions): Promise<WsClient> {
  const client = new WsClient(url, options);
  await client.connect(options.signal);
  return client;
}

/** A server, over one socket. */
export class WsClient {
  readonly #url: string;
  readonly #options: WsOptions;
  readonly #closing = new AbortController();
  /** The connection that calls go over: there, or being made. */
  #peer: Promise<Peer<Table>> | undefined;
  #socket: Socket | undefined;
  /** By session: the runs that were submitted here, in order. The first is the one whose events come. */
  readonly #runs = new Map<string, ((event: AgentEvent) => void)[]>();

  constructor(url: string, options: WsOptions) {
    this.#url = url;
    this.#options = options;
  }

  /** Makes the first connection. `connectWs` does it. */
  async connect(signal?: AbortSignal): Promise<void> {
    this.#peer ??= this.#open();
    await abortable(this.#peer, signal).catch((error) => {
      this.close();
      throw error;
    });
  }

  /** Calls any method of the wire. Waits while the connection is being made again. */
  async call<K extends keyof Table & string>(method: K, params: Params<Table, K>, { signal }: Abortable = {}): Promise<Result<Table, K>> {
    for (;;) {
      this.#closing.signal.throwIfAborted();
      const peer = await abortable(this.#peer ?? Promise.reject(disconnected("not connected")), signal);
      try {
        return await peer.call(method, params, signal);
      } catch (error) {
        if (!TriplaneError.is(error, "disconnected") || !REPEATABLE.has(method) || this.#options.reconnect === false) throw error;
      }
    }
  }

  /** Whether the server is up, and its version. */
  health(options?: Abortable): Promise<Schemas["HealthResult"]> {
    return this.call("health", {}, options);
  }

  /** Stored sessions, newest first. */
  async list(options?: Abortable): Promise<Schemas["ListedSession"][]> {
    return (await this.call("session.list", {}, options)).sessions;
  }

  /** A new session with an empty history. */
  async create(settings: { label?: string } = {}, options?: Abortable): Promise<WsSession> {
    const { session_id } = await this.call("session.create", { ...settings, source: this.#source }, options);
    return this.session(session_id);
  }

  /** Forks a stored session: by its id, a unique prefix of it, or `latest`. */
  async resume(id = "latest", options?: Abortable): Promise<{ session: WsSession } & Schemas["SessionResumeResult"]> {
    const result = await this.call("session.resume", { id, source: this.#source }, options);
    return { session: this.session(result.session_id), ...result };
  }

  /** A live session by its id; nothing is asked. */
  session(id: string): WsSession {
    return new WsSession(this, id);
  }

  /** Closes the connection. Calls in flight reject; runs go on. */
  close(): void {
    this.#closing.abort(disconnected("the client was closed"));
    this.#socket?.close(1000);
  }

  /** Submits a prompt: `tell` gets the run's events, all of them before the reply. */
  async submit(session: string, text: string, tell: (event: AgentEvent) => void): Promise<Schemas["PromptSubmitResult"]> {
    const peer = await (this.#peer ?? Promise.reject(disconnected("not connected")));
    const runs = this.#runs.get(session) ?? [];
    this.#runs.set(session, runs);
    runs.push(tell);
    return peer.call("prompt.submit", { session_id: session, text }, undefined, () => {
      runs.splice(runs.indexOf(tell), 1);
      if (runs.length === 0) this.#runs.delete(session);
    });
  }

  get #source(): string {
    return this.#options.source ?? "triplane-js";
  }

  async #open(): Promise<Peer<Table>> {
    this.#closing.signal.throwIfAborted();
    const socket = await (this.#options.open ?? platform)(this.#url, this.#options.token);
    this.#socket = socket;
    const peer = new Peer<Table>((text) => socket.send(text), (method, params) => this.#notified(method, params));
    await opened(socket, this.#closing.signal);
    socket.onmessage = ({ data }) => {
      try {
        peer.receive(String(data));
      } catch (error) {
        peer.close(error);
        socket.close(1000);
      }
    };
    socket.onclose = ({ code, reason }) => {
      peer.close(disconnected(`the connection was lost (${code ?? "?"}${reason ? ` ${reason}` : ""}); a run that was begun goes on`));
      this.#lost();
    };
    this.#options.onConnection?.("open");
    return peer;
  }

  #lost(): void {
    if (this.#closing.signal.aborted) return;
    const { reconnect = {}, onConnection } = this.#options;
    const error = disconnected("the connection was lost");
    this.#peer = reconnect === false ? Promise.reject(error) : this.#again(new Retry(reconnect), error);
    this.#peer.catch(() => {});
    onConnection?.("lost");
  }

  async #again(retry: Retry, why: unknown): Promise<Peer<Table>> {
    for (let error = why; ; ) {
      await retry.wait(error, this.#closing.signal);
      try {
        return await this.#open();
      } catch (thrown) {
        if (TriplaneError.is(thrown, "unauthorized", "forbidden", "unsupported")) throw thrown;
        error = thrown;
      }
    }
  }

  #notified(method: string, params: unknown): void {
    if (method !== "event") return; // a later server's
    const { session_id, event } = params as Schemas["EventParams"];
    this.#runs.get(session_id)?.[0]?.(event);
  }
}

/** One live session of a server. */
export class WsSession {
  readonly id: string;
  readonly #client: WsClient;

  constructor(client: WsClient, id: string) {
    this.#client = client;
    this.id = id;
  }

  /** Starts a run: its events, and its outcome. When the signal aborts, the run is cancelled. */
  run(text: string, options: Abortable = {}): Run<AgentEvent, Schemas["PromptSubmitResult"]> {
    const events = new Channel<AgentEvent>();
    const result = this.#drive(text, (event) => events.push(event), options.signal);
    result.then(() => events.end(), (error) => events.end(error));
    return new Run(events, result);
  }

  /** Starts a run and waits for its outcome. When the signal aborts, the run is cancelled. */
  prompt(text: string, options: Abortable = {}): Promise<Schemas["PromptSubmitResult"]> {
    return this.#drive(text, () => {}, options.signal);
  }

  /** Cancels the run in flight, and the submits that wait behind it; false when there was none. */
  async abort(options?: Abortable): Promise<boolean> {
    return (await this.#client.call("prompt.abort", { session_id: this.id }, options)).aborted;
  }

  /** Empties the history in memory; the transcript stays. */
  async clear(options?: Abortable): Promise<void> {
    await this.#client.call("session.clear", { session_id: this.id }, options);
  }

  async #drive(text: string, tell: (event: AgentEvent) => void, signal?: AbortSignal): Promise<Schemas["PromptSubmitResult"]> {
    signal?.throwIfAborted();
    // The submit itself is not given up, so that its events stay its own until its reply.
    const submitted = this.#client.submit(this.id, text, tell);
    submitted.catch(() => {});
    try {
      return await abortable(submitted, signal);
    } catch (error) {
      if (signal?.aborted) await this.abort().catch(() => {});
      throw error;
    }
  }
}

function opened(socket: Socket, signal: AbortSignal): Promise<void> {
  const open = new Promise<void>((resolve, reject) => {
    let why: unknown;
    socket.onopen = () => resolve();
    socket.onerror = (event) => {
      why = event?.error ?? event?.message;
      reject(refused(why));
    };
    socket.onclose = () => reject(refused(why));
  });
  return abortable(open, signal);
}

/** Why a connection was refused, where the platform tells (browsers do not). */
function refused(why: unknown): TriplaneError {
  const status = Number(/Unexpected server response: (\d+)/.exec(String(why))?.[1]);
  if (status === 401) return new TriplaneError("unauthorized", "the token is missing or wrong", { status });
  if (status === 403) return new TriplaneError("forbidden", "the Host or the Origin is not allowed", { status });
  return disconnected("the connection could not be made", why);
}

/** The platform's WebSocket takes no headers, so that its token goes into the address; `ws` takes them. */
async function platform(url: string, token: string): Promise<Socket> {
  if (typeof WebSocket === "function") {
    const address = new URL(url);
    address.searchParams.set("token", token);
    return new WebSocket(address) as Socket;
  }
  const { WebSocket: Ws } = await import("ws").catch((cause) => {
    throw new TriplaneError("unsupported", "this platform has no WebSocket; install the package `ws`", { cause });
  });
  return new Ws(url, { headers: { "x-triplane-token": token }, maxPayload: 0 }) as unknown as Socket;
}
