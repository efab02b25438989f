// Conversations that were summed up: what the server keeps of them is a page's messages like any other.
import assert from "node:assert/strict";
import { safeValidateUIMessages } from "#ai";
import { api, asked, Chat, say, script, test, textOf } from "./support.mjs";

const WORDS = "word after word ".repeat(60);

async function kept({ id }) {
  const { json } = await api("GET", `/sessions/${encodeURIComponent(id)}/messages`);
  const { success, error } = await safeValidateUIMessages({ messages: json.messages });
  assert.ok(success, String(error));
  return json.messages;
}

const compact = ({ id }) => api("POST", `/sessions/${encodeURIComponent(id)}/compact`);
const kinds = (messages) => messages.map(({ role, parts }) => `${role} ${parts.at(-1).type}`);

test("a summary is a message among the others, and a page goes on behind it", async () => {
  await script(say("one"), say("## Facts\nThey counted."), say("two"), say("three"));
  const chat = new Chat();
  await chat.sendMessage({ text: WORDS });
  const { status, json } = await compact(chat);
  assert.equal(status, 200, JSON.stringify(json));
  const page = new Chat({ id: chat.id, messages: await kept(chat) });
  assert.deepEqual(kinds(page.messages), ["user text", "assistant text", "assistant data-compaction"]);
  assert.equal(page.lastMessage.parts[0].data.summary, json.summary);
  await page.sendMessage({ text: "go on" });
  assert.equal(textOf(page.lastMessage), "two");
  const sent = (await asked()).at(-1);
  assert.deepEqual(sent.map(({ role }) => role), ["system", "user", "user"]);
  assert.match(sent[1].content, /They counted\./);
  await page.regenerate();
  assert.equal(page.status, "ready", page.error?.message);
  assert.equal(textOf(page.lastMessage), "three");
  assert.deepEqual((await asked()).at(-1), sent);
  assert.deepEqual(kinds(await kept(chat)), [...kinds(page.messages)]);
});

test("a page that makes the reply before a summary again takes the summary back", async () => {
  await script(say("one"), say("## Facts\nThey counted."), say("one again"), say("two"));
  const chat = new Chat();
  await chat.sendMessage({ text: WORDS });
  assert.equal((await compact(chat)).status, 200);
  const page = new Chat({ id: chat.id, messages: await kept(chat) });
  await page.regenerate({ messageId: page.messages[1].id });
  assert.equal(page.status, "ready", page.error?.message);
  assert.deepEqual(page.messages.map(textOf), [WORDS, "one again"]);
  const sent = (await asked()).at(-1);
  assert.deepEqual(sent.map(({ role }) => role), ["system", "user"]);
  assert.deepEqual(kinds(await kept(chat)), ["user text", "assistant text"]);
});
