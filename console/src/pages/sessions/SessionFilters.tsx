import { useEffect, useState } from "react";

import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { SINCE, withFilter, type Since, type SessionsSearch } from "@/pages/sessions/search";
import styles from "@/pages/sessions/SessionsPage.module.css";

const SINCE_WORDS: Record<Since, string> = {
  "1h": messages.sessions.lastHour,
  "24h": messages.sessions.lastDay,
  "7d": messages.sessions.lastWeek,
  "30d": messages.sessions.lastMonth,
};
const TYPING_MS = 250;

/** The search and the filters of the list. */
export function SessionFilters({
  search,
  onChange,
}: {
  search: SessionsSearch;
  onChange: (search: SessionsSearch) => void;
}) {
  const me = useMe();
  const set = <Name extends keyof SessionsSearch>(
    name: Name,
    value: SessionsSearch[Name] | undefined,
  ) => onChange(withFilter(search, name, value));
  return (
    <search className={styles.filters}>
      <TypedFilter
        label={messages.sessions.search}
        hint={messages.sessions.searchHint}
        value={search.text ?? ""}
        onChange={(text) => set("text", text)}
        isWide
      />
      <TypedFilter
        label={messages.sessions.tool}
        hint={messages.sessions.toolHint}
        value={search.tool ?? ""}
        onChange={(tool) => set("tool", tool)}
      />
      {can(me, "auditor") && (
        <TypedFilter
          label={messages.sessions.owner}
          value={search.owner ?? ""}
          onChange={(owner) => set("owner", owner)}
        />
      )}
      <Choice
        label={messages.sessions.state}
        none={messages.sessions.anyState}
        value={search.state}
        choices={[
          ["open", messages.sessions.open],
          ["closed", messages.sessions.closed],
        ]}
        onChange={(state) => set("state", state)}
      />
      <Choice
        label={messages.sessions.since}
        none={messages.sessions.anyTime}
        value={search.since}
        choices={SINCE.map((since) => [since, SINCE_WORDS[since]])}
        onChange={(since) => set("since", since)}
      />
      <div className={styles.switches}>
        <Switch
          label={messages.sessions.waitingOnly}
          value={search.waiting}
          onChange={(waiting) => set("waiting", waiting)}
        />
        <Switch
          label={messages.sessions.failedOnly}
          value={search.failed}
          onChange={(failed) => set("failed", failed)}
        />
        {Object.keys(search).length > 0 && (
          <Button size="small" look="quiet" onClick={() => onChange({})}>
            {messages.sessions.clear}
          </Button>
        )}
      </div>
    </search>
  );
}

/** A text that becomes a filter when nobody types any more. */
function TypedFilter({
  label,
  hint,
  value,
  onChange,
  isWide = false,
}: {
  label: string;
  hint?: string;
  value: string;
  onChange: (text: string) => void;
  isWide?: boolean;
}) {
  const [draft, setDraft] = useState<string | null>(null);
  const text = draft ?? value;
  useEffect(() => {
    if (draft === null) return;
    const timer = setTimeout(() => {
      setDraft(null);
      if (draft !== value) onChange(draft);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [draft, value, onChange]);
  return (
    <div className={isWide ? styles.wide : styles.narrow}>
      <Field label={label} {...(hint === undefined ? {} : { hint })}>
        {(ids) => (
          <input
            {...ids}
            type="search"
            value={text}
            maxLength={200}
            onChange={(event) => setDraft(event.target.value)}
          />
        )}
      </Field>
    </div>
  );
}

/** One of a few values, or none. */
export function Choice<Value extends string>({
  label,
  none,
  value,
  choices,
  onChange,
}: {
  label: string;
  none: string;
  value: Value | undefined;
  choices: readonly (readonly [Value, string])[];
  onChange: (value: Value | undefined) => void;
}) {
  return (
    <div className={styles.narrow}>
      <Field label={label}>
        {(ids) => (
          <select
            {...ids}
            value={value ?? ""}
            onChange={(event) =>
              onChange(choices.find(([each]) => each === event.target.value)?.[0])
            }
          >
            <option value="">{none}</option>
            {choices.map(([each, words]) => (
              <option key={each} value={each}>
                {words}
              </option>
            ))}
          </select>
        )}
      </Field>
    </div>
  );
}

export function Switch({
  label,
  value,
  onChange,
}: {
  label: string;
  value: true | undefined;
  onChange: (value: true | undefined) => void;
}) {
  return (
    <label className={styles.switch}>
      <input
        type="checkbox"
        checked={value === true}
        onChange={(event) => onChange(event.target.checked ? true : undefined)}
      />
      {label}
    </label>
  );
}
