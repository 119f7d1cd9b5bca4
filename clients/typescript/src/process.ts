/** A child process as lines. Node only; nothing of Node is imported before it is used, so that browsers can load the package. */

import type { ChildProcess } from "node:child_process";
import { disconnected } from "./errors.js";

export interface ProcessOptions {
  /** The program. Default `triplane`, from the path. */
  command?: string;
  /** Directory that it runs in. */
  cwd?: string;
  /** Its whole environment. Default: this process's own. */
  env?: Record<string, string | undefined>;
  /** Where its log goes. Default `inherit`. */
  stderr?: "inherit" | "ignore";
}

export class LineProcess {
  /** Settles when it has ended, with words that say how. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, onLine: (line: string) => void) {
    this.#child = child;
    let rest = "";
    child.stdout?.setEncoding("utf8");
    child.stdout?.on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line.trim() !== "") onLine(line);
    });
    // A child that is gone is told by `ended`; a write that comes after is no news.
    child.stdin?.on("error", () => {});
    this.ended = new Promise((resolve) => {
      child.on("error", (error) => resolve(error.message));
      child.on("close", (code, signal) => resolve(signal ? `killed by ${signal}` : `exit code ${code}`));
    });
  }

  /** Starts it. Rejects with `disconnected` when the program cannot be started. */
  static async start(options: ProcessOptions, args: string[], onLine: (line: string) => void): Promise<LineProcess> {
    const { spawn } = await import("node:child_process");
    const { command = "triplane", cwd, env, stderr = "inherit" } = options;
    const child = spawn(command, args, { cwd, env: env as NodeJS.ProcessEnv, stdio: ["pipe", "pipe", stderr] });
    const process = new LineProcess(child, onLine);
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", () => resolve());
      child.once("error", (error) => reject(disconnected(`${command} could not be started: ${error.message}`, error)));
    });
    return process;
  }

  /** Its id, once it was started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  write(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  /** Lets it end in order, and kills it after `ms`. */
  async stop(how: "stdin" | "SIGTERM", ms = 10_000): Promise<void> {
    if (how === "stdin") this.#child.stdin?.end();
    else this.#child.kill(how);
    const timer = setTimeout(() => this.kill(), ms);
    await this.ended;
    clearTimeout(timer);
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}
