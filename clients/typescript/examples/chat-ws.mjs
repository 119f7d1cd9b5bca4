// A chat over WebSocket: lines in, words out as they come; Ctrl-C takes a run back. URL and TOKEN name a server.
//   node examples/chat-ws.mjs
import { createInterface } from "node:readline/promises";
import { connectWs, startServer } from "triplane";

const { URL: url, TOKEN: token, TRIPLANE_BIN: command } = process.env;
const server = url ? undefined : await startServer({ command, transports: ["ws"] });
const client = await connectWs(url ?? server.ws.url, { token: token ?? server.ws.token });
const session = await client.create({ label: "chat" });
const input = createInterface({ input: process.stdin });
process.on("SIGINT", () => session.abort());

for await (const line of input) {
  const run = session.run(line);
  for await (const event of run) {
    if (event.type === "llm_delta") process.stdout.write(event.text);
    if (event.type === "tool_call_start") console.log(`\n${event.name} ...`);
  }
  const { stopped_reason } = await run.result;
  console.log(stopped_reason === "completed" ? "" : `\n(${stopped_reason})`);
}
client.close();
await server?.stop();
