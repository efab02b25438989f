// Reads one chunk a line and holds each against the SDK's schema.
import { createInterface } from "node:readline";
import { valid } from "./support.mjs";

for await (const line of createInterface({ input: process.stdin })) await valid(JSON.parse(line));
