/** The keys of the inbox. None is Enter: a key that is pressed by habit decides nothing. */
export const KEYS = {
  approve: "A",
  edit: "E",
  deny: "D",
  answer: "R",
  grant: "G",
  next: "J",
  previous: "K",
  select: "X",
  help: "?",
} as const;

export type InboxKey = keyof typeof KEYS;

/** What a key press means; null when it is not for the inbox, such as one while somebody types. */
export function meaningOf(event: KeyboardEvent): InboxKey | null {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return null;
  if (isTyping(event.target) || isCovered()) return null;
  const name = Object.keys(KEYS).find(
    (key) => KEYS[key as InboxKey] === event.key.toUpperCase(),
  ) as InboxKey | undefined;
  return name ?? null;
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    target.closest("input:not([type=checkbox]), textarea, select") !== null
  );
}

/**
 * Whether a dialog or a menu is open. The focus need not be in it: a button that is disabled while
 * its request is sent loses it to the page, and the next key would decide the card behind.
 */
function isCovered(): boolean {
  return document.querySelector("[role=dialog], [role=alertdialog], [role=menu]") !== null;
}
