import { useChat } from "@ai-sdk/react";
import { AssistantRuntimeProvider } from "@assistant-ui/react";
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk";
import { abort, agent, reason } from "./agent.mjs";
import { Thread } from "./thread.jsx";

/** `kept` is what `await history(id)` gave before the page was shown. */
export function Conversation({ id, kept }) {
  const chat = useChat({ id, messages: kept, resume: true, ...agent });
  // useChat's own stop() only stops reading; the button of the page ends the turn.
  const runtime = useAISDKRuntime({ ...chat, stop: () => abort(id) });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Thread fault={chat.error && reason(chat.error)} />
    </AssistantRuntimeProvider>
  );
}
