import react from "@vitejs/plugin-react";
import { loadEnv } from "vite";
import { defineConfig } from "vitest/config";

// `make dev` says where its API listens.
const { CODEHUB_URL: api = "http://127.0.0.1:8000" } = loadEnv("development", ".", "CODEHUB_");

export default defineConfig({
  plugins: [react()],
  build: {
    // CodeHub serves the result itself: one process, one origin, no CORS.
    outDir: "../src/codehub/api/static",
    emptyOutDir: true,
    // Inlined assets would become data: URLs, which the content security policy only allows for images.
    assetsInlineLimit: 0,
    target: "es2022",
  },
  server: { proxy: { "/api": api, "/health": api, "/w": api } },
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "happy-dom", testTimeout: 60_000 },
});
