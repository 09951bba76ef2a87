// What does the client of the extension for tasks get from a server? Prints it as one line of JSON.
// node tasks.mjs URL
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const url = process.argv[2];
const clientInfo = { name: "test", version: "1" };
const clientCapabilities = { elicitation: {}, extensions: { "io.modelcontextprotocol/tasks": {} } };
const protocolVersion = "2026-07-28";
const prefix = "io.modelcontextprotocol";
let number = 0;

// The client leaves the wire to its host.
async function rawDispatch({ method, params = {} }, options) {
  const _meta = {
    [`${prefix}/protocolVersion`]: protocolVersion,
    [`${prefix}/clientInfo`]: clientInfo,
    [`${prefix}/clientCapabilities`]: clientCapabilities,
    ...params._meta,
  };
  const name = params.taskId ?? params.name;
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": protocolVersion,
    "Mcp-Method": method,
    ...(name ? { "Mcp-Name": name } : {}),
    ...options?.context?.headers,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: ++number, method, params: { ...params, _meta } });
  const text = await (await fetch(url, { method: "POST", headers, body, signal: options?.signal })).text();
  const data = text.startsWith("{") ? text : text.split("\n").findLast((line) => line.startsWith("data: ")).slice(6);
  const { error, result } = JSON.parse(data);
  return error ? { kind: "error", error } : { kind: "result", result };
}

const request = async (sent) => (await rawDispatch(sent)).result;
const { capabilities } = await request({ method: "server/discover" });
const client = { getProtocolEra: () => "modern", getServerCapabilities: () => capabilities, request };
const asked = [];
const session = createTaskSessionFromClient(client, {
  endpointId: "test",
  rawDispatch,
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
  onInputRequest: async ({ kind }) => {
    asked.push(kind);
    return { action: "accept", content: { name: "Ann", confirm: true } };
  },
});

async function call(name, args, act) {
  const execution = await session.callTool(name, args);
  await act?.(execution);
  const { outcome } = await execution.settle();
  const { status, result, error } = outcome;
  return [execution.kind, status, result?.content[0].text ?? error?.code ?? null];
}

const fast = await call("greet", { name: "Ann" });
const slow = await call("slow_compute", { seconds: 1, label: "it" });
const failed = await call("failing_job", {});
const unable = await call("protocol_error_job", {});
const asks = await call("multi_input", {});
const asksFirst = await call("test_tool_with_task", {});
const cancelled = await call("slow_compute", { seconds: 60 }, (execution) => execution.cancel());
await session.close();
console.log(JSON.stringify({ fast, slow, failed, unable, asks, asksFirst, cancelled, asked }));
