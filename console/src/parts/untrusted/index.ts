export { safeLink, type SafeLink } from "./link";
export { Markdown, type MarkdownProps, type Source } from "./Markdown";
export { isPlain, pieces, showable, type Piece } from "./showable";
export { Text } from "./Text";
export { UntrustedLink } from "./UntrustedLink";
