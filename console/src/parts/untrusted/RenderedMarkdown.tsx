import { Children, type ReactNode } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

import { messages } from "@/messages";
import { splitMarks, withMarks } from "./citation_marks";
import type { MarkdownProps, Source } from "./Markdown";
import { isPlain, showable } from "./showable";
import { Text } from "./Text";
import { UntrustedLink } from "./UntrustedLink";
import styles from "./untrusted.module.css";

/** A picture that a text refers to is never fetched: to fetch it would tell somebody that the text
 * was read, and could carry out what the text knows.
 */
function AbsentPicture({ src, alt }: { src?: string; alt?: string }) {
  return (
    <span className={styles.picture}>
      {messages.untrusted.picture} <Text text={alt ?? ""} />{" "}
      <UntrustedLink href={src}>{messages.untrusted.pictureSource}</UntrustedLink>
    </span>
  );
}

/** The text of the elements around it, with marks where it cites and where it hides something. */
function marked(children: ReactNode, anchor: string, sources: readonly Source[]): ReactNode {
  return Children.map(children, (child) => {
    if (typeof child !== "string") return child;
    return splitMarks(child).map((part, index) => {
      if (typeof part === "number") return mark(part, anchor, sources, index);
      return isPlain(part, { lines: true }) ? part : <Text key={index} text={part} lines />;
    });
  });
}

function mark(number: number, anchor: string, sources: readonly Source[], key: number): ReactNode {
  const source = sources[number - 1];
  if (source === undefined) return null;
  const label = messages.untrusted.citation(number, showable(source.title || source.url || ""));
  return (
    <sup key={key} className={styles.mark}>
      <a href={`#${anchor}-source-${number}`} aria-label={label} title={label}>
        {number}
      </a>
    </sup>
  );
}

function componentsFor(anchor: string, sources: readonly Source[]): Components {
  const inline = (children: ReactNode) => marked(children, anchor, sources);
  return {
    a: ({ href, children }) => <UntrustedLink href={href}>{inline(children)}</UntrustedLink>,
    img: ({ src, alt }) => (
      <AbsentPicture src={typeof src === "string" ? src : undefined} alt={alt} />
    ),
    p: ({ children }) => <p>{inline(children)}</p>,
    li: ({ children }) => <li>{inline(children)}</li>,
    em: ({ children }) => <em>{inline(children)}</em>,
    strong: ({ children }) => <strong>{inline(children)}</strong>,
    del: ({ children }) => <del>{inline(children)}</del>,
    code: ({ children }) => <code>{inline(children)}</code>,
    // A heading of a text is no heading of the page.
    h1: ({ children }) => <p className={styles.heading}>{inline(children)}</p>,
    h2: ({ children }) => <p className={styles.heading}>{inline(children)}</p>,
    h3: ({ children }) => <p className={styles.heading}>{inline(children)}</p>,
    h4: ({ children }) => <p className={styles.heading}>{inline(children)}</p>,
    h5: ({ children }) => <p className={styles.heading}>{inline(children)}</p>,
    h6: ({ children }) => <p className={styles.heading}>{inline(children)}</p>,
    th: ({ children }) => <th>{inline(children)}</th>,
    td: ({ children }) => <td>{inline(children)}</td>,
    table: ({ children }) => (
      <div className={styles.wide} tabIndex={0} role="group" aria-label={messages.untrusted.table}>
        <table>{children}</table>
      </div>
    ),
    pre: ({ children }) => (
      <pre className={styles.wide} tabIndex={0} role="group" aria-label={messages.values.code}>
        {children}
      </pre>
    ),
    input: ({ checked }) => <span aria-hidden="true">{checked ? "☑ " : "☐ "}</span>,
  };
}

const PLUGINS = [remarkGfm];

/** Only `<Markdown>` renders it: it is loaded when the first text needs it. */
export default function RenderedMarkdown({ text, sources = [], anchor = "text" }: MarkdownProps) {
  return (
    <div className={styles.markdown} dir="auto">
      <ReactMarkdown
        remarkPlugins={PLUGINS}
        // Not emptied here: `UntrustedLink` follows only what is safe, and shows the rest as text.
        urlTransform={(url) => url}
        components={componentsFor(anchor, sources)}
      >
        {withMarks(text, sources)}
      </ReactMarkdown>
      {sources.length > 0 ? <Sources sources={sources} anchor={anchor} /> : null}
    </div>
  );
}

function Sources({ sources, anchor }: { sources: readonly Source[]; anchor: string }) {
  return (
    <ol className={styles.sources} aria-label={messages.untrusted.sources}>
      {sources.map((source, index) => (
        <li key={index} id={`${anchor}-source-${index + 1}`}>
          {source.url ? (
            <UntrustedLink href={source.url}>
              <Text text={source.title || source.url} most={200} />
            </UntrustedLink>
          ) : (
            <Text text={source.title || source.file_id || ""} most={200} />
          )}
        </li>
      ))}
    </ol>
  );
}
