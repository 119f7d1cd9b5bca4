// A chat over HTTP: lines in, words out as they come. URL and TOKEN name a server; without them one is started here.
//   node examples/chat-http.mjs
import { createInterface } from "node:readline/promises";
import { connectHttp, startServer } from "triplane";

const { URL: url, TOKEN: token, TRIPLANE_BIN: command } = process.env;
const server = url ? undefined : await startServer({ command, transports: ["http"] });
const client = await connectHttp(url ?? server.http.url, { token: token ?? server.http.token });
const session = await client.create();
const input = createInterface({ input: process.stdin });

for await (const line of input) {
  for await (const event of session.run(line)) {
    if (event.type === "llm_delta") process.stdout.write(event.text);
    if (event.type === "permission_request") {
      console.log(`\nallowed: ${event.title}`);
      await session.allow(event.request_id);
    }
    if (event.type === "replay_gap") console.log(`\n(${event.to - event.from + 1} events were lost)`);
    if (event.type === "error") console.log(`\n${event.code}: ${event.message}`);
    if (event.type === "final") console.log();
  }
}
await server?.stop();
