/** Artifacts in values: pictures and other long texts that are kept beside the ledger. */

import { request } from "@/api/client";

import { isObject, type Json } from "./view";

/** A picture in a value: its bytes as base64, or the artifact that keeps them. */
export type Picture =
  | { readonly kind: "inline"; readonly base64: string }
  | { readonly kind: "artifact"; readonly artifactId: string };

const REFERENCE = /^(?:data:[\w.+/-]+;base64,)?toolcrib-artifact:(data_[0-9a-f]{32})$/;
const DATA_URL = /^data:image\/(?:png|jpe?g|gif|webp);base64,([A-Za-z0-9+/=_-]+)$/;
const MEDIA_TYPE_NAMES = ["media_type", "mimeType", "mime_type", "format", "type"];
const BASE64_NAMES = ["base64", "data", "image", "b64_json", "result"];
const IS_PICTURE = /^(?:image\/)?(?:png|jpe?g|gif|webp)$/;
const MOST_PICTURES = 20;
const MOST_DEPTH = 20;

/** The pictures in a value, in order, each once. */
export function picturesIn(value: Json): readonly Picture[] {
  const pictures = new Map<string, Picture>();
  collect(value, pictures, 0);
  return [...pictures.values()].slice(0, MOST_PICTURES);
}

function collect(value: Json, pictures: Map<string, Picture>, depth: number): void {
  if (depth > MOST_DEPTH) return;
  if (typeof value === "string") {
    add(pictureIn(value, value.startsWith("data:image/")), pictures);
  } else if (Array.isArray(value)) {
    for (const each of value as readonly Json[]) collect(each, pictures, depth + 1);
  } else if (isObject(value)) {
    const isPicture = MEDIA_TYPE_NAMES.some((name) => {
      const type = value[name];
      return typeof type === "string" && IS_PICTURE.test(type);
    });
    for (const [name, each] of Object.entries(value)) {
      if (typeof each === "string" && isPicture && BASE64_NAMES.includes(name)) {
        add(pictureIn(each, true), pictures);
      } else {
        collect(each, pictures, depth + 1);
      }
    }
  }
}

function pictureIn(text: string, isPicture: boolean): Picture | null {
  const reference = REFERENCE.exec(text)?.[1];
  if (reference !== undefined) {
    return isPicture ? { kind: "artifact", artifactId: reference } : null;
  }
  const inline = DATA_URL.exec(text)?.[1];
  if (inline !== undefined) return { kind: "inline", base64: inline };
  return isPicture && /^[A-Za-z0-9+/_-]{32,}={0,2}$/.test(text)
    ? { kind: "inline", base64: text }
    : null;
}

function add(picture: Picture | null, pictures: Map<string, Picture>): void {
  if (picture === null) return;
  pictures.set(picture.kind === "inline" ? picture.base64 : picture.artifactId, picture);
}

/** Where the content of an artifact is. The server sends it as a file to save. */
export function contentUrl(sessionId: string, artifactId: string, isBase64 = false): string {
  const path = `/v1/sessions/${encodeURIComponent(sessionId)}/artifacts/${encodeURIComponent(artifactId)}/content`;
  return isBase64 ? `${path}?encoding=base64` : path;
}

/** The bytes of a picture. Throws when they are of no kind that is safe to show. */
export async function pictureBlob(sessionId: string, picture: Picture): Promise<Blob> {
  const bytes =
    picture.kind === "inline"
      ? bytesOf(picture.base64)
      : await readBytes(contentUrl(sessionId, picture.artifactId, true));
  const type = pictureType(bytes);
  if (type === null) throw new Error("not a picture");
  return new Blob([bytes], { type });
}

async function readBytes(url: string): Promise<Uint8Array<ArrayBuffer>> {
  const response = await request(new URL(url, window.location.origin).href);
  return new Uint8Array(await response.arrayBuffer());
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** The type of a picture by how it begins, whatever somebody said that it is. SVG is none: it is a
 * document that can hold scripts and load more.
 */
export function pictureType(bytes: Uint8Array): string | null {
  const starts = (...codes: readonly number[]) => codes.every((code, at) => bytes[at] === code);
  if (starts(0x89, 0x50, 0x4e, 0x47)) return "image/png";
  if (starts(0xff, 0xd8, 0xff)) return "image/jpeg";
  if (starts(0x47, 0x49, 0x46, 0x38)) return "image/gif";
  const isWebp = [0x57, 0x45, 0x42, 0x50].every((code, at) => bytes[at + 8] === code);
  return starts(0x52, 0x49, 0x46, 0x46) && isWebp ? "image/webp" : null;
}
