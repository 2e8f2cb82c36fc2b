/**
 * Every English sentence of the page, by area. A function makes a sentence with facts in it.
 * Nothing else in the page holds words for people, so that a translation is one file.
 */

const plural = (count: number, one: string, many: string): string =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export const messages = {
  // --- shell ---
  shell: {
    name: "Toolcrib",
    skip: "Skip to the content",
    navigation: "Pages",
    more: "More pages",
    inbox: "Inbox",
    sessions: "Sessions",
    chat: "Chat",
    tools: "Tools",
    servers: "Servers",
    activity: "Activity",
    policy: "Policy",
    grants: "Grants",
    people: "People",
    waiting: (count: number) => `${plural(count, "call waits", "calls wait")} for a decision`,
    live: "Connected",
    connecting: "Connecting",
    lost: "No connection to the server. Trying again; nothing you typed is lost.",
    theme: "Theme",
    themeSystem: "As the system",
    themeLight: "Light",
    themeDark: "Dark",
    signOut: "Sign out",
    signedOut: "You are signed out: your sign-in has ended or was revoked.",
    signIn: "Sign in",
    person: "Who is signed in",
    noPage: "There is no such page",
    noPageHint: "The address may be old. The pages are in the navigation.",
    home: "Go to the start page",
  },
  // --- shared parts ---
  parts: {
    loading: "Loading",
    retry: "Try again",
    failed: "This did not work",
    offline: "The server cannot be reached",
    offlineHint: "It may be restarting. This page tries again by itself.",
    forbidden: "Your roles do not allow this",
    close: "Close",
    cancel: "Cancel",
    copy: "Copy",
    copied: "Copied",
    unknown: "unknown",
    never: "never",
    now: "now",
    actions: "Actions",
    dismiss: "Dismiss",
  },
  // --- inbox ---
  inbox: {
    title: "Inbox",
  },
  // --- sessions ---
  sessions: {
    title: "Sessions",
  },
  // --- event detail and values ---
  detail: {
    summary: "Summary",
  },
  // --- chat ---
  chat: {
    title: "Chat",
  },
  // --- tools ---
  tools: {
    title: "Tools",
  },
  // --- servers ---
  servers: {
    title: "Servers",
  },
  // --- activity ---
  activity: {
    title: "Activity",
  },
  // --- policy ---
  policy: {
    title: "Policy",
  },
  // --- grants ---
  grants: {
    title: "Grants",
  },
  // --- people ---
  people: {
    title: "People",
  },
  // --- sign-in ---
  signIn: {
    title: "Sign in to Toolcrib",
  },
} as const;
