/** A run in flight: its events to iterate over, and its outcome to await. */

import type { Channel, Missed } from "./channel.js";

export class Run<Event, Outcome> implements AsyncIterable<Event | Missed> {
  /** The outcome, however the run ended. Rejects only if it could not begin, the connection was lost, or the signal aborted. */
  readonly result: Promise<Outcome>;
  readonly #events: Channel<Event>;

  constructor(events: Channel<Event>, result: Promise<Outcome>) {
    this.#events = events;
    this.result = result;
    // Whoever only reads the events sees the same error there.
    result.catch(() => {});
  }

  /** The run's events, up to its last; once. Leaving early does not end the run. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Event | Missed> {
    return this.#events;
  }
}
