/** Which links of a text may be followed, and where they lead. */

const SCHEMES: ReadonlySet<string> = new Set(["http:", "https:", "mailto:"]);

/** A link that a browser may follow. */
export interface SafeLink {
  readonly href: string;
  /** Where it leads, for people: the host, or the address of a mail. */
  readonly destination: string;
}

/** The link in `url`; null when it is relative, cannot be read, or leads to anything else than a
 * page or a mail. A relative link would lead into the console itself.
 */
export function safeLink(url: string | null | undefined): SafeLink | null {
  if (!url) return null;
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    return null;
  }
  if (!SCHEMES.has(parsed.protocol)) return null;
  if (parsed.protocol === "mailto:") {
    const [address = ""] = parsed.pathname.split("?");
    return { href: parsed.href, destination: address };
  }
  if (parsed.hostname === "") return null;
  // `https://bank.example@evil.example` leads to evil.example: a name before the host only deceives.
  parsed.username = "";
  parsed.password = "";
  return { href: parsed.href, destination: parsed.host };
}
