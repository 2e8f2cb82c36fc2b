import { describe, expect, it } from "vitest";

import { bytesOf, contentUrl, pictureBlob, picturesIn, pictureType } from "./artifacts";
import type { Json } from "./view";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const KEPT = `data_${"a".repeat(32)}`;

describe("picturesIn", () => {
  it("finds pictures as data addresses, as typed base64, and as artifacts", () => {
    const value: Json = {
      images: [
        { format: "png", base64: `toolcrib-artifact:${KEPT}` },
        { type: "image", mimeType: "image/png", data: PNG },
      ],
      text: `data:image/png;base64,${PNG}x`,
    };
    expect(picturesIn(value)).toEqual([
      { kind: "artifact", artifactId: KEPT },
      { kind: "inline", base64: PNG },
      { kind: "inline", base64: `${PNG}x` },
    ]);
  });

  it("takes no address of elsewhere, no SVG and no other text for a picture", () => {
    expect(
      picturesIn({
        a: "https://evil.example/x.png",
        b: "data:image/svg+xml;base64,PHN2Zz4=",
        c: `toolcrib-artifact:${KEPT}`,
        d: { mimeType: "image/svg+xml", data: PNG },
        e: "toolcrib-artifact:../../../x",
      }),
    ).toEqual([]);
  });
});

describe("pictureBlob", () => {
  it("names the type by the bytes", async () => {
    expect((await pictureBlob("ses_1", { kind: "inline", base64: PNG })).type).toBe("image/png");
    const html = btoa("<script>alert(1)</script>");
    await expect(pictureBlob("ses_1", { kind: "inline", base64: html })).rejects.toThrow();
  });

  it("knows the kinds that run nothing", () => {
    expect(pictureType(bytesOf(PNG))).toBe("image/png");
    expect(pictureType(new TextEncoder().encode("<svg xmlns='x'>"))).toBeNull();
    expect(pictureType(new TextEncoder().encode("RIFF1234WEBPVP8 "))).toBe("image/webp");
    expect(pictureType(new Uint8Array())).toBeNull();
  });
});

it("escapes ids in the address of an artifact", () => {
  expect(contentUrl("a/b", "../c?d")).toBe("/v1/sessions/a%2Fb/artifacts/..%2Fc%3Fd/content");
});
