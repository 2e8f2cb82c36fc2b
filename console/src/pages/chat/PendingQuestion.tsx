import type { QuestionItem } from "@/parts/timeline/rows";
import { Text } from "@/parts/untrusted";

/** A question of a running call. */
export function PendingQuestion({ question }: { question: QuestionItem }) {
  return (
    <p>
      <Text text={question.text} lines />
    </p>
  );
}
