/** Answers to permission requests, said the same way on every wire that has them. */

import { TriplaneError } from "./errors.js";
import type { components as Larik } from "./generated/larik.js";
import type { components as Sepia } from "./generated/sepia.js";

/** An answer: `true` and `false` are for this once. `reason` goes to the model where the wire has a place for it (HTTP). */
export type Decision = boolean | { allow: boolean; always?: boolean; reason?: string };

type Kind = Larik["schemas"]["OptionKind"];

export interface Answer {
  allow: boolean;
  always?: boolean;
  reason?: string;
}

export function answer(decision: Decision): Answer {
  return typeof decision === "boolean" ? { allow: decision } : decision;
}

/** The option that says `decision`. Where `always` is not offered, once is taken: less is allowed, never more. */
export function optionFor(options: readonly Sepia["schemas"]["PermissionOption"][], decision: Decision): string {
  const { allow, always } = answer(decision);
  const once: Kind = allow ? "allow_once" : "reject_once";
  const wanted: Kind[] = always ? [allow ? "allow_always" : "reject_always", once] : [once];
  for (const kind of wanted) {
    const option = options.find((one) => one.kind === kind);
    if (option) return option.id;
  }
  throw new TriplaneError("unsupported", `no option of kind ${wanted.join(" or ")} was offered`);
}

/** Runs `decide`, and hands its answer to `give`. Somebody else may have been faster: that is no error. */
export async function decide<R>(
  request: R,
  how: (request: R) => Decision | Promise<Decision>,
  give: (decision: Decision) => Promise<unknown>,
): Promise<void> {
  const decision = await how(request);
  try {
    await give(decision);
  } catch (error) {
    if (!TriplaneError.is(error, "not_found")) throw error;
  }
}
