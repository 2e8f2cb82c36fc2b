import { type ReactNode } from "react";

import { messages } from "@/messages";
import styles from "@/pages/activity/Activity.module.css";
import {
  DECISIONS,
  DEFAULT_RANGE,
  fromLocalInput,
  isCustom,
  isFiltered,
  KINDS,
  localInput,
  RANGES,
  spanOf,
  STATUSES,
  type ActivitySearch,
} from "@/pages/activity/filters";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";

const words = messages.activity;

interface FilterBarProps {
  search: ActivitySearch;
  onChange: (changes: Partial<Record<keyof ActivitySearch, string | number | undefined>>) => void;
  onClear: () => void;
}

/** The filters of the page. What is typed takes effect when the field is left or Enter is pressed. */
export function FilterBar({ search, onChange, onClear }: FilterBarProps) {
  return (
    <section className={styles.filters} aria-label={words.filters}>
      <RangeFields search={search} onChange={onChange} />
      <TypedField
        label={words.principal}
        value={search.principal ?? ""}
        onCommit={(principal) => onChange({ principal })}
      />
      <TypedField
        label={words.tool}
        title={words.toolHint}
        value={search.tool ?? ""}
        onCommit={(tool) => onChange({ tool })}
      />
      <Choice
        label={words.status}
        value={search.status ?? ""}
        onChange={(status) => onChange({ status })}
      >
        <option value="">{words.any}</option>
        {STATUSES.map((status) => (
          <option key={status} value={status}>
            {words.statuses[status]}
          </option>
        ))}
      </Choice>
      <Choice
        label={words.decision}
        value={search.decision ?? ""}
        onChange={(decision) => onChange({ decision })}
      >
        <option value="">{words.any}</option>
        {DECISIONS.map((decision) => (
          <option key={decision} value={decision}>
            {words.decisions[decision]}
          </option>
        ))}
      </Choice>
      <Choice
        label={words.kind}
        value={search.kind ?? "tool"}
        onChange={(kind) => onChange({ kind: kind === "tool" ? undefined : kind })}
      >
        {KINDS.map((kind) => (
          <option key={kind} value={kind}>
            {words.kinds[kind]}
          </option>
        ))}
      </Choice>
      <TypedField
        label={words.minCost}
        value={search.min_cost === undefined ? "" : String(search.min_cost)}
        inputMode="decimal"
        onCommit={(cost) => onChange({ min_cost: dollars(cost) })}
      />
      {isFiltered(search) && (
        <Button look="quiet" onClick={onClear}>
          {words.clear}
        </Button>
      )}
    </section>
  );
}

function dollars(written: string): number | undefined {
  const cost = Number.parseFloat(written.replace(",", "."));
  return Number.isFinite(cost) && cost >= 0 ? cost : undefined;
}

function RangeFields({ search, onChange }: Omit<FilterBarProps, "onClear">) {
  const custom = isCustom(search);
  const choose = (range: string) => {
    if (range !== "custom") return onChange({ range, from: undefined, to: undefined });
    const { since, until } = spanOf(search, Math.floor(Date.now() / 1000));
    const [from, to] = [since, until].map((at) => new Date(at * 1000).toISOString());
    return onChange({ range: undefined, from, to });
  };
  return (
    <>
      <Choice
        label={words.range}
        value={custom ? "custom" : (search.range ?? DEFAULT_RANGE)}
        onChange={choose}
      >
        {[...RANGES, "custom" as const].map((range) => (
          <option key={range} value={range}>
            {words.ranges[range]}
          </option>
        ))}
      </Choice>
      {custom &&
        (["from", "to"] as const).map((end) => (
          <Field key={end} label={words[end]}>
            {(ids) => (
              <input
                {...ids}
                type="datetime-local"
                value={localInput(search[end])}
                onChange={(event) => onChange({ [end]: fromLocalInput(event.target.value) })}
              />
            )}
          </Field>
        ))}
    </>
  );
}

function Choice({
  label,
  value,
  onChange,
  children,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  children: ReactNode;
}) {
  return (
    <Field label={label}>
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => onChange(event.target.value)}>
          {children}
        </select>
      )}
    </Field>
  );
}

function TypedField({
  label,
  value,
  title,
  inputMode,
  onCommit,
}: {
  label: string;
  value: string;
  title?: string;
  inputMode?: "decimal";
  onCommit: (value: string) => void;
}) {
  const commit = (typed: string) => typed.trim() !== value && onCommit(typed.trim());
  return (
    <Field label={label}>
      {(ids) => (
        <input
          {...ids}
          // Another value from outside begins a new input.
          key={value}
          type="text"
          defaultValue={value}
          title={title}
          inputMode={inputMode}
          placeholder={words.any}
          onBlur={(event) => commit(event.target.value)}
          onKeyDown={(event) => event.key === "Enter" && commit(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}
