import { ActionBarPrimitive, AuiIf, ComposerPrimitive, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
import { Question, ToolCall } from "./tools.jsx";

export const Thread = ({ fault, showEarlier }) => (
  <ThreadPrimitive.Root className="thread">
    <ThreadPrimitive.Viewport className="viewport">
      {showEarlier && <button onClick={showEarlier}>Earlier messages</button>}
      <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
    </ThreadPrimitive.Viewport>
    {fault && <p role="alert">{fault}</p>}
    <ComposerPrimitive.Root className="composer">
      <ComposerPrimitive.Input placeholder="Write a message" autoFocus />
      <AuiIf condition={({ thread }) => !thread.isRunning}>
        <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
      </AuiIf>
      <AuiIf condition={({ thread }) => thread.isRunning}>
        <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
      </AuiIf>
    </ComposerPrimitive.Root>
  </ThreadPrimitive.Root>
);

const UserMessage = () => (
  <MessagePrimitive.Root className="message user">
    <MessagePrimitive.Parts>{({ part }) => part.text}</MessagePrimitive.Parts>
  </MessagePrimitive.Root>
);

const AssistantMessage = () => (
  <MessagePrimitive.Root className="message assistant">
    <MessagePrimitive.Parts>{({ part }) => <Part {...part} />}</MessagePrimitive.Parts>
    <AuiIf condition={({ message }) => message.isLast && !["running", "requires-action"].includes(message.status?.type)}>
      <ActionBarPrimitive.Reload>Again</ActionBarPrimitive.Reload>
    </AuiIf>
  </MessagePrimitive.Root>
);

function Part(part) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "reasoning") return <details><summary>Thoughts</summary>{part.text}</details>;
  if (part.type === "tool-call") return part.toolName === "question" ? <Question {...part} /> : <ToolCall {...part} />;
  return null;
}
