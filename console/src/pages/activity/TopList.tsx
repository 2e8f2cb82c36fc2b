import { messages } from "@/messages";
import styles from "@/pages/activity/Activity.module.css";
import { topOf, type UsageSum } from "@/pages/activity/series";
import { showable, Text } from "@/parts/untrusted";

const words = messages.activity;

/** The keys with the most calls; each is a filter. */
export function TopList({
  title,
  sums,
  nameOf = (key) => key,
  onChoose,
}: {
  title: string;
  sums: UsageSum[];
  nameOf?: (key: string) => string;
  onChoose: (key: string) => void;
}) {
  const top = topOf(sums, 7);
  const most = top[0]?.calls ?? 1;
  if (top.length === 0) return null;
  return (
    <section className={styles.top}>
      <h2>{title}</h2>
      <ol>
        {top.map((sum) => {
          const key = sum.key ?? "";
          return (
            <li key={key}>
              <button
                type="button"
                title={words.onlyThis(showable(nameOf(key)))}
                onClick={() => onChoose(key)}
              >
                <Text text={nameOf(key)} most={60} />
              </button>
              <span>{sum.calls.toLocaleString("en")}</span>
              <meter aria-hidden min={0} max={most} value={sum.calls} />
            </li>
          );
        })}
      </ol>
    </section>
  );
}
