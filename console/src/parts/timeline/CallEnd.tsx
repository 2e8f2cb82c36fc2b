import { useMemo } from "react";

import { messages } from "@/messages";
import { SHOWN_OUTPUT } from "@/parts/timeline/calls";
import { asFacts, listIn, textIn, type Facts } from "@/parts/timeline/envelope";
import type { CallItem } from "@/parts/timeline/rows";
import styles from "@/parts/timeline/CallCard.module.css";
import { Text } from "@/parts/untrusted";
import { contentUrl, picturesIn } from "@/parts/values/artifacts";
import { Pictures } from "@/parts/values/Pictures";

const MOST_RESULT = 600;
const MOST_OUTPUT = 2_000;

/** What a call printed and what came of it, cut to a few lines: the details have the rest. */
export function CallEnd({ call, sessionId }: { call: CallItem; sessionId: string }) {
  const { end } = call;
  return (
    <>
      {call.output !== "" && <Output call={call} />}
      {call.image !== null && (
        <Pictures
          sessionId={sessionId}
          pictures={[{ kind: "inline", base64: call.image.base64 }]}
        />
      )}
      {call.status === "in_doubt" && <p className={styles.failure}>{messages.timeline.inDoubt}</p>}
      {end !== null && <Result {...{ call, end, sessionId }} />}
    </>
  );
}

function Output({ call }: { call: CallItem }) {
  const shown = call.output.slice(-MOST_OUTPUT);
  const isCut = call.printed > Math.min(MOST_OUTPUT, SHOWN_OUTPUT);
  return (
    <details className={styles.output} open={call.end === null}>
      <summary>
        {messages.timeline.output}
        {isCut && (
          <span className={styles.faint}> · {messages.timeline.outputCut(call.printed)}</span>
        )}
      </summary>
      <pre>
        <Text text={shown} lines />
      </pre>
    </details>
  );
}

function Result({ call, end, sessionId }: { call: CallItem; end: Facts; sessionId: string }) {
  const pictures = useMemo(() => picturesIn([asJson(end["value"]), asJson(end["raw"])]), [end]);
  const message = textIn(end, "message") ?? "";
  const artifact = textIn(end, "artifact_id");
  const isFailure = call.status !== "completed";
  if (end["is_deleted"] === true)
    return <p className={styles.faint}>{messages.timeline.deleted}</p>;
  return (
    <div className={styles.result}>
      {message !== "" && (
        <div className={isFailure ? styles.failure : styles.message}>
          <Text text={message} lines most={MOST_RESULT} />
        </div>
      )}
      {pictures.length > 0 && <Pictures sessionId={sessionId} pictures={pictures} />}
      <Files end={end} />
      {artifact !== null && (
        <p>
          <a href={contentUrl(sessionId, artifact)} download>
            {messages.timeline.whole}
          </a>
        </p>
      )}
    </div>
  );
}

function Files({ end }: { end: Facts }) {
  const files = [...listIn(end, "cited_files"), ...listIn(asFacts(end["value"]), "files")];
  const names = files.flatMap((file) => textIn(asFacts(file), "filename") ?? []);
  if (names.length === 0) return null;
  return (
    <p>
      {messages.timeline.files}: <Text text={names.join(", ")} most={400} />
    </p>
  );
}

type JsonLike = Parameters<typeof picturesIn>[0];

function asJson(value: unknown): JsonLike {
  return (value ?? null) as JsonLike;
}
