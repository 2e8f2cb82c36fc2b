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
    lead: (waiting: number) =>
      waiting === 0
        ? "Nothing waits for you."
        : `${plural(waiting, "call waits", "calls wait")} for a decision. What expires first is first.`,
    final: "A decision is final: there is no undo.",
    intent: (tool: string, list: string) =>
      list === "" ? `${tool} wants to run` : `${tool} wants to run with ${list}`,
    intentInDoubt: (tool: string, list: string) =>
      `${tool} may have run already; approving runs it again${list === "" ? "" : ` with ${list}`}`,
    moreArguments: (count: number) => `${count} more`,
    items: (count: number) => plural(count, "item", "items"),
    program: "the program itself",
    modelFor: (who: string) => `a model, on behalf of ${who}`,
    asks: "Who asks",
    session: "Session",
    openSession: "Open the session",
    lastWords: "The model's last words",
    prompt: "Prompt",
    rule: "Rule that asked",
    ruleAt: (file: string, line: number) => `${file}, line ${line}`,
    reserved: {
      requires_approval: "the tool itself asks for approval",
      need_user_approve_tools: "the session asks before this tool runs",
      tool: "the tool asks for approval of this call",
      in_doubt: "the process died while the call ran",
      tool_changed: "the tool has changed since the call was made",
      unmatched: "no rule allows this call",
      default: "there is no policy, so tools that change something are asked about",
    } as Record<string, string>,
    unanswered: "If nobody answers",
    expires: (time: string) =>
      `It expires in ${time}: the call does not run, and the model is told.`,
    expired: "It has expired: the call does not run.",
    waits: "It waits. Nothing runs until somebody decides.",
    denied: "It is denied together with the call that it is part of.",
    votes: (votes: number, needed: number) => `${votes} of ${needed} approvals`,
    votedBy: (names: string) => `Approved by ${names}`,
    editedVotes: "The approvals are for edited arguments.",
    needs: (count: number, groups: string) =>
      groups === ""
        ? `Needs ${plural(count, "approver", "approvers")}`
        : `Needs ${count} of ${groups}`,
    changes: "What changed since the last approval",
    lastApproved: (by: string) => `Last approved by ${by}`,
    sameArguments: "The arguments are the same.",
    neverApproved: "No earlier approval of this tool that you may see.",
    wasEdited: "That call ran with edited arguments; these are the ones that were asked for.",
    toolChanged: "The tool changed",
    added: "new",
    removed: "gone",
    risk: {
      read_only: "read only",
      idempotent: "safe to repeat",
      changes: "changes something",
    },
    riskHint: "What the tool says about its effects",
    source: (source: string) => `from ${source}`,
    place: (place: string) => `runs: ${place}`,
    supersedes: "This takes the place of an earlier request: the tool has changed.",
    select: (tool: string) => `Select ${tool}`,
    selected: (count: number) => `${plural(count, "request", "requests")} selected`,
    approveSelected: "Approve selected",
    denySelected: "Deny selected",
    clearSelection: "Clear the selection",
    selectAll: "Select all that you may approve",
    filterTool: "Tool",
    filterWho: "Who asks",
    anyTool: "Every tool",
    anybody: "Everybody",
    clearFilters: "Show all",
    empty: "Nothing waits for a decision",
    emptyHint:
      "Calls that need a person appear here by themselves. You can try a tool, or look at what ran.",
    emptyHintApprover: "Calls that need a person appear here by themselves.",
    emptyFiltered: "Nothing that waits fits these filters",
    toTools: "Look at the tools",
    toSessions: "Look at the sessions",
    loadingMore: "Loading more",
    help: "Keys",
    helpTitle: "Keys of the inbox",
    helpKeys: {
      next: "the next request",
      previous: "the one before",
      approve: "approve the chosen request as it is",
      edit: "edit its arguments, then approve",
      deny: "deny it, with a reason",
      answer: "answer in its place; the tool does not run",
      grant: "approve it and later calls like it",
      select: "select it, for several at once",
      help: "this list",
    },
    helpEnter: "Enter alone decides nothing.",
    notify: "Notify me",
    notifyOn: "Notifications are on",
    notifyDenied:
      "The browser does not allow notifications of this page; allow them in its settings.",
    notice: "A call waits for a decision",
    noticeQuestion: "A tool asks a question",
    newOnes: (count: number) => plural(count, "new request", "new requests"),
    gone: (text: string) => text,
    bulkTitle: {
      approve: (count: number) => `Approve ${plural(count, "request", "requests")}?`,
      deny: (count: number) => `Deny ${plural(count, "request", "requests")}?`,
    },
    bulkStart: {
      approve: (count: number) => `Approve ${count}`,
      deny: (count: number) => `Deny ${count}`,
    },
    bulkDone: "Each of them was handled on its own:",
    bulkWaiting: "not sent yet",
    done: "Done",
    questions: "Questions of running calls",
    questionFrom: (tool: string) => `${tool} asks`,
    answer: "Answer",
    decline: "I do not want to answer",
    answered: (tool: string) => `${tool} has its answer.`,
    declined: (tool: string) => `${tool} was told that there is no answer.`,
    questionGone: "The question is closed: it was answered, it expired, or its call is over.",
    secret: "What you type is not shown and not recorded.",
    one: "A request that you followed a link to",
    showInbox: "Show the whole inbox",
  },
  // --- decisions ---
  decision: {
    way: {
      approve: "Approve",
      edit: "Edit",
      deny: "Deny",
      answer: "Answer in its place",
      grant: "Grant",
    },
    actions: (tool: string) => `Decide about ${tool}`,
    deny: "Deny",
    answer: "Answer",
    grant: "Approve and grant",
    approveEdited: "Approve with these arguments",
    editTitle: "Edit the arguments",
    denyTitle: "Deny the call",
    answerTitle: "Answer in the tool's place",
    grantTitle: "Approve, and later calls like it",
    invalidFields: (count: number) => `${plural(count, "field does", "fields do")} not fit yet.`,
    notEdited: "Nothing is edited yet.",
    reason: "Reason",
    reasonHint: "The model reads it. It may be empty.",
    answerHint: "The tool does not run. The model gets this as the tool's result.",
    answerLabel: "Result",
    answerIsJson: "It is JSON",
    notJson: "This is not JSON.",
    whose: "Whose calls",
    scope: {
      session: () => "Calls of this session",
      principal: (who: string) => `Calls of ${who}, in any session`,
      everyone: () => "Calls of everyone",
    },
    patterns: "With which arguments",
    noPatterns: "The call has no arguments.",
    patternOf: (name: string) => `Pattern of ${name}`,
    patternValue: (name: string) => `Value of the pattern of ${name}`,
    pattern: {
      equals: "exactly",
      any: "anything",
      glob: "like (with *)",
      max: "at most",
      min: "at least",
    },
    uses: "How many calls",
    usesHint: "Empty: as many as come until it expires.",
    expires: "Until when",
    expiry: (seconds: number | null) =>
      seconds === null
        ? "for ever"
        : seconds < 86_400
          ? `for ${plural(seconds / 3_600, "hour", "hours")}`
          : `for ${plural(seconds / 86_400, "day", "days")}`,
    grantIncomplete: "A number is missing, or is not one.",
    preview: "Past calls that it would have covered",
    covered: (count: number, of: number) =>
      `It would have covered ${count.toLocaleString("en")} of the last ${plural(of, "call", "calls")} that you may read.`,
    notThisCall: "It would not cover this call itself.",
    unknownArguments: (names: string) => `The tool has no such argument: ${names}`,
    done: {
      approve: (tool: string) => `${tool} is approved. The decision is final.`,
      deny: (tool: string) => `${tool} is denied. The decision is final.`,
      answer: (tool: string) => `${tool} has your answer and does not run.`,
      grant: (tool: string) => `${tool} is approved, and calls like it are from now on.`,
    },
    voted: (tool: string, votes: number, needed: number) =>
      `Your approval of ${tool} counts: ${votes} of ${needed}. Somebody else has to approve it too.`,
    faster: {
      approve: (tool: string, by: string) =>
        `${by} was faster and has approved ${tool}. Your decision was not needed.`,
      deny: (tool: string, by: string) =>
        `${by} was faster and has denied ${tool}. Your decision does not count.`,
      answer: (tool: string, by: string) =>
        `${by} was faster and has answered in the place of ${tool}. Your decision does not count.`,
    },
    expired: (tool: string) =>
      `The request of ${tool} has expired: nobody decided in time, and it does not run.`,
    superseded: (tool: string) =>
      `The request of ${tool} is closed: its call ended, or the tool changed and a new request took its place. Look at the new one.`,
    gone: (tool: string) => `The request of ${tool} is gone, or is not for you to see any more.`,
    faults: "The server does not take these arguments; the fields are marked.",
    unknown:
      "The answer of the server did not come. Nobody knows yet whether the decision arrived; send it again: it counts once.",
    kept: "What you typed is still here.",
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
