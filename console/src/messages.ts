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
    newConversation: "New conversation",
    conversations: "Your conversations",
    conversationsOfAll: "Conversations",
    noConversations: "None yet. What you send below begins the first.",
    untitled: "Without a prompt",
    more: "Show older ones",
    showConversations: "Conversations",
    waiting: "waits",
    hello: "What can I do for you?",
    agent: (model: string, adapter: string) => `${model} (${adapter})`,
    agentUnknown: "a model of your own",
    answeredBy: "Answered by",
    toolCount: (count: number) => plural(count, "tool", "tools"),
    toolsLead: "It may use",
    noTools: "It has no tools: it can only talk.",
    allTools: "All tools",
    needsApproval: "A person is asked before some of them run. You see it here, and in the inbox.",
    examples: "For example",
    useExample: (text: string) => `Write: ${text}`,
    message: "Your message",
    placeholder: "Write a message. Enter sends it, Shift+Enter begins a line.",
    send: "Send",
    sending: "Sending",
    stop: "Stop",
    stopping: "Stopping",
    stopHint: "Stops the model, and the calls that run for it",
    stopped: "Stopped",
    stoppedCalls: "Calls that were running for it were cancelled too.",
    nothingToStop: "It had just ended.",
    notSent: "This was not sent",
    notSentOffline:
      "The server could not be reached. What you wrote is kept; sending it again sends it once.",
    working: "The model is at work",
    waitsForYou: "A call waits for your decision",
    waitsForOthers: "A call waits for somebody who may decide it",
    asksYou: "A call asks you something",
    connectionLost:
      "The connection is lost. The answer goes on at the server, and comes back here.",
    failed: "The answer failed",
    failedKept: "What was done before is kept above. Going on repeats no call that has ended.",
    cutOff: "The answer was cut off",
    cutOffHint:
      "The server stopped while the model was at work. What was done is kept; going on repeats no call that has ended.",
    goOn: "Go on",
    giveUp: "Give it up",
    cancelledBy: (name: string) => `Stopped by ${name}.`,
    cancelled: "Stopped.",
    cost: "Cost of this turn",
    tokens: (input: number, output: number) =>
      `${input.toLocaleString("en")} tokens in, ${output.toLocaleString("en")} out`,
    requests: (count: number) => plural(count, "request", "requests"),
    atLeast: (amount: string) => `at least ${amount}`,
    noPrice: "price unknown",
    continueElsewhere: "Continue elsewhere",
    continueTitle: "Continue this conversation elsewhere",
    continueLead: "It is one session: what you say there is here too, and the other way round.",
    inTerminal: "In a terminal, while this server runs",
    inTerminalHint: "On another machine, put your token into TOOLCRIB_TOKEN first.",
    inTerminalResume: "Only take up the answer that waits or was cut off",
    inEditorHint: (id: string) =>
      `In an editor that speaks the Agent Client Protocol, make this the agent's command, and load the session ${id}:`,
    withoutServer: "In another process, on the same store",
    withoutServerHint:
      "In the folder of toolcrib.yaml, when this server is stopped or has let go of the session: only one process writes it.",
    letGo: "Let go of it here",
    closed: "This session is not open at this server. Another process may be at it.",
    openHere: "Open it here",
    noTokens: "tokens not counted",
    transcript: "Open as a session",
    readOnly: "You may read this conversation; its owner talks to the agent.",
    readOnlyNew:
      "Your roles let you read conversations. To talk to the agent, ask an admin for the role caller.",
    noAgent: "No agent is configured",
    noAgentLead: "The tools can be called without one. To talk, this server needs a model.",
    noAgentFile: "In toolcrib.yaml, then start the server again:",
    noAgentFlag: "Or with an adapter of your own, on the command line:",
    noAgentDocs: "All ways are in docs/project.md, under “The model”, and in docs/agent.md.",
    conversation: "Conversation",
    openConversation: (title: string) => `Open the conversation ${title}`,
    jumpToEnd: "To the newest",
    reason: "Why not, for the model (if you deny it)",
    approve: "Approve",
    deny: "Deny",
    moreWays: "Edit, answer or grant in the inbox",
    answer: "Answer",
    decline: "Decline to answer",
    reasoning: "How the model thought about it",
    progressOf: (tool: string) => `Progress of ${tool}`,
    decided: (kind: string, actor: string, reason: string) =>
      [`Decision: ${kind}`, actor && `by ${actor}`, reason && `(${reason})`]
        .filter(Boolean)
        .join(" "),
    callStatus: {
      writing: "being written",
      proposed: "proposed",
      waiting: "waits",
      approved: "approved",
      running: "running",
      asking: "asks",
      deferred: "goes on elsewhere",
      completed: "done",
      failed: "failed",
      denied: "denied",
      expired: "expired",
      in_doubt: "in doubt",
    },
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
