// Stopping a turn, and how turns end.
import assert from "node:assert/strict";
import { lastAssistantMessageIsCompleteWithToolCalls } from "#ai";
import { api, call, Chat, eventually, fresh, hang, release, say, script, test, textOf, types } from "./support.mjs";

const abort = ({ id }) => api("POST", `/chat/${id}/abort`);

test("an abort ends the stream with an abort, and keeps what was said", async () => {
  await script(hang(1, "all of it"), say("on we go"));
  const chat = new Chat();
  const sent = chat.sendMessage({ text: "go" });
  await eventually(() => textOf(chat.lastMessage) === "all ");
  const { status, json } = await abort(chat);
  assert.deepEqual([status, json.aborted], [200, true]);
  await sent;
  assert.equal(chat.wire.chunks().at(-1).type, "abort");
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.equal(chat.lastMessage.metadata.finish_reason, "abort");
  assert.deepEqual(types(chat.lastMessage.parts), ["step-start", "text"]);
  assert.equal(chat.lastMessage.parts[1].state, "done");
  await chat.sendMessage({ text: "go on" });
  assert.equal(textOf(chat.lastMessage), "on we go");
});

test("an abort of nothing is no error, of a chat that nobody knows it is", async () => {
  await script(say("ok"));
  const chat = new Chat();
  assert.equal((await abort(chat)).status, 404);
  await chat.sendMessage({ text: "go" });
  const { status, json } = await abort(chat);
  assert.deepEqual([status, json.aborted], [200, false]);
});

test("an abort while tools run answers their calls, and no client takes them for its own", async () => {
  await script(call("bash", { command: "sleep 30" }));
  const chat = new Chat({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
  const sent = chat.sendMessage({ text: "wait" });
  await eventually(() => chat.lastMessage?.parts?.some(({ state }) => state === "input-available"));
  assert.equal((await abort(chat)).json.aborted, true);
  await sent;
  const [tool] = chat.lastMessage.parts.filter(({ type }) => type === "tool-bash");
  assert.equal(tool.state, "output-error");
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.equal(chat.posts.length, 1);
});

test("tools that run on the server are not handed to the client", async () => {
  await script(call("glob", { pattern: "*.none" }), say("ok"));
  const handed = [];
  const chat = new Chat({ onToolCall: ({ toolCall }) => void handed.push(toolCall) });
  await chat.sendMessage({ text: "look" });
  assert.deepEqual(handed, []);
});

test("a reply that fails tells a chat how it ended", async () => {
  await script({ type: "fail", status: 401, message: "the key is no good" });
  const chat = new Chat();
  await chat.sendMessage({ text: "go" });
  assert.equal(chat.lastMessage.metadata.finish_reason, "error");
  assert.equal(chat.lastMessage.metadata.outcome.error_code, "model_auth");
});

test("two chats of one server do not hear each other", async () => {
  await script(hang(1, "a b"), say("quick"));
  const [slow, quick] = [new Chat({ id: fresh("slow") }), new Chat({ id: fresh("quick") })];
  const sent = slow.sendMessage({ text: "1" });
  await eventually(() => textOf(slow.lastMessage) === "a ");
  await quick.sendMessage({ text: "2" });
  assert.equal(textOf(quick.lastMessage), "quick");
  await release();
  await sent;
  assert.equal(textOf(slow.lastMessage), "a b");
});
