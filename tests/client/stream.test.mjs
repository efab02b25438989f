// One message, read by the SDK's transport and reducer.
import assert from "node:assert/strict";
import {
  api, ask, call, eventually, fresh, hang, lastMessage, release, say, script, test, textOf, transport, types, user,
} from "./support.mjs";

const STEP = { type: "step-start" };
const text = (words) => ({ type: "text", text: words, state: "done" });

test("plain text", async () => {
  await script(say("one two three"));
  const { message, chunks } = await ask("count");
  assert.deepEqual(message.parts, [STEP, text("one two three")]);
  assert.equal(message.role, "assistant");
  assert.equal(types(chunks)[0], "start");
  assert.equal(chunks.filter(({ type }) => type === "text-delta").length, 3);
  assert.equal(chunks.at(-1).finishReason, "stop");
});

test("reasoning stands before the answer", async () => {
  await script(say("It is four.", { reasoning: "two and two" }));
  const { message } = await ask("add");
  const [step, reasoning, answer] = message.parts;
  const { providerMetadata, ...shown } = answer; // what the provider wants back
  assert.deepEqual([step, shown], [STEP, text("It is four.")]);
  assert.equal(providerMetadata.kept.reasoning, "reasoning_content");
  assert.equal(reasoning.type, "reasoning");
  assert.equal(reasoning.text, "two and two");
  assert.equal(reasoning.state, "done");
});

test("a tool call ends with its input and its output in one part", async () => {
  await script(call("write", { path: "a.txt", content: "alpha" }, { id: "w1" }), say("Done."));
  const { message } = await ask("write");
  const [tool] = message.parts.filter(({ type }) => type === "tool-write");
  assert.equal(tool.state, "output-available");
  assert.equal(tool.toolCallId, "w1");
  assert.deepEqual(tool.input, { path: "a.txt", content: "alpha" });
  assert.equal(tool.output.type, "output");
});

test("the input of a tool call grows while it is written", async () => {
  await script(call("write", { path: "a.txt", content: "alpha" }), say("Done."));
  const { chunks } = await ask("write");
  const said = chunks.filter(({ type }) => type === "tool-input-delta").map(({ inputTextDelta }) => inputTextDelta);
  assert.deepEqual(JSON.parse(said.join("")), { path: "a.txt", content: "alpha" });
});

test("a tool that fails says why and keeps its input", async () => {
  await script(call("read", { path: "no-such-file" }), say("It is not there."));
  const { message } = await ask("read");
  const [tool] = message.parts.filter(({ type }) => type === "tool-read");
  assert.equal(tool.state, "output-error");
  assert.match(tool.errorText, /no-such-file/);
  assert.deepEqual(tool.input, { path: "no-such-file" });
});

test("a call that is not JSON is an error of that call alone", async () => {
  await script(call("read", '{"path": '), say("I was cut off."));
  const { message, chunks } = await ask("read");
  const [tool] = message.parts.filter(({ type }) => type === "tool-read");
  assert.equal(tool.state, "output-error");
  assert.ok(types(chunks).includes("tool-input-error"));
  assert.equal(textOf(message), "I was cut off.");
});

test("a tool that nobody knows is an error of that call alone", async () => {
  await script(call("fly", { to: "moon" }), say("I cannot."));
  const { message } = await ask("fly");
  const [tool] = message.parts.filter(({ state }) => state === "output-error");
  assert.deepEqual(tool.input, { to: "moon" });
  assert.equal(textOf(message), "I cannot.");
});

test("every step begins with its boundary, and all calls of a step have their outputs", async () => {
  const two = [call("glob", { pattern: "*.none" }, { id: "g1" }), call("glob", { pattern: "*.nil" }, { id: "g2" })];
  await script(say("First.", { calls: two }), call("glob", { pattern: "*.nothing" }, { id: "g3" }), say("Last."));
  const { message } = await ask("look");
  const [first, second, last] = [["text", "tool-glob", "tool-glob"], ["tool-glob"], ["text"]];
  assert.deepEqual(types(message.parts), ["step-start", ...first, "step-start", ...second, "step-start", ...last]);
  const tools = message.parts.filter(({ type }) => type === "tool-glob");
  assert.deepEqual(tools.map(({ toolCallId, state }) => [toolCallId, state]), [
    ["g1", "output-available"],
    ["g2", "output-available"],
    ["g3", "output-available"],
  ]);
});

test("call ids that the model uses twice stay apart in the message", async () => {
  const look = (pattern) => call("glob", { pattern }, { id: "same" });
  await script(look("a.none"), look("b.none"), say("ok"));
  const { message } = await ask("look");
  const tools = message.parts.filter(({ type }) => type === "tool-glob");
  assert.deepEqual(tools.map(({ input }) => input.pattern), ["a.none", "b.none"]);
  assert.equal(new Set(tools.map(({ toolCallId }) => toolCallId)).size, 2);
});

test("metadata names the session and the message, and ends with the usage and the reason", async () => {
  await script(say("one two three"));
  const { send, wire } = transport();
  const chatId = fresh("c");
  const asked = user("count");
  const { metadata } = await lastMessage(await send(chatId, [asked]));
  assert.deepEqual(wire.chunks()[0].messageMetadata, { session_id: chatId, message_id: asked.id });
  assert.equal(metadata.session_id, chatId);
  assert.equal(metadata.usage.output, 3);
  assert.equal(metadata.finish_reason, "stop");
});

test("a model that fails is an error, then a finish", async () => {
  await script({ type: "fail", status: 401, message: "the key is no good" });
  const { send, wire } = transport();
  const errors = [];
  const message = await lastMessage(await send(fresh("c"), [user("go")]), { onError: (error) => errors.push(error) });
  assert.deepEqual(types(wire.chunks()).slice(-2), ["error", "finish"]);
  assert.equal(wire.chunks().at(-1).finishReason, "error");
  assert.equal(errors.length, 1);
  assert.match(errors[0].message, /the key is no good/);
  assert.equal(message.metadata.finish_reason, "error");
});

test("an answer that breaks off keeps what was said", async () => {
  await script({ type: "drop", after: 2, reply: say("half of it") });
  const { send, wire } = transport();
  const message = await lastMessage(await send(fresh("c"), [user("go")]), { onError: () => {} });
  assert.equal(textOf(message), "half of ");
  assert.ok(message.parts.every(({ state }) => state !== "streaming"));
  assert.equal(types(wire.chunks()).at(-1), "finish");
});

test("two readers build the same message, the later one from the first chunk on", async () => {
  await script(call("glob", { pattern: "*.none" }), hang(2, "one two three"));
  const [chatId, asked] = [fresh("c"), user("look")];
  const [first, second] = [transport(), transport()];
  const one = lastMessage(await first.send(chatId, [asked]));
  await eventually(() => types(first.wire.chunks()).includes("text-delta"));
  const two = lastMessage(await second.send(chatId, [asked]));
  await eventually(() => types(second.wire.chunks()).includes("text-delta"));
  await release();
  assert.deepEqual(await two, await one);
  assert.deepEqual(second.wire.chunks(), first.wire.chunks());
});

test("the same message sent again after its end builds the same reply", async () => {
  const tool = call("write", { path: "b.txt", content: "beta" });
  await script(say("So:", { reasoning: "I write", calls: [tool] }), say("Done."));
  const [chatId, asked] = [fresh("c"), user("write")];
  const live = await lastMessage(await transport().send(chatId, [asked]));
  const again = await lastMessage(await transport().send(chatId, [asked]));
  assert.equal(again.id, live.id);
  assert.deepEqual(stripped(again), stripped(live));
});

/** The parts without the names that a stream gives its reasoning. */
const stripped = ({ parts }) => parts.map(({ id, ...part }) => (part.type === "reasoning" ? part : { id, ...part }));

test("useChat's body gets JSON when it asks for nothing else", async () => {
  await script(say("as JSON"));
  const { status, json } = await api("POST", "/chat", { id: fresh("c"), messages: [user("go")] });
  assert.equal(status, 200);
  assert.equal(json.response, "as JSON");
});
