import { createRoot } from "react-dom/client";
import { history } from "./agent.mjs";
import { Conversation } from "./conversation.jsx";

// The address names the conversation: a reload and a second window find it again.
location.hash ||= crypto.randomUUID();
const id = location.hash.slice(1);

createRoot(document.getElementById("root")).render(<Conversation id={id} kept={await history(id)} />);
