// A call that needs a person's yes: asked, answered and gone on with in useChat's own way.
import assert from "node:assert/strict";
import {
  isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls,
  safeValidateUIMessages,
} from "#ai";
import {
  api, asJson, asked, AUTHORIZED, call, Chat, eventually, fresh, reloaded, say, script, test, textOf, transport, types,
} from "./support.mjs";

const { AGENT_URL } = process.env;
const sendAutomaticallyWhen = (chat) =>
  lastAssistantMessageIsCompleteWithToolCalls(chat) || lastAssistantMessageIsCompleteWithApprovalResponses(chat);
const RULES = [{ permission: "bash", pattern: "*", action: "ask" }];
const bash = (id, command = "echo painted") => call("bash", { command }, { id });
const question = (id) => call("question", { questions: [{ question: "Which?" }] }, { id });
const partOf = (chat, id) => chat.lastMessage.parts.find(({ toolCallId }) => toolCallId === id);
const approvalOf = (chat, id) => partOf(chat, id).approval.id;
const settled = (chat, text) =>
  eventually(() => chat.status === "ready" && textOf(chat.lastMessage).endsWith(text), text);

/** A chat whose agent asks before every command, and has met these calls. */
async function waiting(calls, ...then) {
  await script(say("Hello."), say("Well.", { calls }), ...then);
  const chat = new Chat({ sendAutomaticallyWhen });
  await chat.sendMessage({ text: "hi" });
  const { status, json } = await api("PUT", `/sessions/${chat.id}/permissions`, { rules: RULES });
  assert.equal(status, 200, JSON.stringify(json));
  await chat.sendMessage({ text: "paint" });
  return chat;
}

/** What the model was told of its calls, in the last request. */
const results = async () => JSON.stringify((await asked()).at(-1).filter(({ role }) => role === "tool"));

/** These messages, valid by the SDK's own judgement. */
async function valid(messages) {
  const { success, error } = await safeValidateUIMessages({ messages });
  assert.ok(success, String(error));
  return messages;
}

/** What the server keeps of a chat. */
const kept = async ({ id }) => valid((await api("GET", `/sessions/${id}/messages`)).json.messages);

const toolsOf = ({ parts }) => asJson(parts.filter(isToolUIPart));
/** A stream that begins behind the yes says nothing of it: the SDK's chunks have no word for that in version 6. */
const withoutApproval = (message) => toolsOf(message).map(({ approval, ...tool }) => tool);

test("an approval makes the client ready, with the request open and its reason beside it", async () => {
  const chat = await waiting([bash("b1")]);
  assert.equal(chat.status, "ready", chat.error?.message);
  const part = partOf(chat, "b1");
  assert.equal(part.state, "approval-requested");
  assert.deepEqual(part.input, { command: "echo painted" });
  const about = chat.lastMessage.parts.find(({ type }) => type === "data-approval");
  assert.equal(about.id, part.approval.id);
  assert.match(about.data.reason, /bash/);
  assert.equal(chat.ends.at(-1).finishReason, "tool-calls");
  assert.equal(chat.posts.length, 2);
});

test("a yes runs the call, and the same message goes on", async () => {
  const chat = await waiting([bash("b1")], say("Done."));
  const { id } = chat.lastMessage;
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b1"), approved: true });
  await settled(chat, "Done.");
  assert.equal(chat.lastMessage.id, id);
  assert.equal(partOf(chat, "b1").state, "output-available");
  assert.match(JSON.stringify(partOf(chat, "b1").output), /painted/);
  assert.equal(textOf(chat.lastMessage), "Well.Done.");
  assert.deepEqual([chat.messages.length, chat.posts.length], [4, 3]);
  assert.match(await results(), /painted/);
  assert.deepEqual(toolsOf((await kept(chat)).at(-1)), toolsOf(chat.lastMessage));
});

test("a no is heard by the model with its reason, and the call never runs", async () => {
  const chat = await waiting([bash("b1")], say("As you wish."));
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b1"), approved: false, reason: "wrong colour" });
  await settled(chat, "As you wish.");
  assert.equal(partOf(chat, "b1").state, "output-denied");
  assert.match(await results(), /wrong colour/);
  assert.doesNotMatch(await results(), /painted/);
  assert.deepEqual(toolsOf((await kept(chat)).at(-1)), toolsOf(chat.lastMessage));
});

test("two approvals of one step are answered together", async () => {
  const chat = await waiting([bash("b1", "echo one"), bash("b2", "echo two")], say("Done."));
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b1"), approved: true });
  assert.equal(chat.posts.length, 2);
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b2"), approved: false });
  await settled(chat, "Done.");
  assert.deepEqual([partOf(chat, "b1").state, partOf(chat, "b2").state], ["output-available", "output-denied"]);
  assert.equal(chat.posts.length, 3);
});

test("a question that is answered while an approval is open is heard, and the approval goes on", async () => {
  const chat = await waiting([bash("b1"), question("q1")], say("Done."));
  await chat.addToolOutput({ tool: "question", toolCallId: "q1", output: { answers: [["red"]] } });
  await eventually(() => chat.status === "error"); // the SDK's own rule sends again while the approval is open
  assert.equal(JSON.parse(chat.error.message).code, "not_waiting");
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b1"), approved: true });
  await settled(chat, "Done.");
  assert.deepEqual([partOf(chat, "b1").state, partOf(chat, "q1").state], ["output-available", "output-available"]);
  assert.match(await results(), /painted.*red/);
  assert.deepEqual(toolsOf((await kept(chat)).at(-1)), toolsOf(chat.lastMessage));
});

test("an approval follows an approval", async () => {
  const chat = await waiting([bash("b1")], bash("b2", "echo again"), say("Done."));
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b1"), approved: true });
  await eventually(() => chat.status === "ready" && partOf(chat, "b2")?.state === "approval-requested");
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b2"), approved: true });
  await settled(chat, "Done.");
  assert.deepEqual([chat.messages.length, chat.posts.length], [4, 4]);
});

test("a page that is loaded again, or opened elsewhere, can approve", async () => {
  const chat = await waiting([bash("b1")], say("Done."));
  const page = new Chat({ id: chat.id, messages: await kept(chat), sendAutomaticallyWhen });
  await page.resumeStream();
  assert.deepEqual([page.status, partOf(page, "b1").state], ["ready", "approval-requested"]);
  assert.deepEqual(asJson(page.lastMessage), asJson(chat.lastMessage));
  await page.addToolApprovalResponse({ id: approvalOf(page, "b1"), approved: true });
  await settled(page, "Done.");
  assert.equal(page.messages.length, 4);
});

test("what was approved in another window is an error that the user sees, and the call runs once", async () => {
  const chat = await waiting([bash("b1")], say("Done."));
  const page = reloaded(chat, { sendAutomaticallyWhen });
  await page.addToolApprovalResponse({ id: approvalOf(page, "b1"), approved: true });
  await settled(page, "Done.");
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b1"), approved: false });
  await eventually(() => chat.status === "error");
  assert.equal(JSON.parse(chat.error.message).code, "not_waiting");
  assert.equal((await asked()).length, 3);
});

test("a page that is loaded while the approved call runs is not asked again", async () => {
  const go = fresh("go");
  const chat = await waiting([bash("b1", `timeout 9 sh -c 'until test -e ${go}; do sleep 0.02; done'; echo painted`)], say("Done."));
  const given = chat.addToolApprovalResponse({ id: approvalOf(chat, "b1"), approved: true });
  await eventually(() => chat.posts[2]?.chunks.length);
  const page = new Chat({ id: chat.id, messages: asJson(chat.messages.slice(0, 3)) });
  const resumed = page.resumeStream();
  await eventually(() => page.lastMessage.parts.some(({ type }) => type === "tool-bash"));
  assert.equal(partOf(page, "b1").state, "input-available");
  const put = { method: "PUT", body: "", headers: AUTHORIZED };
  assert.equal((await fetch(`${AGENT_URL}/workspace/${go}`, put)).status, 201);
  await Promise.all([given, resumed]);
  await settled(chat, "Done.");
  assert.deepEqual(toolsOf(page.lastMessage), withoutApproval(chat.lastMessage));
});

test("a chat that waits for an approval can be stopped, and its stored message is valid", async () => {
  const chat = await waiting([bash("b1")], say("Next."));
  assert.equal((await api("POST", `/chat/${chat.id}/abort`)).json.aborted, true);
  const [tool] = toolsOf((await kept(chat)).at(-1));
  assert.equal(tool.state, "output-error");
  const page = new Chat({ id: chat.id, messages: await kept(chat), sendAutomaticallyWhen });
  await page.sendMessage({ text: "something else" });
  assert.equal(textOf(page.lastMessage), "Next.", page.error?.message);
});

test("a whole reply that waited for an approval reads the same as it was built", async () => {
  const chat = await waiting([bash("b1")], say("Done."));
  await chat.addToolApprovalResponse({ id: approvalOf(chat, "b1"), approved: true });
  await settled(chat, "Done.");
  const page = new Chat({ id: chat.id, messages: asJson(chat.messages.slice(0, 3)) });
  await page.sendMessage();
  assert.deepEqual(types(page.lastMessage.parts), types(chat.lastMessage.parts));
  assert.deepEqual(toolsOf(page.lastMessage), withoutApproval(chat.lastMessage));
  await valid(page.messages);
  assert.equal(types(page.wire.chunks()).at(-1), "finish");
  assert.equal(await transport().reconnect(chat.id), null);
});
