import { describe, expect, it } from "vitest";

import { isPatch, readHunks, readPatch, sizeOf } from "./patch";

const V4A = `*** Begin Patch
*** Update File: src/shop.py
@@ def price():
-    return 1
+    return 2
     # kept
*** Add File: notes.txt
+first
*** Delete File: old.txt
*** Update File: a.py
*** Move to: b.py
@@
-x
+y
*** End Patch`;

const GIT = `diff --git a/src/shop.py b/src/shop.py
index 1..2 100644
--- a/src/shop.py
+++ b/src/shop.py
@@ -1,3 +1,3 @@
 def price():
--- a
+++ b
 end
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+hello
`;

describe("readPatch", () => {
  it("reads every change of a V4A patch", () => {
    const files = readPatch(V4A);
    expect(files?.map((file) => [file.path, file.change, file.movedTo])).toEqual([
      ["src/shop.py", "changed", undefined],
      ["notes.txt", "added", undefined],
      ["old.txt", "removed", undefined],
      ["a.py", "moved", "b.py"],
    ]);
    expect(files?.[0]?.lines).toEqual([
      { kind: "place", text: "@@ def price():" },
      { kind: "removed", text: "    return 1" },
      { kind: "added", text: "    return 2" },
      { kind: "context", text: "    # kept" },
    ]);
    expect(sizeOf(files ?? [])).toEqual({ added: 3, removed: 2 });
  });

  it("reads a patch of git, and takes removed dashes for a line", () => {
    const files = readPatch(GIT);
    expect(files?.map((file) => [file.path, file.change])).toEqual([
      ["src/shop.py", "changed"],
      ["new.txt", "added"],
    ]);
    expect(files?.[0]?.lines.map((line) => line.kind)).toEqual([
      "place",
      "context",
      "removed",
      "added",
      "context",
    ]);
  });

  it("reads `diff -u` without git", () => {
    const files = readPatch("--- a.txt\t2026\n+++ b.txt\n@@ -1 +1 @@\n-a\n+b\n");
    expect(files).toEqual([
      {
        path: "b.txt",
        change: "changed",
        lines: [
          { kind: "place", text: "@@ -1 +1 @@" },
          { kind: "removed", text: "a" },
          { kind: "added", text: "b" },
        ],
      },
    ]);
  });

  it("takes no other text for a patch", () => {
    for (const text of ["", "- a\n- b", "--- a\n+++ b", "*** Begin Patch\nnothing", "@@ x @@"]) {
      expect(isPatch(text), text).toBe(false);
      expect(readPatch(text)).toBeNull();
    }
  });

  it("reads the lines of one operation", () => {
    expect(readHunks("one\ntwo\n", "added")).toEqual([
      { kind: "added", text: "one" },
      { kind: "added", text: "two" },
    ]);
  });
});
