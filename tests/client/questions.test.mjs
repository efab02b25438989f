// The agent asks its person something, and waits. A stock client must be ready by then, or it could not answer.
import assert from "node:assert/strict";
import { lastAssistantMessageIsCompleteWithToolCalls } from "#ai";
import {
  api, asJson, asked, AUTHORIZED, call, Chat, CHAT_URL, eventually, fresh, lastMessage, reloaded, say, script, test,
  textOf, transport, types, user,
} from "./support.mjs";

const ASKED = { questions: [{ question: "Shall I?", options: [{ label: "yes" }, { label: "no" }] }] };
const question = (id) => call("question", ASKED, { id, text: "Well." });
const automatic = { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls };
const answer = (toolCallId, ...answers) => ({ tool: "question", toolCallId, output: { answers } });
const partOf = (chat, id) => chat.lastMessage.parts.find(({ toolCallId }) => toolCallId === id);
const settled = (chat, text) =>
  eventually(() => chat.status === "ready" && textOf(chat.lastMessage).endsWith(text), text);

/** A chat in which the agent has asked, and what it will say when it is answered. */
async function waiting(then = say("As you wish."), options = automatic) {
  await script(question("q1"), then);
  const chat = new Chat(options);
  await chat.sendMessage({ text: "do it" });
  return chat;
}

test("a question makes the client ready, with the question open", async () => {
  const chat = await waiting();
  assert.equal(chat.status, "ready", chat.error?.message);
  const part = partOf(chat, "q1");
  assert.equal(part.type, "tool-question");
  assert.equal(part.state, "input-available");
  assert.deepEqual(part.input, ASKED);
  assert.equal(chat.ends[0].finishReason, "tool-calls");
  assert.deepEqual(types(chat.wire.chunks()).slice(-2), ["finish-step", "finish"]);
  assert.equal(chat.posts.length, 1);
});

test("an answer continues the same message", async () => {
  const chat = await waiting();
  const { id } = chat.lastMessage;
  await chat.addToolOutput(answer("q1", ["yes"]));
  await settled(chat, "As you wish.");
  assert.equal(chat.messages.length, 2);
  assert.equal(chat.lastMessage.id, id);
  assert.deepEqual(types(chat.lastMessage.parts), ["step-start", "text", "tool-question", "step-start", "text"]);
  assert.equal(textOf(chat.lastMessage), "Well.As you wish.");
  assert.equal(partOf(chat, "q1").state, "output-available");
  const [, again] = chat.wire.exchanges;
  assert.deepEqual([again.chunks[0].type, again.chunks[0].messageId], ["start", id]);
  assert.ok(!types(again.chunks).includes("tool-input-available"));
  assert.deepEqual(chat.lastMessage.metadata.pending ?? [], []);
  assert.equal(chat.posts.length, 2);
});

test("the model hears the answer, once", async () => {
  const chat = await waiting();
  await chat.addToolOutput(answer("q1", ["rather not"]));
  await settled(chat, "As you wish.");
  const [, second] = await asked();
  const results = second.filter(({ role }) => role === "tool");
  assert.equal(results.length, 1);
  assert.match(JSON.stringify(results[0].content), /rather not/);
  assert.equal((await asked()).length, 2);
});

test("a question can follow a question", async () => {
  await script(question("q1"), question("q2"), say("Done."));
  const chat = new Chat(automatic);
  await chat.sendMessage({ text: "do it" });
  await chat.addToolOutput(answer("q1", ["yes"]));
  await eventually(() => chat.status === "ready" && partOf(chat, "q2")?.state === "input-available");
  await chat.addToolOutput(answer("q2", ["no"]));
  await settled(chat, "Done.");
  assert.equal(chat.messages.length, 2);
  assert.equal(chat.posts.length, 3);
  assert.deepEqual(chat.ends.map(({ finishReason }) => finishReason), ["tool-calls", "tool-calls", "stop"]);
});

test("a question whose call id the model has used before is answered where it is asked", async () => {
  await script(question("call_1"), say("One."), question("call_1"), say("Two."));
  const chat = new Chat(automatic);
  for (const end of ["One.", "Two."]) {
    await chat.sendMessage({ text: "do it" });
    const { toolCallId } = chat.lastMessage.parts.at(-1);
    await chat.addToolOutput(answer(toolCallId, [end]));
    await settled(chat, end);
  }
  assert.match(JSON.stringify((await asked()).at(-1)), /One\..*Two\./);
});

test("two questions of one step are answered together", async () => {
  const calls = [call("question", ASKED, { id: "q1" }), call("question", ASKED, { id: "q2" })];
  await script(say("", { calls }), say("Both."));
  const chat = new Chat(automatic);
  await chat.sendMessage({ text: "do it" });
  await chat.addToolOutput(answer("q1", ["yes"]));
  assert.equal(chat.posts.length, 1);
  await chat.addToolOutput(answer("q2", ["no"]));
  await settled(chat, "Both.");
  assert.equal(chat.posts.length, 2);
  assert.deepEqual([partOf(chat, "q1").state, partOf(chat, "q2").state], ["output-available", "output-available"]);
});

test("other calls of the step are done by the time that the client is ready", async () => {
  const calls = [call("glob", { pattern: "*.none" }, { id: "g1" }), call("question", ASKED, { id: "q1" })];
  await script(say("", { calls }), say("Both."));
  const chat = new Chat(automatic);
  await chat.sendMessage({ text: "do it" });
  assert.deepEqual([partOf(chat, "g1").state, partOf(chat, "q1").state], ["output-available", "input-available"]);
  await chat.addToolOutput(answer("q1", ["yes"]));
  await settled(chat, "Both.");
  assert.equal(chat.posts.length, 2);
});

test("a client that cannot answer says so, and the model goes on", async () => {
  const chat = await waiting(say("Then I decide."));
  await chat.addToolOutput({ tool: "question", toolCallId: "q1", state: "output-error", errorText: "dismissed" });
  await settled(chat, "Then I decide.");
  assert.equal(partOf(chat, "q1").state, "output-error");
  assert.match(JSON.stringify((await asked())[1]), /dismissed/);
});

test("an answer that does not fit the question is an error, and can be given again", async () => {
  const chat = await waiting();
  await chat.addToolOutput(answer("q1", ["yes"], ["and this"]));
  await eventually(() => chat.status === "error");
  assert.match(chat.error.message, /do not fit/);
  await chat.addToolOutput(answer("q1", ["yes"]));
  await settled(chat, "As you wish.");
});

test("a question that was answered elsewhere is an error, once, and no endless asking", async () => {
  const chat = await waiting();
  const { status } = await api("POST", `/chat/${chat.id}/answer`, { id: "q1", answers: [["yes"]] });
  assert.equal(status, 200);
  await eventually(async () => (await transport().reconnect(chat.id)) === null);
  await chat.addToolOutput(answer("q1", ["no"]));
  await eventually(() => chat.status === "error");
  assert.equal(JSON.parse(chat.error.message).code, "not_waiting");
  assert.equal(chat.posts.length, 2);
});

test("a page that is loaded again while the agent waits can answer", async () => {
  const chat = await waiting();
  const page = new Chat({ id: chat.id, messages: asJson(chat.messages.slice(0, 1)), ...automatic });
  await page.resumeStream();
  assert.equal(page.status, "ready");
  assert.deepEqual(asJson(page.messages), asJson(chat.messages));
  await page.addToolOutput(answer("q1", ["yes"]));
  await settled(page, "As you wish.");
  assert.equal(page.messages.length, 2);
  assert.deepEqual(types(page.lastMessage.parts), ["step-start", "text", "tool-question", "step-start", "text"]);
});

test("a page that kept its messages can answer without coming back to the stream", async () => {
  const page = reloaded(await waiting(), automatic);
  await page.addToolOutput(answer("q1", ["yes"]));
  await settled(page, "As you wish.");
  assert.equal(page.messages.length, 2);
});

test("a whole reply that waited reads the same as it was built", async () => {
  await script(question("q1"), say("As you wish."));
  const [chat, first] = [new Chat(automatic), user("do it")];
  await chat.sendMessage(first);
  await chat.addToolOutput(answer("q1", ["yes"]));
  await settled(chat, "As you wish.");
  const again = await lastMessage(await transport().send(chat.id, [first]));
  assert.equal(again.id, chat.lastMessage.id);
  assert.deepEqual(again.parts, asJson(chat.lastMessage.parts));
});

test("a stream of our own body stays open through the wait, and so does one that follows", async () => {
  await script(question("q1"), say("As you wish."));
  const id = fresh("c");
  const own = await fetch(`${CHAT_URL}/stream`, {
    method: "POST",
    headers: { ...AUTHORIZED, "content-type": "application/json" },
    body: JSON.stringify({ message: "do it", session_id: id }),
  });
  const following = transport({
    prepareReconnectToStreamRequest: () => ({ api: `${CHAT_URL}/${id}/stream?follow=1`, headers: AUTHORIZED }),
  });
  const whole = lastMessage(await following.reconnect(id));
  await eventually(() => types(following.wire.chunks()).includes("tool-input-available"));
  const { status } = await api("POST", `/chat/${id}/answer`, { id: "q1", answers: [["yes"]] });
  assert.equal(status, 200);
  const message = await whole;
  assert.equal(textOf(message), "Well.As you wish.");
  const events = (await own.text()).split("\n\n");
  assert.equal(events.at(-2), "data: [DONE]");
  assert.deepEqual(events.filter((event) => event.includes('"finish"')).length, 1);
  assert.deepEqual(following.wire.chunks().filter(({ type }) => type === "finish").length, 1);
});

test("a chat that waits can be stopped", async () => {
  const chat = await waiting();
  assert.equal((await api("POST", `/chat/${chat.id}/abort`)).json.aborted, true);
  await chat.addToolOutput(answer("q1", ["yes"]));
  await eventually(() => chat.status === "error");
  assert.equal(JSON.parse(chat.error.message).code, "not_waiting");
  await script(say("Next."));
  await chat.sendMessage({ text: "something else" });
  assert.equal(textOf(chat.lastMessage), "Next.");
});
