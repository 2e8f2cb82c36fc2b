import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";

import { api, dataOf } from "@/api/client";
import type { GrantTerms } from "@/pages/inbox/decision";
import { shortValue } from "@/pages/inbox/intent";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { wordsOf } from "@/parts/State";
import { Time } from "@/parts/Time";
import { Text } from "@/parts/untrusted";

const MOST = 5;

/** The past calls that a grant would have covered, of those that the person may read. */
export function GrantPreview({
  approvalId,
  terms,
}: {
  approvalId: string;
  terms: GrantTerms | null;
}) {
  const asked = useDeferredValue(terms);
  const preview = useQuery({
    queryKey: ["grants", "preview", approvalId, asked],
    queryFn: async ({ signal }) => {
      const body = { approval_id: approvalId, grant: asked, limit: MOST } as never;
      return dataOf(await api.POST("/v1/grant-previews", { body, signal }));
    },
    enabled: asked !== null,
    placeholderData: keepPreviousData,
    retry: false,
  });
  if (terms === null) return <p role="status">{messages.decision.grantIncomplete}</p>;
  if (preview.isError) {
    return (
      <p role="alert" className={`${styles.note} ${styles.noteBad}`}>
        {wordsOf(preview.error)}
      </p>
    );
  }
  if (preview.data === undefined) return <p role="status">{messages.parts.loading}</p>;
  const { covered, covered_count, looked_at, unknown_arguments, covers_request } = preview.data;
  return (
    <section className={styles.preview} aria-label={messages.decision.preview}>
      <p role="status">
        {looked_at === 0
          ? messages.decision.coveredNone
          : messages.decision.covered(covered_count, looked_at)}
      </p>
      {covers_request === false && <p className={styles.warn}>{messages.decision.notThisCall}</p>}
      {unknown_arguments.length > 0 && (
        <p className={styles.warn}>
          <Text text={messages.decision.unknownArguments(unknown_arguments.join(", "))} />
        </p>
      )}
      <ul className={styles.covered}>
        {covered.map((call) => (
          <li key={`${call.session_id} ${call.call_id}`}>
            <Time at={call.at} /> <Text text={call.principal ?? messages.inbox.program} />
            {": "}
            <code>
              <Text text={shortValue(call.arguments)} />
            </code>
          </li>
        ))}
      </ul>
    </section>
  );
}
