// A server of our own for one script: started in a temporary directory, stopped and started again at the same place, and gone
// with the script, however that ends.
import { spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What a careless writer of event streams would break on. */
export const HOSTILE = "a\rb\r\nc\n\nevent: final\ndata: {}\n\n\u2028\u2029\u0000\ufeff id: 9\u0085z 😀";

const program = process.env.TRIPLANE_BIN;
if (!program) throw new Error("TRIPLANE_BIN names the binary under test");

export class Server {
  #dir = mkdtempSync(join(tmpdir(), "triplane-peers-"));
  #child;
  token = "token-of-a-test-server-that-is-gone-soon";
  url;

  constructor() {
    for (const name of ["work", "home"]) mkdirSync(join(this.#dir, name));
    process.on("exit", () => {
      this.#child?.kill("SIGKILL");
      rmSync(this.#dir, { recursive: true, force: true });
    });
  }

  /** Starts it; a second time at the same address. */
  async start() {
    const addr = this.url ? new URL(this.url).host : "127.0.0.1:0";
    this.#child = spawn(program, ["serve", "--transport", "http", "--addr", addr, "--mode", "bypass"], {
      cwd: join(this.#dir, "work"),
      env: { PATH: process.env.PATH, HOME: join(this.#dir, "home"), TRIPLANE_HOME: join(this.#dir, "home"), TRIPLANE_TOKEN: this.token },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let text = "";
    for await (const piece of this.#child.stdout) {
      text += piece;
      if (text.includes("\n")) break;
    }
    this.url = JSON.parse(text.split("\n")[0]).url;
  }

  /** Stops it as a service manager would. */
  async stop() {
    const ended = new Promise((resolve) => this.#child.once("exit", (code, signal) => resolve(code ?? signal)));
    this.#child.kill("SIGTERM");
    const code = await ended;
    if (code !== 0) throw new Error(`the server ended with ${code}`);
  }

  async call(method, path, body) {
    const headers = { authorization: `Bearer ${this.token}` };
    const answer = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.status === 204 ? null : answer.json();
  }

  /** A new session's path. */
  async session() {
    return `/v1/sessions/${(await this.call("POST", "/v1/sessions", {})).id}`;
  }

  run(session, text) {
    return this.call("POST", `${session}/prompt`, { text, wait: true });
  }
}

/** Ends the script with a failure unless both are the same. */
export function same(got, want, what) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what}: got ${a.slice(0, 400)}, want ${b.slice(0, 400)}`);
}

/** Waits until `ready` says so. */
export async function until(what, ready, seconds = 15) {
  const end = Date.now() + seconds * 1000;
  while (!ready()) {
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Each event once, none left out. */
export function contiguous(events) {
  events.forEach((event, at) => {
    same(String(event.seq), event.id, "an event's id, beside its seq");
    same(event.seq, events[0].seq + at, `the seq of event ${at} (${event.type})`);
  });
}
