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
  // --- text of others ---
  untrusted: {
    token: (name: string) => `Not shown as it is: ${name}`,
    deadLink: "This link leads nowhere safe; it is shown as text",
    picture: "Picture not loaded:",
    pictureSource: "its address",
    citation: (number: number, title: string) => `Source ${number}: ${title}`,
    sources: "Sources",
    table: "Table",
  },
  // --- values ---
  values: {
    showAll: (count: number, unit: "lines" | "entries" | "rows") =>
      `Show all ${count.toLocaleString("en")} ${unit}`,
    showCharacters: (count: number) => `Show all ${count.toLocaleString("en")} characters`,
    code: "Code",
    json: "JSON",
    copyJson: "Copy JSON",
    table: "Table",
    entries: (count: number) => plural(count, "entry", "entries"),
    branch: (name: string, size: string) => (name === "" ? size : `${name}: ${size}`),
    difference: "What changes",
    noDifference: "No difference",
    diffSize: (added: number, removed: number) =>
      `${plural(added, "line", "lines")} added, ${removed.toLocaleString("en")} removed`,
    fileChange: { changed: "changed", added: "new", removed: "deleted", moved: "moved to" },
    raw: "Raw",
    rawArguments: "Arguments as JSON",
    arguments: "Arguments",
    noArguments: "No arguments",
    change: (before: string, after: string) => `${before} → ${after}`,
    forModel: "For the model",
    forProgram: "For the program",
    failure: "Failed",
    noResult: "There is no result",
    noText: "The model got an empty text",
    whole: "The model saw a part of this result.",
    openWhole: "Show the whole result",
    download: "Download",
    pictures: "Pictures",
    picture: (number: number) => `Picture ${number}`,
    pictureFailed: "The picture cannot be shown",
    files: "Files",
    file: (name: string) => `Download ${name}`,
  },
  // --- event detail and values ---
  detail: {
    summary: "Summary",
    result: "Result",
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
