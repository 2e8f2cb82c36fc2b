import type { Approval } from "@/api/inbox";
import type { InboxFilters } from "@/pages/inbox/list";
import styles from "@/pages/inbox/inbox.module.css";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { showable } from "@/parts/untrusted";

/** Which requests are shown; the filters are in the address of the page. */
export function InboxFilterBar({
  approvals,
  filters,
  onChange,
}: {
  approvals: readonly Approval[];
  filters: InboxFilters;
  onChange: (filters: InboxFilters) => void;
}) {
  const isFiltered = Object.keys(filters).length > 0;
  if (approvals.length < 2 && !isFiltered) return null;
  const tools = namesOf(
    approvals.map((each) => each.tool),
    filters.tool,
  );
  const people = namesOf(
    approvals.map((each) => each.caller.principal),
    filters.principal,
  );
  const choose = (key: keyof InboxFilters, value: string) => {
    const rest = Object.fromEntries(Object.entries(filters).filter(([name]) => name !== key));
    onChange(value === "" ? rest : { ...rest, [key]: value });
  };
  return (
    <div className={styles.filters}>
      <Field label={messages.inbox.filterTool}>
        {(ids) => (
          <select
            {...ids}
            value={filters.tool ?? ""}
            onChange={(event) => choose("tool", event.target.value)}
          >
            <option value="">{messages.inbox.anyTool}</option>
            {tools.map((tool) => (
              <option key={tool} value={tool}>
                {showable(tool)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={messages.inbox.filterWho}>
        {(ids) => (
          <select
            {...ids}
            value={filters.principal ?? ""}
            onChange={(event) => choose("principal", event.target.value)}
          >
            <option value="">{messages.inbox.anybody}</option>
            {people.map((name) => (
              <option key={name} value={name}>
                {showable(name)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {isFiltered && (
        <Button look="quiet" onClick={() => onChange({})}>
          {messages.inbox.clearFilters}
        </Button>
      )}
    </div>
  );
}

function namesOf(names: readonly (string | null)[], chosen: string | undefined): string[] {
  const known = new Set(names.filter((name) => name !== null));
  if (chosen !== undefined) known.add(chosen);
  return [...known].sort();
}
