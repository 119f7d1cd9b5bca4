// Servers, scratch directories and a line that can be cut. Everything ends with the test that began it.
import { mkdtemp, mkdir } from "node:fs/promises";
import { existsSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer } from "../dist/index.js";

export const BIN = process.env.TRIPLANE_BIN ?? fileURLToPath(new URL("../../../target/debug/triplane", import.meta.url));
if (!existsSync(BIN)) throw new Error(`no server to test against: ${BIN}; cargo build -p triplane, or set TRIPLANE_BIN`);

export const TOKEN = "a-token-for-tests-only";

/** Nothing in these tests takes longer. */
export const deadline = () => AbortSignal.timeout(30_000);

/** A directory to work in, and what a server in it is started with. */
export async function scratch() {
  const dir = await mkdtemp(join(tmpdir(), "triplane-js-"));
  // When all is over: hooks run in the order of their registration, and the server in it is stopped by a later one.
  process.on("exit", () => rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }));
  const cwd = join(dir, "work");
  await mkdir(cwd);
  const env = { PATH: process.env.PATH, TRIPLANE_HOME: join(dir, "home"), TRIPLANE_TOKEN: TOKEN };
  return { command: BIN, cwd, env, stderr: "ignore" };
}

export async function serve(t, transports, where) {
  const server = await startServer({ ...(where ?? (await scratch())), transports, signal: deadline() });
  t.after(() => server.stop());
  return server;
}

/** A TCP line to a server, that can be cut and led elsewhere. */
export async function line(t, to) {
  const open = new Set();
  const proxy = {
    to: Number(new URL(to).port),
    connections: 0,
    /** Cuts every connection. */
    cut() {
      for (const socket of open) socket.destroy();
    },
  };
  const server = net.createServer((near) => {
    proxy.connections += 1;
    const far = net.connect(proxy.to, "127.0.0.1");
    for (const [one, other] of [[near, far], [far, near]]) {
      open.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    proxy.cut();
    server.close();
  });
  const url = new URL(to);
  url.port = String(server.address().port);
  proxy.url = url.href;
  return proxy;
}

/** A prompt whose model calls the tool that writes a file, which asks for a permission. */
export const write = (path, content) => `/tool write ${JSON.stringify({ path, content })}`;

/** Items up to and with the first that `last` holds for. */
export async function until(items, last) {
  const seen = [];
  for await (const item of items) {
    seen.push(item);
    if (last(item)) break;
  }
  return seen;
}

export const types = (items) => items.map((item) => item.type);

/** The text that deltas make. */
export const said = (items) => items.filter((one) => one.type === "llm_delta" || one.type === "textDelta").map((one) => one.text).join("");
