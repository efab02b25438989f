import { createContext, useContext } from "react";
import { allowAlways } from "./agent.mjs";

/** The messages of the conversation: beside an approval they have what it is about. */
export const Messages = createContext([]);

/** A call of a tool: what goes in, what came out, and the approval where one is needed. */
export function ToolCall({ toolName, argsText, result, isError, approval, respondToApproval }) {
  const parts = useContext(Messages).flatMap((message) => message.parts);
  const about = parts.find(({ type, id }) => type === "data-approval" && id === approval?.id)?.data;
  const isOpen = approval && approval.approved === undefined && result === undefined;
  const state = isError ? "failed" : result !== undefined ? "done" : isOpen ? "needs your approval" : "running";
  return (
    <section className="tool">
      <b>{toolName}</b> <i>{state}</i>
      <pre>{argsText}</pre>
      {isOpen && (
        <>
          <button onClick={() => respondToApproval({ approved: true })}>Allow</button>
          <button onClick={() => respondToApproval({ approved: false })}>Deny</button>
          {about?.always?.length > 0 && <Always {...about} allow={(scope) => {
            allowAlways(approval.id, scope);
            respondToApproval({ approved: true });
          }} />}
        </>
      )}
      {result !== undefined && <pre>{JSON.stringify(result.data ?? result, null, 2)}</pre>}
    </section>
  );
}

/** What may be allowed for more than one call, and for which conversations. */
const Always = ({ always, agent, allow }) => (
  <p>
    Always allow {always.map(({ permission, pattern }) => `${permission} ${pattern}`).join(", ")}{" "}
    <button onClick={() => allow("session")}>in this conversation</button>
    <button onClick={() => allow("agent")}>with agent {agent} in all your conversations</button>
  </p>
);

/** The agent asks: one list of texts is the answer to each of its questions. */
export function Question({ args, result, addResult }) {
  const questions = args.questions ?? []; // while they are being written
  if (result) {
    const { answers = [] } = result.data ?? result; // as the agent keeps it, or as it was just given
    return <p>{questions.map(({ question }) => question).join(" ")} <i>{answers.join(", ")}</i></p>;
  }
  const answer = (form) => addResult({ answers: questions.map((_, index) => form.getAll(`${index}`)) });
  return (
    <form action={answer} className="tool">
      {questions.map(({ question, options = [] }, index) => (
        <label key={index}>
          {question}
          <input name={index} list={`options-${index}`} required />
          <datalist id={`options-${index}`}>{options.map(({ label }) => <option key={label} value={label} />)}</datalist>
        </label>
      ))}
      <button>Answer</button>
    </form>
  );
}
