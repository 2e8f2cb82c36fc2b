import { messages } from "@/messages";
import { Text, UntrustedLink } from "@/parts/untrusted";

import { mentionsIn } from "./mentions";
import styles from "./values.module.css";
import type { Json } from "./view";

/** The pages that a result cites, and the files that it left at the provider. */
export function MentionLists({ value }: { value: Json }) {
  const { sources, files } = mentionsIn(value);
  return (
    <>
      {sources.length > 0 ? (
        <ol className={styles.files} aria-label={messages.untrusted.sources}>
          {sources.map((source) => (
            <li key={source.url}>
              <UntrustedLink href={source.url}>
                <Text text={source.title || source.url} most={200} />
              </UntrustedLink>
            </li>
          ))}
        </ol>
      ) : null}
      {files.length > 0 ? (
        <ul className={styles.files} aria-label={messages.values.files}>
          {files.map((file) => (
            <li key={file.id}>
              <Text text={file.name} most={200} />{" "}
              <code className={styles.quiet}>
                <Text text={file.id} most={100} />
              </code>
            </li>
          ))}
        </ul>
      ) : null}
    </>
  );
}
