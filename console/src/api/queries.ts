import { QueryClient } from "@tanstack/react-query";

import { ApiError } from "@/api/client";

/** The cache of everything that was read from the server. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (count, error) => error instanceof ApiError && error.isOffline && count < 3,
      // The cache of the page goes on while the server is away; the shell says that it is.
      networkMode: "always",
    },
    mutations: { networkMode: "always", retry: false },
  },
});
