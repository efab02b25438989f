// The state machine behind `useChat`: what its user sees, and what it sends by itself.
import assert from "node:assert/strict";
import { lastAssistantMessageIsCompleteWithToolCalls } from "#ai";
import {
  api, asked, call, Chat, eventually, fresh, hang, release, say, script, test, textOf, transport, types, user,
} from "./support.mjs";

const texts = (chat) => chat.messages.map((message) => [message.role, textOf(message)]);
const dialogue = (conversation) => conversation.filter(({ role }) => role !== "system").map(({ role }) => role);

test("a chat streams and is ready again", async () => {
  await script(hang(1, "hello there"));
  const chat = new Chat();
  const sent = chat.sendMessage({ text: "hi" });
  await eventually(() => textOf(chat.lastMessage) === "hello ");
  assert.equal(chat.status, "streaming");
  await release();
  await sent;
  assert.deepEqual(chat.statuses, ["submitted", "streaming", "ready"]);
  assert.deepEqual(texts(chat), [["user", "hi"], ["assistant", "hello there"]]);
  const [end] = chat.ends;
  assert.deepEqual([end.finishReason, end.isAbort, end.isDisconnect, end.isError], ["stop", false, false, false]);
});

test("a follow-up continues the conversation that the server keeps", async () => {
  await script(say("Your name is Ada."), say("You are Ada."));
  const chat = new Chat();
  await chat.sendMessage({ text: "I am Ada" });
  await chat.sendMessage({ text: "Who am I?" });
  const [, second] = await asked();
  assert.deepEqual(dialogue(second), ["user", "assistant", "user"]);
  assert.match(JSON.stringify(second), /I am Ada.*Your name is Ada.*Who am I/);
  assert.equal(new Set(chat.messages.map(({ id }) => id)).size, 4);
});

test("of the messages that a client sends only the last one counts", async () => {
  await script(say("one"), say("two"));
  const chat = new Chat();
  await chat.sendMessage({ text: "first" });
  chat.messages = [user("I never said this"), { id: "x", role: "assistant", parts: [{ type: "text", text: "nor I" }] }];
  await chat.sendMessage({ text: "second" });
  const [, second] = await asked();
  assert.deepEqual(dialogue(second), ["user", "assistant", "user"]);
  assert.doesNotMatch(JSON.stringify(second), /never said|nor I/);
});

test("keys and metadata of a frontend's own do no harm", async () => {
  await script(say("ok"));
  const chat = new Chat();
  const message = { text: "hi", metadata: { theme: "dark" } };
  await chat.sendMessage(message, { body: { webSearch: true, nested: { a: [1] } }, headers: { "x-own": "1" } });
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.equal(chat.posts[0].body.webSearch, true);
  assert.equal(textOf(chat.lastMessage), "ok");
});

test("a model that fails leaves an error, and the chat can go on", async () => {
  await script({ type: "fail", status: 401, message: "the key is no good" }, say("better now"));
  const chat = new Chat();
  await chat.sendMessage({ text: "go" });
  assert.equal(chat.status, "error");
  assert.match(chat.error.message, /the key is no good/);
  assert.equal(chat.ends[0].isError, true);
  await chat.sendMessage({ text: "again" });
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.equal(textOf(chat.lastMessage), "better now");
});

test("stop() only stops watching: the turn goes on to its end", async () => {
  await script(hang(1, "all of it"));
  const chat = new Chat();
  const sent = chat.sendMessage(user("go", "stopped"));
  await eventually(() => textOf(chat.lastMessage) === "all ");
  await chat.stop();
  await sent;
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.equal(chat.ends[0].isAbort, true);
  await release();
  const { json } = await api("POST", "/chat", { message: "go", session_id: chat.id, message_id: "stopped" });
  assert.equal(json.response, "all of it");
  assert.equal(json.finish_reason, "stop");
  assert.equal((await asked()).length, 1);
});

test("a message that is sent again joins the turn that it began", async () => {
  await script(hang(1, "only once"));
  const chat = new Chat();
  const sent = chat.sendMessage({ text: "go" });
  await eventually(() => textOf(chat.lastMessage) === "only ");
  await chat.stop();
  await sent;
  chat.messages = chat.messages.slice(0, 1);
  const again = chat.sendMessage();
  await eventually(() => textOf(chat.lastMessage) === "only ");
  await release();
  await again;
  assert.deepEqual(texts(chat), [["user", "go"], ["assistant", "only once"]]);
  assert.equal((await asked()).length, 1);
});

test("other words under the same id are an error that the user sees", async () => {
  await script(say("ok"));
  const chat = new Chat();
  await chat.sendMessage(user("this", "taken"));
  await chat.sendMessage(user("that", "taken"));
  assert.equal(chat.status, "error");
  assert.equal(JSON.parse(chat.error.message).code, "message_conflict");
});

test("what is not text is refused with a reason", async () => {
  await script();
  const chat = new Chat();
  const picture = { type: "file", mediaType: "image/png", url: "data:image/png;base64,AAAA" };
  await chat.sendMessage({ role: "user", parts: [{ type: "text", text: "look" }, picture] });
  assert.equal(chat.status, "error");
  assert.match(chat.error.message, /unsupported parts: file/);
});

test("a wrong token is an error that the user sees", async () => {
  const { stock } = transport({ headers: { authorization: "Bearer wrong" } });
  const chat = new Chat({ transport: stock });
  await chat.sendMessage({ text: "hi" });
  assert.equal(chat.status, "error");
  assert.equal(JSON.parse(chat.error.message).status, 401);
});

test("tools that the server ran do not make a client send again", async () => {
  await script(call("glob", { pattern: "*.none" }), say("nothing"));
  const chat = new Chat({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
  await chat.sendMessage({ text: "look" });
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.equal(chat.posts.length, 1);
});

test("a message that waits in the queue shows its place and leaves no trace of it", async () => {
  await script(hang(0, "first"), say("second"));
  const id = fresh("c");
  const first = new Chat({ id });
  const one = first.sendMessage({ text: "1" });
  await eventually(async () => (await asked()).length === 1);
  const places = [];
  const second = new Chat({ id, onData: (part) => places.push(part) });
  const two = second.sendMessage({ text: "2" });
  await eventually(() => places.length === 1);
  assert.equal(places[0].type, "data-queue");
  assert.ok(places[0].data.position >= 1);
  await release();
  await Promise.all([one, two]);
  assert.deepEqual(types(second.lastMessage.parts), ["step-start", "text"]);
  assert.equal(textOf(second.lastMessage), "second");
});

test("a retry of the model's call is told to the client and no part of the message", async () => {
  await script({ type: "fail", status: 500 }, say("at last"));
  const told = [];
  const chat = new Chat({ onData: (part) => told.push(part) });
  await chat.sendMessage({ text: "go" });
  assert.deepEqual(types(told), ["data-status"]);
  assert.deepEqual(types(chat.lastMessage.parts), ["step-start", "text"]);
});
