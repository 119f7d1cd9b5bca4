/** JSON-RPC 2.0, the caller's side: pairs replies with calls and hands notifications on. Knows neither socket nor process. */

import { abortable } from "./backoff.js";
import { type ErrorCode, TriplaneError } from "./errors.js";

/** What a table of methods looks like, as the documents give it. */
export type Methods<M> = { [K in keyof M]: { params: object; result: unknown } };

/** Params of a method. */
export type Params<M extends Methods<M>, K extends keyof M> = M[K]["params"];

/** Result of a method. */
export type Result<M extends Methods<M>, K extends keyof M> = M[K]["result"];

interface Pending {
  settled: (() => void) | undefined;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

export class Peer<M extends Methods<M>> {
  readonly #send: (text: string) => void;
  readonly #notified: (method: string, params: unknown) => void;
  readonly #pending = new Map<number, Pending>();
  #last = 0;
  #closed: unknown;

  constructor(send: (text: string) => void, notified: (method: string, params: unknown) => void) {
    this.#send = send;
    this.#notified = notified;
  }

  /**
   * Calls a method. When `signal` aborts, the call is no longer waited for; what it began goes on. `settled` is called the moment
   * the reply is there, before the next message is taken: many may come in one piece, and a promise is heard of only after it.
   */
  call<K extends keyof M & string>(
    method: K,
    params: Params<M, K>,
    signal?: AbortSignal,
    settled?: () => void,
  ): Promise<Result<M, K>> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const id = ++this.#last;
    const reply = new Promise<unknown>((resolve, reject) => this.#pending.set(id, { resolve, reject, settled }));
    this.#send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return abortable(reply, signal).finally(() => this.#pending.delete(id)) as Promise<Result<M, K>>;
  }

  /** Takes one message. What is no message of JSON-RPC is thrown as `protocol`. */
  receive(text: string): void {
    let message: any;
    try {
      message = JSON.parse(text);
    } catch (cause) {
      throw new TriplaneError("protocol", "a message that is not JSON", { cause });
    }
    if (typeof message !== "object" || message === null) throw new TriplaneError("protocol", "a message that is no object");
    if (typeof message.method === "string") return this.#notified(message.method, message.params);
    const call = this.#pending.get(message.id);
    call?.settled?.();
    if (message.error) {
      const error = failure(message.error);
      if (call) call.reject(error);
      // Without an id it is about something that was sent and could not be read: nobody can be told but the owner.
      else if (message.id === null) throw error;
    } else call?.resolve(message.result);
  }

  /** The connection is gone: every call in flight, and every later one, fails with `error`. */
  close(error: unknown): void {
    if (this.#closed !== undefined) return;
    this.#closed = error;
    for (const call of this.#pending.values()) {
      call.settled?.();
      call.reject(error);
    }
    this.#pending.clear();
  }
}

function failure(error: { code?: number; message?: string; data?: { code?: ErrorCode; cause?: string } }): TriplaneError {
  const code = error.data?.code ?? (error.code === -32602 ? "invalid_params" : error.code === -32603 ? "internal" : "protocol");
  return new TriplaneError(code, error.message ?? code, { cause: error.data?.cause });
}
