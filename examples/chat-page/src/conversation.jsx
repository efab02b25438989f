import { useState } from "react";
import { useChat } from "@ai-sdk/react";
import { AssistantRuntimeProvider } from "@assistant-ui/react";
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk";
import { abort, agent, history, reason } from "./agent.mjs";
import { Thread } from "./thread.jsx";
import { Messages } from "./tools.jsx";

/** `kept` is what `await history(id)` gave before the page was shown. */
export function Conversation({ id, kept }) {
  const chat = useChat({ id, messages: kept.messages, resume: true, ...agent });
  const [previous, setPrevious] = useState(kept.previous);
  const showEarlier = async () => {
    const page = await history(id, previous);
    chat.setMessages((shown) => [...page.messages, ...shown]);
    setPrevious(page.previous);
  };
  // useChat's own stop() only stops reading; the button of the page ends the turn.
  const runtime = useAISDKRuntime({ ...chat, stop: () => abort(id) });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Messages value={chat.messages}>
        <Thread fault={chat.error && reason(chat.error)} showEarlier={previous && chat.status === "ready" && showEarlier} />
      </Messages>
    </AssistantRuntimeProvider>
  );
}
