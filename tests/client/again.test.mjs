// Making a reply again, and changing what was said.
import assert from "node:assert/strict";
import { asked, Chat, say, script, test, textOf } from "./support.mjs";

const words = ({ content }) => (typeof content === "string" ? content : JSON.stringify(content));

/** What was said to the model the n-th time, without the system prompt. */
async function heard(number) {
  const conversation = (await asked())[number].filter(({ role }) => role !== "system");
  return { roles: conversation.map(({ role }) => role), words: conversation.map(words).join(" | ") };
}

test("a reply that is made again takes the place of the old one", async () => {
  await script(say("heads"), say("tails"));
  const chat = new Chat();
  await chat.sendMessage({ text: "toss" });
  const first = chat.lastMessage;
  await chat.regenerate();
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.equal(chat.messages.length, 2);
  assert.equal(textOf(chat.lastMessage), "tails");
  assert.notEqual(chat.lastMessage.id, first.id);
  const { roles, words } = await heard(1);
  assert.deepEqual(roles, ["user"]);
  assert.doesNotMatch(words, /heads/);
});

test("an earlier reply that is made again takes everything behind it along", async () => {
  await script(say("one"), say("two"), say("anew"), say("after"));
  const chat = new Chat();
  await chat.sendMessage({ text: "first" });
  await chat.sendMessage({ text: "second" });
  await chat.regenerate({ messageId: chat.messages[1].id });
  assert.deepEqual(chat.messages.map(textOf), ["first", "anew"]);
  await chat.sendMessage({ text: "third" });
  const { roles, words } = await heard(3);
  assert.deepEqual(roles, ["user", "assistant", "user"]);
  assert.match(words, /first.*anew.*third/s);
  assert.doesNotMatch(words, /second/);
});

test("a reply that failed can be made again", async () => {
  await script({ type: "fail", status: 401 }, say("better now"));
  const chat = new Chat();
  await chat.sendMessage({ text: "go" });
  assert.equal(chat.status, "error");
  await chat.regenerate();
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.deepEqual(chat.messages.map(textOf), ["go", "better now"]);
});

test("a message that is edited takes the place of what was said, with all behind it", async () => {
  await script(say("Hello Ada."), say("Bye."), say("Hello Bob."));
  const chat = new Chat();
  await chat.sendMessage({ text: "I am Ada" });
  await chat.sendMessage({ text: "Bye" });
  await chat.sendMessage({ text: "I am Bob", messageId: chat.messages[0].id });
  assert.equal(chat.status, "ready", chat.error?.message);
  assert.deepEqual(chat.messages.map(textOf), ["I am Bob", "Hello Bob."]);
  const { roles, words } = await heard(2);
  assert.deepEqual(roles, ["user"]);
  assert.doesNotMatch(words, /Ada|Bye/);
});

