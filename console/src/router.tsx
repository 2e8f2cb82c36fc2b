import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";

import { readState } from "@/api/inbox";
import { can, meQuery } from "@/api/principal";
import { queryClient } from "@/api/queries";
import { readSearch } from "@/pages/activity/filters";
import { readToolSearch, readToolsSearch } from "@/pages/tools/addresses";
import { ErrorState, LoadingState } from "@/parts/State";
import { readSessionSearch, readSessionsSearch } from "@/pages/sessions/search";
import { NoPage } from "@/shell/NoPage";
import { Shell } from "@/shell/Shell";

const root = createRootRoute({ notFoundComponent: NoPage });

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: (search): { from?: string; error?: string } => ({
    ...(typeof search["from"] === "string" ? { from: search["from"] } : {}),
    ...(typeof search["error"] === "string" ? { error: search["error"] } : {}),
  }),
  component: lazyRouteComponent(() => import("@/pages/sign-in/SignInPage"), "SignInPage"),
});

const shell = createRoute({ getParentRoute: () => root, id: "shell", component: Shell });

/** The inbox when something waits; otherwise the sessions, or the inbox for approvers alone. */
const start = createRoute({
  getParentRoute: () => shell,
  path: "/",
  beforeLoad: async () => {
    const [state, me] = await Promise.all([
      readState().catch(() => null),
      queryClient.ensureQueryData(meQuery).catch(() => null),
    ]);
    const isWaiting = state !== null && state.waiting + state.questions > 0;
    const mayRead = me === null || can(me, "caller", "auditor");
    throw redirect({ to: isWaiting || !mayRead ? "/inbox" : "/sessions", replace: true });
  },
});

const INBOX_SEARCH = ["tool", "principal", "session", "approval"] as const;
/** Which requests the inbox shows, and the one that a link leads to. */
type InboxSearch = Partial<Record<(typeof INBOX_SEARCH)[number], string>>;

const inbox = createRoute({
  getParentRoute: () => shell,
  path: "/inbox",
  validateSearch: (search): InboxSearch =>
    Object.fromEntries(
      INBOX_SEARCH.filter((name) => typeof search[name] === "string").map((name) => [
        name,
        search[name],
      ]),
    ),
  component: lazyRouteComponent(() => import("@/pages/inbox/InboxPage"), "InboxPage"),
});

const sessions = createRoute({
  getParentRoute: () => shell,
  path: "/sessions",
  validateSearch: readSessionsSearch,
  component: lazyRouteComponent(() => import("@/pages/sessions/SessionsPage"), "SessionsPage"),
});

const session = createRoute({
  getParentRoute: () => shell,
  path: "/sessions/$sessionId",
  validateSearch: readSessionSearch,
  component: lazyRouteComponent(() => import("@/pages/sessions/SessionPage"), "SessionPage"),
});

const newChat = createRoute({
  getParentRoute: () => shell,
  path: "/chat",
  component: lazyRouteComponent(() => import("@/pages/chat/ChatPage"), "ChatPage"),
});

const chat = createRoute({
  getParentRoute: () => shell,
  path: "/chat/$sessionId",
  component: lazyRouteComponent(() => import("@/pages/chat/ChatPage"), "ChatPage"),
});

const tools = createRoute({
  getParentRoute: () => shell,
  path: "/tools",
  validateSearch: readToolsSearch,
  component: lazyRouteComponent(() => import("@/pages/tools/ToolsPage"), "ToolsPage"),
});

const tool = createRoute({
  getParentRoute: () => shell,
  path: "/tools/$name",
  validateSearch: readToolSearch,
  component: lazyRouteComponent(() => import("@/pages/tools/ToolPage"), "ToolPage"),
});

const servers = createRoute({
  getParentRoute: () => shell,
  path: "/servers",
  component: lazyRouteComponent(() => import("@/pages/servers/ServersPage"), "ServersPage"),
});

const activity = createRoute({
  getParentRoute: () => shell,
  path: "/activity",
  validateSearch: readSearch,
  component: lazyRouteComponent(() => import("@/pages/activity/ActivityPage"), "ActivityPage"),
});

const policy = createRoute({
  getParentRoute: () => shell,
  path: "/policy",
  component: lazyRouteComponent(() => import("@/pages/policy/PolicyPage"), "PolicyPage"),
});

const grants = createRoute({
  getParentRoute: () => shell,
  path: "/grants",
  validateSearch: (search): { state?: "past" } =>
    search["state"] === "past" ? { state: "past" } : {},
  component: lazyRouteComponent(() => import("@/pages/grants/GrantsPage"), "GrantsPage"),
});

const people = createRoute({
  getParentRoute: () => shell,
  path: "/people",
  validateSearch: (search): { search?: string } =>
    typeof search["search"] === "string" ? { search: search["search"] } : {},
  component: lazyRouteComponent(() => import("@/pages/people/PeoplePage"), "PeoplePage"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    shell.addChildren([
      start,
      inbox,
      sessions,
      session,
      newChat,
      chat,
      tools,
      tool,
      servers,
      activity,
      policy,
      grants,
      people,
    ]),
  ]),
  defaultPendingComponent: () => <LoadingState />,
  defaultErrorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
  defaultPreload: "intent",
  scrollRestoration: true,
  // What an address says and no page reads is no filter, and is sent to no server.
  search: { strict: true },
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
