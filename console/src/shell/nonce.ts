/** The nonce of this page's content security policy: for libraries that make style elements. */
export function cspNonce(): string {
  return document.querySelector<HTMLMetaElement>("meta[name='csp-nonce']")?.content ?? "";
}
