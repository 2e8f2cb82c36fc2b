import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  build: {
    target: "es2023",
    // A picture in the script would be one more thing that the content security policy has to allow.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  test: {
    environment: "happy-dom",
    // One DOM for all files of a worker: starting one took most of the time.
    isolate: false,
    include: ["src/**/*.test.ts", "src/**/*.test.tsx"],
  },
});
