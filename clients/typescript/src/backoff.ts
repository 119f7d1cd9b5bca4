/** Waiting before one tries again. */

/** How a lost connection is made again. */
export interface Backoff {
  /** First wait. Default 250. */
  minMs?: number;
  /** Longest wait. Default 10 000. */
  maxMs?: number;
  /** Failed attempts in a row before it is given up. Default: never. */
  attempts?: number;
}

/** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Doubling waits with jitter, so that many clients of one server do not come back at the same moment. */
export class Retry {
  #failed = 0;
  readonly #options: Backoff;

  constructor(options: Backoff = {}) {
    this.#options = options;
  }

  /** It worked; the next wait is the first again. */
  reset(): void {
    this.#failed = 0;
  }

  /** Waits, or throws `error` when all attempts are used. `floorMs`: what the server asked for. */
  async wait(error: unknown, signal?: AbortSignal, floorMs = 0): Promise<void> {
    const { minMs = 250, maxMs = 10_000, attempts = Infinity } = this.#options;
    if (this.#failed >= attempts) throw error;
    const whole = Math.min(maxMs, minMs * 2 ** Math.min(this.#failed, 30));
    this.#failed += 1;
    await sleep(Math.max(floorMs, whole * (0.5 + Math.random() / 2)), signal);
  }
}

/** Settles as `promise` does, or rejects with the signal's reason if that comes first. */
export function abortable<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return promise;
  // What becomes of a promise that nobody waits for any more is nobody's error.
  promise.catch(() => {});
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
