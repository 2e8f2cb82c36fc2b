import "@/styles/tokens.css";
import "@/styles/base.css";

import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { queryClient } from "@/api/queries";
import { ToastProvider } from "@/parts/Toast";
import { router } from "@/router";
import { cspNonce } from "@/shell/nonce";
import { applyTheme } from "@/shell/theme";

applyTheme();
setNonce(cspNonce());

const place = document.getElementById("root");
if (place === null) throw new Error("index.html has no element with the id root");
createRoot(place).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <ToastProvider>
        <RouterProvider router={router} />
      </ToastProvider>
    </QueryClientProvider>
  </StrictMode>,
);
