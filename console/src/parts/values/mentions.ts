/** Sources and files that a value mentions. */

import { isObject, type Json } from "./view";

export interface SourceMention {
  readonly url: string;
  readonly title: string;
}

export interface FileMention {
  readonly name: string;
  /** The id that the provider gave it. */
  readonly id: string;
}

export interface Mentions {
  readonly sources: readonly SourceMention[];
  readonly files: readonly FileMention[];
}

const MOST = 50;
const MOST_DEPTH = 20;

/** The pages and the files that a value names, in order, each once. */
export function mentionsIn(value: Json): Mentions {
  const sources = new Map<string, SourceMention>();
  const files = new Map<string, FileMention>();
  const look = (each: Json, depth: number): void => {
    if (depth > MOST_DEPTH) return;
    if (Array.isArray(each)) {
      for (const entry of each as readonly Json[]) look(entry, depth + 1);
    } else if (isObject(each)) {
      const { url, title, file_id: id, filename } = each;
      if (typeof url === "string" && typeof title === "string" && !sources.has(url)) {
        sources.set(url, { url, title });
      }
      if (typeof id === "string" && typeof filename === "string" && !files.has(id)) {
        files.set(id, { id, name: filename });
      }
      for (const member of Object.values(each)) look(member, depth + 1);
    }
  };
  look(value, 0);
  return {
    sources: [...sources.values()].slice(0, MOST),
    files: [...files.values()].slice(0, MOST),
  };
}
