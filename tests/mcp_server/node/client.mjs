// What does the client of the TypeScript SDK get from a server? Prints it as one line of JSON.
// node client.mjs http URL | node client.mjs stdio COMMAND ARGUMENT...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  ElicitRequestSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [way, where, ...rest] = process.argv.slice(2);
const transport =
  way === "http"
    ? new StreamableHTTPClientTransport(new URL(where))
    : new StdioClientTransport({ command: where, args: rest });
const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  asked.push(request.params.message.split("\n")[0]);
  return { action: "accept", content: { allow: true } };
});
const changed = new Promise((resolve) =>
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve(true)),
);
await client.connect(transport);

const call = (name, args) => client.callTool({ name, arguments: args });
const names = (await client.listTools()).tools.map((tool) => tool.name);
const sum = await call("add", { a: 1, b: 2 });
const wrong = await call("add", { a: 1, bb: 2 });
const unknown = await call("adt", {}).catch((error) => ({ code: error.code, text: error.message }));
const progress = [];
const counted = await client.callTool({ name: "count", arguments: { most: 2 } }, undefined, {
  onprogress: (each) => progress.push(each.progress),
});
const given = new AbortController();
setTimeout(() => given.abort(), 200);
const left = await client
  .callTool({ name: "wait", arguments: {} }, undefined, { signal: given.signal })
  .catch((error) => error.name || String(error));
const paid = await call("pay", {});
const grown = await call("grow", {});
const heard = await Promise.race([
  changed,
  new Promise((resolve) => setTimeout(() => resolve(false), 10_000)),
]);
const after = (await client.listTools()).tools.length - names.length;
await client.close();
console.log(
  JSON.stringify({ names, sum, wrong, unknown, progress, counted, left, paid, asked, grown, heard, after }),
);
