import {
  DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";

const AGENT = "/agent";
const chatUrl = (id) => `${AGENT}/chat/${encodeURIComponent(id)}`;

/** Whether everything that the agent asked has its answer: then the answers are sent. */
const isAnswered = (chat) =>
  lastAssistantMessageIsCompleteWithApprovalResponses(chat) ||
  (lastAssistantMessageIsCompleteWithToolCalls(chat) &&
    !chat.messages.at(-1).parts.some(({ state }) => state === "approval-requested"));

const always = new Map();
/** Has the next yes to an approval hold always: for this conversation ("session"), or for all with the agent ("agent"). */
export const allowAlways = (approvalId, scope) => always.set(approvalId, scope);
const alwaysIn = ({ parts }) => parts.flatMap(({ approval }) => {
  const scope = always.get(approval?.id);
  return scope ? [[approval.id, scope]] : [];
});

/** The agent keeps the conversation: only the last message is sent, however long it has become. */
const lastMessage = ({ id, messages, trigger, messageId }) => ({
  body: {
    id, messages: messages.slice(-1), trigger, messageId, on_busy: "interrupt",
    always: Object.fromEntries(alwaysIn(messages.at(-1))),
  },
});

/** What `useChat` needs to talk to the agent. A message that is written instead of an answer ends the turn that asked. */
export const agent = {
  transport: new DefaultChatTransport({ api: `${AGENT}/chat`, prepareSendMessagesRequest: lastMessage }),
  sendAutomaticallyWhen: isAnswered,
};

/** The latest `messages` of a conversation, or those before a page whose `previous` is given. */
export const history = async (id, before = "end") => {
  const reply = await fetch(`${AGENT}/sessions/${encodeURIComponent(id)}/messages?before=${encodeURIComponent(before)}`);
  return reply.ok ? await reply.json() : { messages: [] };
};

/** Ends the turn that runs. */
export const abort = (id) => fetch(`${chatUrl(id)}/abort`, { method: "POST" });

/** What went wrong, in words. A request that was refused has a problem as JSON. */
export const reason = ({ message }) => {
  try {
    return JSON.parse(message).detail;
  } catch {
    return message;
  }
};
