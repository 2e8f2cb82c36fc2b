import { describe, expect, it } from "vitest";

import { isPlain, pieces, showable } from "./showable";

describe("showable", () => {
  it("leaves plain text of any language as it is", () => {
    for (const text of ["plain", "Übergröße", "שלום", "日本語", "e\u0301", "👍🏽"]) {
      expect(showable(text)).toBe(text);
      expect(isPlain(text)).toBe(true);
    }
  });

  it("escapes what reorders text", () => {
    expect(showable("user\u202etxt.exe")).toBe("user\\u202etxt.exe");
    expect(showable("\u2066a\u2069")).toBe("\\u2066a\\u2069");
  });

  it("escapes what hides in text", () => {
    expect(showable("pay\u200bpal\ufeff\u00ad")).toBe("pay\\u200bpal\\ufeff\\u00ad");
    // Tag characters carry whole hidden sentences.
    expect(showable("\u{e0041}")).toBe("\\udb40\\udc41");
  });

  it("escapes lone surrogates, private and unassigned characters", () => {
    expect(showable("\ud800")).toBe("\\ud800");
    expect(showable("\ue000")).toBe("\\ue000");
    expect(showable("\u{10ffff}")).toBe("\\udbff\\udfff");
  });

  it("escapes line breaks in one line, and keeps them in lines", () => {
    expect(showable("a\nb\tc")).toBe("a\\u000ab\\u0009c");
    expect(showable("a\nb\tc\r\nd", { lines: true })).toBe("a\nb\tc\nd");
    expect(showable("done\rfailed", { lines: true })).toBe("done\\u000dfailed");
    expect(showable("a\u2028b", { lines: true })).toBe("a\\u2028b");
  });

  it("shows a terminal code as one token and runs none", () => {
    expect(pieces("a\u001b[31mred\u001b[0m")).toEqual([
      { kind: "text", text: "a" },
      { kind: "terminal", text: "\\u001b[31m", name: "terminal code" },
      { kind: "text", text: "red" },
      { kind: "terminal", text: "\\u001b[0m", name: "terminal code" },
    ]);
    const title = "\u001b]0;owned\u0007";
    expect(pieces(title)).toEqual([
      { kind: "terminal", text: "\\u001b]0;owned\\u0007", name: "terminal code" },
    ]);
    const link = "\u001b]8;;https://evil.example\u001b\\here\u001b]8;;\u001b\\";
    expect(showable(link)).not.toContain("\u001b");
    expect(showable("\u009b2J")).toBe("\\u009b2J");
    expect(showable("\u001b")).toBe("\\u001b");
  });

  it("names the controls that it shows", () => {
    expect(pieces("\u202e")).toEqual([
      { kind: "control", text: "\\u202e", name: "right-to-left override" },
    ]);
    expect(pieces("\u0001")[0]?.name).toBe("control character");
  });

  it("keeps JSON the same JSON", () => {
    const value = { name: "a\u202eb\u200b", code: "\u009b31m" };
    expect(JSON.parse(showable(JSON.stringify(value)))).toEqual(value);
  });

  it("joins its pieces to what it returns, for every character of the first planes", () => {
    for (let start = 0; start < 0x11000; start += 0x400) {
      const text = Array.from({ length: 0x400 }, (_, at) => String.fromCodePoint(start + at)).join(
        "",
      );
      const shown = showable(text);
      expect(/[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/u.test(shown)).toBe(false);
      expect(
        pieces(text)
          .map((piece) => piece.text)
          .join(""),
      ).toBe(shown);
    }
  });
});
