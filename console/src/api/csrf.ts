let csrf: string | null = null;

/** The value that proves that a request comes from this page; null before somebody signed in. */
export function currentCsrf(): string | null {
  return csrf;
}

export function setCsrf(value: string | null): void {
  csrf = value;
}
