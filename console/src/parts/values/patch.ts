/** Patches as people read them: files with lines that go, come and stay. */

export type LineKind = "added" | "removed" | "context" | "place";

export interface PatchLine {
  readonly kind: LineKind;
  readonly text: string;
}

export type FileChange = "changed" | "added" | "removed" | "moved";

export interface PatchFile {
  readonly path: string;
  readonly change: FileChange;
  /** Where a moved file goes. */
  readonly movedTo?: string;
  readonly lines: readonly PatchLine[];
}

interface OpenFile {
  path: string;
  change: FileChange;
  movedTo?: string;
  lines: PatchLine[];
}

const V4A_FILE = /^\*\*\* (Update|Add|Delete) File: (.+)$/;
const V4A_MOVE = /^\*\*\* Move to: (.+)$/;
const GIT_FILE = /^diff --git (?:"?a\/(.+?)"?) (?:"?b\/(.+?)"?)$/;
const HUNK = /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@/;

/** Whether `text` is a patch: of `apply_patch` (V4A), of git, or of `diff -u`. */
export function isPatch(text: string): boolean {
  if (/^\*\*\* Begin Patch\s*$/m.test(text) && /^\*\*\* (?:Update|Add|Delete) File: /m.test(text)) {
    return true;
  }
  return /^--- .+\n\+\+\+ .+$/m.test(text) && /^@@ /m.test(text);
}

/** The files of a patch. Null when `text` is none. */
export function readPatch(text: string): readonly PatchFile[] | null {
  if (!isPatch(text)) return null;
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  return /^\*\*\* Begin Patch\s*$/m.test(text) ? readV4a(lines) : readUnified(lines);
}

/** The lines of a patch without its files: the `diff` of one operation of `apply_patch`. */
export function readHunks(text: string, change: FileChange = "changed"): readonly PatchLine[] {
  return text
    .replaceAll("\r\n", "\n")
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => lineOf(line, change));
}

function readV4a(lines: readonly string[]): readonly PatchFile[] {
  const files: OpenFile[] = [];
  for (const line of lines) {
    const file = V4A_FILE.exec(line);
    const moved = V4A_MOVE.exec(line);
    const last = files.at(-1);
    if (file !== null) {
      const change = file[1] === "Add" ? "added" : file[1] === "Delete" ? "removed" : "changed";
      files.push({ path: file[2] ?? "", change, lines: [] });
    } else if (moved !== null && last !== undefined) {
      last.change = "moved";
      last.movedTo = moved[1];
    } else if (last !== undefined && !/^\*\*\* (?:End Patch|End of File|Begin Patch)/.test(line)) {
      last.lines.push(lineOf(line, last.change));
    }
  }
  return files.map(trimmed);
}

function readUnified(lines: readonly string[]): readonly PatchFile[] {
  const files: OpenFile[] = [];
  let isInHunk = false;
  for (const [index, line] of lines.entries()) {
    const git = GIT_FILE.exec(line);
    const last = files.at(-1);
    if (git !== null) {
      files.push({ path: git[2] ?? "", change: "changed", lines: [] });
      isInHunk = false;
    } else if (isFileHeader(lines, index, isInHunk)) {
      const before = pathOf(line.slice(4));
      const after = pathOf((lines[index + 1] ?? "").slice(4));
      const file = last !== undefined && last.lines.length === 0 ? last : newFile(files);
      file.change = before === null ? "added" : after === null ? "removed" : file.change;
      file.path = after ?? before ?? "";
      isInHunk = false;
    } else if (last !== undefined && HUNK.test(line)) {
      isInHunk = true;
      last.lines.push({ kind: "place", text: line });
    } else if (last !== undefined && isInHunk) {
      last.lines.push(lineOf(line, "changed"));
    } else if (last !== undefined && line.startsWith("rename to ")) {
      last.change = "moved";
      last.movedTo = line.slice("rename to ".length);
    }
  }
  return files.map(trimmed);
}

/** A removed line may look like a header too: `-- x` taken out is `--- x`. */
function isFileHeader(lines: readonly string[], index: number, isInHunk: boolean): boolean {
  const [line = "", next = "", third = ""] = lines.slice(index, index + 3);
  if (!line.startsWith("--- ") || !next.startsWith("+++ ")) return false;
  return !isInHunk || HUNK.test(third);
}

function newFile(files: OpenFile[]): OpenFile {
  const file: OpenFile = { path: "", change: "changed", lines: [] };
  files.push(file);
  return file;
}

function pathOf(written: string): string | null {
  const path = (written.split("\t")[0] ?? "").trim();
  return path === "/dev/null" ? null : path.replace(/^[ab]\//, "");
}

function lineOf(line: string, change: FileChange): PatchLine {
  if (line.startsWith("+")) return { kind: "added", text: line.slice(1) };
  if (line.startsWith("-")) return { kind: "removed", text: line.slice(1) };
  if (line.startsWith("@@") || line.startsWith("\\ No newline"))
    return { kind: "place", text: line };
  // A whole new file may come without marks.
  if (change === "added") return { kind: "added", text: line };
  return { kind: "context", text: line.startsWith(" ") ? line.slice(1) : line };
}

function trimmed(file: OpenFile): PatchFile {
  const lines = [...file.lines];
  while (lines.at(-1)?.text === "") lines.pop();
  return { ...file, lines };
}

/** How many lines come and go. */
export function sizeOf(files: readonly PatchFile[]): { added: number; removed: number } {
  const lines = files.flatMap((file) => file.lines);
  return {
    added: lines.filter((line) => line.kind === "added").length,
    removed: lines.filter((line) => line.kind === "removed").length,
  };
}
