// What does a client get from the API that has nothing but `fetch`? Prints it as one line of JSON.
// node client.mjs URL TOKEN
const [url, token] = process.argv.slice(2);

const ask = (path, headers = {}, options = {}) =>
  fetch(url + path, { ...options, headers: { authorization: `Bearer ${token}`, ...headers } });

const call = (name, args, headers = {}, signal = undefined) =>
  ask(
    `/v1/tools/${name}/calls`,
    { "content-type": "application/json", ...headers },
    { method: "POST", body: JSON.stringify({ arguments: args }), signal },
  );

async function* readEvents(answer) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of answer.body) {
    const parts = (text + decoder.decode(piece, { stream: true })).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const event = {};
      for (const line of part.split("\n")) {
        const colon = line.indexOf(":");
        if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).trim();
      }
      if (event.data) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}

async function readAll(answer, most = Infinity) {
  const found = [];
  for await (const event of readEvents(answer)) if (found.push(event) >= most) break;
  return found;
}

const sum = await (await call("add", { a: 1, b: 2 })).json();

const refused = await call("adt", {});
const problem = { ...(await refused.json()), kind: refused.headers.get("content-type") };

const streamed = await readAll(await call("count", { most: 3 }, { accept: "text/event-stream" }));

// A call that is given up.
const given = new AbortController();
const endless = await call("endless", {}, { accept: "text/event-stream" }, given.signal);
try {
  for await (const event of readEvents(endless))
    if (event.event === "execution_progress") given.abort();
} catch (error) {
  if (error.name !== "AbortError") throw error;
}
let records = [];
while (records.length === 0)
  records = (await (await ask("/v1/records?tool_name=endless")).json()).items;

// A call that goes on without its client.
const accepted = await call("count", { most: 2 }, { prefer: "respond-async" });
const task = await (await ask(`${accepted.headers.get("location")}?wait=20`)).json();

const begun = (await call("endless", {}, { prefer: "respond-async" })).headers.get("location");
const ended = await (await ask(`${begun}?reason=enough`, {}, { method: "DELETE" })).json();
const cancelled = await (await ask(`${begun}?wait=20`)).json();

// A request that is sent again.
const twice = [];
for (const key of ["four", "four"])
  twice.push((await (await call("add", { a: 2, b: 2 }, { "idempotency-key": key })).json()).metadata.call_id);

// A reader that comes back.
const listening = await ask("/v1/events?types=execution_completed&tool_name=add");
await call("add", { a: 1, b: 1 });
const [first] = await readAll(listening, 1);
for (const b of [2, 3, 4]) await call("add", { a: 1, b });
const again = await ask("/v1/events?types=execution_completed&tool_name=add", {
  "last-event-id": first.id,
});
const heard = [first, ...(await readAll(again, 3))].map((event) => event.data.execution_result.output);

console.log(
  JSON.stringify({
    sum: sum.output,
    problem,
    streamed: streamed.map((event) => event.event),
    progress: streamed.filter((event) => event.event === "execution_progress").map((event) => event.data.data),
    counted: streamed.at(-1).data.output,
    records: records.map((record) => record.error_type),
    accepted: accepted.status,
    task: [task.status, task.result.output],
    ended: ended.is_cancelled,
    cancelled: [cancelled.status, cancelled.message],
    twice,
    heard,
  }),
);
