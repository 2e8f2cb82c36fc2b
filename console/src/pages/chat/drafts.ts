/** A text that is being written, and the key under which it was tried to be sent. */
export interface Draft {
  text: string;
  /** The same text is sent under the same key, so that the server takes it once. */
  key: string | null;
}

const EMPTY: Draft = { text: "", key: null };
const PREFIX = "toolcrib.chat.draft.";

/** The draft of a conversation in this tab; `null` is that of a new one. */
export function readDraft(sessionId: string | null): Draft {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(nameOf(sessionId)) ?? "null");
    return isDraft(stored) ? stored : EMPTY;
  } catch {
    return EMPTY;
  }
}

/** Keep a draft over a reload. A browser without room for it only forgets it then. */
export function keepDraft(sessionId: string | null, draft: Draft): void {
  try {
    if (draft.text === "") sessionStorage.removeItem(nameOf(sessionId));
    else sessionStorage.setItem(nameOf(sessionId), JSON.stringify(draft));
  } catch {
    return;
  }
}

function nameOf(sessionId: string | null): string {
  return `${PREFIX}${sessionId ?? ""}`;
}

function isDraft(value: unknown): value is Draft {
  return (
    typeof value === "object" &&
    value !== null &&
    "text" in value &&
    typeof value.text === "string" &&
    "key" in value &&
    (value.key === null || typeof value.key === "string")
  );
}
