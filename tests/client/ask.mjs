// `node ask.mjs CHAT WORDS` sends a message and prints the reply as the SDK has built it.
import { lastMessage, transport, user } from "./support.mjs";

const [chatId, words] = process.argv.slice(2);
console.log(JSON.stringify(await lastMessage(await transport().send(chatId, [user(words)]))));
