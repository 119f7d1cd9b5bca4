/** The one error of this package: a code to decide on, a message to show, and the server's own cause where it tells one. */

import type { components } from "./generated/larik.js";

/** Codes that the server gives. */
export type ErrorCode = components["schemas"]["ErrorCode"];

/**
 * Codes that this package gives: `disconnected`, the connection is gone and the outcome unknown; `protocol`, the other end does
 * not speak this protocol; `replay_gap`, the events that were waited for are lost.
 */
export type ClientCode = "disconnected" | "protocol" | "replay_gap";

/** A call that failed. */
export class TriplaneError extends Error {
  override readonly name = "TriplaneError";
  /** What can be done about it. */
  readonly code: ErrorCode | ClientCode;
  /** Status of the HTTP answer, where there was one. */
  readonly status: number | undefined;

  /** `cause`: the store's, agent's or driver's own message, or what was thrown below. */
  constructor(code: ErrorCode | ClientCode, message: string, more: { cause?: unknown; status?: number } = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    this.status = more.status;
  }

  /** Whether `error` is one of these, and has one of `codes` if any are given. */
  static is(error: unknown, ...codes: (ErrorCode | ClientCode)[]): error is TriplaneError {
    return error instanceof TriplaneError && (codes.length === 0 || codes.includes(error.code));
  }
}

export function disconnected(message: string, cause?: unknown): TriplaneError {
  return new TriplaneError("disconnected", message, { cause });
}
