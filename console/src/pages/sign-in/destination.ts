/**
 * Where to go after the sign-in: the page that was asked for. An address may come from anybody who
 * makes a link, so it counts only if it is a page of this server.
 */
export function destinationOf(from: string | undefined, origin: string): string {
  // A browser reads a backslash as a slash, and leaves out tabs and line breaks.
  if (from === undefined || !from.startsWith("/") || hasControls(from)) return "/";
  const url = parse(from, origin);
  if (url?.origin !== origin || url.pathname.startsWith("/sign-in")) return "/";
  return url.pathname + url.search + url.hash;
}

function hasControls(text: string): boolean {
  return Array.from(text).some((letter) => letter < " " || letter === "\\");
}

function parse(from: string, origin: string): URL | null {
  try {
    return new URL(from, origin);
  } catch {
    return null;
  }
}

/** The one-time code in the fragment of an address; null without one. */
export function codeOf(fragment: string): string | null {
  const code = new URLSearchParams(fragment.replace(/^#/, "")).get("code");
  return code === null || code === "" ? null : code;
}
