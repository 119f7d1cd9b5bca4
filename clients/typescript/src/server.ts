/** Starts a server for this program's own use, and reads where it listens. Node only. */

import { abortable } from "./backoff.js";
import { TriplaneError, disconnected } from "./errors.js";
import { LineProcess, type ProcessOptions } from "./process.js";

export interface ServeOptions extends ProcessOptions {
  /** Wires to serve. Default: `["http"]`. */
  transports?: ("ws" | "http")[];
  /** Further flags of `triplane serve`. */
  args?: string[];
  /** Gives up waiting for the server, and ends it. */
  signal?: AbortSignal;
}

/** A server that listens. */
export interface Server {
  /** For `connectHttp`, if that wire is served. */
  http?: { url: string; token: string };
  /** For `connectWs`, if that wire is served. */
  ws?: { url: string; token: string };
  /** Settles when it has ended, with words that say how. */
  ended: Promise<string>;
  /** Ends it in order. */
  stop(): Promise<void>;
}

/** Runs `triplane serve` on free ports until `stop`. */
export async function startServer(options: ServeOptions = {}): Promise<Server> {
  const transports = options.transports ?? ["http"];
  const wires: Pick<Server, "http" | "ws"> = {};
  let listening = () => {};
  let broken = (_error: unknown) => {};
  const ready = new Promise<void>((resolve, reject) => {
    listening = resolve;
    broken = reject;
  });
  const take = (line: string) => {
    try {
      const { url, port, token } = JSON.parse(line);
      if (url) wires.http = { url, token };
      else wires.ws = { url: `ws://127.0.0.1:${port}`, token };
    } catch (cause) {
      broken(new TriplaneError("protocol", "a ready line that is not JSON", { cause }));
    }
    if (transports.every((wire) => wires[wire])) listening();
  };
  const args = ["serve", "--transport", transports.join(","), "--addr", "127.0.0.1:0", ...(options.args ?? [])];
  const child = await LineProcess.start(options, args, take);
  child.ended.then((how) => broken(disconnected(`the server ended before it listened: ${how}`)));
  try {
    await abortable(ready, options.signal);
  } catch (error) {
    child.kill();
    throw error;
  }
  return { ...wires, ended: child.ended, stop: () => child.stop("SIGTERM") };
}
