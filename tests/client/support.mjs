// What the client's tests stand on: the runtime's address, the model's script, a strict reader of the wire, and a chat
// without React. Whatever a test reads has been read byte by byte here too, each chunk held against the SDK's schema.
import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { AbstractChat, DefaultChatTransport, readUIMessageStream, uiMessageChunkSchema } from "#ai";

const { AGENT_URL, AGENT_TOKEN, PROVIDER_URL } = process.env;
const PATIENCE_MS = 10_000;
export const CHAT_URL = `${AGENT_URL}/chat`;
export const AUTHORIZED = { authorization: `Bearer ${AGENT_TOKEN}` };

/** A test, behind which nothing hangs that it has left behind. */
export const test = (name, body) => nodeTest(name, { timeout: 2 * PATIENCE_MS }, () => body().finally(release));

let count = 0;
export const fresh = (kind) => `${kind}-${process.pid}-${++count}`;

/** Waits until `check` gives something true, and gives that. */
export async function eventually(check, what = String(check)) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await check();
    if (found) return found;
    assert.ok(Date.now() < deadline, `it did not come true: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

// ---------------------------------------------------------------- the model

const provider = async (method, path, body) => {
  const reply = await fetch(PROVIDER_URL + path, { method, body: body && JSON.stringify(body) });
  assert.equal(reply.status, 200, await reply.clone().text());
  return reply.json();
};

export const say = (text, more) => ({ type: "say", text, ...more });
export const call = (name, args, more) => ({ type: "call", name, arguments: args, ...more });
export const hang = (after, text) => ({ type: "hang", after, reply: say(text) });

/** The model will answer with these steps, one a request; nothing was asked yet. */
export async function script(...steps) {
  await provider("DELETE", "/_requests");
  await provider("POST", "/_script", { steps });
}

/** A model that stands still goes on. */
export const release = () => provider("POST", "/_release");

/** The conversations that the model was asked to continue, oldest first. */
export async function asked() {
  const requests = await provider("GET", "/_requests");
  return requests.filter(({ path }) => path === "/v1/chat/completions").map(({ body }) => body.messages);
}

// ---------------------------------------------------------------- the wire

/** A `fetch` that keeps every exchange: `{method, url, body, status, headers, chunks, whole}`. */
export function wiretap() {
  const exchanges = [];
  const tapped = async (url, init) => {
    const response = await fetch(url, init);
    const { status, headers } = response;
    const body = init.body && JSON.parse(init.body);
    const exchange = { method: init.method, url, body, status, headers, chunks: [] };
    exchanges.push(exchange);
    if (status !== 200) return response;
    assertHeaders(headers);
    return new Response(response.body.pipeThrough(readerOf(exchange)), { status, headers });
  };
  return { fetch: tapped, exchanges, chunks: () => exchanges.flatMap(({ chunks }) => chunks) };
}

function assertHeaders(headers) {
  assert.equal(headers.get("content-type"), "text/event-stream");
  assert.equal(headers.get("x-vercel-ai-ui-message-stream"), "v1");
  assert.equal(headers.get("cache-control"), "no-cache");
  assert.equal(headers.get("x-accel-buffering"), "no");
}

/** Passes bytes on, and reads them: one chunk an event, comments between events, `[DONE]` once and at the end. */
function readerOf(exchange) {
  const decoder = new TextDecoder();
  let unread = "";
  const read = async (event) => {
    if (event.startsWith(":")) return;
    assert.ok(!exchange.whole, `behind [DONE]: ${event}`);
    assert.match(event, /^data: [^\n]+$/);
    const data = event.slice("data: ".length);
    if (data === "[DONE]") exchange.whole = true;
    else exchange.chunks.push(await valid(JSON.parse(data)));
  };
  return new TransformStream({
    async transform(bytes, controller) {
      unread += decoder.decode(bytes, { stream: true });
      const events = unread.split("\n\n");
      unread = events.pop();
      for (const event of events) await read(event);
      controller.enqueue(bytes);
    },
    flush: () => assert.ok(exchange.whole && unread === "", "the stream ended without [DONE]"),
  });
}

/** The chunk, if the SDK's own schema accepts it. */
export async function valid(chunk) {
  const result = await uiMessageChunkSchema().validate(chunk);
  assert.ok(result.success, `${JSON.stringify(chunk)}: ${result.error}`);
  return chunk;
}

export const types = (chunks) => chunks.map(({ type }) => type);

// ---------------------------------------------------------------- clients

/** The stock transport, pointed at the runtime, with its wire tapped. */
export function transport(options) {
  const wire = wiretap();
  const stock = new DefaultChatTransport({ api: CHAT_URL, headers: AUTHORIZED, fetch: wire.fetch, ...options });
  const send = (chatId, messages) => stock.sendMessages({ chatId, messages, trigger: "submit-message" });
  const reconnect = (chatId) => stock.reconnectToStream({ chatId });
  return { wire, stock, send, reconnect };
}

export const user = (text, id = fresh("m")) => ({ id, role: "user", parts: [{ type: "text", text }] });

/** The last state of the message that a stream builds, as it would be stored. */
export async function lastMessage(stream, options) {
  let last;
  for await (const message of readUIMessageStream({ stream, ...options })) last = message;
  return asJson(last);
}

/** A user's message sent, the reply read to its end: `{message, chunks}`. */
export async function ask(text, chatId = fresh("c")) {
  const { send, wire } = transport();
  const message = await lastMessage(await send(chatId, [user(text)]));
  return { message, chunks: wire.chunks() };
}

/** A page that is loaded again: the chat of the same id, with the messages that it kept, and nothing else. */
export const reloaded = (chat, more) => new Chat({ id: chat.id, messages: asJson(chat.messages), ...more });

/** Our own JSON routes. */
export async function api(method, path, body) {
  const headers = { ...AUTHORIZED, "content-type": "application/json", accept: "application/json" };
  const reply = await fetch(AGENT_URL + path, { method, headers, body: body && JSON.stringify(body) });
  return { status: reply.status, json: reply.status === 204 ? undefined : await reply.json() };
}

export const asJson = (value) => JSON.parse(JSON.stringify(value));
export const textOf = (message) =>
  (message?.parts ?? []).flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");

/** What `useChat` drives, with its state in plain memory instead of React's. */
export class Chat extends AbstractChat {
  constructor({ messages = [], ...init } = {}) {
    const { stock, wire } = transport();
    const ends = [];
    super({ id: fresh("c"), transport: stock, onFinish: (end) => ends.push(end), state: memory(messages), ...init });
    Object.assign(this, { wire, ends, statuses: [] });
  }

  setStatus(next) {
    if (next.status !== this.status) this.statuses.push(next.status);
    super.setStatus(next);
  }

  get posts() {
    return this.wire.exchanges.filter(({ method }) => method === "POST");
  }
}

function memory(messages) {
  const snapshot = (value) => structuredClone(value);
  return {
    status: "ready",
    error: undefined,
    messages,
    snapshot,
    pushMessage(message) {
      this.messages = [...this.messages, snapshot(message)];
    },
    popMessage() {
      this.messages = this.messages.slice(0, -1);
    },
    replaceMessage(index, message) {
      this.messages = this.messages.map((kept, at) => (at === index ? snapshot(message) : kept));
    },
  };
}
