/**
 * Every English sentence of the page, by area. A function makes a sentence with facts in it.
 * Nothing else in the page holds words for people, so that a translation is one file.
 */

const plural = (count: number, one: string, many: string): string =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

const SIGN_IN_FAULTS: Record<string, string> = {
  denied: "The sign-in was cancelled at the issuer, or the issuer refused it.",
  expired: "The sign-in took too long, or was begun in another browser. Begin again.",
  no_role:
    "The issuer knows you, but you have no role on this server. Ask an admin to give one to a group of yours.",
  unavailable: "The issuer cannot be reached now. Try again later, or sign in with a token.",
  failed: "The issuer's answer was not accepted. The server's log says why.",
};

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
  // --- forms ---
  form: {
    required: "This is needed",
    asJson: "As JSON",
    json: "JSON",
    notJson: "This is not JSON yet; the last JSON that was counts",
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
    title: "Sign in",
    issuer: (label: string) => `Sign in with ${label}`,
    or: "or with a token",
    token: "Token",
    tokenHint: "It begins with tc_. An admin makes one for you with: toolcrib tokens create",
    submit: "Sign in",
    pending: "Signing in",
    linkHint: "On the server's own machine, a link that signs you in is printed by:",
    linkCommand: "toolcrib console",
    again: "Your sign-in has ended",
    againHint:
      "It has expired, or somebody has ended it. Sign in again and go on where you were: nothing that you typed is lost.",
    faultOf: (error: string | undefined): string | null =>
      error === undefined ? null : (SIGN_IN_FAULTS[error] ?? SIGN_IN_FAULTS["failed"] ?? null),
  },
} as const;
