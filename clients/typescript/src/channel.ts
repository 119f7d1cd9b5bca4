/**
 * Pushed events as an async iterator. Bounded: when a reader is too slow, the oldest go, and it is told how many were lost
 * right where they would have come.
 */

/** Stands where events would be that this reader was too slow for. */
export class Missed {
  readonly type = "missed";
  /** How many. */
  readonly count: number;

  constructor(count: number) {
    this.count = count;
  }
}

/** Items that wait for one reader; then the oldest are dropped and marked. */
const CAPACITY = 8192;

export class Channel<T> implements AsyncIterableIterator<T | Missed> {
  /** Settles once the subscription stands: what happens after that is seen. */
  ready: Promise<void> = Promise.resolve();
  #items: (T | Missed)[] = [];
  #ended = false;
  #error: unknown;
  #waiting: { resolve: (result: IteratorResult<T | Missed>) => void; reject: (error: unknown) => void }[] = [];
  #onEnd: (() => void)[] = [];
  readonly #capacity: number;

  constructor(capacity = CAPACITY) {
    this.#capacity = capacity;
  }

  push(item: T | Missed): void {
    if (this.#ended) return;
    const reader = this.#waiting.shift();
    if (reader) return reader.resolve({ value: item, done: false });
    this.#items.push(item);
    // Halved at once, so that a reader that stands still costs little for each further event.
    if (this.#items.length <= this.#capacity) return;
    const gone = this.#items.splice(0, (this.#capacity >> 1) + 1);
    this.#items.unshift(new Missed(gone.reduce((sum, one) => sum + (one instanceof Missed ? one.count : 1), 0)));
  }

  /** No more items: readers get those that are there, then the end, or `error`. */
  end(error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    for (const hook of this.#onEnd.splice(0)) hook();
    for (const reader of this.#waiting.splice(0)) {
      if (this.#error === undefined) reader.resolve({ value: undefined, done: true });
      else reader.reject(this.#take());
    }
  }

  /** Called once, when it ends or its reader leaves. */
  onEnd(hook: () => void): void {
    if (this.#ended) hook();
    else this.#onEnd.push(hook);
  }

  next(): Promise<IteratorResult<T | Missed>> {
    if (this.#items.length) return Promise.resolve({ value: this.#items.shift() as T | Missed, done: false });
    if (this.#error !== undefined) return Promise.reject(this.#take());
    if (this.#ended) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  return(): Promise<IteratorResult<T | Missed>> {
    this.#items = [];
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** An error is thrown once; after it the iterator is done. */
  #take(): unknown {
    const error = this.#error;
    this.#error = undefined;
    return error;
  }
}

/** Ends `channel` when `signal` aborts: its reader gets the signal's reason. */
export function endOn(signal: AbortSignal | undefined, channel: Channel<never> | Channel<any>): void {
  if (!signal) return;
  if (signal.aborted) return channel.end(signal.reason);
  const stop = () => channel.end(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  channel.onEnd(() => signal.removeEventListener("abort", stop));
}
