import { lazy, Suspense } from "react";

import { Text } from "./Text";
import styles from "./untrusted.module.css";

/** A source that a text cites; `span` is the place in the text, in characters. */
export interface Source {
  readonly kind: string;
  readonly url?: string | null;
  readonly title?: string;
  readonly file_id?: string | null;
  readonly span?: readonly [number, number] | null;
}

export interface MarkdownProps {
  readonly text: string;
  /** What the text cites; a numbered mark stands after each citing place. */
  readonly sources?: readonly Source[];
  /** Names the marks of this text apart from those of others on the page. */
  readonly anchor?: string;
}

const RenderedMarkdown = lazy(() => import("./RenderedMarkdown"));

/** Markdown of somebody else: no HTML, no pictures from elsewhere, links that say where they lead.
 * Until the renderer is loaded, and while a text is short of it, the text itself is shown.
 */
export function Markdown(props: MarkdownProps) {
  return (
    <Suspense
      fallback={
        <div className={styles.markdown}>
          <Text text={props.text} lines />
        </div>
      }
    >
      <RenderedMarkdown {...props} />
    </Suspense>
  );
}
