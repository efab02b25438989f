// Coming back to a turn that goes on without its reader.
import assert from "node:assert/strict";
import {
  asJson, ask, call, Chat, CHAT_URL, eventually, fresh, hang, release, reloaded, say, script, test, textOf,
  transport, types, user,
} from "./support.mjs";

/** A chat whose reply stands still after a tool and two words, and what it will say when it goes on. */
async function halfway(options) {
  await script(call("glob", { pattern: "*.none" }), hang(2, "one two three"));
  const chat = new Chat(options);
  const sent = chat.sendMessage({ text: "look" });
  await eventually(() => textOf(chat.lastMessage) === "one two ");
  return { chat, sent };
}

/** A transport whose posts break where the signal says, as when a laptop changes its network. */
function breakable(signal) {
  const posting = async (url, init) => {
    const reply = await fetch(url, init);
    if (init.method !== "POST") return reply;
    return new Response(reply.body.pipeThrough(new TransformStream(), { signal }), reply);
  };
  return transport({ fetch: posting }).stock;
}

test("nothing runs in a chat that nobody knows: null, and no error", async () => {
  const { reconnect, wire } = transport();
  assert.equal(await reconnect(fresh("c")), null);
  assert.equal(wire.exchanges[0].status, 204);
  assert.match(wire.exchanges[0].url, new RegExp(`^${CHAT_URL}/[^/]+/stream$`));
});

test("nothing runs in a chat whose turn has ended: null", async () => {
  const id = fresh("c");
  await script(say("ok"));
  await ask("go", id);
  assert.equal(await transport().reconnect(id), null);
  const chat = new Chat({ id });
  await chat.resumeStream();
  assert.deepEqual([chat.status, chat.messages.length], ["ready", 0]);
});

test("a page that is loaded again builds the very same message", async () => {
  const { chat, sent } = await halfway();
  const page = new Chat({ id: chat.id, messages: asJson(chat.messages.slice(0, 1)) });
  const resumed = page.resumeStream();
  await eventually(() => textOf(page.lastMessage) === "one two ");
  await release();
  await Promise.all([sent, resumed]);
  assert.deepEqual(asJson(page.messages), asJson(chat.messages));
  assert.equal(page.status, "ready");
  assert.deepEqual(page.wire.chunks(), chat.wire.chunks());
});

test("a page that kept half of the reply has no part of it twice", async () => {
  const { chat, sent } = await halfway();
  const page = reloaded(chat);
  assert.equal(page.messages.length, 2);
  const resumed = page.resumeStream();
  await eventually(() => page.status === "streaming");
  await release();
  await Promise.all([sent, resumed]);
  assert.deepEqual(asJson(page.messages), asJson(chat.messages));
  assert.deepEqual(types(page.lastMessage.parts), ["step-start", "tool-glob", "step-start", "text"]);
});

test("a reader who stopped comes back to the same turn", async () => {
  const { chat, sent } = await halfway();
  await chat.stop();
  await sent;
  const resumed = chat.resumeStream();
  await eventually(() => chat.status === "streaming");
  await release();
  await resumed;
  assert.equal(chat.messages.length, 2);
  assert.equal(textOf(chat.lastMessage), "one two three");
});

test("a connection that breaks is an error that the user sees, and the page comes back to the same turn", async () => {
  const line = new AbortController();
  const { chat, sent } = await halfway({ transport: breakable(line.signal) });
  line.abort(new TypeError("the line is cut"));
  await sent;
  assert.deepEqual([chat.status, chat.ends[0].isError], ["error", true]);
  const resumed = chat.resumeStream();
  await eventually(() => chat.status === "streaming");
  await release();
  await resumed;
  assert.deepEqual([chat.status, chat.messages.length], ["ready", 2], chat.error?.message);
  assert.equal(textOf(chat.lastMessage), "one two three");
});

test("names with special characters find their chat", async () => {
  await script(hang(1, "hello there"));
  const chat = new Chat({ id: `${fresh("c")} ä?#%` });
  const sent = chat.sendMessage({ text: "hi" });
  await eventually(() => textOf(chat.lastMessage) === "hello ");
  const page = reloaded(chat);
  const resumed = page.resumeStream();
  await eventually(() => page.status === "streaming");
  await release();
  await Promise.all([sent, resumed]);
  assert.equal(textOf(page.lastMessage), "hello there");
});

test("with a message in the queue, whoever comes back sees the turn that runs", async () => {
  await script(hang(1, "first of all"), say("second"));
  const id = fresh("c");
  const first = new Chat({ id });
  const one = first.sendMessage({ text: "1" });
  await eventually(() => textOf(first.lastMessage) === "first ");
  const places = [];
  const second = new Chat({ id, onData: (part) => places.push(part) });
  const two = second.sendMessage({ text: "2" });
  await eventually(() => places.length === 1);
  const page = new Chat({ id });
  const resumed = page.resumeStream();
  await eventually(() => textOf(page.lastMessage) === "first ");
  await release();
  await Promise.all([one, two, resumed]);
  assert.deepEqual([page, second].map(({ lastMessage }) => textOf(lastMessage)), ["first of all", "second"]);
});
