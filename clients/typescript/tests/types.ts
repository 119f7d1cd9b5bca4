/** What the types promise; compiled, never run. */

import { type StreamItem, TriplaneError, connectHttp, connectWs, spawnStdio } from "../src/index.js";

/** Every kind of item is told apart by its `type`. */
export function text(item: StreamItem): string {
  switch (item.type) {
    case "llm_delta":
      return item.text;
    case "permission_request":
      return item.options.map((option) => option.name).join();
    case "replay_gap":
      return `${item.from}–${item.to}`;
    case "usage":
      return String(item.output);
    default:
      // @ts-expect-error: an event that is not known here has no text
      return item.text ?? "";
  }
}

export async function wires(): Promise<void> {
  const http = await connectHttp("http://127.0.0.1:4096", { token: "t" });
  const session = await http.create({ mode: "plan" });
  // @ts-expect-error: no such mode
  await http.create({ mode: "none" });
  // @ts-expect-error: a route needs its own body
  await http.call("prompt", { body: { words: "x" } });
  const finished = await session.prompt("x", { onPermission: (request) => request.tool === "read" });
  const stop: "completed" | "aborted" | "max_turns" | "max_tokens" | "refused" | "error" = finished.stopped_reason;

  const ws = await connectWs("ws://127.0.0.1:1", { token: "t" });
  const submitted = await (await ws.create()).prompt(stop);
  // @ts-expect-error: this wire says `reply`
  submitted.text;
  // @ts-expect-error: no such method
  await ws.call("session.open", {});

  const stdio = await spawnStdio();
  const rows = await stdio.list();
  const created: number | undefined = rows[0]?.createdAt;
  for await (const event of stdio.events(String(created))) {
    if (event.type === "textDelta") event.text satisfies string;
    if (event.type === "missed") event.count satisfies number;
  }
}

export function remedy(error: unknown): string {
  if (!TriplaneError.is(error)) throw error;
  // @ts-expect-error: no such code
  if (error.code === "nope") return "";
  return error.code === "busy" ? "wait" : error.message;
}
