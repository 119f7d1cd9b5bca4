// A chat with a server of one's own, over its stdin and stdout: lines in, words out as they come.
//   node examples/chat-stdio.mjs
import { createInterface } from "node:readline/promises";
import { TriplaneError, spawnStdio } from "triplane";

const client = await spawnStdio({ command: process.env.TRIPLANE_BIN });
console.error(`${client.manifest.name} ${client.manifest.version}, protocol ${client.manifest.protocol}`);
const session = await client.create({ cwd: process.cwd() });
const input = createInterface({ input: process.stdin });
const onPermission = (request) => {
  console.log(`\nallowed: ${request.title}`);
  return { allow: true };
};

for await (const line of input) {
  try {
    const run = session.run(line, { onPermission });
    for await (const event of run) if (event.type === "textDelta") process.stdout.write(event.text);
    const { stopReason, error } = await run.result;
    console.log(stopReason === "completed" ? "" : `\n(${stopReason}${error ? `: ${error.message}` : ""})`);
  } catch (error) {
    if (!TriplaneError.is(error, "busy", "unavailable")) throw error;
    console.log(`\n${error.code}: ${error.message}`);
  }
}
await client.close();
