import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// This side runs in Node: the token stays here, and the browser speaks to /agent of the page's own origin.
const { AGENT_URL = "http://localhost:8400", AGENT_TOKEN } = process.env;

export default defineConfig({
  plugins: [react()],
  server: {
    proxy: {
      "/agent": {
        target: AGENT_URL,
        rewrite: (path) => path.replace(/^\/agent/, ""),
        headers: AGENT_TOKEN ? { authorization: `Bearer ${AGENT_TOKEN}` } : {},
      },
    },
  },
});
