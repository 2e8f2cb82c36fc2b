import { describe, expect, it } from "vitest";

import { safeLink } from "./link";

describe("safeLink", () => {
  it("takes pages and mail, and says where they lead", () => {
    expect(safeLink("https://example.org/a?b#c")?.destination).toBe("example.org");
    expect(safeLink("http://example.org:8080/")?.destination).toBe("example.org:8080");
    expect(safeLink("mailto:ada@example.org?subject=x")?.destination).toBe("ada@example.org");
  });

  it("takes nothing that runs, reads or stays in the console", () => {
    for (const url of [
      "javascript:alert(1)",
      "JaVaScRiPt:alert(1)",
      "java\nscript:alert(1)",
      "\u0001javascript:alert(1)",
      "data:text/html,<script>alert(1)</script>",
      "vbscript:x",
      "file:///etc/passwd",
      "blob:https://example.org/1",
      "ftp://example.org/",
      "/v1/sign-out",
      "//evil.example/x",
      "#top",
      "",
      "https://",
    ]) {
      expect(safeLink(url), url).toBeNull();
    }
  });

  it("drops a name that pretends to be the host, and shows letters that look alike", () => {
    expect(safeLink("https://bank.example@evil.example/")).toEqual({
      href: "https://evil.example/",
      destination: "evil.example",
    });
    expect(safeLink("https://аpple.com/")?.destination).toMatch(/^xn--/);
  });
});
