// The page of examples/chat-page in a real browser: what a person sees and clicks.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { chromium } from "playwright-core";
import { api, asked, call, fresh, hang, release, say, script, test } from "../client/support.mjs";

const { PAGE_URL, AGENT_TOKEN, CHROMIUM, SCREENSHOTS } = process.env;
const PATIENCE_MS = 8_000;
const RULES = [{ permission: "bash", pattern: "*", action: "ask" }];
const bash = (command) => say("Well.", { calls: [call("bash", { command })] });

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, timeout: 30_000 });
});
after(() => browser.close());

/** A window on a conversation, in a profile of its own. What goes wrong in it fails the test at its end. */
async function open(id = fresh("page")) {
  const context = await browser.newContext({ viewport: { width: 760, height: 640 } });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  await page.goto(`${PAGE_URL}/#${id}`);
  await page.getByPlaceholder("Write a message").waitFor();
  return {
    id,
    page,
    faults,
    shows: (text) => page.getByText(text, { exact: true }).waitFor(),
    click: (name) => page.getByRole("button", { name, exact: true }).click(),
    has: (name) => page.getByRole("button", { name, exact: true }).waitFor(),
    lacks: (name) => page.getByRole("button", { name, exact: true }).waitFor({ state: "detached" }),
    say: async (text) => {
      await page.getByPlaceholder("Write a message").fill(text);
      await page.keyboard.press("Enter");
    },
    photo: (name) => SCREENSHOTS && page.screenshot({ path: `${SCREENSHOTS}/${name}.png` }),
    close: async () => {
      await context.close();
      assert.deepEqual(faults, []);
    },
  };
}

/** A window whose agent asks before every command. */
async function asking(...steps) {
  await script(say("Hello."), ...steps);
  const it = await open();
  await it.say("hi");
  await it.shows("Hello.");
  await it.has("Send");
  const { status, json } = await api("PUT", `/sessions/${it.id}/permissions`, { rules: RULES });
  assert.equal(status, 200, JSON.stringify(json));
  await it.say("paint the fence");
  return it;
}

test("an answer streams into the page", async () => {
  await script(hang(1, "hello there"));
  const it = await open();
  await it.say("hi");
  await it.shows("hello");
  await it.has("Stop");
  await release();
  await it.shows("hello there");
  await it.has("Send");
  await it.close();
});

test("a call waits for its approval, runs when it is allowed, and the answer goes on", async () => {
  const it = await asking(bash("echo painted"), say("The fence is painted."));
  await it.shows("needs your approval");
  await it.photo("approval");
  await it.click("Allow");
  await it.shows("The fence is painted.");
  await it.shows("done");
  assert.match(await it.page.locator(".tool").innerText(), /painted\\n/);
  await it.lacks("Allow");
  await it.photo("approved");
  await it.close();
});

test("what is always allowed with the agent is kept for all conversations", async () => {
  const it = await asking(bash("ls -l"), say("Listed."));
  await it.page.getByText("Always allow bash ls *").waitFor(); // the buttons follow in the same element
  await it.photo("always");
  await it.click("with agent default in all your conversations");
  await it.shows("Listed.");
  const kept = async () => (await it.page.request.get(`${PAGE_URL}/agent/permissions`)).json();
  assert.deepEqual((await kept()).permissions.map(({ agent, rules }) => [agent, rules[0].pattern]), [["default", "ls *"]]);
  assert.equal((await it.page.request.delete(`${PAGE_URL}/agent/permissions/default`)).status(), 200);
  await it.close();
});

test("a call that is denied never runs", async () => {
  const it = await asking(bash("echo painted"), say("As you wish."));
  await it.click("Deny");
  await it.shows("As you wish.");
  assert.doesNotMatch(JSON.stringify((await asked()).at(-1).filter(({ role }) => role === "tool")), /painted/);
  await it.close();
});

test("a question is a form, and its answer goes on", async () => {
  const questions = [{ question: "Which colour?", options: [{ label: "red" }, { label: "blue" }] }];
  await script(call("question", { questions }), say("Red it is."));
  const it = await open();
  await it.say("paint");
  await it.page.getByLabel("Which colour?").fill("red");
  await it.photo("question");
  await it.click("Answer");
  await it.shows("Red it is.");
  assert.match(JSON.stringify((await asked()).at(-1)), /red/);
  await it.close();
});

test("a reload shows what was said, and a second window the answer that still runs", async () => {
  await script(say("First answer."), hang(1, "second answer"));
  const it = await open();
  await it.say("one");
  await it.shows("First answer.");
  await it.has("Send");
  await it.say("two");
  await it.shows("second");
  const other = await open(it.id);
  await it.page.reload();
  for (const window of [it, other]) {
    for (const text of ["one", "First answer.", "two", "second"]) await window.shows(text);
    await window.has("Stop");
  }
  await other.photo("second-window");
  await release();
  for (const window of [it, other]) {
    await window.shows("second answer");
    await window.has("Send");
    assert.equal(await window.page.locator(".message").count(), 4);
    await window.close();
  }
});

test("a long conversation shows its end, and what was before at a click", async () => {
  const it = await open("long");
  await it.shows("answer to question 120");
  const messages = it.page.locator(".message");
  assert.equal(await messages.count(), 200);
  assert.equal(await messages.first().innerText(), "question 21");
  await it.photo("long");
  await it.click("Earlier messages");
  await it.shows("question 0");
  await it.lacks("Earlier messages");
  assert.equal(await messages.count(), 242);
  const asked = await it.page.locator(".message.user").allInnerTexts();
  assert.deepEqual(asked, Array.from({ length: 121 }, (_, number) => `question ${number}`));
  await script(say("Still here."));
  await it.say("and now?");
  await it.shows("Still here.");
  await it.has("Send");
  assert.equal(await messages.count(), 244);
  await it.page.reload();
  await it.shows("Still here.");
  assert.equal(await messages.count(), 200);
  await it.has("Earlier messages");
  await it.close();
});

test("a window that opens while an allowed call runs does not ask again", async () => {
  const go = fresh("go");
  const it = await asking(bash(`timeout 9 sh -c 'until test -e ${go}; do sleep 0.02; done'`), say("Done."));
  await it.click("Allow");
  await it.shows("running");
  const other = await open(it.id);
  await other.shows("running");
  await other.lacks("Allow");
  const written = await it.page.request.put(`${PAGE_URL}/agent/workspace/${go}`, { data: "" });
  assert.equal(written.status(), 201);
  for (const window of [it, other]) {
    await window.shows("Done.");
    await window.close();
  }
});

test("an approval that waits is there after a reload, and can be given", async () => {
  const it = await asking(bash("echo painted"), say("The fence is painted."));
  await it.has("Allow");
  await it.page.reload();
  await it.click("Allow");
  await it.shows("The fence is painted.");
  assert.equal(await it.page.locator(".message").count(), 4);
  await it.close();
});

test("Stop ends the turn, and the conversation goes on", async () => {
  await script(hang(1, "too long"), say("Short."));
  const it = await open();
  await it.say("talk");
  await it.shows("too");
  await it.click("Stop");
  await it.has("Send");
  const { json } = await api("GET", `/sessions/${it.id}/messages`);
  assert.equal(json.messages.at(-1).metadata.finish_reason, "abort");
  await it.say("shorter");
  await it.shows("Short.");
  await it.close();
});

test("an answer that fails says why, and can be made again", async () => {
  await script({ type: "fail", status: 401, message: "the key is no good" }, say("Better now."));
  const it = await open();
  await it.say("go");
  await it.page.getByText(/the key is no good/).waitFor();
  await it.photo("error");
  await it.click("Again");
  await it.shows("Better now.");
  assert.equal(await it.page.locator(".message").count(), 2);
  await it.close();
});

test("a request that is refused says why", async () => {
  await script();
  const it = await open("no/slash");
  await it.page.getByRole("alert").waitFor(); // no turn to go on with either; said later, it would hide the next reason
  await it.say("hi");
  await it.page.getByRole("alert").getByText("id: must not contain a slash").waitFor();
  await it.photo("refused");
  await it.close();
});

test("a message instead of an approval takes its place", async () => {
  const it = await asking(bash("echo painted"), say("Not painted then."));
  await it.has("Allow");
  await it.lacks("Again");
  await it.say("never mind");
  await it.shows("Not painted then.");
  await it.close();
});

test("the browser never holds the token", async () => {
  await script(say("Hello."));
  const it = await open();
  const seen = [];
  it.page.on("request", async (request) => seen.push(JSON.stringify(await request.allHeaders())));
  it.page.on("response", async (reply) => seen.push(await reply.text().catch(() => "")));
  await it.page.reload();
  await it.say("hi");
  await it.shows("Hello.");
  assert.ok(seen.length > 3);
  assert.doesNotMatch(seen.join("\n"), new RegExp(`authorization|${AGENT_TOKEN}`));
  await it.close();
});

test("a page of another site cannot use the token that the proxy adds", async () => {
  await script(say("Stolen."));
  const it = await open();
  await it.page.goto(PAGE_URL.replace("127.0.0.1", "localhost"));
  const post = (url) => fetch(url, { method: "POST", mode: "no-cors", body: '{"message": "spend"}' }).then(() => true);
  assert.ok(await it.page.evaluate(post, `${PAGE_URL}/agent/chat`));
  assert.deepEqual(await asked(), []);
  await it.close();
});
