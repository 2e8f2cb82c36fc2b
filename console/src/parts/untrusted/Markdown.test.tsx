import { render } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import type { Source } from "./Markdown";
import RenderedMarkdown from "./RenderedMarkdown";
import { Text } from "./Text";

function html(text: string, sources: readonly Source[] = []): HTMLElement {
  return render(<RenderedMarkdown text={text} sources={sources} anchor="a1" />).container;
}

describe("<Markdown>", () => {
  it("shows HTML as text and runs none of it", () => {
    const shown = html(
      "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n<b onclick=x>bold</b> <svg onload=x>",
    );
    for (const name of ["script", "img", "svg", "b", "iframe", "form"]) {
      expect(shown.querySelector(name), name).toBeNull();
    }
    expect(shown.textContent).toContain("<script>alert(1)</script>");
    for (const element of shown.querySelectorAll("*")) {
      expect(element.getAttributeNames().filter((name) => name.startsWith("on"))).toEqual([]);
    }
  });

  it("follows only links to pages and mail, and says where they lead", () => {
    const shown = html(
      "[a](https://evil.example/x) [b](javascript:alert(1)) [c](data:text/html,x) [d](/v1/sign-out) <https://auto.example>",
    );
    const links = [...shown.querySelectorAll("a")];
    expect(links.map((link) => link.getAttribute("href"))).toEqual([
      "https://evil.example/x",
      "https://auto.example/",
    ]);
    for (const link of links) {
      expect(link.getAttribute("rel")).toBe("noopener noreferrer nofollow");
    }
    expect(links[0]?.textContent).toBe("a (evil.example)");
    expect(shown.textContent).toContain("javascript:alert(1)");
  });

  it("fetches no picture of elsewhere", () => {
    const shown = html(
      "![secret](https://evil.example/p.png?data=1) ![x](data:image/png;base64,AA)",
    );
    expect(shown.querySelector("img")).toBeNull();
    expect(shown.querySelector("a")?.getAttribute("href")).toBe(
      "https://evil.example/p.png?data=1",
    );
    expect(shown.textContent).toContain("secret");
  });

  it("marks what hides or reorders, also in code and links", () => {
    const shown = html("a\u202eb `c\u200bd` [e\u2066f](https://x.example)");
    const tokens = [...shown.querySelectorAll("[data-untrusted]")].map((each) => each.textContent);
    expect(tokens).toEqual(["\\u202e", "\\u200b", "\\u2066"]);
    expect(shown.textContent).not.toMatch(/[\u202e\u200b\u2066]/);
  });

  it("puts marks where the text cites, and lists the sources", () => {
    const shown = html("It rains.", [
      { kind: "page", url: "https://w.example/a", title: "Weather", span: [0, 9] },
      { kind: "file", title: "notes.txt", file_id: "file_1", span: null },
    ]);
    expect(shown.querySelector("sup a")?.getAttribute("href")).toBe("#a1-source-1");
    expect(shown.querySelector("#a1-source-1 a")?.getAttribute("href")).toBe("https://w.example/a");
    expect(shown.querySelector("#a1-source-2")?.textContent).toBe("notes.txt");
  });

  it("has tables, lists and code", () => {
    const shown = html("| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n\n```\ncode\n```\n\n# Title");
    expect(shown.querySelectorAll("td")).toHaveLength(2);
    expect(shown.querySelector("li")?.textContent).toBe("x");
    expect(shown.querySelector("pre")?.textContent).toContain("code");
    expect(shown.querySelector("h1")).toBeNull();
  });
});

describe("<Text>", () => {
  it("marks controls, isolates direction and cuts between characters", () => {
    const shown = render(<Text text={"x\u001b[31my"} />).container;
    expect(shown.querySelector("bdi")?.textContent).toBe("x\\u001b[31my");
    expect(shown.querySelector("[data-untrusted=terminal]")?.getAttribute("title")).toContain(
      "terminal code",
    );
    expect(render(<Text text="ab👍c" most={3} />).container.textContent).toBe("ab…");
  });
});
