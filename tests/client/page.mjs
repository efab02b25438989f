// `node page.mjs AGENT.MJS` is the page of docs/how-to/frontend.md without React: it chats, comes back, stops and answers.
import assert from "node:assert/strict";
import { api, asJson, call, Chat, eventually, hang, release, say, script, textOf } from "./support.mjs";

const { agent, history, abort, reason, allowAlways } = await import(process.argv[2]);

await script(hang(1, "hello there"), hang(1, "too long"));
const chat = new Chat(agent);
assert.deepEqual(await history(chat.id), { messages: [] });
const sent = chat.sendMessage({ text: "hi" });
await eventually(() => textOf(chat.lastMessage) === "hello ");
const again = new Chat({ id: chat.id, messages: (await history(chat.id)).messages, ...agent });
const resumed = again.resumeStream();
await eventually(() => again.status === "streaming");
await release();
await Promise.all([sent, resumed]);
assert.equal(textOf(chat.lastMessage), "hello there");
assert.deepEqual(again.messages.map(textOf), ["hi", "hello there"]);
assert.deepEqual(asJson(again.lastMessage), asJson(chat.lastMessage));

const stopped = chat.sendMessage({ text: "talk" });
await eventually(() => textOf(chat.lastMessage) === "too ");
assert.equal((await (await abort(chat.id)).json()).aborted, true);
await stopped;
assert.equal(chat.lastMessage.metadata.finish_reason, "abort");

await script(call("question", { questions: [{ question: "Shall I?" }] }, { id: "q1" }), say("As you wish."));
await chat.sendMessage({ text: "do it" });
await chat.addToolOutput({ tool: "question", toolCallId: "q1", output: { answers: [["yes"]] } });
await eventually(() => chat.status === "ready" && textOf(chat.lastMessage) === "As you wish.");
const latest = await history(chat.id);
assert.deepEqual(latest.messages.map(textOf), chat.messages.map(textOf));
assert.equal(latest.previous, undefined);
assert.deepEqual((await history(chat.id, chat.messages[2].id)).messages.map(textOf), ["hi", "hello there"]);

// A page whose conversation has become larger than a body may be goes on.
const old = chat.messages.map((message) => ({ ...message, parts: [{ type: "text", text: "x".repeat(9e6) }] }));
const long = new Chat({ id: chat.id, messages: old, ...agent });
await script(say("Still here."));
await long.sendMessage({ text: "and now?" });
assert.equal(textOf(long.lastMessage), "Still here.", long.error && reason(long.error));
chat.messages = (await history(chat.id)).messages;

const bash = call("bash", { command: "echo painted" }, { id: "b1" });
const question = call("question", { questions: [{ question: "Which?" }] }, { id: "q2" });
await script(say("Well.", { calls: [bash, question] }), say("Done."));
await api("PUT", `/sessions/${chat.id}/permissions`, { rules: [{ permission: "bash", pattern: "*", action: "ask" }] });
await chat.sendMessage({ text: "paint" });
await chat.addToolOutput({ tool: "question", toolCallId: "q2", output: { answers: [["red"]] } });
assert.deepEqual([chat.status, textOf(chat.lastMessage)], ["ready", "Well."]);
const asked = chat.lastMessage.parts.find(({ toolCallId }) => toolCallId === "b1");
await chat.addToolApprovalResponse({ id: asked.approval.id, approved: true });
await eventually(() => chat.status === "ready" && textOf(chat.lastMessage) === "Well.Done.");

await script(call("bash", { command: "ls" }, { id: "b2" }), say("Listed."));
await chat.sendMessage({ text: "look" });
const { approval } = chat.lastMessage.parts.find(({ toolCallId }) => toolCallId === "b2");
allowAlways(approval.id, "agent");
await chat.addToolApprovalResponse({ id: approval.id, approved: true });
await eventually(() => chat.status === "ready" && textOf(chat.lastMessage) === "Listed.");
const { permissions } = (await api("GET", "/permissions")).json;
assert.deepEqual(permissions.map(({ agent, rules }) => [agent, rules[0].pattern]), [["default", "ls *"]]);
assert.equal((await api("DELETE", "/permissions/default")).status, 200);

await script(call("question", { questions: [{ question: "Shall I?" }] }), say("Never mind."));
await chat.sendMessage({ text: "do it" });
await chat.sendMessage({ text: "something else" });
assert.equal(textOf(chat.lastMessage), "Never mind.", chat.error && reason(chat.error));

const refused = new Chat({ ...agent, id: "no/slash" });
await refused.sendMessage({ text: "hi" });
assert.equal(reason(refused.error), "id: must not contain a slash");
assert.equal(reason(new Error("plain words")), "plain words");
