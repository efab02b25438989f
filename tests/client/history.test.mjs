// The messages that the server keeps, as a page takes them to begin with.
import assert from "node:assert/strict";
import { lastAssistantMessageIsCompleteWithToolCalls, safeValidateUIMessages } from "#ai";
import { api, asJson, call, Chat, eventually, hang, release, say, script, test, textOf } from "./support.mjs";

const automatic = { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls };
const QUESTION = call("question", { questions: [{ question: "Shall I?" }] }, { id: "q1" });

/** What the server keeps of a chat, valid by the SDK's own judgement. */
async function kept({ id }) {
  const { status, json } = await api("GET", `/sessions/${encodeURIComponent(id)}/messages`);
  assert.equal(status, 200);
  if (json.messages.length) {
    const { success, error } = await safeValidateUIMessages({ messages: json.messages });
    assert.ok(success, String(error));
  }
  return json.messages;
}

/** A page that begins with what the server keeps. */
const opened = async (chat) => new Chat({ id: chat.id, messages: await kept(chat), ...automatic });

/** The parts without the names that a stream gives its reasoning. */
const partsOf = ({ parts }) => parts.map(({ id, ...part }) => (part.type === "reasoning" ? part : { id, ...part }));

test("the server keeps the messages that a chat has built", async () => {
  await script(
    say("So:", { reasoning: "I look", calls: [call("glob", { pattern: "*.none" })] }),
    call("read", { path: "no-such-file" }),
    say("Done."),
    say("Again."),
  );
  const chat = new Chat();
  await chat.sendMessage({ text: "look" });
  await chat.sendMessage({ text: "and again" });
  const messages = await kept(chat);
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant", "user", "assistant"]);
  // What is known of a failed call beside its error is in the record only: versions before 6.0.176 refuse it in a stream.
  const said = messages.map(partsOf).map((parts) => parts.map(({ toolMetadata, ...part }) => part));
  assert.deepEqual(said, asJson(chat.messages).map(partsOf));
  assert.deepEqual([messages[1].id, messages[3].id], [chat.messages[1].id, chat.messages[3].id]);
});

test("a reply that still runs is not among them, and comes by the stream", async () => {
  await script(hang(1, "hello there"));
  const chat = new Chat();
  const sent = chat.sendMessage({ text: "hi" });
  await eventually(() => textOf(chat.lastMessage) === "hello ");
  const page = await opened(chat);
  assert.deepEqual(page.messages.map(({ role }) => role), ["user"]);
  const resumed = page.resumeStream();
  await eventually(() => textOf(page.lastMessage) === "hello ");
  await release();
  await Promise.all([sent, resumed]);
  assert.deepEqual(page.messages.map(textOf), ["hi", "hello there"]);
});

test("a question that waits is among them, and can be answered from there", async () => {
  await script(QUESTION, say("As you wish."));
  const chat = new Chat();
  await chat.sendMessage({ text: "do it" });
  const page = await opened(chat);
  assert.equal(page.lastMessage.parts.at(-1).state, "input-available");
  await page.addToolOutput({ tool: "question", toolCallId: "q1", output: { answers: [["yes"]] } });
  await eventually(() => page.status === "ready" && textOf(page.lastMessage) === "As you wish.");
  assert.equal(page.messages.length, 2);
});

test("a page that took its messages from the server can make a reply again, as often as it likes", async () => {
  await script(say("one"), say("two"), say("three"));
  const chat = new Chat();
  await chat.sendMessage({ text: "count" });
  const page = await opened(chat);
  await page.regenerate();
  await page.regenerate();
  assert.equal(page.status, "ready", page.error?.message);
  assert.deepEqual(page.messages.map(textOf), ["count", "three"]);
  assert.deepEqual((await kept(chat)).map(textOf), ["count", "three"]);
});

test("a page that took its messages from the server can change one of them, as often as it likes", async () => {
  await script(say("Hello Ada."), say("Hello Bob."), say("Hello Eve."));
  const chat = new Chat();
  await chat.sendMessage({ text: "I am Ada" });
  const page = await opened(chat);
  const { id: messageId } = page.messages[0];
  await page.sendMessage({ text: "I am Bob", messageId });
  await page.sendMessage({ text: "I am Eve", messageId });
  assert.equal(page.status, "ready", page.error?.message);
  assert.deepEqual(page.messages.map(textOf), ["I am Eve", "Hello Eve."]);
  assert.deepEqual((await kept(chat)).map(textOf), ["I am Eve", "Hello Eve."]);
});

test("a page that took its messages from the server can send the last again, and nothing runs twice", async () => {
  await script(hang(1, "only once"));
  const chat = new Chat();
  const sent = chat.sendMessage({ text: "go" });
  await eventually(() => textOf(chat.lastMessage) === "only ");
  const page = await opened(chat);
  const again = page.sendMessage();
  await eventually(() => textOf(page.lastMessage) === "only ");
  await release();
  await Promise.all([sent, again]);
  assert.deepEqual(page.messages.map(textOf), ["go", "only once"]);
  assert.deepEqual((await kept(chat)).map(textOf), ["go", "only once"]);
});
